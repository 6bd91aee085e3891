//! Checks of ingresses.

use serde_json::Value;

use crate::Cause;
use crate::causes::{invalid, required};

/// Checks that an ingress leads somewhere.
pub fn ingress(spec: &Value, causes: &mut Vec<Cause>) {
    let rules = spec["rules"].as_array().map_or(&[][..], Vec::as_slice);
    if rules.is_empty() && !spec["defaultBackend"].is_object() {
        causes.push(invalid("spec", &Value::Null, "either `defaultBackend` or `rules` must be specified"));
    }
    for (index, rule) in rules.iter().enumerate() {
        for (path, value) in rule["http"]["paths"].as_array().into_iter().flatten().enumerate() {
            if value["pathType"].is_null() {
                causes.push(required(format!("spec.rules[{index}].http.paths[{path}].pathType"), "pathType must be specified"));
            }
        }
    }
}
