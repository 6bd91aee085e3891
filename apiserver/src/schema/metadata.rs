//! The metadata of all objects: its fields, and the allowed names and values.

use kopfd_base::names::{is_dns_label, subdomain_mistake};
pub(crate) use kopfd_base::names::{label_value_mistake, qualified_mistakes};
use serde_json::{Map, Value, json};

use crate::http::api_error::FieldError;
use crate::http::json;
use crate::schema::field_error::{self, FieldPath};

/// The fields of metadata, with Go's names of their types.
const FIELDS: [(&str, &str); 15] = [
    ("annotations", "map[string]string"),
    ("creationTimestamp", "Time"),
    ("deletionGracePeriodSeconds", "int64"),
    ("deletionTimestamp", "Time"),
    ("finalizers", "[]string"),
    ("generateName", "string"),
    ("generation", "int64"),
    ("labels", "map[string]string"),
    ("managedFields", "[]v1.ManagedFieldsEntry"),
    ("name", "string"),
    ("namespace", "string"),
    ("ownerReferences", "[]v1.OwnerReference"),
    ("resourceVersion", "string"),
    ("selfLink", "string"),
    ("uid", "types.UID"),
];

const OWNER_FIELDS: [&str; 6] = ["apiVersion", "blockOwnerDeletion", "controller", "kind", "name", "uid"];
const MANAGER_FIELDS: [&str; 7] =
    ["apiVersion", "fieldsType", "fieldsV1", "manager", "operation", "subresource", "time"];

/// Limit of all annotations of an object together.
const ANNOTATION_BYTES: usize = 262_144;

/// Drops unknown fields of metadata, and returns their paths. Null labels and annotations become empty texts, other
/// nulls are removed.
pub(crate) fn clean(metadata: &mut Value, field_path: &FieldPath<'_>) -> Vec<String> {
    let mut dropped = Vec::new();
    if metadata.is_null() {
        *metadata = json!({});
    }
    let Value::Object(members) = metadata else { return dropped };
    members.retain(|name, value| {
        let is_known = FIELDS.iter().any(|(known, _)| known == name);
        if !is_known {
            dropped.push(field_path.member(name).to_string());
        }
        is_known && !value.is_null()
    });
    for name in ["labels", "annotations"] {
        for (_, value) in members.get_mut(name).and_then(Value::as_object_mut).into_iter().flatten() {
            if value.is_null() {
                *value = json!("");
            }
        }
    }
    for (name, fields) in [("ownerReferences", &OWNER_FIELDS[..]), ("managedFields", &MANAGER_FIELDS[..])] {
        let list = field_path.member(name);
        for (index, item) in members.get_mut(name).and_then(Value::as_array_mut).into_iter().flatten().enumerate() {
            let Value::Object(item) = item else { continue };
            item.retain(|field, _| {
                let is_known = fields.contains(&field.as_str());
                if !is_known {
                    dropped.push(list.item(index).member(field).to_string());
                }
                is_known
            });
        }
    }
    dropped
}

/// Returns the error of Go's decoder for the first field of a wrong type.
pub(crate) fn type_mistake(metadata: &Value) -> Option<String> {
    let Value::Object(members) = metadata else {
        let is_fine = metadata.is_null();
        return (!is_fine).then(|| mistake(metadata, "metadata", "v1.ObjectMeta"));
    };
    FIELDS
        .iter()
        .find_map(|(name, kind)| wrong_type(members.get(*name)?, kind).map(|(value, kind)| mistake(value, name, kind)))
}

fn mistake(value: &Value, field: &str, kind: &str) -> String {
    let given = json::type_name(value);
    format!("json: cannot unmarshal {given} into Go struct field ObjectMeta.{field} of type {kind}")
}

fn wrong_type<'a>(value: &'a Value, kind: &'a str) -> Option<(&'a Value, &'a str)> {
    let fits = match kind {
        _ if value.is_null() => true,
        "string" | "types.UID" => value.is_string(),
        "Time" => value.as_str().is_some_and(|text| text.parse::<jiff::Timestamp>().is_ok()),
        "int64" => value.is_i64(),
        "map[string]string" => {
            let Value::Object(members) = value else { return Some((value, kind)) };
            return members
                .values()
                .find(|value| !value.is_string() && !value.is_null())
                .map(|value| (value, "string"));
        }
        "[]string" => {
            let Value::Array(items) = value else { return Some((value, kind)) };
            return items.iter().find(|value| !value.is_string()).map(|value| (value, "string"));
        }
        _ => {
            let Value::Array(items) = value else { return Some((value, kind)) };
            let wrong =
                items.iter().find(|value| !value.is_object()).map(|value| (value, kind.trim_start_matches("[]")));
            return wrong.or_else(|| items.iter().find_map(wrong_member));
        }
    };
    (!fits).then_some((value, kind))
}

