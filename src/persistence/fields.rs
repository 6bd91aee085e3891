//! Adds and removes single values of patches and essences.

use serde_json::{Map, Value};

use crate::object::equality::is_falsy;
use crate::object::path;
use crate::object::{Body, Patch};

/// Marks a custom annotation prefix as an operator's, as kopf does. The default prefix is known, and prefixes that
/// begin with `kopf.` are not marked.
pub(super) fn mark(prefix: &str, body: &Body, patch: &mut Patch) {
    if prefix.is_empty() || prefix.starts_with("kopf.") {
        return;
    }
    let key = format!("{prefix}/kopf-managed");
    if body.annotation(&key).is_none() && path::resolve_in(&patch.merge, &annotation_field(&key)).is_none() {
        annotate(patch, &key, Value::String("yes".to_owned()));
    }
}

/// Adds an annotation to the patch.
pub(super) fn annotate(patch: &mut Patch, key: &str, value: Value) {
    ensure(patch, &annotation_field(key), value);
}

/// Adds a field to the patch. If a handler has set a parent of the field to another type than a mapping, the parent is
/// replaced.
pub(super) fn ensure(patch: &mut Patch, field: &[String], value: Value) {
    if path::ensure(&mut patch.merge, field, value.clone()).is_err() {
        let mut map = &mut patch.merge;
        for key in &field[..field.len() - 1] {
            let child = map.entry(key.clone()).or_insert_with(|| Value::Object(Map::new()));
            if !child.is_object() {
                *child = Value::Object(Map::new());
            }
            let Value::Object(child) = child else { return };
            map = child;
        }
        map.insert(field[field.len() - 1].clone(), value);
    }
}

/// Returns the path of an annotation.
pub(super) fn annotation_field(key: &str) -> [String; 3] {
    ["metadata".to_owned(), "annotations".to_owned(), key.to_owned()]
}

/// Removes empty annotations and labels from an essence, then empty metadata and status.
pub(super) fn remove_empty_stanzas(essence: &mut Map<String, Value>) {
    if let Some(Value::Object(metadata)) = essence.get_mut("metadata") {
        for stanza in ["annotations", "labels"] {
            if metadata.get(stanza).is_some_and(is_falsy) {
                metadata.remove(stanza);
            }
        }
    }
    for stanza in ["metadata", "status"] {
        if essence.get(stanza).is_some_and(is_falsy) {
            essence.remove(stanza);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_a_handler_has_put_in_the_place_of_a_mapping_is_replaced() {
        let field = ["status", "kopf", "progress"].map(str::to_owned);
        let patched = |merge: Value| {
            let Value::Object(merge) = merge else { panic!("patches are mappings") };
            let mut patch = Patch { merge, ..Patch::default() };
            ensure(&mut patch, &field, json!(1));
            Value::Object(patch.merge)
        };
        let expected = json!({"status": {"kopf": {"progress": 1}}});
        assert_eq!(patched(json!({})), expected);
        assert_eq!(patched(json!({"status": null})), expected);
        assert_eq!(patched(json!({"status": {"kopf": "text"}})), expected);
        assert_eq!(
            patched(json!({"status": {"own": 2, "kopf": [1]}, "spec": 3})),
            json!({"status": {"own": 2, "kopf": {"progress": 1}}, "spec": 3})
        );
    }
}
