//! Judging expectations: what is expected against what is there and what has happened.

use serde_json::Value;

use crate::manifest::tree::Spot;
use crate::reactor::account::shown;

use super::expressions::Answers;
use super::pattern::{Mismatch, Pattern, Says};
use super::stage::Stage;
use super::story::{Call, Calls, Events, Expectation, Line, Logs, Requests, Sight, Target};
use super::timeline::{Event, Subject};
use super::update::Fix;

/// Something that is not as expected.
#[derive(Debug, Clone)]
pub struct Difference {
    /// Where the expectation is written.
    pub spot: Spot,
    /// The difference, in one line or several.
    pub text: String,
    /// How the file would say what is there, if that is possible.
    pub fix: Option<Fix>,
}

impl Difference {
    fn new(spot: Spot, text: impl Into<String>) -> Self {
        Self { spot, text: text.into(), fix: None }
    }
}

/// Returns everything that is not as expected.
pub async fn judge(stage: &Stage, spot: Spot, expectation: &Expectation) -> Vec<Difference> {
    let mut answers = Answers::default();
    let mut failed = Vec::new();
    loop {
        let found = compare(stage, spot, expectation, &mut answers);
        let questions = answers.questions();
        if questions.is_empty() {
            return found.into_iter().chain(failed).collect();
        }
        for question in questions {
            let holds = stage.answer(&question).await;
            answers.keep(question, holds == Ok(true));
            failed.extend(holds.err().map(|text| Difference::new(spot, format!("an expression fails: {text}"))));
        }
    }
}

/// Compares, as far as the answers of expressions are known.
fn compare(stage: &Stage, spot: Spot, expectation: &Expectation, answers: &mut Answers) -> Vec<Difference> {
    let mut found = Vec::new();
    let Expectation { object, calls, events, logs, requests } = expectation;
    if let Some(sight) = object {
        found.extend(judge_object(stage, sight, answers));
    }
    if let Some(calls) = calls {
        found.extend(judge_calls(stage, calls));
    }
    for events in events {
        found.extend(judge_events(stage, events, answers));
    }
    if let Some(logs) = logs {
        found.extend(judge_logs(stage, logs, answers));
    }
    for requests in requests {
        found.extend(judge_requests(stage, spot, requests));
    }
    found
}

fn judge_object(stage: &Stage, sight: &Sight, answers: &mut Answers) -> Vec<Difference> {
    let Sight { target, spot, is_absent, matches } = sight;
    let value = match stage.find(target) {
        Ok(meant) => meant.value(),
        Err(unclear) => return vec![Difference::new(*spot, unclear)],
    };
    match (value, is_absent) {
        (None, true) => Vec::new(),
        (Some(_), true) => vec![Difference::new(*spot, format!("{target}: expected to be absent, and it is there"))],
        (None, false) => vec![Difference::new(*spot, format!("{target}: expected to be there, and it is not"))],
        (Some(value), false) => {
            let mut mismatches = Vec::new();
            if let Some(pattern) = matches {
                pattern.compare(Some(&value), "", &mut mismatches, &mut |predicate, value| answers.ask(predicate, value));
            }
            mismatches.into_iter().map(|mismatch| of_mismatch(target, mismatch)).collect()
        }
    }
}

fn of_mismatch(target: &Target, mismatch: Mismatch) -> Difference {
    let Mismatch { path, spot, wanted, found, is_plain } = mismatch;
    let found_text = found.as_ref().map_or_else(|| "nothing".to_owned(), shown);
    let fix = found.filter(|_| is_plain).map(|value| Fix::Scalar { spot, value });
    Difference { spot, text: format!("{target}: {path}: expected {wanted}, found {found_text}"), fix }
}

/// Tells whether something is about an object that was named. A name that means nothing is about nothing.
fn is_about(stage: &Stage, target: &Target) -> impl Fn(&Subject) -> bool {
    let meant = stage.find(target).ok();
    move |subject: &Subject| {
        meant.as_ref().is_some_and(|meant| {
            let kind = &meant.served.kind;
            kind.group == subject.group && kind.kind == subject.kind && meant.key.1 == subject.name
        }) && target.namespace.as_ref().is_none_or(|namespace| *namespace == subject.namespace)
    }
}

