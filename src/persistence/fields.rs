//! Fields of patches and essences: how single values are put into them and removed from them.

use serde_json::{Map, Value};

use crate::object::equality::is_falsy;
use crate::object::path;
use crate::object::{Body, Patch};

/// Marks the annotations of a custom prefix as an operator's, as kopf does: the default prefix is known by its name, `kopf.` prefixes are not
/// marked.
pub(super) fn mark(prefix: &str, body: &Body, patch: &mut Patch) {
    let key = format!("{prefix}/kopf-managed");
    let is_marked = || body.annotation(&key).is_some() || path::resolve_in(&patch.merge, &annotation_field(&key)).is_some();
    if !prefix.is_empty() && !prefix.starts_with("kopf.") && !is_marked() {
        annotate(patch, &key, Value::String("yes".to_owned()));
    }
}

/// Puts an annotation into the patch.
pub(super) fn annotate(patch: &mut Patch, key: &str, value: Value) {
    ensure(patch, &annotation_field(key), value);
}

/// Puts a field into the patch. If a handler has patched a parent of the field with something else than a mapping, that is replaced.
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

/// Removes stanzas without content from an essence, the inner ones first.
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
