//! JSON merge patches as the API server applies them.

use serde_json::Value;

/// Merges the patch into the target: objects merge, null removes, everything else replaces.
///
/// Nulls are removed from new values, including objects in new lists; null items of lists are kept.
pub(crate) fn apply(target: &Value, patch: &Value) -> Value {
    let mut merged = target.clone();
    merge(&mut merged, patch);
    merged
}

fn merge(target: &mut Value, patch: &Value) {
    match (target, patch) {
        (Value::Object(target), Value::Object(patch)) => {
            for (key, value) in patch {
                match target.get_mut(key) {
                    _ if value.is_null() => drop(target.remove(key)),
                    Some(old) => merge(old, value),
                    None => drop(target.insert(key.clone(), without_nulls(value))),
                }
            }
        }
        (target @ Value::Object(_), patch) => *target = patch.clone(),
        (target, patch) => *target = without_nulls(patch),
    }
}

fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(members) => members
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (key.clone(), without_nulls(value)))
            .collect(),
        Value::Array(list) => list.iter().map(without_nulls).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn objects_merge_and_nulls_remove() {
        let target = json!({"spec": {"size": 1, "color": "red"}, "status": {}});
        let merged = apply(&target, &json!({"spec": {"color": null, "name": "x"}, "other": null}));
        assert_eq!(merged, json!({"spec": {"size": 1, "name": "x"}, "status": {}}));
    }

    #[test]
    fn lists_and_scalars_are_replaced() {
        assert_eq!(apply(&json!({"a": [1, 2]}), &json!({"a": [3]})), json!({"a": [3]}));
        assert_eq!(apply(&json!({"a": {"b": 1}}), &json!({"a": "text"})), json!({"a": "text"}));
        assert_eq!(apply(&json!({"a": "text"}), &json!({"a": {"b": {"c": null}}})), json!({"a": {"b": {}}}));
    }

    #[test]
    fn new_values_have_no_nulls() {
        assert_eq!(apply(&json!({}), &json!({"a": {"b": null, "c": 1}})), json!({"a": {"c": 1}}));
        assert_eq!(apply(&json!({}), &json!({"a": [{"b": null}, null]})), json!({"a": [{}, null]}));
    }

    #[test]
    fn an_empty_patch_changes_nothing() {
        assert_eq!(apply(&json!({"a": null, "b": 1}), &json!({})), json!({"a": null, "b": 1}));
    }
}