fn judge_calls(stage: &Stage, calls: &Calls) -> Option<Difference> {
    let Calls { node, is_exact, wanted, target, handlers } = calls;
    let about = target.as_ref().map(|target| is_about(stage, target));
    let counts = |subject: &Subject, call: &Call| {
        about.as_ref().is_none_or(|about| about(subject)) && (handlers.is_empty() || handlers.contains(&call.handler))
    };
    let made: Vec<Call> = stage.timeline.with(|entries| {
        let made = entries.iter().filter_map(|(_, event)| match event {
            Event::Called { subject, call, .. } if counts(subject, call) => Some(call.clone()),
            _ => None,
        });
        made.collect()
    });
    let steps = align(wanted, &made, is_call);
    let is_wrong = |step: &Aligned| match step {
        Aligned::Both(..) => false,
        Aligned::Wanted(_) => true,
        Aligned::Found(_) => *is_exact,
    };
    if !steps.iter().any(is_wrong) {
        return None;
    }
    let lines: Vec<String> = steps
        .iter()
        .map(|step| match step {
            Aligned::Both(_, found) => format!("    {}", made[*found]),
            Aligned::Wanted(index) => format!("  - {}", wanted[*index]),
            Aligned::Found(index) => format!("  {} {}", if *is_exact { '+' } else { ' ' }, made[*index]),
        })
        .collect();
    let kept = steps.iter().filter_map(|step| match step {
        Aligned::Both(index, _) => Some(wanted[*index].to_string()),
        Aligned::Found(index) if *is_exact => Some(made[*index].to_string()),
        _ => None,
    });
    let fix = Some(Fix::List { node: node.clone(), items: kept.collect() });
    let text = format!("calls: expected (-) and made (+)\n{}", lines.join("\n"));
    Some(Difference { spot: node.spot, text, fix })
}

fn is_call(wanted: &Call, made: &Call) -> bool {
    wanted.handler == made.handler && (wanted.retry.is_none() || wanted.retry == made.retry)
}

/// A step through two lists.
enum Aligned {
    /// An item of both, by their places.
    Both(usize, usize),
    /// An item that is only wanted.
    Wanted(usize),
    /// An item that is only there.
    Found(usize),
}

/// Walks through two lists along their longest common part.
fn align<T>(wanted: &[T], found: &[T], is_same: impl Fn(&T, &T) -> bool) -> Vec<Aligned> {
    let mut lengths = vec![vec![0_usize; found.len() + 1]; wanted.len() + 1];
    for i in (0..wanted.len()).rev() {
        for j in (0..found.len()).rev() {
            lengths[i][j] =
                if is_same(&wanted[i], &found[j]) { lengths[i + 1][j + 1] + 1 } else { lengths[i + 1][j].max(lengths[i][j + 1]) };
        }
    }
    let (mut i, mut j, mut steps) = (0, 0, Vec::new());
    while i < wanted.len() || j < found.len() {
        if i < wanted.len() && j < found.len() && is_same(&wanted[i], &found[j]) {
            steps.push(Aligned::Both(i, j));
            (i, j) = (i + 1, j + 1);
        } else if j == found.len() || (i < wanted.len() && lengths[i + 1][j] >= lengths[i][j + 1]) {
            steps.push(Aligned::Wanted(i));
            i += 1;
        } else {
            steps.push(Aligned::Found(j));
            j += 1;
        }
    }
    steps
}

fn judge_events(stage: &Stage, events: &Events, answers: &mut Answers) -> Option<Difference> {
    let Events { spot, like, target, count } = events;
    let about = target.as_ref().map(|target| is_about(stage, target));
    let all = stage.events();
    let mut is_like = |event: &Value| {
        let mut passes =
            |(key, pattern): &(String, Pattern)| pattern.passes(&event[key.as_str()], &mut |asked, value| answers.ask(asked, value));
        like.iter().all(&mut passes) && about.as_ref().is_none_or(|about| about(&involved(event)))
    };
    // An event that is repeated is one object with a count.
    let number: u64 = all.iter().filter(|event| is_like(event)).map(|event| event["count"].as_u64().unwrap_or(1).max(1)).sum();
    if count.allows(number) {
        return None;
    }
    let told: Vec<String> = all
        .iter()
        .map(|event| {
            let text = |key: &str| event[key].as_str().unwrap_or_default().to_owned();
            format!("    {} {}: {} (count {})", text("type"), text("reason"), text("message"), event["count"].as_u64().unwrap_or(1))
        })
        .collect();
    let there = if told.is_empty() { "there are no events at all".to_owned() } else { format!("the events are\n{}", told.join("\n")) };
    let fix = count.exact.map(|spot| Fix::Scalar { spot, value: number.into() });
    Some(Difference { spot: *spot, text: format!("events: expected {count} such, found {number}; {there}"), fix })
}

