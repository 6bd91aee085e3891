//! Verifies what operators send to the API server: Kubernetes events and requests.

use serde_json::{Value, json};

use crate::kit::visible;

use super::super::expressions::Answers;
use super::super::model::{Events, Requests};
use super::super::pattern::Pattern;
use super::super::timeline::{Event, Subject};
use super::super::update::Fix;
use super::difference::Difference;
use super::observations::Observations;
use super::targets::{check_target, is_about};

pub(super) fn verify_events(
    observations: &impl Observations,
    events: &Events,
    answers: &mut Answers,
) -> Option<Difference> {
    let Events { spot, like, target, count } = events;
    let check_target = target.as_ref().and_then(|target| check_target(observations, target, *spot, count.allows(0)));
    if check_target.is_some() {
        return check_target;
    }
    let about = target.as_ref().map(|target| is_about(observations, target));
    let all = observations.events();
    let mut is_like = |event: &Value| {
        let mut passes = |(key, pattern): &(String, Pattern)| {
            pattern.passes(&event[key.as_str()], &mut |asked, value| answers.ask(asked, value))
        };
        like.iter().all(&mut passes) && about.as_ref().is_none_or(|about| about(&involved(event)))
    };
    // A repeated event is one object with a count.
    let number: u64 =
        all.iter().filter(|event| is_like(event)).map(|event| event["count"].as_u64().unwrap_or(1).max(1)).sum();
    if count.allows(number) {
        return None;
    }
    let lines: Vec<String> = all
        .iter()
        .map(|event| {
            let text = |key: &str| event[key].as_str().unwrap_or_default().to_owned();
            let line = format!(
                "{} {}: {} (count {})",
                text("type"),
                text("reason"),
                text("message"),
                event["count"].as_u64().unwrap_or(1)
            );
            format!("    {}", visible::one_line(&line))
        })
        .collect();
    let there = if lines.is_empty() {
        "there are no events".to_owned()
    } else {
        format!("the events are\n{}", lines.join("\n"))
    };
    let fix = count.exact.map(|spot| Fix::Scalar { spot, value: number.into() });
    Some(Difference::new(*spot, format!("events: expected {count}, found {number}; {there}")).with_fix(fix))
}

fn involved(event: &Value) -> Subject {
    let of = &event["involvedObject"];
    Subject::of(
        &json!({"apiVersion": of["apiVersion"], "kind": of["kind"], "metadata": {"namespace": of["namespace"], "name": of["name"]}}),
    )
}

pub(super) fn verify_requests(observations: &impl Observations, requests: &Requests) -> Vec<Difference> {
    let Requests { target, spot, counts } = requests;
    // For `create: 0` the object need not have existed.
    let is_nothing = counts.iter().all(|(verb, count)| *verb != "create" && count.allows(0));
    if let Some(check_target) = check_target(observations, target, *spot, is_nothing) {
        return vec![check_target];
    }
    let observed = match observations.object(target) {
        Ok(observed) => observed,
        Err(error) => return vec![Difference::new(*spot, error)],
    };
    let mut found = Vec::new();
    for (verb, count) in counts {
        let number = observations.timeline().with(|entries| {
            let sent = entries.iter().filter(|(_, event)| match event {
                Event::Request(request) => {
                    let is_object = request.group == observed.subject.group
                        && request.plural == observed.plural
                        && request.name == observed.subject.name;
                    let is_in_namespace =
                        target.namespace.as_ref().is_none_or(|namespace| *namespace == request.namespace);
                    request.verb == *verb && is_object && is_in_namespace
                }
                _ => false,
            });
            sent.count() as u64
        });
        if !count.allows(number) {
            let fix = count.exact.map(|spot| Fix::Scalar { spot, value: number.into() });
            let text = format!("requests: {verb} {target}: expected {count}, found {number}");
            found.push(Difference::new(count.exact.unwrap_or(*spot), text).with_fix(fix));
        }
    }
    found
}
