//! The direction of a difference: which of the two servers refuses the request.

use serde_json::Value;

use super::differences::Direction;
use crate::differ::case::Step;

/// Returns the direction of the differences in the answers to the last of some steps.
///
/// A refusal of a valid request is another answer only if the request is for an object that the same case has created
/// before: the embedded server has removed it sooner. Any other 404 may mean that a path or a kind is not served.
pub(crate) fn direction(steps: &[Step], real: &Value, answers: &[Value]) -> Direction {
    let is_refused = |answer: &Value| answer["status"].as_u64().is_some_and(|status| status >= 400);
    let Some((step, earlier)) = steps.split_last() else { return Direction::AnswersOtherwise };
    let ours = answers.get(earlier.len()).unwrap_or(&Value::Null);
    let is_removed = || path(step).is_some_and(|path| is_gone(path, ours) && was_created(path, earlier, answers));
    match (is_refused(real), is_refused(ours)) {
        (false, true) if is_removed() => Direction::AnswersOtherwise,
        (false, true) => Direction::RefusesValid,
        (true, false) => Direction::AcceptsRefused,
        _ => Direction::AnswersOtherwise,
    }
}

/// Tells whether an answer says that the object at a path does not exist.
fn is_gone(path: &str, answer: &Value) -> bool {
    let name = path.rsplit('/').next();
    answer["status"] == 404
        && answer["body"]["reason"] == "NotFound"
        && answer["body"]["details"]["name"].as_str() == name
}

/// Tells whether one of some steps has created the object at a path.
fn was_created(path: &str, steps: &[Step], answers: &[Value]) -> bool {
    steps
        .iter()
        .zip(answers)
        .any(|(step, answer)| answer["status"] == 201 && created_path(step).as_deref() == Some(path))
}

/// Returns the path of the object that a step creates; `None` if it stores none, or the server chooses its name.
fn created_path(step: &Step) -> Option<String> {
    let ask = step.ask.as_deref()?;
    if ask.contains("dryRun") {
        return None;
    }
    let path = path(step)?;
    if !ask.starts_with("POST ") {
        return Some(path.to_owned());
    }
    let name = step.body.as_ref()?["metadata"]["name"].as_str()?;
    Some(format!("{path}/{name}"))
}

/// Returns the path of a request without its parameters.
fn path(step: &Step) -> Option<&str> {
    let (_, target) = step.ask.as_deref()?.split_once(' ')?;
    target.split('?').next()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn step(ask: &str, body: Value) -> Step {
        Step { ask: Some(ask.to_owned()), body: Some(body), ..Step::default() }
    }

    fn named(name: &str) -> Value {
        json!({"metadata": {"name": name}})
    }

    fn not_found(name: &str) -> Value {
        json!({"status": 404, "body": {"kind": "Status", "reason": "NotFound", "details": {"kind": "pods", "name": name}}})
    }

    /// Returns the direction if the embedded server answers a last request like this, and the real one accepts it.
    fn of(earlier: &[(Step, u16)], ask: &str, answer: Value) -> Direction {
        let steps: Vec<Step> = earlier.iter().map(|(step, _)| step.clone()).chain([step(ask, Value::Null)]).collect();
        let answers: Vec<Value> = earlier.iter().map(|(_, status)| json!({"status": status})).chain([answer]).collect();
        direction(&steps, &json!({"status": 200}), &answers)
    }

    #[test]
    fn an_object_of_the_case_that_is_gone_sooner_is_another_answer() {
        let created = [(step("POST pods", named("a")), 201), (step("DELETE pods/a", Value::Null), 200)];
        assert_eq!(of(&created, "DELETE pods/a?gracePeriodSeconds=3", not_found("a")), Direction::AnswersOtherwise);
        let applied = [(step("PATCH pods/a?fieldManager=one", named("a")), 201)];
        assert_eq!(of(&applied, "GET pods/a", not_found("a")), Direction::AnswersOtherwise);
    }

    #[test]
    fn what_the_case_has_not_created_is_refused() {
        for (earlier, why) in [
            (vec![], "nothing was created"),
            (vec![(step("POST pods", named("b")), 201)], "another object"),
            (vec![(step("POST podtemplates", named("a")), 201)], "another kind"),
            (vec![(step("POST pods", named("a")), 422)], "a refused creation"),
            (vec![(step("POST pods?dryRun=All", named("a")), 201)], "a dry run"),
            (vec![(step("PATCH pods/a", named("a")), 200)], "a change"),
            (vec![(step("POST pods", json!({"metadata": {"generateName": "a"}})), 201)], "a name of the server"),
        ] {
            assert_eq!(of(&earlier, "DELETE pods/a", not_found("a")), Direction::RefusesValid, "{why}");
        }
    }

    #[test]
    fn a_path_that_is_not_served_is_a_refusal() {
        let created = [(step("POST pods", named("a")), 201)];
        let no_page = json!({"status": 404, "body": "404 page not found\n"});
        let no_resource = json!({"status": 404, "body": {"kind": "Status", "reason": "NotFound", "details": {}}});
        for answer in
            [no_page, no_resource.clone(), not_found("b"), json!({"status": 409, "body": not_found("a")["body"]})]
        {
            assert_eq!(of(&created, "DELETE pods/a", answer.clone()), Direction::RefusesValid, "{answer}");
        }
        assert_eq!(of(&created, "GET pods/a/status", not_found("a")), Direction::RefusesValid, "a subresource");
        assert_eq!(of(&created, "GET pods", no_resource), Direction::RefusesValid, "the collection");
    }

    #[test]
    fn the_direction_follows_the_server_that_refuses() {
        let steps = [step("GET pods/a", Value::Null)];
        let of = |real: u16, ours: u16| direction(&steps, &json!({"status": real}), &[json!({"status": ours})]);
        assert_eq!(of(200, 500), Direction::RefusesValid);
        assert_eq!(of(422, 200), Direction::AcceptsRefused);
        assert_eq!(of(200, 201), Direction::AnswersOtherwise);
        assert_eq!(of(422, 404), Direction::AnswersOtherwise);
    }
}
