//! The built-in kinds: the kinds served without definitions, their defaults, and their validation.

mod assigned;
pub mod autoscaling;
mod checks;
mod defaults;
mod members;
mod typed;

use kopfd_base::builtin_kinds::{self, BuiltinKind};
use serde_json::{Value, json};

pub use kopfd_base::builtin_kinds::Subresource;

pub use assigned::{assigns_fields, written};
pub(crate) use checks::field::Field;
pub(crate) use checks::webhooks;
pub(crate) use typed::wrap_numbers;

use crate::http::api_error::ApiError;
use crate::kinds::kind::Kind;
use crate::kinds::kind::Scale;
use crate::kinds::messages;
use crate::schema::metadata::{self, NameRule};

/// Returns all built-in kinds.
pub fn kinds() -> Vec<Kind> {
    builtin_kinds::all().iter().map(to_kind).collect()
}

/// Returns the subresources of a built-in kind.
pub fn subresources(kind: &Kind) -> &'static [Subresource] {
    entry(kind).map_or(&[], |entry| &entry.subresources)
}

/// Returns the rule for names of objects.
pub fn name_rule(kind: &Kind) -> NameRule {
    match entry(kind).map(|entry| entry.names.as_str()) {
        Some("label") => NameRule::Label,
        Some("path") => NameRule::PathSegment,
        _ => NameRule::Subdomain,
    }
}

/// Returns the warning for users of a deprecated built-in kind.
pub fn deprecation(kind: &Kind) -> Option<String> {
    let is_old = kind.group.is_empty() && kind.kind == "Endpoints";
    is_old.then(|| "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice".to_owned())
}

/// Checks a name in a path.
///
/// # Errors
/// A bad request for names that are invalid in paths.
pub fn check_name(name: &str) -> Result<(), ApiError> {
    metadata::path_mistake(name, false).map_or(Ok(()), |why| Err(ApiError::bad_request(format!("name {name:?} {why}"))))
}

/// Reads a sent object of a built-in kind, without its metadata, which is read separately. Unknown fields are dropped.
/// Returns their paths.
///
/// # Errors
/// A bad request for values of wrong types.
pub fn read(kind: &Kind, object: &mut Value) -> Result<Vec<String>, ApiError> {
    typed::read(kind, object).map_err(|why| refusal(kind, &why))
}

/// Returns the fields that all objects of a built-in kind have, with their zero values.
pub fn zero(kind: &Kind) -> Value {
    if kind.kind == "CustomResourceDefinition" {
        let names = json!({"plural": "", "kind": ""});
        let status = json!({"conditions": null, "acceptedNames": names, "storedVersions": null});
        return json!({"metadata": {}, "spec": {"group": "", "names": names, "scope": "", "versions": null}, "status": status});
    }
    let message = messages::of_kind(&kind.group, &kind.version, &kind.kind);
    message.map_or_else(|| json!({"metadata": {}}), messages::Message::zero)
}

/// Prepares an object of a built-in kind for the store: fills in its defaults and checks it. Returns warnings.
///
/// The object has its final metadata, with the unique id. It is written as a whole, or through a subresource. With an
/// old object, values assigned by the server are kept, and immutable fields are compared.
///
/// # Errors
/// A bad request for values of wrong types, an invalid object for all its other errors together.
pub fn prepare(
    kind: &Kind,
    subresource: &str,
    object: &mut Value,
    old: Option<&Value>,
) -> Result<Vec<String>, ApiError> {
    if let Some(why) = metadata::type_mistake(&object["metadata"]) {
        return Err(refusal(kind, &why));
    }
    read(kind, object)?;
    object["apiVersion"] = json!(kind.api_version());
    object["kind"] = json!(kind.kind);
    defaults::fill(kind, object, old);
    let meta = object["metadata"].as_object().cloned().unwrap_or_default();
    let mut causes = metadata::check(&meta, name_rule(kind));
    let (finalizer_causes, mut warnings) = metadata::check_finalizers(&meta, false);
    causes.extend(finalizer_causes);
    warnings.extend(checks::warnings(kind, object, old));
    match old {
        // Events of the new group were checked in their own version.
        Some(_) if kind.group == "events.k8s.io" => {}
        _ => checks::check(kind, subresource, object, old, &mut causes),
    }
    match old {
        Some(old) => checks::check_change(kind, subresource, object, old, &mut causes),
        None => checks::check_new(kind, object, &mut causes),
    }
    if causes.is_empty() {
        if kind.group == "batch" && kind.kind == "Job" {
            defaults::label_job(object, old);
        }
        Ok(warnings)
    } else {
        let name = meta.get("name").and_then(Value::as_str).unwrap_or_default();
        // Events have their core name, in both groups.
        let group = if kind.kind == "Event" { "" } else { &kind.group };
        Err(ApiError::invalid(group, &kind.kind, name, causes))
    }
}

/// Returns the old object with only the part that a subresource may change, if that is less than the specification or
/// status.
pub fn written_part(kind: &Kind, subresource: &str, old: &Value, new: &Value) -> Option<Value> {
    let is_pod = kind.group.is_empty() && kind.kind == "Pod";
    if is_pod { checks::pods::written_part(subresource, old, new) } else { None }
}

/// Returns the refusal of a body that Go's decoder would refuse.
fn refusal(kind: &Kind, why: &str) -> ApiError {
    let (kind, version) = (&kind.kind, &kind.version);
    ApiError::bad_request(format!("{kind} in version \"{version}\" cannot be handled as a {kind}: {why}"))
}

fn entry(kind: &Kind) -> Option<&'static BuiltinKind> {
    builtin_kinds::all().iter().find(|entry| entry.group == kind.group && entry.plural == kind.plural)
}

fn to_kind(entry: &BuiltinKind) -> Kind {
    let has = |name: &str| entry.subresources.iter().any(|subresource| subresource.name == name);
    Kind {
        group: entry.group.clone(),
        version: entry.version.clone(),
        storage_version: storage_version(entry).to_owned(),
        plural: entry.plural.clone(),
        singular: entry.singular.clone(),
        kind: entry.kind.clone(),
        list_kind: format!("{}List", entry.kind),
        short_names: entry.short_names.clone(),
        categories: entry.categories.clone(),
        verbs: entry.verbs.clone(),
        namespaced: entry.namespaced,
        has_status: has("status"),
        scale: has("scale").then(|| Scale {
            spec_replicas: ".spec.replicas".to_owned(),
            status_replicas: ".status.replicas".to_owned(),
            label_selector: Some(".spec.selector".to_owned()),
        }),
        definition: None,
    }
}

/// The first version of a kind in the table is the storage version.
fn storage_version(kind: &BuiltinKind) -> &str {
    let first = builtin_kinds::all().iter().find(|entry| entry.group == kind.group && entry.plural == kind.plural);
    first.map_or(&kind.version, |first| &first.version)
}

#[cfg(test)]
mod tests;
