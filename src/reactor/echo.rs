//! Echoes: the events of the operator's own patches. An event that contains no other change is recognised by its text.
//!
//! API servers serialize the same value to the same text, so that unchanged parts need no parsing.

use serde_json::{Map, Value};

use crate::object::{Body, Patch};
use crate::persistence::essence;
use crate::wire::Members;

/// Metadata that change with every write, and the annotations, which are compared individually.
const CHANGING: [&str; 4] = ["resourceVersion", "managedFields", "generation", "annotations"];

/// The events of the last patch of a finished cause, which need no cycle.
#[derive(Debug, Clone)]
pub struct Echo {
    annotations: Map<String, Value>,
    versions: Vec<String>,
}

impl Echo {
    /// Returns the echo of a patch, unless it changes more than the status and annotations of operators.
    pub fn of(body: &Body, patch: &Patch, versions: &[String]) -> Option<Self> {
        let mut annotations = Map::new();
        for (key, value) in &patch.merge {
            match (key.as_str(), value) {
                ("status", _) => {}
                ("metadata", Value::Object(metadata)) => match metadata.get("annotations") {
                    Some(Value::Object(patched)) if metadata.len() == 1 => annotations.clone_from(patched),
                    _ => return None,
                },
                _ => return None,
            }
        }
        let is_echo = !versions.is_empty() && essence::is_kept_by(body, &annotations);
        is_echo.then(|| Self { annotations, versions: versions.to_vec() })
    }

    /// Returns the version of an event that contains only the own patch.
    pub fn version_in(&self, before: &str, event: &str) -> Option<&str> {
        let event = Members::of(event)?;
        let metadata = Members::of(event.get("metadata")?)?;
        let found = metadata.text("resourceVersion")?;
        let version = self.versions.iter().find(|own| ***own == *found)?;
        self.is_only_change(&Members::of(before)?, &event, &metadata)?.then_some(version)
    }

