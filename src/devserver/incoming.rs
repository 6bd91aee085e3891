//! What clients send as the metadata of objects: what is taken of it, and what is wrong with it.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value, json};

use super::failure::{Cause, Failure};
use super::registry::Served;

/// All annotations of an object together may have this many bytes.
const MAX_ANNOTATIONS: usize = 256 << 10;

/// What the metadata of an object may have, and of which type it is.
const FIELDS: &[(&str, Type)] = &[
    ("annotations", Type::Texts),
    ("creationTimestamp", Type::Text),
    ("deletionGracePeriodSeconds", Type::Number),
    ("deletionTimestamp", Type::Text),
    ("finalizers", Type::TextList),
    ("generateName", Type::Text),
    ("generation", Type::Number),
    ("labels", Type::Texts),
    ("managedFields", Type::List),
    ("name", Type::Text),
    ("namespace", Type::Text),
    ("ownerReferences", Type::List),
    ("resourceVersion", Type::Text),
    ("selfLink", Type::Text),
    ("uid", Type::Text),
];

#[derive(Debug, Clone, Copy)]
enum Type {
    Text,
    Number,
    Texts,
    TextList,
    List,
}

impl Type {
    fn fits(self, value: &Value) -> bool {
        match self {
            Self::Text => value.is_string(),
            Self::Number => value.is_i64(),
            Self::Texts => value.as_object().is_some_and(|map| map.values().all(Value::is_string)),
            Self::TextList => value.as_array().is_some_and(|list| list.iter().all(Value::is_string)),
            Self::List => value.as_array().is_some_and(|list| list.iter().all(Value::is_object)),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Text => "string",
            Self::Number => "int64",
            Self::Texts => "map[string]string",
            Self::TextList => "[]string",
            Self::List => "[]v1.OwnerReference",
        }
    }
}

/// Reads the metadata of an object strictly by type and drops what is unknown. Returns the paths of what was dropped.
///
/// # Errors
/// If something has another type.
pub fn clean(served: &Served, value: &mut Value) -> Result<Vec<String>, Failure> {
    let (kind, version) = (&served.kind.kind, &served.kind.version);
    let refuse = |what: &str, field: &str, target: &str| {
        let text = format!("json: cannot unmarshal {what} into Go struct field ObjectMeta.{field} of type {target}");
        Failure::bad_request(format!("{kind} in version {version:?} cannot be handled as a {kind}: {text}"))
    };
    let Some(object) = value.as_object_mut() else { return Ok(Vec::new()) };
    let metadata = object.entry("metadata").or_insert_with(|| json!({}));
    if metadata.is_null() {
        *metadata = json!({});
    }
    let what = word(metadata);
    let Some(metadata) = metadata.as_object_mut() else { return Err(refuse(what, "metadata", "v1.ObjectMeta")) };
    // Nulls are absent; inside of labels and annotations they are empty texts.
    metadata.retain(|_, field| !field.is_null());
    for map in ["labels", "annotations"] {
        for text in metadata.get_mut(map).and_then(Value::as_object_mut).into_iter().flat_map(Map::values_mut) {
            if text.is_null() {
                *text = json!("");
            }
        }
    }
    let mut unknown = Vec::new();
    let names: Vec<String> = metadata.keys().cloned().collect();
    for name in names {
        match FIELDS.iter().find(|(known, _)| *known == name) {
            Some((_, kind)) if kind.fits(&metadata[&name]) => {}
            Some((_, kind)) => return Err(refuse(word(&metadata[&name]), &name, kind.name())),
            None => {
                metadata.remove(&name);
                unknown.push(format!("metadata.{name}"));
            }
        }
    }
    // What is empty is as good as absent.
    metadata.retain(|name, field| !is_empty(field) || name == "managedFields");
    Ok(unknown)
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}

