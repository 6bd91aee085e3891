//! Whole lives of objects, in virtual time.

use kopfd::handling::contradiction::Contradiction;
use serde_json::{Value, json};

use super::compare::{same, same_logs, same_payload, sorted};
use super::world::timeline::Entry;
use super::world::{Scene, in_virtual_time};

/// Runs one case against the scripted server.
pub(crate) fn run(case: &Value) -> Result<(), String> {
    let input = &case["input"];
    in_virtual_time(async { judge(case, Scene::of(input, input["object"].clone())).await })
}

/// Runs one case against the embedded server.
pub(crate) fn run_embedded(case: &Value) -> Result<(), String> {
    let input = &case["input"];
    in_virtual_time(async { judge(case, Box::pin(Scene::embedded(input, input["object"].clone())).await).await })
}

async fn judge(case: &Value, scene: Result<Scene, Contradiction>) -> Result<(), String> {
    let (input, expected) = (&case["input"], &case["expected"]);
    let scene = scene.map_err(|contradiction| contradiction.to_string())?;
    scene.run(input).await;
    let timeline = &scene.world.timeline;
    same_timeline(&expected["timeline"], &timeline.entries())?;
    same_logs(&expected["logs"], &timeline.logs())?;
    same("final_object", &expected["final_object"], &scene.world.server.object())?;
    same("gone", &expected["gone"], &json!(scene.world.server.is_gone()))
}

fn same_timeline(expected: &Value, found: &[Entry]) -> Result<(), String> {
    let expected = expected.as_array().map_or(&[][..], Vec::as_slice);
    for (index, expected) in expected.iter().enumerate() {
        let what = format!("entry {}", index + 1);
        let Some(found) = found.get(index) else { return Err(format!("{what}: expected {expected}\n  found nothing")) };
        same_entry(&what, expected, found)?;
    }
    match found.get(expected.len()) {
        Some(extra) => Err(format!("entry {}: expected nothing\n  found {}", expected.len() + 1, extra.shown)),
        None => Ok(()),
    }
}

fn same_entry(what: &str, expected: &Value, found: &Entry) -> Result<(), String> {
    let (mut expected, mut shown) = (expected.clone(), found.shown.clone());
    if expected.get("payload").is_some() && shown.get("payload").is_some() {
        same_payload(
            &format!("{what} at {}", expected["t"]),
            &expected["payload"].take(),
            &shown["payload"].take(),
            &found.before,
        )?;
    }
    for entry in [&mut expected, &mut shown] {
        if let Some(diff) = entry.get_mut("diff") {
            *diff = sorted(diff);
        }
    }
    same(what, &expected, &shown)
}
