//! Reads the log of the binary as events of a timeline: its lines, and the calls of handlers.

use std::collections::HashMap;

use kopfd::kit::Clock;
use kopfd::scenario::{Call, Event, Subject, Timeline};
use serde_json::Value;

/// Prefixes of messages about attempts that are followed by another one.
const AGAIN: [&str; 3] =
    ["failed temporarily: ", "failed with an exception and will try again in ", "has unfinished sub-handlers."];

/// Returns the timeline of a JSON log. A function maps the namespaces of the cluster to those of the scenario.
///
/// The log names attempts without their numbers, which are counted from the ends of earlier attempts. The log covers
/// all operator runs.
pub(crate) fn timeline(log: &str, told: impl Fn(&str) -> String) -> Timeline {
    let timeline = Timeline::new(Clock::system());
    let mut attempts: HashMap<(String, String), u64> = HashMap::new();
    // The last line may not be complete yet.
    for line in log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        let text = |pointer: &str| line.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let message = text("/message");
        let level = if text("/severity") == "debug" { "DEBUG" } else { "INFO" };
        if let Some((handler, end)) = message.strip_prefix("Handler '").and_then(|rest| rest.split_once("' ")) {
            let retry = attempts.entry((text("/object/uid").to_owned(), handler.to_owned())).or_default();
            if end == "is invoked." {
                let call = Call { handler: handler.to_owned(), retry: Some(*retry), at: None };
                timeline.add(Event::Called { subject: subject(&text, &told), call, reason: "as the log says" });
            } else {
                *retry = if AGAIN.iter().any(|words| end.starts_with(words)) { *retry + 1 } else { 0 };
            }
        }
        if level != "DEBUG" {
            timeline.add(Event::Log { level, message: message.to_owned(), printed: message.to_owned() });
        }
    }
    timeline
}

fn subject<'l>(text: &impl Fn(&str) -> &'l str, told: impl Fn(&str) -> String) -> Subject {
    let group = text("/object/apiVersion").split_once('/').map(|(group, _)| group.to_owned()).unwrap_or_default();
    let (namespace, name) = (told(text("/object/namespace")), text("/object/name").to_owned());
    Subject { group, kind: text("/object/kind").to_owned(), namespace, name }
}
