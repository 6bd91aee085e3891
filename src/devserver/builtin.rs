//! The built-in kinds: what the server offers without any definition, their defaults, and the light checks that they get.

mod checks;
mod defaults;
pub mod events;

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Value, json};

use super::causes::Place;
use super::kind::Scale;
use super::metadata::{self, NameRule};
use super::{Failure, Kind};

/// A subresource of a built-in kind.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Subresource {
    /// The last part of the path, such as `status`.
    pub name: String,
    /// The kind of what is read and written; none for the object itself.
    pub kind: Option<String>,
    /// The verbs.
    #[serde(default = "object_verbs")]
    pub verbs: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Entry {
    group: String,
    version: String,
    plural: String,
    singular: String,
    kind: String,
    namespaced: bool,
    #[serde(default = "all_verbs")]
    verbs: Vec<String>,
    #[serde(default)]
    short_names: Vec<String>,
    #[serde(default)]
    categories: Vec<String>,
    #[serde(default)]
    subresources: Vec<Subresource>,
    #[serde(default)]
    names: String,
}

static ENTRIES: LazyLock<Vec<Entry>> =
    LazyLock::new(|| serde_json::from_str(include_str!("builtin.json")).expect("the table of built-in kinds is valid"));

/// Returns all built-in kinds.
pub fn kinds() -> Vec<Kind> {
    ENTRIES.iter().map(Entry::to_kind).collect()
}

/// Returns the subresources of a built-in kind.
pub fn subresources(kind: &Kind) -> &'static [Subresource] {
    entry(kind).map_or(&[], |entry| &entry.subresources)
}

/// Returns what names of objects must look like.
pub fn name_rule(kind: &Kind) -> NameRule {
    match entry(kind).map(|entry| entry.names.as_str()) {
        Some("label") => NameRule::Label,
        Some("path") => NameRule::PathSegment,
        _ => NameRule::Subdomain,
    }
}

/// Checks a name as it stands in a path.
///
/// # Errors
/// A bad request for names that cannot stand in a path.
pub fn check_name(name: &str) -> Result<(), Failure> {
    metadata::path_mistake(name, false).map_or(Ok(()), |why| Err(Failure::bad_request(format!("name {name:?} {why}"))))
}

/// Returns the members that objects of a built-in kind have besides what they are and their metadata.
pub fn fields(kind: &Kind) -> &'static [&'static str] {
    checks::fields(&kind.kind)
}

/// Drops the fields that a built-in kind has not at the top of its objects and in their metadata, and returns their paths in order.
pub fn prune(kind: &Kind, object: &mut Value) -> Vec<String> {
    let mut dropped = Vec::new();
    let Value::Object(members) = object else { return dropped };
    let known = checks::fields(&kind.kind);
    members.retain(|name, _| {
        let is_known = ["apiVersion", "kind", "metadata"].contains(&name.as_str()) || known.contains(&name.as_str());
        if !is_known {
            dropped.push(name.clone());
        }
        is_known
    });
    if let Some(meta) = members.get_mut("metadata") {
        dropped.extend(metadata::clean(meta, &Place::Named("metadata")));
    }
    dropped.sort();
    dropped
}

/// Makes an object of a built-in kind fit for the store: fills in its defaults and checks it. Returns warnings.
///
/// The object has its final metadata, with the unique id. With an old object, what the server once set is kept, and what may not change is compared.
///
/// # Errors
/// A bad request for values of wrong types, an invalid object for all its other mistakes together.
pub fn prepare(kind: &Kind, object: &mut Value, old: Option<&Value>) -> Result<Vec<String>, Failure> {
    decode(kind, object)?;
    object["apiVersion"] = json!(kind.api_version());
    object["kind"] = json!(kind.kind);
    defaults::fill(kind, object, old);
    let meta = object["metadata"].as_object().cloned().unwrap_or_default();
    let mut causes = metadata::check(&meta, name_rule(kind));
    let (finalizer_causes, mut warnings) = metadata::check_finalizers(&meta, false);
    causes.extend(finalizer_causes);
    checks::check(kind, object, &mut causes);
    if let Some(old) = old {
        checks::check_change(kind, object, old, &mut causes);
    }
    if kind.kind == "Endpoints" {
        warnings.push("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice".to_owned());
    }
    if causes.is_empty() {
        Ok(warnings)
    } else {
        let name = meta.get("name").and_then(Value::as_str).unwrap_or_default();
        // Events go by their core names, whichever group they are written in.
        let group = if kind.kind == "Event" { "" } else { &kind.group };
        Err(Failure::invalid(group, &kind.kind, name, causes))
    }
}

