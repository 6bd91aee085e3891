//! The merge part of a patch of a review, applied to the object of the request.
//!
//! Unlike in a merge patch that is sent to the API server, a removal also removes the parents that become empty.

use serde_json::{Map, Value};

/// Applies changes to an object: null removes a key and its parents that become empty, mappings are merged, and other
/// values replace.
pub(crate) fn apply(object: &mut Value, merge: &Map<String, Value>) {
    for (key, value) in merge {
        change(object, &[], key, value);
    }
}

/// Returns the inputs of the changes of an object: the values that they touch, and the names of the others beside
/// those, with null for their values. The changes of this part are the changes of the whole object.
pub(crate) fn touched(object: &Value, merge: &Map<String, Value>) -> Value {
    let Some(fields) = object.as_object() else { return object.clone() };
    let part = |(name, value): (&String, &Value)| {
        let part = match merge.get(name) {
            None => Value::Null,
            Some(Value::Object(inner)) => touched(value, inner),
            Some(_) => value.clone(),
        };
        (name.clone(), part)
    };
    Value::Object(fields.iter().map(part).collect())
}

/// Changes a key below the parents, which need not exist.
fn change(object: &mut Value, parents: &[&str], key: &str, value: &Value) {
    match value {
        Value::Null => drop(remove(object, parents, key)),
        Value::Object(inner) => {
            let path: Vec<&str> = parents.iter().copied().chain([key]).collect();
            inner.iter().for_each(|(inner_key, value)| change(object, &path, inner_key, value));
        }
        other => {
            let mut parent = as_mapping(object);
            for name in parents {
                parent = as_mapping(parent.entry(*name).or_insert(Value::Null));
            }
            parent.insert(key.to_owned(), other.clone());
        }
    }
}

/// Returns a value as a mapping; another value becomes an empty one.
fn as_mapping(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().expect("the value was made a mapping")
}

/// Removes a key, and its parents that become empty. Returns whether anything was removed.
fn remove(object: &mut Value, parents: &[&str], key: &str) -> bool {
    let Some(mapping) = object.as_object_mut() else { return false };
    let Some((first, rest)) = parents.split_first() else { return mapping.remove(key).is_some() };
    let Some(child) = mapping.get_mut(*first) else { return false };
    let is_removed = remove(child, rest, key);
    if is_removed && child.as_object().is_some_and(Map::is_empty) {
        mapping.remove(*first);
    }
    is_removed
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn merged(mut object: Value, merge: &Value) -> Value {
        apply(&mut object, merge.as_object().unwrap());
        object
    }

    #[test]
    fn a_removal_removes_the_parents_that_become_empty() {
        let object = || json!({"spec": {"a": {"b": {"c": 1}}, "d": 2}});
        let merge = json!({"spec": {"a": {"b": {"c": null}}}});
        assert_eq!(merged(object(), &merge), json!({"spec": {"d": 2}}));
        assert_eq!(
            merged(object(), &json!({"spec": {"d": null, "x": null}, "status": null})),
            json!({"spec": {"a": {"b": {"c": 1}}}})
        );
        let empty = json!({"spec": {"a": {}}});
        assert_eq!(merged(empty.clone(), &json!({"spec": {"a": {"x": null}}})), empty, "what was empty before stays");
    }

    #[test]
    fn untouched_values_are_left_out_of_the_touched_part() {
        let object = json!({"metadata": {"name": "a", "labels": {"x": "1"}}, "spec": {"list": [1, {"b": 2}], "deep": {"a": 1, "b": {"c": 2}}}});
        let part = |merge: &Value| touched(&object, merge.as_object().unwrap());
        assert_eq!(part(&json!({})), json!({"metadata": null, "spec": null}));
        assert_eq!(
            part(&json!({"spec": {"list": [2], "new": 1}})),
            json!({"metadata": null, "spec": {"list": [1, {"b": 2}], "deep": null}})
        );
        assert_eq!(
            part(&json!({"spec": {"deep": {"b": {"c": null}}}})),
            json!({"metadata": null, "spec": {"list": null, "deep": {"a": null, "b": {"c": 2}}}})
        );
        assert_eq!(
            part(&json!({"metadata": {"name": {"x": 1}}, "spec": null})),
            json!({"metadata": {"name": "a", "labels": null}, "spec": object["spec"].clone()})
        );
    }

    #[test]
    fn mappings_are_merged_and_an_empty_one_changes_nothing() {
        let merge = json!({"spec": {"new": {}, "made": {"x": [1]}, "d": {"e": 1}}, "status": {}});
        assert_eq!(merged(json!({"spec": {"d": 2}}), &merge), json!({"spec": {"d": {"e": 1}, "made": {"x": [1]}}}));
    }
}
