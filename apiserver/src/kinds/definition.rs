//! CustomResourceDefinitions: their validation, their accepted names, and the kinds that they define.
//!
//! Independent of the existing objects and the deletion of definitions.

mod check;
mod names;
mod parts;

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::http::api_error::{ApiError, FieldError};
use crate::kinds::kind::Kind;
use crate::kinds::kind::Scale;
use crate::schema::{Schema, formats};
pub use parts::{is_established, version, versions};
use parts::{is_true, members, text, texts};

pub use names::{conditions, set_condition};

/// The group of the definitions themselves.
pub const GROUP: &str = "apiextensions.k8s.io";

/// The finalizer that blocks the deletion of a definition until its objects are gone.
pub const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// The verbs of custom resources.
const VERBS: [&str; 8] = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];

/// A valid definition.
#[derive(Debug)]
pub struct Accepted {
    /// The definition to store.
    pub definition: Value,
    /// Its warnings.
    pub warnings: Vec<String>,
    /// Messages about rules of its schemas that are not enforced.
    pub unenforced: Vec<String>,
}

/// Returns a definition to store, with its defaults and stored versions.
///
/// The status is that of the new definition: writes of the status must set it before; a new definition gets its first
/// status.
///
/// # Errors
/// All errors of the definition at once.
pub fn accept(new: &Value, old: Option<&Value>) -> Result<Accepted, ApiError> {
    if !new.is_object() {
        return Err(ApiError::bad_request("a definition is an object"));
    }
    let mut accepted = new.clone();
    fill_defaults(&mut accepted);
    if old.is_none() {
        accepted["status"] =
            json!({"conditions": null, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": []});
    }
    let check::Report { causes, unenforced } = check::check(&accepted, old);
    if causes.is_empty() {
        store_version(&mut accepted);
        let known = old.map(unknown_formats).unwrap_or_default();
        let new = unknown_formats(&accepted).into_iter().filter(|format| !known.contains(format));
        let warnings = new.map(|format| format!("unrecognized format {format:?}")).collect();
        Ok(Accepted { definition: accepted, warnings, unenforced })
    } else {
        Err(ApiError::invalid(GROUP, "CustomResourceDefinition", text(&accepted["metadata"]["name"]), causes))
    }
}

/// Returns the unknown formats in the schemas of a definition, which are ignored.
fn unknown_formats(definition: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    versions(definition).for_each(|version| collect_formats(&version["schema"]["openAPIV3Schema"], &mut found));
    found
}

fn collect_formats(schema: &Value, found: &mut BTreeSet<String>) {
    let format = text(&schema["format"]);
    if !format.is_empty() && !formats::is_known(text(&schema["type"]), format) {
        found.insert(format.to_owned());
    }
    for word in ["items", "additionalProperties", "not"] {
        if schema[word].is_object() {
            collect_formats(&schema[word], found);
        }
    }
    for word in ["allOf", "anyOf", "oneOf"] {
        schema[word].as_array().into_iter().flatten().for_each(|branch| collect_formats(branch, found));
    }
    schema["properties"].as_object().into_iter().flatten().for_each(|(_, property)| collect_formats(property, found));
}

/// Returns a kind for each served version of a definition, the preferred version first.
///
/// The status has whether the names are accepted, see [`is_established`].
pub fn kinds(definition: &Value) -> Vec<Kind> {
    let shared = Arc::new(definition.clone());
    let storage_version = storage_version(definition).to_owned();
    let mut served: Vec<&Value> = versions(definition).filter(|version| version["served"] == true).collect();
    served.sort_by_key(|version| rank(text(&version["name"])));
    served.into_iter().map(|version| kind(&shared, &storage_version, version)).collect()
}

/// Tells whether all names of a definition are accepted.
pub fn has_its_names(definition: &Value) -> bool {
    is_true(definition, "NamesAccepted")
}

/// Returns the schema of a version of a stored definition.
///
/// # Errors
/// All errors of the schema, if the definition was never accepted, or lacks the version.
pub fn schema(definition: &Value, name: &str) -> Result<Schema, Vec<FieldError>> {
    Schema::parse_stored(
        version(definition, name).map_or(&Value::Null, |version| &version["schema"]["openAPIV3Schema"]),
    )
}

/// Returns the warning for users of a version, if it is deprecated.
pub fn deprecation(definition: &Value, name: &str) -> Option<String> {
    let found = version(definition, name).filter(|version| version["deprecated"] == true)?;
    if let Some(written) = found["deprecationWarning"].as_str() {
        return Some(written.to_owned());
    }
    let (group, kind) = (text(&definition["spec"]["group"]), text(&definition["spec"]["names"]["kind"]));
    let newer = versions(definition)
        .filter(|version| version["served"] == true && version["deprecated"] != true)
        .map(|version| text(&version["name"]))
        .min_by_key(|version| rank(version))
        .filter(|newest| rank(newest) < rank(name));
    let advice = newer.map(|newer| format!("; use {group}/{newer} {kind}")).unwrap_or_default();
    Some(format!("{group}/{name} {kind} is deprecated{advice}"))
}

/// Returns the conversion webhook of a definition, if it has one.
pub fn conversion_webhook(definition: &Value) -> Option<&Value> {
    let conversion = &definition["spec"]["conversion"];
    (conversion["strategy"] == "Webhook").then(|| &conversion["webhook"])
}

/// Returns the storage version, or an empty text.
pub fn storage_version(definition: &Value) -> &str {
    versions(definition).find(|version| version["storage"] == true).map_or("", |version| text(&version["name"]))
}

/// Returns a key that sorts versions in the order of Kubernetes: stable ones first, then betas, then alphas, and newer
/// ones first.
pub fn rank(version: &str) -> (u8, std::cmp::Reverse<u64>, std::cmp::Reverse<u64>, String) {
    let parse = || {
        let rest = version.strip_prefix('v')?;
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let major: u64 = rest[..end].parse().ok()?;
        Some(match &rest[end..] {
            "" => (0, major, 0),
            beta if beta.starts_with("beta") => (1, major, beta[4..].parse().ok()?),
            alpha if alpha.starts_with("alpha") => (2, major, alpha[5..].parse().ok()?),
            _ => return None,
        })
    };
    let (stage, major, minor) = parse().unwrap_or((3, 0, 0));
    (stage, std::cmp::Reverse(major), std::cmp::Reverse(minor), version.to_owned())
}

fn kind(definition: &Arc<Value>, storage_version: &str, version: &Value) -> Kind {
    let spec = &definition["spec"];
    let names = &spec["names"];
    let subresources = &version["subresources"];
    Kind {
        group: text(&spec["group"]).to_owned(),
        version: text(&version["name"]).to_owned(),
        storage_version: storage_version.to_owned(),
        plural: text(&names["plural"]).to_owned(),
        singular: text(&names["singular"]).to_owned(),
        kind: text(&names["kind"]).to_owned(),
        list_kind: text(&names["listKind"]).to_owned(),
        short_names: texts(&names["shortNames"]),
        categories: texts(&names["categories"]),
        verbs: VERBS.map(str::to_owned).to_vec(),
        namespaced: spec["scope"] == "Namespaced",
        has_status: subresources["status"].is_object(),
        scale: subresources.get("scale").filter(|scale| scale.is_object()).map(|scale| Scale {
            spec_replicas: text(&scale["specReplicasPath"]).to_owned(),
            status_replicas: text(&scale["statusReplicasPath"]).to_owned(),
            label_selector: scale["labelSelectorPath"].as_str().map(str::to_owned),
        }),
        definition: Some(Arc::clone(definition)),
    }
}

fn fill_defaults(definition: &mut Value) {
    let spec = members(&mut definition["spec"]);
    // False is omitted.
    if spec.get("preserveUnknownFields") == Some(&json!(false)) {
        spec.remove("preserveUnknownFields");
    }
    let names = members(spec.entry("names").or_insert_with(|| json!({})));
    let kind = names.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
    let is_empty =
        |names: &Map<String, Value>, name: &str| names.get(name).and_then(Value::as_str).is_none_or(str::is_empty);
    if is_empty(names, "singular") {
        names.insert("singular".into(), json!(kind.to_lowercase()));
    }
    if is_empty(names, "listKind") && !kind.is_empty() {
        names.insert("listKind".into(), json!(format!("{kind}List")));
    }
    let conversion = members(spec.entry("conversion").or_insert_with(|| json!({"strategy": "None"})));
    if let Some(service) =
        conversion.get_mut("webhook").and_then(|webhook| webhook.pointer_mut("/clientConfig/service"))
        && let Value::Object(service) = service
    {
        service.entry("port").or_insert(json!(443));
    }
}

/// Adds the storage version to the stored versions.
fn store_version(definition: &mut Value) {
    let stored = json!(storage_version(definition));
    let status = members(&mut definition["status"]);
    let versions = status.entry("storedVersions").or_insert_with(|| json!([]));
    if !versions.is_array() {
        *versions = json!([]);
    }
    if let Value::Array(versions) = versions
        && !versions.contains(&stored)
    {
        versions.push(stored);
    }
}

#[cfg(test)]
mod tests;
