//! Keys of annotations in both forms.

use kopfd::object::Body;
use kopfd::persistence::key;
use serde_json::{Value, json};

use super::compare::same;

/// Runs one case.
pub(crate) fn run(case: &Value) -> Result<(), String> {
    let input = &case["input"];
    let text = |key: &str| input[key].as_str().unwrap_or_default();
    let with_v1 = input["v1_enabled"] == true;
    let body = Body::from(input.get("body").cloned().unwrap_or_else(|| json!({})));
    let marked = key::marked(text("id"), &body);
    let found = json!({
        "marked_id": marked,
        "v2": key::v2(text("prefix"), &marked),
        "v1": with_v1.then(|| key::v1(text("prefix"), &marked)),
        "keys": key::keys(text("prefix"), text("id"), with_v1, &body),
    });
    same("keys", &case["expected"], &found)
}
