//! Compares the final objects of two runs.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use crate::object::secret::{self, Values};
use crate::object::{Scope, diff, path};
use crate::reactor::changes::{SERVERS, line};

/// The annotation that disturbances write. Operators ignore it.
pub(super) const FOREIGN_ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

static TIME: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)").expect("the pattern is valid")
});

static ID: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}").expect("the pattern is valid")
});

/// Returns an object without the fields that differ between runs: versions, times, unique ids, and ignored fields.
pub(super) fn normalized(object: &Value, ignored: &[String]) -> Value {
    let mut normalized = object.clone();
    if let Some(metadata) = normalized.get_mut("metadata").and_then(Value::as_object_mut) {
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
        if let Some(map) = normalized.as_object_mut() {
            path::remove(map, &keys);
        }
    }
    mask_times_and_ids(&mut normalized);
    normalized
}

fn mask_times_and_ids(value: &mut Value) {
    match value {
        Value::String(text) => {
            let without_times = TIME.replace_all(text, "<time>");
            *text = ID.replace_all(&without_times, "<uid>").into_owned();
        }
        Value::Array(items) => items.iter_mut().for_each(mask_times_and_ids),
        Value::Object(map) => map.values_mut().for_each(mask_times_and_ids),
        _ => {}
    }
}

/// All objects of a server by resource, namespace and name.
pub(super) type FinalState = BTreeMap<(String, String, String), Value>;

/// Describes the differences between two final states.
pub(super) fn differences(wanted: &FinalState, found: &FinalState) -> Vec<String> {
    let name = |(resource, namespace, name): &(String, String, String)| {
        if namespace.is_empty() { format!("{resource}/{name}") } else { format!("{resource}/{name} in {namespace}") }
    };
    let mut lines = Vec::new();
    for (key, object) in wanted {
        match found.get(key) {
            None => lines.push(format!("{} is missing", name(key))),
            Some(other) if other == object => {}
            Some(other) => {
                let values = Values::of_both(Some(object), Some(other));
                for item in secret::shown_items(values.as_ref(), &diff::diff(object, other, Scope::Full)).iter() {
                    lines.push(format!("{}: {}", name(key), line(&item.path.join("."), item.op, &item.old, &item.new)));
                }
            }
        }
    }
    for (key, object) in found {
        if !wanted.contains_key(key) {
            let held = object.pointer("/metadata/deletionTimestamp").is_some();
            let finalizers = object.pointer("/metadata/finalizers").cloned().unwrap_or_default();
            let why = if held { format!(", held by its finalizers {finalizers}") } else { String::new() };
            lines.push(format!("{} still exists{why}", name(key)));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn times_ids_and_versions_are_not_compared() {
        let one = json!({
            "metadata": {"name": "a", "uid": "x", "resourceVersion": "1", "annotations": {FOREIGN_ANNOTATION: "1"}},
            "status": {"at": "2020-01-01T00:00:00Z", "id": "0f8fad5b-d9cb-469f-a165-70867728950e", "tries": 1},
        });
        let other = json!({
            "metadata": {"name": "a", "uid": "y", "resourceVersion": "7"},
            "status": {"at": "2020-01-01T00:00:09.5+00:00", "id": "7c9e6679-7425-40de-944b-e07fc1f90ae7", "tries": 2},
        });
        assert_eq!(normalized(&one, &["status.tries".to_owned()]), normalized(&other, &["status.tries".to_owned()]));
        assert_ne!(normalized(&one, &[]), normalized(&other, &[]));
    }
}
