//! Events have two faces, in the core group and in `events.k8s.io`. They are stored in the words of the core group.

use serde_json::{Map, Value, json};

/// The names of members in the core group and in `events.k8s.io`.
const TWINS: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

/// Returns an event in the words of the core group. Such an event stays as it is.
pub fn to_core(event: &Value) -> Value {
    let mut core = renamed(event, |name| TWINS.iter().find(|(_, new)| *new == name).map(|(core, _)| *core));
    core.insert("apiVersion".into(), json!("v1"));
    for (name, value) in [("source", json!({})), ("reportingComponent", json!("")), ("reportingInstance", json!(""))] {
        if core.get(name).is_none_or(Value::is_null) {
            core.insert(name.into(), value);
        }
    }
    for name in ["firstTimestamp", "lastTimestamp", "eventTime"] {
        core.entry(name).or_insert(Value::Null);
    }
    Value::Object(core)
}

/// Returns an event in the words of `events.k8s.io`.
pub fn to_new(event: &Value) -> Value {
    let mut new = renamed(event, |name| TWINS.iter().find(|(core, _)| *core == name).map(|(_, new)| *new));
    new.insert("apiVersion".into(), json!("events.k8s.io/v1"));
    for name in ["deprecatedFirstTimestamp", "deprecatedLastTimestamp", "eventTime"] {
        new.entry(name).or_insert(Value::Null);
    }
    Value::Object(new)
}

fn renamed(event: &Value, name_of: impl Fn(&str) -> Option<&'static str>) -> Map<String, Value> {
    let members = event.as_object().into_iter().flatten();
    members.map(|(name, value)| (name_of(name).unwrap_or(name).to_owned(), value.clone())).collect()
}
