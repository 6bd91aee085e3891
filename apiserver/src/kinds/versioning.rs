//! Objects in the version and the form that clients request.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::kinds::builtin::{self, autoscaling};
use crate::kinds::definition;
use crate::kinds::kind::Kind;
use crate::kinds::registry::ServedKind;
use crate::schema::Schema;
use crate::storage::store::Stored;

/// The fields of events, by their names in `v1` and in `events.k8s.io/v1`.
const EVENT_FIELDS: &[(&str, &str)] = &[
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

/// Tells whether an object stored at a revision is returned unchanged.
pub fn is_as_stored(served: &ServedKind, revision: u64) -> bool {
    let kind = &served.kind;
    kind.version == kind.storage_version
        && kind.group == served.resource.group
        && (!kind.is_custom() || revision > served.since)
}

/// Returns a stored object in the version of a kind, pruned and with the defaults of that version's schema.
pub fn to_requested_version(served: &ServedKind, stored: &Stored) -> Arc<Value> {
    if is_as_stored(served, stored.revision) {
        return Arc::clone(&stored.value);
    }
    let mut value = (*stored.value).clone();
    convert(served, &mut value);
    Arc::new(value)
}

/// Converts a stored object to the version of a kind.
pub fn convert(served: &ServedKind, value: &mut Value) {
    let Some(object) = value.as_object_mut() else { return };
    object.insert("apiVersion".into(), json!(served.kind.api_version()));
    if served.kind.group == "events.k8s.io" {
        rename(object, EVENT_FIELDS.iter().copied());
        // An object that was read once can be read again: this drops fields that only the core group always has.
        let _ = builtin::read(&served.kind, value);
    }
    if is_old_autoscaler(served) {
        autoscaling::to_old(value);
    }
    match (&served.schema, own_stored_schema(served)) {
        (Some(schema), None) => drop(schema.conform(value)),
        // Stored objects get only the defaults of the storage version.
        (Some(schema), Some(stored)) => {
            stored.conform(value);
            schema.prune(value);
        }
        _ => {}
    }
}

/// Converts an object from the version of a kind to its stored form.
pub fn to_storage_version(served: &ServedKind, value: &mut Value) {
    let kind = &served.kind;
    if let Some(stored) = own_stored_schema(served) {
        stored.conform(value);
    } else {
        complete(served, value);
    }
    if is_old_autoscaler(served) {
        autoscaling::to_new(value);
    }
    let Some(object) = value.as_object_mut() else { return };
    if kind.group == "events.k8s.io" {
        rename(object, EVENT_FIELDS.iter().map(|(core, own)| (*own, *core)));
        object.insert("apiVersion".into(), json!("v1"));
    } else if kind.group.is_empty() {
        object.insert("apiVersion".into(), json!(kind.storage_version));
    } else {
        object.insert("apiVersion".into(), json!(format!("{}/{}", kind.group, kind.storage_version)));
    }
}

/// Fills in the defaults of an object that is written, including those of a missing status.
pub fn complete(served: &ServedKind, value: &mut Value) {
    if let Some(schema) = &served.schema {
        schema.fill_defaults(value);
    }
}

fn is_old_autoscaler(served: &ServedKind) -> bool {
    served.kind.group == "autoscaling" && served.kind.kind == "HorizontalPodAutoscaler" && served.kind.version == "v1"
}

/// Returns the schema of the storage version. A conversion webhook decides itself about fields that this version lacks.
fn own_stored_schema(served: &ServedKind) -> Option<&Schema> {
    served.stored_schema.as_ref().filter(|_| webhook(served).is_none())
}

/// Returns the conversion webhook of a kind, if it has one.
pub fn webhook(served: &ServedKind) -> Option<&Value> {
    served.kind.definition.as_deref().and_then(definition::conversion_webhook)
}

fn rename(object: &mut Map<String, Value>, names: impl Iterator<Item = (&'static str, &'static str)>) {
    for (from, to) in names {
        if let Some(value) = object.remove(from) {
            object.insert(to.to_owned(), value);
        }
    }
}

/// Returns the metadata of an object.
pub fn metadata_of(value: &Value) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": value["metadata"]})
}

/// Returns the kind of the `scale` subresource.
pub fn scales() -> Kind {
    Kind {
        group: "autoscaling".into(),
        version: "v1".into(),
        plural: "scales".into(),
        kind: "Scale".into(),
        ..Kind::default()
    }
}