/// Returns the first value of a wrong type in an owner reference or an entry of `managedFields`.
fn wrong_member(item: &Value) -> Option<(&Value, &'static str)> {
    item.as_object()?.iter().find_map(|(name, value)| {
        let (fits, kind) = match name.as_str() {
            "controller" | "blockOwnerDeletion" => (value.is_boolean(), "bool"),
            "fieldsV1" => (value.is_object(), "v1.FieldsV1"),
            name if OWNER_FIELDS.contains(&name) || MANAGER_FIELDS.contains(&name) => (value.is_string(), "string"),
            _ => (true, ""),
        };
        (!fits && !value.is_null()).then_some((value, kind))
    })
}

/// The rules for names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameRule {
    /// Labels separated by dots: most kinds.
    Subdomain,
    /// One label: namespaces and services.
    Label,
    /// One label that begins with a letter: kinds and versions.
    OldLabel,
    /// Any valid path segment: roles.
    PathSegment,
}

/// Returns the error of a name; a prefix of generated names is checked as if completed.
pub(crate) fn name_mistake(rule: NameRule, name: &str, is_prefix: bool) -> Option<String> {
    // As in Kubernetes, a hyphen at the end and the character before it are replaced for the check.
    let completed = match name.char_indices().nth_back(1) {
        Some((at, _)) if is_prefix && name.ends_with('-') => format!("{}a", &name[..at]),
        _ => name.to_owned(),
    };
    match rule {
        NameRule::PathSegment => path_mistake(name, is_prefix),
        NameRule::Label | NameRule::OldLabel if completed.len() > 63 => Some("must be no more than 63 bytes".to_owned()),
        NameRule::Label if !is_dns_label(&completed) => Some(
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an \
             alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
                .to_owned(),
        ),
        NameRule::OldLabel if !is_dns_label(&completed) || !completed.starts_with(|c: char| c.is_ascii_lowercase()) => Some(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with \
             an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
                .to_owned(),
        ),
        NameRule::Subdomain => subdomain_mistake(&completed),
        NameRule::Label | NameRule::OldLabel => None,
    }
}

/// Returns the error of a name as a path segment.
pub(crate) fn path_mistake(name: &str, is_prefix: bool) -> Option<String> {
    if !is_prefix && (name == "." || name == "..") {
        return Some(format!("may not be '{name}'"));
    }
    ["/", "%"].into_iter().find(|part| name.contains(part)).map(|part| format!("may not contain '{part}'"))
}

/// Returns the errors of the name and the generated name, the labels, the annotations, and the owners.
pub(crate) fn check(metadata: &Map<String, Value>, rule: NameRule) -> Vec<FieldError> {
    let field_path = FieldPath::Named("metadata");
    let has_name = ["name", "generateName"].iter().any(|name| metadata.get(*name).is_some_and(|name| name != ""));
    let mut causes = Vec::new();
    if !has_name {
        causes.push(field_error::required("metadata.name", "name or generateName is required"));
    }
    check_all(metadata, rule, &field_path, &mut causes);
    causes
}

/// Returns the errors of an embedded object's metadata, which needs no name.
pub(crate) fn check_embedded(metadata: &Map<String, Value>, field_path: &FieldPath<'_>) -> Vec<FieldError> {
    let mut causes = Vec::new();
    let namespace = metadata.get("namespace").and_then(Value::as_str).unwrap_or_default();
    if let Some(why) = name_mistake(NameRule::Label, namespace, false).filter(|_| !namespace.is_empty()) {
        causes.push(field_error::invalid(field_path.member("namespace"), &json!(namespace), why));
    }
    check_all(metadata, NameRule::PathSegment, field_path, &mut causes);
    let finalizers = metadata.get("finalizers").and_then(Value::as_array);
    for finalizer in finalizers.into_iter().flatten() {
        let mistakes = qualified_mistakes(finalizer.as_str().unwrap_or_default());
        causes.extend(
            mistakes.into_iter().map(|why| field_error::invalid(field_path.member("finalizers"), finalizer, why)),
        );
    }
    causes
}

fn check_all(metadata: &Map<String, Value>, rule: NameRule, field_path: &FieldPath<'_>, causes: &mut Vec<FieldError>) {
    for (field, is_prefix) in [("generateName", true), ("name", false)] {
        let name = metadata.get(field).and_then(Value::as_str).unwrap_or_default();
        if let Some(why) = name_mistake(rule, name, is_prefix).filter(|_| !name.is_empty()) {
            causes.push(field_error::invalid(field_path.member(field), &json!(name), why));
        }
    }
    check_labels(metadata, field_path, causes);
    check_annotations(metadata, field_path, causes);
    check_owners(metadata, field_path, causes);
}