fn involved(event: &Value) -> Subject {
    let of = &event["involvedObject"];
    Subject::of(
        &serde_json::json!({"apiVersion": of["apiVersion"], "kind": of["kind"], "metadata": {"namespace": of["namespace"], "name": of["name"]}}),
    )
}

fn judge_logs(stage: &Stage, logs: &Logs, answers: &mut Answers) -> Vec<Difference> {
    let lines: Vec<Value> = stage.timeline.with(|entries| {
        let told = entries.iter().filter_map(|(_, event)| match event {
            Event::Log { message, .. } => Some(Value::String(message.clone())),
            _ => None,
        });
        told.collect()
    });
    let mut passes = |like: &Pattern, line: &Value| like.passes(line, &mut |asked, value| answers.ask(asked, value));
    let mut found = Vec::new();
    let mut from = 0;
    for Line { spot, like } in &logs.includes {
        if let Some(at) = lines[from..].iter().position(|line| passes(like, line)) {
            from += at + 1;
            continue;
        }
        let place = if from == 0 { String::new() } else { format!(" after {}", shown(&lines[from - 1])) };
        found.push(Difference::new(*spot, format!("logs: no such line{place}: {}", words(like))));
    }
    for Line { spot, like } in &logs.excludes {
        if let Some(line) = lines.iter().find(|line| passes(like, line)) {
            found.push(Difference::new(*spot, format!("logs: there is a line that must not be there: {line}")));
        }
    }
    found
}

fn words(pattern: &Pattern) -> String {
    match &pattern.says {
        Says::Value(value) => value.to_string(),
        Says::Matcher(_, words) => words.clone(),
        _ => "a pattern that no line is like".to_owned(),
    }
}

fn judge_requests(stage: &Stage, spot: Spot, requests: &Requests) -> Vec<Difference> {
    let Requests { target, counts } = requests;
    let meant = match stage.find(target) {
        Ok(meant) => meant,
        Err(unclear) => return vec![Difference::new(spot, unclear)],
    };
    let kind = &meant.served.kind;
    let mut found = Vec::new();
    for (verb, count) in counts {
        let number = stage.timeline.with(|entries| {
            let sent = entries.iter().filter(|(_, event)| match event {
                Event::Request(request) => {
                    let is_object = request.group == kind.group && request.plural == kind.plural && request.name == meant.key.1;
                    let is_place = target.namespace.as_ref().is_none_or(|namespace| *namespace == request.namespace);
                    request.verb == *verb && is_object && is_place
                }
                _ => false,
            });
            sent.count() as u64
        });
        if !count.allows(number) {
            let fix = count.exact.map(|spot| Fix::Scalar { spot, value: number.into() });
            let text = format!("requests: {verb} {target}: expected {count}, found {number}");
            found.push(Difference { spot: count.exact.unwrap_or(spot), text, fix });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_compared_along_their_common_part() {
        let shown = |wanted: &[&str], found: &[&str]| {
            let steps = align(wanted, found, |one, other| one == other);
            let shown = steps.iter().map(|step| match step {
                Aligned::Both(index, _) => wanted[*index].to_owned(),
                Aligned::Wanted(index) => format!("-{}", wanted[*index]),
                Aligned::Found(index) => format!("+{}", found[*index]),
            });
            shown.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(shown(&["a", "b", "c"], &["a", "x", "c", "d"]), "a -b +x c +d");
        assert_eq!(shown(&[], &["a"]), "+a");
        assert_eq!(shown(&["a"], &[]), "-a");
    }
}
