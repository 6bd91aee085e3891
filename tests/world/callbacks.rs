//! The callbacks of filters in the vectors, with the answers of kopf's own functions.

use kopfd::handling::{Candidate, Change, Predicate, Predicates, Question};
use kopfd::object::equality::equal;
use kopfd::object::{Body, EventKind};
use kopfd::script::Subject;
use serde_json::Value;

/// All callbacks of some handlers; the number of a predicate is its index here.
#[derive(Debug, Clone, Default)]
pub(crate) struct Callbacks(Vec<Callback>);

#[derive(Debug, Clone)]
struct Callback {
    spec: Value,
    /// Whether an absent value is null, as for labels and annotations; callbacks of fields get kopf's opaque marker.
    is_null_if_absent: bool,
}

/// The facts for a question.
pub(crate) struct Facts<'a> {
    pub(crate) body: &'a Body,
    pub(crate) reason: Option<&'a str>,
    pub(crate) change: Option<&'a Change>,
    pub(crate) event_kind: Option<EventKind>,
}

impl<'a> Facts<'a> {
    /// Returns the facts of a change or a raw event.
    pub(crate) fn of(subject: &'a Subject) -> Self {
        match subject {
            Subject::Change { object, reason, change } => {
                Self { body: &object.body, reason: Some(reason.as_str()), change: Some(change), event_kind: None }
            }
            Subject::Event { object, event_kind } => Self::of_event(&object.body, *event_kind),
            other => panic!("the vectors ask nothing about {other:?}"),
        }
    }

    /// Returns the facts of a raw event.
    pub(crate) fn of_event(body: &'a Body, event_kind: EventKind) -> Self {
        Self { body, reason: None, change: None, event_kind: Some(event_kind) }
    }

    fn has_argument(&self, name: &str) -> bool {
        let common =
            ["resource", "body", "spec", "status", "meta", "labels", "annotations", "name", "namespace", "uid"];
        let of_kind: &[&str] = match self.change {
            Some(_) => &["reason", "old", "new", "diff"],
            None => &["type", "event"],
        };
        common.iter().chain(&["patch", "memo", "logger"]).chain(of_kind).any(|known| *known == name)
    }
}

/// Answers all questions about one cause.
pub(crate) struct Oracle<'a> {
    pub(crate) callbacks: &'a Callbacks,
    pub(crate) facts: Facts<'a>,
}

impl Predicates for Oracle<'_> {
    fn answer(&self, question: &Question) -> Option<bool> {
        Some(self.callbacks.holds(question.predicate, &question.candidate, &self.facts))
    }
}

impl Callbacks {
    /// Adds a callback.
    pub(crate) fn add(&mut self, spec: &Value, is_null_if_absent: bool) -> Predicate {
        self.0.push(Callback { spec: spec.clone(), is_null_if_absent });
        Predicate(self.0.len() - 1)
    }

    /// Returns the result of a callback.
    pub(crate) fn holds(&self, predicate: Predicate, candidate: &Candidate, facts: &Facts<'_>) -> bool {
        let callback = &self.0[predicate.0];
        match candidate {
            Candidate::Whole => when(&callback.spec, facts),
            Candidate::Value(value) => value_passes(&callback.spec, Some(value), facts),
            Candidate::Absent if callback.is_null_if_absent => value_passes(&callback.spec, Some(&Value::Null), facts),
            Candidate::Absent => value_passes(&callback.spec, None, facts),
        }
    }
}

/// Without a value, it is kopf's marker of absence: an opaque object that is neither null nor equal to anything.
fn value_passes(spec: &Value, value: Option<&Value>, facts: &Facts<'_>) -> bool {
    let argument = &spec["arg"];
    let is_argument = || value.is_some_and(|value| equal(value, argument));
    match spec["$fn"].as_str().unwrap_or_default() {
        "true" => true,
        "false" => false,
        "is_null" => value == Some(&Value::Null),
        "not_null" => value != Some(&Value::Null),
        "eq" => is_argument(),
        "ne" => !is_argument(),
        "startswith" => {
            value.and_then(Value::as_str).is_some_and(|text| text.starts_with(argument.as_str().unwrap_or_default()))
        }
        "is_absent_marker" => value.is_none(),
        "body_spec_eq" => {
            let key = argument[0].as_str().unwrap_or_default();
            equal(facts.body.get("spec").and_then(|spec| spec.get(key)).unwrap_or(&Value::Null), &argument[1])
        }
        other => panic!("the callback {other:?} is unknown"),
    }
}

fn when(spec: &Value, facts: &Facts<'_>) -> bool {
    let argument = &spec["arg"];
    let text = || argument.as_str().unwrap_or_default();
    let mut all = argument.as_array().into_iter().flatten();
    match spec["$when"].as_str().unwrap_or_default() {
        "true" => true,
        "false" => false,
        "not" => !when(argument, facts),
        "all" => all.all(|spec| when(spec, facts)),
        "any" => all.any(|spec| when(spec, facts)),
        "none" => !all.any(|spec| when(spec, facts)),
        "spec_has" => facts.body.get("spec").and_then(|spec| spec.get(text())).is_some(),
        "reason_is" => facts.reason == Some(text()),
        "has_kwarg" => facts.has_argument(text()),
        "old_is_null" => facts.change.is_some_and(|change| change.old.is_none()),
        "diff_len" => facts.change.is_some_and(|change| argument.as_u64() == Some(change.diff.len() as u64)),
        "type_is" => facts.event_kind.is_some_and(|event_kind| event_kind.event_type() == argument.as_str()),
        "label_eq" => {
            let label = facts
                .body
                .pointer("/metadata/labels")
                .and_then(|labels| labels.get(argument[0].as_str().unwrap_or_default()));
            // Labels are a mapping for kopf's callbacks, even if the object has none: a missing label is null.
            equal(label.unwrap_or(&Value::Null), &argument[1])
        }
        other => panic!("the callback {other:?} is unknown"),
    }
}
