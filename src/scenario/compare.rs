//! Comparing objects: whether two runs have come to the same end.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use crate::object::{Scope, diff, path};
use crate::reactor::changes::{SERVERS, line};

/// What somebody writes who only wants to be in the way. No operator reacts to it.
pub const FOREIGN_ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

static TIME: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)").expect("the pattern is valid"));

static ID: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}").expect("the pattern is valid"));

/// Returns an object without what differs between two runs for no reason: versions, times, unique ids, and the ignored fields.
pub fn essence(object: &Value, ignored: &[String]) -> Value {
    let mut essence = object.clone();
    if let Some(metadata) = essence.get_mut("metadata").and_then(Value::as_object_mut) {
        for key in SERVERS {
            metadata.remove(key);
        }
        let annotations = metadata.get_mut("annotations").and_then(Value::as_object_mut);
        let is_empty = annotations.is_some_and(|annotations| {
            annotations.remove(FOREIGN_ANNOTATION);
            annotations.is_empty()
        });
        if is_empty {
            metadata.remove("annotations");
        }
    }
    for field in ignored {
        let keys: Vec<String> = field.split('.').map(str::to_owned).collect();
        if let Some(map) = essence.as_object_mut() {
            path::remove(map, &keys);
        }
    }
    timeless(&mut essence);
    essence
}

fn timeless(value: &mut Value) {
    match value {
        Value::String(text) => {
            let without_times = TIME.replace_all(text, "<time>");
            *text = ID.replace_all(&without_times, "<uid>").into_owned();
        }
        Value::Array(items) => items.iter_mut().for_each(timeless),
        Value::Object(map) => map.values_mut().for_each(timeless),
        _ => {}
    }
}

/// All objects of a server in the end, by resource, namespace and name.
pub type Ending = BTreeMap<(String, String, String), Value>;

/// Returns how two ends differ, in lines.
pub fn differences(wanted: &Ending, found: &Ending) -> Vec<String> {
    let name = |(resource, namespace, name): &(String, String, String)| {
        if namespace.is_empty() { format!("{resource}/{name}") } else { format!("{resource}/{name} in {namespace}") }
    };
    let mut lines = Vec::new();
    for (key, object) in wanted {
        match found.get(key) {
            None => lines.push(format!("{} is not there", name(key))),
            Some(other) if other == object => {}
            Some(other) => {
                for item in diff::diff(object, other, Scope::Full) {
                    lines.push(format!("{}: {}", name(key), line(&item.path.join("."), item.op, &item.old, &item.new)));
                }
            }
        }
    }
    for (key, object) in found {
        if !wanted.contains_key(key) {
            let held = object.pointer("/metadata/deletionTimestamp").is_some();
            let finalizers = object.pointer("/metadata/finalizers").cloned().unwrap_or_default();
            let why = if held { format!(": it is held back by {finalizers}") } else { String::new() };
            lines.push(format!("{} is still there{why}", name(key)));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn times_ids_and_versions_are_no_differences() {
        let one = json!({
            "metadata": {"name": "a", "uid": "x", "resourceVersion": "1", "annotations": {FOREIGN_ANNOTATION: "1"}},
            "status": {"at": "2020-01-01T00:00:00Z", "id": "0f8fad5b-d9cb-469f-a165-70867728950e", "tries": 1},
        });
        let other = json!({
            "metadata": {"name": "a", "uid": "y", "resourceVersion": "7"},
            "status": {"at": "2020-01-01T00:00:09.5+00:00", "id": "7c9e6679-7425-40de-944b-e07fc1f90ae7", "tries": 2},
        });
        assert_eq!(essence(&one, &["status.tries".to_owned()]), essence(&other, &["status.tries".to_owned()]));
        assert_ne!(essence(&one, &[]), essence(&other, &[]));
    }
}