/// Returns the errors and warnings of finalizers. Names without a domain are errors for built-in kinds, and warnings
/// for custom ones.
pub(crate) fn check_finalizers(metadata: &Map<String, Value>, is_custom: bool) -> (Vec<FieldError>, Vec<String>) {
    let (mut causes, mut warnings) = (Vec::new(), Vec::new());
    let finalizers: Vec<&str> =
        metadata.get("finalizers").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    for (index, finalizer) in finalizers.iter().enumerate() {
        let field = "metadata.finalizers";
        let mistakes = qualified_mistakes(finalizer);
        let is_qualified = mistakes.is_empty();
        causes.extend(mistakes.into_iter().map(|why| field_error::invalid(field, &json!(finalizer), why)));
        if !finalizer.contains('/')
            && !["foregroundDeletion", "orphan", "kubernetes"].contains(finalizer)
            && (is_qualified || !is_custom)
        {
            if is_custom {
                let path = if finalizer.contains('.') { " including a path (/)" } else { "" };
                let text = format!(
                    "prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with other finalizer writers"
                );
                warnings.push(format!("{field}: \"{finalizer}\": {text}"));
            } else {
                let text = "name is neither a standard finalizer name nor is it fully qualified";
                causes.push(field_error::invalid(format!("{field}[{index}]"), &json!(finalizer), text));
            }
        }
    }
    if finalizers.contains(&"foregroundDeletion") && finalizers.contains(&"orphan") {
        let text = "finalizers foregroundDeletion and orphan cannot be both set";
        causes.push(field_error::invalid("metadata.finalizers", &json!(finalizers), text));
    }
    (causes, warnings)
}

fn check_labels(metadata: &Map<String, Value>, field_path: &FieldPath<'_>, causes: &mut Vec<FieldError>) {
    let field = field_path.member("labels");
    for (key, value) in metadata.get("labels").and_then(Value::as_object).into_iter().flatten() {
        causes.extend(qualified_mistakes(key).into_iter().map(|why| field_error::invalid(field, &json!(key), why)));
        if let Some(why) = value.as_str().and_then(label_value_mistake) {
            causes.push(field_error::invalid(field, value, why));
        }
    }
}

fn check_annotations(metadata: &Map<String, Value>, field_path: &FieldPath<'_>, causes: &mut Vec<FieldError>) {
    let field = field_path.member("annotations");
    let mut size = 0;
    for (key, value) in metadata.get("annotations").and_then(Value::as_object).into_iter().flatten() {
        size += key.len() + value.as_str().unwrap_or_default().len();
        let mistakes = qualified_mistakes(&key.to_lowercase());
        causes.extend(mistakes.into_iter().map(|why| field_error::invalid(field, &json!(key), why)));
    }
    if size > ANNOTATION_BYTES {
        causes.push(field_error::too_long(field, ANNOTATION_BYTES as u64));
    }
}

fn check_owners(metadata: &Map<String, Value>, field_path: &FieldPath<'_>, causes: &mut Vec<FieldError>) {
    let list = field_path.member("ownerReferences");
    let owners = metadata.get("ownerReferences").and_then(Value::as_array);
    let mut controllers = 0;
    for owner in owners.into_iter().flatten() {
        let text = |name: &str| owner.get(name).and_then(Value::as_str).unwrap_or_default();
        let field = |name: &str| format!("{list}.{name}");
        let (group, version) = text("apiVersion").rsplit_once('/').unwrap_or(("", text("apiVersion")));
        if version.is_empty() || group.contains('/') {
            causes.push(field_error::invalid(
                field("apiVersion"),
                &json!(text("apiVersion")),
                "version must not be empty",
            ));
        }
        if group.is_empty() && version == "v1" && text("kind") == "Event" {
            causes.push(field_error::invalid(list, owner, "/v1, Kind=Event is disallowed from being an owner"));
        }
        for name in ["kind", "name", "uid"] {
            if text(name).is_empty() {
                causes.push(field_error::invalid(field(name), &json!(text(name)), "must not be empty"));
            }
        }
        controllers += usize::from(owner.get("controller") == Some(&Value::Bool(true)));
    }
    if controllers > 1 {
        let value = owners.map(|owners| json!(owners)).unwrap_or_default();
        causes.push(field_error::invalid(list, &value, "Only one reference can have Controller set to true"));
    }
}
