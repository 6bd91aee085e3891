//! Essences: how they are built, stored and read.

use kopfd::object::{Body, Patch};
use kopfd::persistence::essence;
use serde_json::{Value, json};

use super::compare::{same, same_diff};
use super::world::declare;
use super::world::scripted::diff_item;

/// Runs one case.
pub(crate) fn run(case: &Value) -> Result<(), String> {
    let (input, expected) = (&case["input"], &case["expected"]);
    let body = Body::from(input["body"].clone());
    let storages = declare::storages(&input["diffbase"], &input["progress"], &Value::Null);
    let extra_fields: Vec<_> = input["extra_fields"].as_array().into_iter().flatten().map(declare::keys).collect();
    let built = match essence::build(&storages.diffbase, &body, &extra_fields) {
        Err(_) if expected.get("error").is_some() => return Ok(()),
        built => built.map_err(|error| error.to_string())?,
    };
    if expected.get("error").is_some() {
        return Err(format!("expected an error\n  found {built}"));
    }
    if let Some(built_as_expected) = expected.get("built") {
        same("built", built_as_expected, &built)?;
    }
    let change = match essence::change(&storages, &body, &extra_fields) {
        Err(_) if expected.get("old_error").is_some() => return Ok(()),
        change => change.map_err(|error| error.to_string())?,
    };
    if expected.get("old_error").is_some() {
        return Err(format!("expected an error of the stored essence\n  found {:?}", change.old));
    }
    let new = change.new.unwrap_or_default();
    let mut patch = Patch::default();
    essence::store(&storages, &body, &new, &mut patch);
    same("new", &expected["new"], &new)?;
    same("old", &expected["old"], &json!(change.old))?;
    same("stored_patch", &expected["stored_patch"], &Value::Object(patch.merge))?;
    same_diff("diff", &expected["diff"], &change.diff.iter().map(diff_item).collect())
}
