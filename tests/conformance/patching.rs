//! Applying one patch: the requests, and the result.

use std::sync::Arc;

use kopfd::cluster::{Unconfirmed, apply};
use kopfd::object::{Body, Patch};
use serde_json::{Value, json};

use super::compare::{same, same_payload};
use super::world::scripted::transform;
use super::world::server::Server;
use super::world::timeline::{BEGINNING, Timeline};
use super::world::{declare, in_virtual_time};

/// Runs one case.
pub(crate) fn run(case: &Value) -> Result<(), String> {
    in_virtual_time(run_case(&case["input"], &case["expected"]))
}

async fn run_case(input: &Value, expected: &Value) -> Result<(), String> {
    let timeline = Arc::new(Timeline::starting_at(BEGINNING));
    let object = input.get("server_object").filter(|object| !object.is_null()).unwrap_or(&input["body"]);
    let server = Server::of(input, object.clone(), Arc::clone(&timeline));
    let transforms = input["fns"].as_array().into_iter().flatten().map(transform).collect();
    let patch = Patch { merge: input["merge"].as_object().cloned().unwrap_or_default(), transforms };
    let body = Body::from(input["body"].clone());
    let applied = apply::apply(&server, &declare::resource(&input["subresources"]), &body, &patch, &Unconfirmed).await;
    same_requests(&expected["requests"], &timeline)?;
    match applied {
        Err(error) => same("error_status", &expected["error_status"], &json!(error.status())),
        Ok(_) if expected.get("error_status").is_some() => Err("expected an error".to_owned()),
        Ok(applied) => {
            same("resource_version", &expected["resource_version"], &json!(applied.version))?;
            same("remaining_fns", &expected["remaining_fns"], &json!(applied.remaining.len()))?;
            let is_warned = expected["warnings"].as_array().is_some_and(|warnings| !warnings.is_empty());
            same("warned", &json!(is_warned), &json!(!applied.inconsistencies.is_empty()))
        }
    }
}

/// Checks the requests, one by one and in order.
fn same_requests(expected: &Value, timeline: &Timeline) -> Result<(), String> {
    let found = timeline.with("patch");
    let expected = expected.as_array().map_or(&[][..], Vec::as_slice);
    same("number of requests", &json!(expected.len()), &json!(found.len()))?;
    for (expected, found) in expected.iter().zip(found) {
        for key in ["patch", "subresource", "response"] {
            same(key, &expected[key], &found.shown[key])?;
        }
        same_payload("payload", &expected["payload"], &found.shown["payload"], &found.before)?;
    }
    Ok(())
}