fn word(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Returns what is wrong with the metadata of an object.
pub fn check(served: &Served, value: &Value) -> Vec<Cause> {
    let metadata = &value["metadata"];
    let mut causes = Vec::new();
    match metadata["name"].as_str() {
        None => causes.push(Cause::new("FieldValueRequired", "metadata.name", "Required value: name or generateName is required")),
        Some(name) => {
            if let Some(problem) = problem_of_name(served, name) {
                causes.push(invalid("metadata.name", name, problem));
            }
        }
    }
    for (key, value) in texts(&metadata["labels"]) {
        if !is_qualified(key) {
            causes.push(invalid("metadata.labels", key, QUALIFIED));
        }
        if !is_label_value(value) {
            causes.push(invalid("metadata.labels", value, LABEL_VALUE));
        }
    }
    let mut size = 0;
    for (key, value) in texts(&metadata["annotations"]) {
        size += key.len() + value.len();
        if !is_qualified(&key.to_lowercase()) {
            causes.push(invalid("metadata.annotations", key, QUALIFIED));
        }
    }
    if size > MAX_ANNOTATIONS {
        let message = format!("Too long: may not be more than {MAX_ANNOTATIONS} bytes");
        causes.push(Cause::new("FieldValueTooLong", "metadata.annotations", message));
    }
    check_finalizers(served, metadata, &mut causes);
    check_owners(metadata, &mut causes);
    causes
}

fn check_finalizers(served: &Served, metadata: &Value, causes: &mut Vec<Cause>) {
    let finalizers: Vec<&str> = metadata["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    for (index, finalizer) in finalizers.iter().enumerate() {
        let field = if served.kind.is_custom() { "metadata.finalizers".to_owned() } else { format!("metadata.finalizers[{index}]") };
        if !is_qualified(finalizer) {
            causes.push(invalid(&field, finalizer, QUALIFIED));
        } else if !served.kind.is_custom() && !finalizer.contains('/') && !STANDARD_FINALIZERS.contains(finalizer) {
            causes.push(invalid(&field, finalizer, "name is neither a standard finalizer name nor is it fully qualified"));
        }
    }
    if finalizers.contains(&"orphan") && finalizers.contains(&"foregroundDeletion") {
        causes.push(invalid("metadata.finalizers", &finalizers.join(","), "finalizer orphan and foregroundDeletion cannot be both set"));
    }
}

/// The finalizers that need no domain.
const STANDARD_FINALIZERS: &[&str] = &["orphan", "foregroundDeletion", "kubernetes"];

/// Returns the warnings that finalizers are worth on a custom object.
pub fn warnings(served: &Served, old: Option<&Value>, new: &Value) -> Vec<String> {
    if !served.kind.is_custom() {
        return Vec::new();
    }
    let finalizers = |value: &Value| value["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    let known = old.map(finalizers).unwrap_or_default();
    let advice = "prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers";
    let is_new = |one: &Value| !known.contains(one);
    let is_plain = |name: &str| !name.contains('/') && !STANDARD_FINALIZERS.contains(&name) && name != super::chores::CLEANUP;
    let added = finalizers(new).into_iter().filter(is_new);
    added
        .filter_map(|one| one.as_str().filter(|name| is_plain(name)).map(|name| format!("metadata.finalizers: {name:?}: {advice}")))
        .collect()
}

fn check_owners(metadata: &Value, causes: &mut Vec<Cause>) {
    let mut controllers = 0;
    for (index, owner) in metadata["ownerReferences"].as_array().into_iter().flatten().enumerate() {
        for field in ["apiVersion", "kind", "name", "uid"] {
            if owner[field].as_str().is_none_or(str::is_empty) {
                causes.push(invalid(&format!("metadata.ownerReferences[{index}].{field}"), "", "must not be empty"));
            }
        }
        controllers += usize::from(owner["controller"] == json!(true));
    }
    if controllers > 1 {
        let text = "Only one reference can have Controller set to true";
        causes.push(invalid("metadata.ownerReferences", "", text));
    }
}

fn texts(map: &Value) -> impl Iterator<Item = (&str, &str)> {
    map.as_object().into_iter().flatten().map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
}

fn invalid(field: &str, value: &str, text: &str) -> Cause {
    Cause::new("FieldValueInvalid", field, format!("Invalid value: {value:?}: {text}"))
}

const QUALIFIED: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character";

fn problem_of_name(served: &Served, name: &str) -> Option<&'static str> {
    match (served.kind.group.as_str(), served.kind.plural.as_str()) {
        ("rbac.authorization.k8s.io", _) => (name.contains(['/', '%']) || matches!(name, "." | "..")).then_some("may not contain '/' or '%'"),
        ("", "namespaces" | "services") => (!is_label(name)).then_some(LABEL),
        _ => (!is_subdomain(name)).then_some(SUBDOMAIN),
    }
}

fn is_label(text: &str) -> bool {
    static PATTERN: LazyLock<Regex> = LazyLock::new(|| Regex::new("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$").expect("a pattern that compiles"));
    text.len() <= 63 && PATTERN.is_match(text)
}

fn is_subdomain(text: &str) -> bool {
    static PATTERN: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$").expect("a pattern that compiles")
    });
    text.len() <= 253 && PATTERN.is_match(text)
}

fn is_label_value(text: &str) -> bool {
    text.is_empty() || is_name_part(text)
}

fn is_name_part(text: &str) -> bool {
    static PATTERN: LazyLock<Regex> =
        LazyLock::new(|| Regex::new("^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$").expect("a pattern that compiles"));
    text.len() <= 63 && PATTERN.is_match(text)
}

fn is_qualified(text: &str) -> bool {
    match text.split_once('/') {
        Some((prefix, name)) => is_subdomain(prefix) && is_name_part(name),
        None => is_name_part(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devserver::kind::Kind;

    fn custom() -> Served {
        Served::of(Kind { kind: "Thing".into(), version: "v1".into(), definition: Some(std::sync::Arc::new(json!({}))), ..Kind::default() })
    }

    #[test]
    fn metadata_is_read_strictly_by_type() {
        let mut value = json!({"metadata": {"name": 1}});
        assert_eq!(clean(&custom(), &mut value).unwrap_err().code, 400);
        let mut value = json!({"metadata": {"name": "a", "labels": {"x": null}, "bogus": 1, "annotations": null}});
        assert_eq!(clean(&custom(), &mut value).unwrap(), ["metadata.bogus"]);
        assert_eq!(value, json!({"metadata": {"name": "a", "labels": {"x": ""}}}));
    }

    #[test]
    fn names_labels_and_owners_are_checked() {
        let causes = check(&custom(), &json!({"metadata": {"name": "A_b", "labels": {"a b": "c"}, "ownerReferences": [{"kind": "X"}]}}));
        let fields: Vec<&str> = causes.iter().map(|cause| cause.field.as_str()).collect();
        assert_eq!(fields[..2], ["metadata.name", "metadata.labels"]);
        assert_eq!(fields.len(), 5);
    }
}
