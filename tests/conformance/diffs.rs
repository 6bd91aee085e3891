//! Differences of two values.

use kopfd::object::{Scope, diff};
use serde_json::Value;

use super::compare::same_diff;
use super::world::scripted::diff_item;

/// Runs one case.
pub(crate) fn run(case: &Value) -> Result<(), String> {
    let input = &case["input"];
    let scope = match input["scope"].as_str().unwrap_or("full") {
        "left" => Scope::Left,
        "right" => Scope::Right,
        _ => Scope::Full,
    };
    let found = diff::diff(&input["old"], &input["new"], scope).iter().map(diff_item).collect();
    same_diff("diff", &case["expected"], &found)
}
