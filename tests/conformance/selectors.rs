//! Selectors against the resources of a cluster.

use std::collections::BTreeMap;
use std::sync::Arc;

use kopfd::object::Resource;
use serde_json::{Value, json};

use super::compare::same;
use super::selecting::{parts, resource, selector};

/// Runs one case against a cluster with named resources.
pub(crate) fn run(case: &Value, cluster: &Value) -> Result<(), String> {
    let expected = &case["expected"];
    let selector = match selector(&case["input"]) {
        Err(_) if expected.get("error").is_some() => return Ok(()),
        selector => selector.map_err(|error| format!("refused: {error}"))?,
    };
    let resources: BTreeMap<&String, Arc<Resource>> =
        cluster.as_object().into_iter().flatten().map(|(name, spec)| (name, resource(spec))).collect();
    let names = |is_meant: &dyn Fn(&Resource) -> bool| -> Vec<&String> {
        resources.iter().filter(|(_, resource)| is_meant(resource)).map(|(name, _)| *name).collect()
    };
    let chosen = selector.select(resources.values().map(AsRef::as_ref));
    let selected = names(&|resource| chosen.iter().any(|one| std::ptr::eq(*one, resource)));
    let found = json!({
        "parsed": parts(&selector),
        "specific": selector.is_specific(),
        "matched": names(&|resource| selector.matches(resource)),
        "selected": selected,
        "ambiguous": selector.is_specific() && selected.len() > 1,
    });
    same("selector", expected, &found)
}