    fn is_only_change(&self, before: &Members<'_>, event: &Members<'_>, metadata: &Members<'_>) -> Option<bool> {
        let metadata_before = Members::of(before.get("metadata")?)?;
        let (annotations_before, annotations) =
            (metadata_before.members("annotations")?, metadata.members("annotations")?);
        let patched: Vec<&str> = self.annotations.keys().map(String::as_str).collect();
        let is_patched = |(key, value): (&String, &Value)| match (annotations.get(key), value.as_str()) {
            (None, None) => true,
            (Some(_), Some(wanted)) => annotations.text(key).as_deref() == Some(wanted),
            _ => false,
        };
        // Items of lists lack their kind and version.
        let is_same = before.is_same_except(event, &["metadata", "status", "kind", "apiVersion"])
            && metadata_before.is_same_except(metadata, &CHANGING)
            && annotations_before.is_same_except(&annotations, &patched);
        Some(is_same && self.annotations.iter().all(is_patched))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::persistence::storage::{DiffbaseAnnotations, DiffbaseStatus, DiffbaseStorage};
    use serde_json::json;

    const KEY: &str = "kopf.zalando.org/last-handled-configuration";

    fn object(version: &str, rest: &Value) -> Value {
        let mut object = json!({
            "apiVersion": "v1", "kind": "Thing",
            "metadata": {"name": "a", "uid": "u", "labels": {"x": "y"}, "resourceVersion": version, "annotations": {"own": "<1>"}},
            "spec": {"size": 1},
        });
        overlay(&mut object, rest);
        object
    }

    /// Applies a merge patch.
    fn overlay(target: &mut Value, changes: &Value) {
        let Value::Object(changes) = changes else { return target.clone_from(changes) };
        if !target.is_object() {
            *target = json!({});
        }
        for (key, change) in changes {
            match change {
                Value::Null => drop(target.as_object_mut().and_then(|object| object.remove(key))),
                change => overlay(&mut target[key], change),
            }
        }
    }

    fn echo() -> Echo {
        let Value::Object(merge) = json!({"metadata": {"annotations": {KEY: "{\"spec\":1}\n", "kopf.zalando.org/create": null}}, "status": {"a": 1}})
        else {
            unreachable!()
        };
        let before = Body::from(object("1", &json!({})));
        Echo::of(&before, &Patch { merge, ..Patch::default() }, &["2".to_owned(), "3".to_owned()]).unwrap()
    }

    #[test]
    fn events_of_the_own_patch_are_recognised() {
        let before = object("1", &json!({"metadata": {"annotations": {"kopf.zalando.org/create": "{}"}}}));
        let after = json!({"metadata": {"annotations": {KEY: "{\"spec\":1}\n"}, "generation": 2, "managedFields": [1]}, "status": {"a": 1, "b": 2}});
        for version in ["2", "3"] {
            assert_eq!(echo().version_in(&before.to_string(), &object(version, &after).to_string()), Some(version));
        }
    }

    #[test]
    fn an_event_with_more_than_the_own_patch_is_not_an_echo() {
        let own = json!({"metadata": {"annotations": {KEY: "{\"spec\":1}\n"}}});
        let before = object("1", &json!({})).to_string();
        assert_eq!(echo().version_in(&before, &object("3", &own).to_string()), Some("3"));
        let others = [
            json!({"spec": {"size": 2}}),
            json!({"data": {}}),
            json!({"spec": null}),
            json!({"metadata": {"resourceVersion": "4"}}),
            json!({"metadata": {"labels": {"x": "z"}}}),
            json!({"metadata": {"labels": null}}),
            json!({"metadata": {"deletionTimestamp": "now"}}),
            json!({"metadata": {"finalizers": ["other"]}}),
            json!({"metadata": {"annotations": {"own": "2"}}}),
            json!({"metadata": {"annotations": {"new": "2"}}}),
            json!({"metadata": {"annotations": {KEY: null}}}),
            json!({"metadata": {"annotations": {KEY: "{\"spec\":2}\n"}}}),
            json!({"metadata": {"annotations": {"kopf.zalando.org/create": "{}"}}}),
            json!({"metadata": {"annotations": {"kopf.zalando.org/create": 1}}}),
        ];
        for other in others {
            let mut event = object("3", &own);
            overlay(&mut event, &other);
            assert_eq!(echo().version_in(&before, &event.to_string()), None, "{other}");
        }
    }

    #[test]
    fn an_essence_in_the_status_may_be_lost_with_the_patch() {
        let (in_annotations, in_status) = (
            DiffbaseStorage::Annotations(DiffbaseAnnotations::default()),
            DiffbaseStorage::Status(DiffbaseStatus::default()),
        );
        assert!(essence::is_in_annotations(&in_annotations) && !essence::is_in_annotations(&in_status));
        let both = |first: &DiffbaseStorage, second: &DiffbaseStorage| {
            DiffbaseStorage::Multi(vec![first.clone(), second.clone()])
        };
        assert!(essence::is_in_annotations(&both(&in_annotations, &in_status)));
        assert!(!essence::is_in_annotations(&both(&in_status, &in_annotations)), "what is found first is read");
    }

    #[test]
    fn a_patch_of_fields_used_by_handlers_has_no_echo() {
        let before = Body::from(object("1", &json!({})));
        let patches = [
            json!({"spec": {"size": 2}}),
            json!({"metadata": {"labels": {"a": "b"}}}),
            json!({"metadata": {"labels": {"a": "b"}, "annotations": {KEY: "{}"}}}),
            json!({"metadata": {"annotations": {KEY: "{}", "foreign": "1"}}}),
            json!({"metadata": {"annotations": null}}),
        ];
        for merge in patches {
            let Value::Object(merge) = merge else { unreachable!() };
            assert!(Echo::of(&before, &Patch { merge, ..Patch::default() }, &["2".to_owned()]).is_none());
        }
        assert!(Echo::of(&before, &Patch::default(), &[]).is_none(), "nothing was sent");
    }
}
