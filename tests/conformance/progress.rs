//! One cycle of an object with stored progress: which handlers run, which records are stored and purged, and the delay.

use std::time::Duration;

use kopfd::handling::Moment;
use kopfd::object::{Body, EventKind, Transform};
use kopfd::persistence::{ProgressStorage, key, text};
use kopfd::reactor::Event;
use serde_json::{Map, Value, json};

use super::compare::{same, same_logs};
use super::world::{Scene, declare, in_virtual_time};

/// The annotation of the last handled essence.
const LAST_HANDLED: &str = "kopf.zalando.org/last-handled-configuration";

/// Runs one case.
pub(crate) fn run(case: &Value) -> Result<(), String> {
    in_virtual_time(run_case(&case["input"], &case["expected"]))
}

async fn run_case(input: &Value, expected: &Value) -> Result<(), String> {
    let reason = input["reason"].as_str().unwrap_or_default();
    let mut input = input.clone();
    for handler in input["handlers"].as_array_mut().into_iter().flatten() {
        if handler.get("on").is_none() {
            handler["on"] = json!(reason);
        }
    }
    let object = object(&input, reason);
    let scene = Scene::of(&input, object.clone()).map_err(|contradiction| contradiction.to_string())?;
    let event_kind =
        if input["listed"] == true || reason == "resume" { EventKind::Listed } else { EventKind::Modified };
    scene.mailbox.put(Event::new(event_kind, object.to_string()));
    // The cycle itself takes no time; the sleep after it is not checked.
    let _ = tokio::time::timeout(Duration::from_millis(1), scene.worker().run()).await;
    compare(expected, &scene)
}

fn compare(expected: &Value, scene: &Scene) -> Result<(), String> {
    let world = &scene.world;
    let patch = world.patches.lock().first().cloned().unwrap_or_default();
    let calls = world.timeline.with("call");
    let invoked: Vec<Value> = calls
        .iter()
        .map(|call| {
            let started = call.started.map(|at| text::moment(Moment::utc(at)));
            let shown = &call.shown;
            json!({"id": shown["call"], "retry": shown["retry"], "started": started, "runtime": shown["runtime"], "reason": shown["reason"]})
        })
        .collect();
    same("invoked", &expected["invoked"], &json!(invoked))?;
    if let Some(reason) = invoked.first().map(|call| &call["reason"]) {
        same("reason", &expected["reason"], reason)?;
    }
    let mut annotations = patch
        .merge
        .get("metadata")
        .and_then(|metadata| metadata["annotations"].as_object())
        .cloned()
        .unwrap_or_default();
    let essence = annotations.remove(LAST_HANDLED);
    same_texts(&expected["annotations_raw"], &annotations)?;
    same("annotations", &expected["annotations"], &parsed(&annotations))?;
    same("status", &expected["status"], &json!(patch.merge.get("status")))?;
    same("diffbase_written", &expected["diffbase_written"], &json!(essence.is_some_and(|text| text.is_string())))?;
    let mut delays = world.delays.lock().first().cloned().unwrap_or_default();
    delays.sort();
    let delays: Vec<f64> = delays.iter().map(Duration::as_secs_f64).collect();
    same("delays", &expected["delays"], &json!(delays))?;
    let is_released = patch.transforms.iter().any(|transform| matches!(transform, Transform::RemoveFinalizer(_)));
    same("finalizer_removed", &expected["finalizer_removed"], &json!(is_released))?;
    let is_after = |line: &Value| {
        let text = line[1].as_str().unwrap_or_default();
        ["Sleeping ", "Handling cycle is finished", "Merge-patching "]
            .iter()
            .any(|beginning| text.starts_with(beginning))
    };
    let logs: Vec<Value> = world.timeline.logs().into_iter().filter(|line| !is_after(line)).collect();
    same_logs(&expected["logs"], &logs)
}

/// Checks that records are identical texts: their keys have an order.
fn same_texts(expected: &Value, found: &Map<String, Value>) -> Result<(), String> {
    for (key, text) in expected.as_object().into_iter().flatten() {
        if found.get(key) != Some(text) {
            return Err(format!("text of {key}: expected {text}\n  found {}", json!(found.get(key))));
        }
    }
    Ok(())
}

fn parsed(annotations: &Map<String, Value>) -> Value {
    let parse = |value: &Value| {
        value.as_str().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_else(|| value.clone())
    };
    annotations.iter().map(|(key, value)| (key.clone(), parse(value))).collect()
}

/// Returns an object with these records, whose last handled essence gives the reason.
fn object(input: &Value, reason: &str) -> Value {
    let mut object = json!({
        "apiVersion": "kopf.dev/v1", "kind": "KopfExample",
        "metadata": {"name": "o", "namespace": "ns", "uid": "u1", "resourceVersion": "1", "annotations": {}},
        "spec": {"x": 1},
    });
    if let Some(status) = input.get("status") {
        object["status"] = status.clone();
    }
    if reason == "delete" {
        object["metadata"]["finalizers"] = json!([kopfd::persistence::storage::FINALIZER]);
        object["metadata"]["deletionTimestamp"] = json!("2020-01-01T00:00:00Z");
    }
    let old = match reason {
        "update" => Some(0),
        "create" => None,
        _ => Some(1),
    };
    if let Some(old) = old {
        object["metadata"]["annotations"][LAST_HANDLED] = json!(format!("{{\"spec\":{{\"x\":{old}}}}}\n"));
    }
    let prefix = input["storage"]["prefix"].as_str().unwrap_or(kopfd::persistence::storage::PREFIX);
    let storage = declare::storages(&Value::Null, &input["storage"], &Value::Null).progress;
    let body = Body::from(object.clone());
    for (id, record) in input["records"].as_object().into_iter().flatten() {
        if !matches!(storage, ProgressStorage::Status(_)) {
            let text = record.as_str().map_or_else(|| record.to_string(), str::to_owned);
            for key in key::keys(prefix, id, true, &body) {
                object["metadata"]["annotations"][key] = json!(text);
            }
        }
        if matches!(storage, ProgressStorage::Status(_) | ProgressStorage::Multi(_)) {
            object["status"]["kopf"]["progress"][id] = record.clone();
        }
    }
    object
}
