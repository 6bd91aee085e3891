//! Differences for handlers with a field.

use kopfd::object::{Scope, diff};
use serde_json::Value;

use super::compare::same_diff;
use super::world::declare;
use super::world::scripted::diff_item;

/// Runs one case.
pub(crate) fn run(case: &Value) -> Result<(), String> {
    let (input, expected) = (&case["input"], &case["expected"]);
    let path = if input["path"].is_null() { Vec::new() } else { declare::keys(&input["path"]) };
    let whole = diff::diff(&input["old"], &input["new"], Scope::Full);
    let reduced = diff::reduce(&whole, &path);
    same_diff("diff", &expected["diff"], &whole.iter().map(diff_item).collect())?;
    same_diff("reduced", &expected["reduced"], &reduced.iter().map(diff_item).collect())
}
