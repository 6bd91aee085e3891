//! Sends the requests of `request` steps, and verifies their answers.

use http::Method;
use serde_json::{Value, json};

use crate::apiserver::admin_client::{self, Answered, Asking};
use crate::apiserver::auth::access::{MASTERS, User};
use crate::apiserver::bootstrap;

use super::environment::Environment;
use super::expressions::Answers;
use super::model::{CheckedRequest, ExpectedAnswer, Step, UserRequest};
use super::pattern::{Mismatch, Pattern};
use super::problem::Problem;
use super::verify::{Difference, compared, describe, shown};

/// Stands before the text of a webhook in the answer to a denied request.
const DENIED: &str = "denied the request: ";

/// Sends a request.
///
/// # Errors
/// If its object is not known to the server.
pub(super) async fn send(environment: &Environment, checked: &CheckedRequest) -> Result<Answered, Problem> {
    let user = checked
        .user
        .as_deref()
        .map_or_else(User::administrator, |name| User::new(name, &[MASTERS, "system:authenticated"]));
    let dry_run = if checked.is_dry_run { "&dryRun=All" } else { "" };
    let api = &environment.api;
    let asking = match &checked.request {
        UserRequest::Apply(object) => {
            let (path, object) = bootstrap::path_of(api, object.clone())
                .map_err(|refused| Problem::of_refusal(&refused, "", &api.registry()))?;
            let path = format!("{path}?fieldManager=kubectl&force=true{dry_run}");
            Asking { method: Method::PATCH, path, media: "application/apply-patch+yaml", body: object.to_string() }
        }
        UserRequest::Patch(change) => {
            let below = change.subresource.as_deref().map(|name| format!("/{name}")).unwrap_or_default();
            let path = format!("{}{below}?fieldManager=kubectl{dry_run}", environment.find(&change.target)?.path());
            Asking { method: Method::PATCH, path, media: change.media, body: change.patch.to_string() }
        }
        UserRequest::Delete(target, propagation) => {
            let policy = propagation.as_deref().unwrap_or("Background");
            let mut options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": policy});
            if checked.is_dry_run {
                options["dryRun"] = json!(["All"]);
            }
            let path = environment.find(target)?.path();
            Asking { method: Method::DELETE, path, media: "application/json", body: options.to_string() }
        }
    };
    Ok(admin_client::ask(api, user, asking).await)
}

/// Returns the differences of an answer from the expected one.
pub(super) async fn verify(
    environment: &Environment,
    step: &Step,
    expected: &ExpectedAnswer,
    answered: &Answered,
) -> Vec<Difference> {
    compared(environment, step.spot, |answers| compare(step, expected, answered, answers)).await
}

fn compare(step: &Step, expected: &ExpectedAnswer, answered: &Answered, answers: &mut Answers) -> Vec<Difference> {
    let ExpectedAnswer { denied, warnings, object } = expected;
    let Answered { code, body, .. } = answered;
    let whole = body["message"].as_str().unwrap_or_default();
    let message = whole.split_once(DENIED).map_or(whole, |(_, text)| text);
    let mut differences = Vec::new();
    match (denied, answered.is_success()) {
        (None, false) => {
            differences.push(Difference::new(
                step.spot,
                format!("request: expected to be accepted, but it is denied: {code}: {whole}"),
            ));
        }
        (Some(denial), true) => {
            differences.push(Difference::new(denial.spot, "request: expected to be denied, but it is accepted"));
        }
        (Some(denial), false) => {
            if let Some(wanted) = denial.code.filter(|wanted| *wanted != i64::from(*code)) {
                differences.push(Difference::new(
                    denial.spot,
                    format!("request: expected code {wanted}, found {code}: {whole}"),
                ));
            }
            if let Some(like) = denial.message.as_ref().filter(|like| !passes(like, message, answers)) {
                differences.push(Difference::new(
                    like.spot,
                    format!("request: expected {}, found {message:?}", describe(like)),
                ));
            }
        }
        (None, true) => {}
    }
    if let Some((spot, wanted)) = warnings {
        let is_same = wanted.len() == answered.warnings.len()
            && wanted.iter().zip(&answered.warnings).all(|(like, warning)| passes(like, warning, answers));
        if !is_same {
            let wanted: Vec<String> = wanted.iter().map(describe).collect();
            let text = format!("request: expected the warnings [{}], found {:?}", wanted.join(", "), answered.warnings);
            differences.push(Difference::new(*spot, text));
        }
    }
    if let Some(pattern) = object.as_ref().filter(|_| answered.is_success()) {
        let mut mismatches = Vec::new();
        pattern.compare(Some(body), "", &mut mismatches, &mut |predicate, value| answers.ask(predicate, value));
        differences.extend(mismatches.into_iter().map(|Mismatch { path, spot, wanted, found, .. }| {
            let found = found.as_ref().map_or_else(|| "nothing".to_owned(), shown);
            Difference::new(spot, format!("request: {path}: expected {wanted}, found {found}"))
        }));
    }
    differences
}

fn passes(like: &Pattern, text: &str, answers: &mut Answers) -> bool {
    like.passes(&Value::from(text), &mut |predicate, value| answers.ask(predicate, value))
}