/// Returns the `Scale` of an object, if it has a desired number of replicas.
pub fn scale_of(served: &ServedKind, value: &Value) -> Option<Value> {
    let paths = served.kind.scale.as_ref()?;
    let replicas = at(value, &paths.spec_replicas)?.as_i64()?;
    let mut metadata = Map::new();
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(text) = value["metadata"].get(field) {
            metadata.insert(field.to_owned(), text.clone());
        }
    }
    let mut status = json!({"replicas": at(value, &paths.status_replicas).and_then(Value::as_i64).unwrap_or_default()});
    // The selector of built-in workloads is an object, which a definition could not point to.
    let of_workload = || at(value, ".spec.selector").filter(|_| !served.kind.is_custom());
    let selector =
        paths.label_selector.as_ref().and_then(|path| at(value, path)).or_else(of_workload).map(selector_text);
    if let Some(selector) = selector {
        status["selector"] = json!(selector);
    }
    // Zero replicas are omitted.
    let spec = if replicas == 0 { json!({}) } else { json!({"replicas": replicas}) };
    Some(json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": status}))
}

/// Returns the text of a selector: a text, a map of labels, or a `LabelSelector`.
fn selector_text(selector: &Value) -> String {
    if let Some(text) = selector.as_str() {
        return text.to_owned();
    }
    let labels = selector.get("matchLabels").or_else(|| selector.get("matchExpressions").is_none().then_some(selector));
    let labels = labels.and_then(Value::as_object).into_iter().flatten();
    let mut parts: Vec<(String, String)> =
        labels.map(|(key, value)| (key.clone(), format!("{key}={}", value.as_str().unwrap_or_default()))).collect();
    for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
        let key = expression["key"].as_str().unwrap_or_default();
        let mut values: Vec<&str> =
            expression["values"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        values.sort_unstable();
        let text = match expression["operator"].as_str().unwrap_or_default() {
            "In" => format!("{key} in ({})", values.join(",")),
            "NotIn" => format!("{key} notin ({})", values.join(",")),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        };
        parts.push((key.to_owned(), text));
    }
    parts.sort();
    let texts: Vec<String> = parts.into_iter().map(|(_, text)| text).collect();
    texts.join(",")
}

/// Returns the value at a path such as `.spec.replicas`.
pub fn at<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').filter(|part| !part.is_empty()).try_fold(value, |value, part| value.get(part))
}

/// Sets the value at a path such as `.spec.replicas`.
pub fn set_at(value: &mut Value, path: &str, to: Value) {
    let mut place = value;
    for part in path.split('.').filter(|part| !part.is_empty()) {
        if !place.is_object() {
            *place = json!({});
        }
        place = &mut place[part];
    }
    *place = to;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::kind::Scale;

    #[test]
    fn an_event_is_served_in_two_groups() {
        let kind = Kind {
            group: "events.k8s.io".into(),
            version: "v1".into(),
            storage_version: "v1".into(),
            plural: "events".into(),
            kind: "Event".into(),
            ..Kind::default()
        };
        let served = ServedKind::of(kind);
        let mut value = json!({"apiVersion": "v1", "message": "m", "reportingComponent": "", "firstTimestamp": null});
        convert(&served, &mut value);
        assert_eq!((&value["apiVersion"], &value["note"]), (&json!("events.k8s.io/v1"), &json!("m")));
        assert_eq!(
            (value.get("reportingController"), value.get("deprecatedFirstTimestamp")),
            (None, Some(&Value::Null))
        );
        to_storage_version(&served, &mut value);
        assert_eq!((&value["apiVersion"], &value["message"], value.get("note")), (&json!("v1"), &json!("m"), None));
    }

    #[test]
    fn a_scale_is_read_and_written_by_its_paths() {
        let scale = Scale {
            spec_replicas: ".spec.n".into(),
            status_replicas: ".status.n".into(),
            label_selector: Some(".spec.sel".into()),
        };
        let served = ServedKind::of(Kind { scale: Some(scale), ..Kind::default() });
        let mut value = json!({"metadata": {"name": "a"}});
        assert_eq!(scale_of(&served, &value), None);
        set_at(&mut value, ".spec.n", json!(3));
        value["spec"]["sel"] = json!({"matchLabels": {"a": "b"}});
        let seen = scale_of(&served, &value).unwrap();
        assert_eq!(
            (&seen["spec"]["replicas"], &seen["status"]),
            (&json!(3), &json!({"replicas": 0, "selector": "a=b"}))
        );
        let deployments = crate::kinds::builtin::kinds().into_iter().find(|kind| kind.kind == "Deployment").unwrap();
        let deployment =
            json!({"metadata": {"name": "a"}, "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}}});
        assert_eq!(scale_of(&ServedKind::of(deployments), &deployment).unwrap()["status"]["selector"], "app=web");
    }
}
