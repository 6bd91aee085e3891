//! Filters of one handler against one cause.

use std::collections::BTreeSet;
use std::sync::Arc;

use kopfd::handling::filter::{View, matches, prematches};
use kopfd::handling::{Cause, Change, Handlers, Reason, Unsettled, select};
use kopfd::object::Body;
use serde_json::{Value, json};

use super::compare::same;
use super::world::callbacks::{Facts, Oracle};
use super::world::declare::{self, Declared};

/// Runs one case.
pub(crate) fn run(case: &Value) -> Result<(), String> {
    let (input, expected) = (&case["input"], &case["expected"]);
    let mut declared = Declared::default();
    let spec = json!({"on": input["on"], "id": "fn", "options": input["options"]});
    let handler = match declared.declare(&spec) {
        Err(_) if expected.get("declaration_error").is_some() => return Ok(()),
        declared => declared.map_err(|contradiction| format!("refused: {contradiction}"))?,
    };
    if expected.get("declaration_error").is_some() {
        return Err("expected a refusal of the declaration".to_owned());
    }
    let body = Body::from(input["cause"]["body"].clone());
    let cause = input["cause"]["reason"].as_str().map(|reason| cause(reason, &input["cause"]));
    let event_kind = input["cause"].get("type").map(declare::event_kind);
    let change = cause.as_ref().map(|cause| &*cause.change);
    let facts = Facts { body: &body, reason: input["cause"]["reason"].as_str(), change, event_kind };
    let oracle = Oracle { callbacks: &declared.callbacks, facts };
    let view = View { body: &body, change };
    let found = || -> Result<Value, Unsettled> {
        let lists = Handlers::of(&[Arc::new(handler.clone())]);
        let selected = match &cause {
            Some(cause) => select::changing(&lists.changing, cause, view, &oracle)?,
            None if handler.on.is_spawning() => select::spawning(&lists.spawning, &BTreeSet::new(), view, &oracle)?,
            None => select::watching(&lists.watching, view, &oracle)?,
        };
        let is_selected = !selected.is_empty();
        let prematch = cause.as_ref().map(|_| prematches(&handler, view, &oracle)).transpose()?;
        Ok(json!({
            "id": handler.id,
            "match": matches(&handler, view, &oracle)?,
            "prematch": prematch,
            "selected": is_selected,
        }))
    };
    match (found(), expected.get("error")) {
        (Err(Unsettled::Malformed(_)), Some(_)) => Ok(()),
        (Err(unsettled), _) => Err(format!("not decided: {unsettled:?}")),
        (Ok(found), Some(_)) => Err(format!("expected an error\n  found {found}")),
        (Ok(mut found), None) => {
            if found["prematch"].is_null() {
                found.as_object_mut().and_then(|found| found.remove("prematch"));
            }
            same("filters", expected, &found)
        }
    }
}

fn cause(reason: &str, spec: &Value) -> Cause {
    let side = |key: &str| Some(spec[key].clone()).filter(|side| !side.is_null());
    Cause {
        reason: Reason::parse(reason).expect("the vectors name reasons well"),
        initial: spec["initial"] == true,
        change: Change::between(side("old"), side("new")).into(),
    }
}
