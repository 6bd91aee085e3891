//! Parts of definitions.

use serde_json::{Map, Value, json};

use crate::http::api_error::FieldError;

/// Returns a version of a definition.
pub fn version<'a>(definition: &'a Value, name: &str) -> Option<&'a Value> {
    versions(definition).find(|version| version["name"] == name)
}

/// Returns the versions of a definition.
pub fn versions(definition: &Value) -> impl Iterator<Item = &Value> {
    definition["spec"]["versions"].as_array().into_iter().flatten()
}

pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

pub(super) fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Returns causes with a prefix before their fields.
pub(super) fn below(prefix: &str, causes: Vec<FieldError>) -> impl Iterator<Item = FieldError> {
    causes.into_iter().map(move |cause| FieldError { field: format!("{prefix}{}", cause.field), ..cause })
}

pub(super) fn members(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = json!({});
    }
    value.as_object_mut().expect("the value was just made an object")
}

/// Tells whether the kinds of a definition are served.
pub fn is_established(definition: &Value) -> bool {
    is_true(definition, "Established")
}

pub(super) fn is_true(definition: &Value, condition: &str) -> bool {
    let conditions = definition["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|one| one["type"] == condition && one["status"] == "True")
}
