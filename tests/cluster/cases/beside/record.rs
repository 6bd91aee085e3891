//! What a side has done in a case, as lines that can be compared between sides.

use std::sync::LazyLock;

use jiff::Timestamp;
use regex::Regex;
use serde_json::{Map, Value};

use super::document::BesideCase;
use super::log::{LogContent, LoggedCall};
use super::side::Side;
use crate::harness::Write;

/// The annotation that only causes an event.
const TOUCH: &str = "kopf.zalando.org/touch-dummy";

/// The status of a JSON patch that is based on an older version.
const CONFLICT: u16 = 422;

/// An aspect of a case that is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Aspect {
    /// Requests about its objects, in their order.
    Requests,
    /// Its objects at the end.
    Objects,
    /// The different messages of the engine about its objects, sorted.
    Log,
    /// Kubernetes Events about its objects, sorted.
    Events,
    /// Answers of the operator's endpoint.
    Answers,
}

/// What a side has done in a case.
pub(super) struct Record {
    /// The calls of handlers, with their times.
    pub(super) calls: Vec<(Timestamp, LoggedCall)>,
    /// The lines of each aspect.
    pub(super) aspects: Vec<(Aspect, Vec<String>)>,
}

/// Values that differ between any two runs.
static VARYING: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    [
        (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UID"),
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?([+-]\d\d:\d\d|Z)?", "TIME"),
        (r"http://127\.0\.0\.1:\d+", "SERVER"),
    ]
    .map(|(pattern, by)| (Regex::new(pattern).expect("the patterns are well-formed"), by))
    .into()
});

impl Record {
    /// Reads what a side has done in a case.
    pub(super) fn of(side: &Side, case: &BesideCase) -> Self {
        let lines = side.lines_of(case);
        let mut log: Vec<String> = lines
            .iter()
            .filter_map(|line| match &line.content {
                LogContent::Message(message) => Some(varying(side, &format!("{}: {message}", line.severity))),
                LogContent::Call(_) => None,
            })
            .collect();
        log.sort();
        log.dedup();
        let calls = lines.iter().filter_map(|line| line.call().map(|call| (line.at, call.clone()))).collect();
        let recorded = side.recorded();
        let answers = recorded.answers.get(&case.name).cloned().unwrap_or_default();
        let aspects = vec![
            (Aspect::Requests, requests(side, case)),
            (Aspect::Objects, objects(side, case)),
            (Aspect::Log, log),
            (Aspect::Events, events(side, case)),
            (Aspect::Answers, answers.iter().map(|answer| varying(side, answer)).collect()),
        ];
        Self { calls, aspects }
    }
}

fn requests(side: &Side, case: &BesideCase) -> Vec<String> {
    let mut writes = side.writes();
    // Whether a change of the finalizers meets another change depends on the time; it is sent again.
    writes.retain(|write| write.status != CONFLICT || !write.content_type.ends_with("json-patch+json"));
    if case.ignores_touches {
        writes.retain_mut(is_more_than_a_touch);
    }
    let lines = writes.into_iter().filter_map(|write| {
        let (_, path) = write.path.split_once(&format!("/namespaces/{}/", side.namespace()))?;
        let name = path.split('/').nth(1)?;
        let line = || {
            let status = if write.status < 300 { String::new() } else { format!(" -> {}", write.status) };
            let kind = write.content_type.trim_start_matches("application/");
            format!("{} {path} {kind} {}{status}", write.method, normalized(write.body.clone()))
        };
        case.has_object(name).then(line)
    });
    lines.map(|line| varying(side, &line)).collect()
}

/// Removes the touch from a patch, and tells whether it changes anything else.
fn is_more_than_a_touch(write: &mut Write) -> bool {
    let annotations = write.body.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut);
    annotations.is_none_or(|annotations| annotations.remove(TOUCH).is_none() || !annotations.is_empty())
}

fn objects(side: &Side, case: &BesideCase) -> Vec<String> {
    let newest = case.object_names().into_iter().filter_map(|name| side.newest(&name));
    newest
        .flat_map(|event| {
            let text = serde_json::to_string_pretty(&normalized(event["object"].clone())).expect("JSON can be written");
            let end = if event["type"] == "DELETED" { "deleted" } else { "kept" };
            let lines: Vec<String> = text.lines().chain([end]).map(|line| varying(side, line)).collect();
            lines
        })
        .collect()
}

fn events(side: &Side, case: &BesideCase) -> Vec<String> {
    let is_ours = |event: &Value| event["involvedObject"]["name"].as_str().is_some_and(|name| case.has_object(name));
    let shown = |event: Value| {
        let mut event = normalized(event);
        // The server makes the name from the prefix.
        if let Some(metadata) = event["metadata"].as_object_mut() {
            metadata.remove("name");
        }
        varying(side, &event.to_string())
    };
    let mut events: Vec<String> = side.events().into_iter().filter(is_ours).map(shown).collect();
    events.sort();
    events
}

/// Replaces values that differ between any two runs.
fn varying(side: &Side, text: &str) -> String {
    let text = VARYING.iter().fold(text.to_owned(), |text, (pattern, by)| pattern.replace_all(&text, *by).into_owned());
    text.replace(side.namespace(), "NAMESPACE")
}

/// Returns an object or a patch without versions, and with the stored JSON texts of the engines as values: the order of
/// their keys has no meaning.
fn normalized(value: Value) -> Value {
    match value {
        Value::Object(mut members) => {
            members.remove("managedFields");
            if members.get("path").is_some_and(|path| path == "/metadata/resourceVersion") {
                members.insert("value".to_owned(), "N".into());
            }
            let is_stored =
                members.get("path").and_then(Value::as_str).is_some_and(|path| path.contains("kopf.zalando.org~1"));
            let members = members.into_iter().map(|(key, member)| {
                let member = match &member {
                    Value::String(_) if key == "resourceVersion" => "N".into(),
                    Value::String(text) if key.starts_with("kopf.zalando.org/") || (is_stored && key == "value") => {
                        serde_json::from_str(text).unwrap_or(member)
                    }
                    _ => normalized(member),
                };
                (key, member)
            });
            Value::Object(members.collect::<Map<_, _>>())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(normalized).collect()),
        other => other,
    }
}