/// Refuses what Go's decoder would not take.
fn decode(kind: &Kind, object: &Value) -> Result<(), Failure> {
    let refuse = |why: String| {
        let (kind, version) = (&kind.kind, &kind.version);
        Err(Failure::bad_request(format!("{kind} in version \"{version}\" cannot be handled as a {kind}: {why}")))
    };
    if !object.is_object() {
        return refuse("json: cannot unmarshal value into Go value".to_owned());
    }
    if let Some(why) = metadata::type_mistake(&object["metadata"]) {
        return refuse(why);
    }
    if let Some(field) = checks::misshapen(object) {
        return refuse(format!("json: cannot unmarshal value into Go struct field {}.{field}", kind.kind));
    }
    for (field, is_secret) in [("data", kind.kind == "Secret"), ("stringData", false), ("binaryData", true)] {
        if !["ConfigMap", "Secret"].contains(&kind.kind.as_str()) {
            continue;
        }
        let values = &object[field];
        if !(values.is_null() || values.is_object()) {
            return refuse(format!("json: cannot unmarshal value into Go struct field {}.{field} of type map", kind.kind));
        }
        for value in values.as_object().into_iter().flatten().map(|(_, value)| value) {
            match value {
                Value::String(text) if is_secret && STANDARD.decode(text).is_err() => {
                    return refuse("illegal base64 data at input byte 0".to_owned());
                }
                Value::String(_) | Value::Null => {}
                other => {
                    let given = if other.is_number() {
                        "number"
                    } else if other.is_boolean() {
                        "bool"
                    } else {
                        "object"
                    };
                    return refuse(format!("json: cannot unmarshal {given} into Go struct field {}.{field} of type string", kind.kind));
                }
            }
        }
    }
    checks::moments(kind, object).map_or(Ok(()), |text| refuse(format!("parsing time \"{text}\" as \"2006-01-02T15:04:05.000000Z07:00\"")))
}

fn entry(kind: &Kind) -> Option<&'static Entry> {
    ENTRIES.iter().find(|entry| entry.group == kind.group && entry.plural == kind.plural)
}

impl Entry {
    fn to_kind(&self) -> Kind {
        let has = |name: &str| self.subresources.iter().any(|subresource| subresource.name == name);
        Kind {
            group: self.group.clone(),
            version: self.version.clone(),
            storage_version: self.storage_version().to_owned(),
            plural: self.plural.clone(),
            singular: self.singular.clone(),
            kind: self.kind.clone(),
            list_kind: format!("{}List", self.kind),
            short_names: self.short_names.clone(),
            categories: self.categories.clone(),
            verbs: self.verbs.clone(),
            namespaced: self.namespaced,
            has_status: has("status"),
            scale: has("scale").then(|| Scale {
                spec_replicas: ".spec.replicas".to_owned(),
                status_replicas: ".status.replicas".to_owned(),
                label_selector: Some(".spec.selector".to_owned()),
            }),
            definition: None,
        }
    }

    /// The first version of a kind in the table is the one that is stored.
    fn storage_version(&self) -> &str {
        let first = ENTRIES.iter().find(|entry| entry.group == self.group && entry.plural == self.plural);
        first.map_or(&self.version, |first| &first.version)
    }
}

fn all_verbs() -> Vec<String> {
    ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"].map(str::to_owned).to_vec()
}

fn object_verbs() -> Vec<String> {
    ["get", "patch", "update"].map(str::to_owned).to_vec()
}

#[cfg(test)]
mod tests;
