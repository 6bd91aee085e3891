//! The closed loop: after any events of an object and its operator, every cause is handled completely, and nothing
//! twice.
//!
//! `KOPFD_CASES` is the number of random cases, 200 without it.

mod calls;
mod cycles;
mod kinds;
mod panics;
mod sinks;
mod unreadable;

use std::collections::BTreeSet;
use std::time::Duration;

use kopfd::handling::On;
use kopfd::object::Body;
use kopfd::persistence::essence;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::world::server::Trouble;
use super::world::timeline::Entry;
use super::world::{Scene, in_virtual_time};

/// Longer than all retries of all handlers together.
const LONG: Duration = Duration::from_hours(24);

/// The prefix of the operator's annotations.
const PREFIX: &str = "kopf.zalando.org/";

const LAST_HANDLED: &str = "kopf.zalando.org/last-handled-configuration";

/// An event of the object or of its operator.
#[derive(Debug, Clone)]
enum ExternalEvent {
    /// A client changes the essence. It never returns to an earlier value: a reverted change leaves its progress, in
    /// kopf too.
    Change,
    /// A client changes the status, which concerns no handler.
    Status,
    /// A client deletes the object.
    Delete,
    /// The next request fails.
    Trouble(Trouble),
    /// The operator is killed, and started again after some seconds.
    Restart(f64),
}

fn external_event() -> impl Strategy<Value = ExternalEvent> {
    let status = prop_oneof![Just(409), Just(422), Just(500)];
    prop_oneof![
        3 => Just(ExternalEvent::Change),
        1 => Just(ExternalEvent::Status),
        1 => Just(ExternalEvent::Delete),
        2 => status.prop_map(|status| ExternalEvent::Trouble(Trouble::Fail(status))),
        2 => Just(ExternalEvent::Trouble(Trouble::CrashBefore)),
        2 => Just(ExternalEvent::Trouble(Trouble::CrashAfter)),
        2 => (0.0..100.0).prop_map(ExternalEvent::Restart),
    ]
}

/// The behaviour of a handler: it fails a few times, and then succeeds or gives up.
fn script() -> impl Strategy<Value = Value> {
    let failure = prop_oneof![
        (0u32..40).prop_map(|delay| json!({"temporary": "not yet", "delay": delay})),
        Just(json!({"error": "boom"})),
        (1u32..20).prop_map(|takes| json!({"temporary": "slowly", "delay": 1, "takes": takes})),
    ];
    let end = prop_oneof![3 => Just(json!({})), 2 => Just(json!({"return": {"done": true}})), 1 => Just(json!({"permanent": "never"}))];
    (prop::collection::vec(failure, 0..3), end).prop_map(|(mut steps, end)| {
        steps.push(end);
        Value::Array(steps)
    })
}

fn handlers() -> impl Strategy<Value = Value> {
    let one = |on: &'static str, index: usize| {
        (script(), prop::collection::vec(script(), 0..3)).prop_map(move |(script, subs)| {
            let subs: Vec<Value> = subs
                .into_iter()
                .enumerate()
                .map(|(sub, script)| json!({"id": format!("s{sub}"), "script": script}))
                .collect();
            json!({"on": on, "id": format!("{on}{index}"), "script": script, "subs": subs, "options": {"backoff": 7}})
        })
    };
    let some = |on: &'static str, most: usize| {
        (0..=most).prop_flat_map(move |count| (0..count).map(|index| one(on, index)).collect::<Vec<_>>())
    };
    (some("create", 2), some("update", 2), some("delete", 2), some("resume", 1))
        .prop_map(|(create, update, delete, resume)| Value::Array([create, update, delete, resume].concat()))
}

fn case() -> impl Strategy<Value = (Value, Vec<(f64, ExternalEvent)>, bool)> {
    let lifecycle = prop_oneof![Just("asap"), Just("all_at_once"), Just("one_by_one")];
    let latency = prop_oneof![Just(0.0), Just(0.3), Just(2.0)];
    let input = (handlers(), lifecycle, latency, any::<bool>()).prop_map(|(handlers, lifecycle, latency, has_status)| {
        let subresources = if has_status { json!(["status"]) } else { json!([]) };
        json!({"handlers": handlers, "lifecycle": lifecycle, "event_latency": latency, "subresources": subresources})
    });
    (input, prop::collection::vec((0.0..40.0, external_event()), 0..10), any::<bool>())
}

/// Runs a case: every operator run ends with a crash or a restart, except the last one, during which nothing else
/// happens.
async fn run(input: &Value, external_events: Vec<(f64, ExternalEvent)>, is_deleted: bool) -> Scene {
    let mut scene = Scene::example(input);
    let mut external_events = external_events.into_iter().peekable();
    let mut changes = 0;
    while external_events.peek().is_some() {
        scene.restart();
        let downtime = tokio::select! {
            biased;
            () = scene.world.server.crashed() => 1.0,
            downtime = happen(&scene, &mut external_events, &mut changes) => downtime,
            () = scene.live() => unreachable!("a life has no end of its own"),
        };
        tokio::time::sleep(Duration::from_secs_f64(downtime)).await;
    }
    scene.world.server.trouble(None);
    if is_deleted {
        scene.world.server.delete().await;
    }
    scene.restart();
    let _ = tokio::time::timeout(LONG, scene.live()).await;
    scene
}

/// Applies events until the operator must be restarted. Returns its downtime.
async fn happen(
    scene: &Scene,
    external_events: &mut std::iter::Peekable<std::vec::IntoIter<(f64, ExternalEvent)>>,
    changes: &mut u32,
) -> f64 {
    let server = &scene.world.server;
    while let Some((gap, _)) = external_events.peek() {
        tokio::time::sleep(Duration::from_secs_f64(*gap)).await;
        match external_events.next() {
            Some((_, ExternalEvent::Change)) => {
                *changes += 1;
                server.merge(&json!({"spec": {"x": changes}})).await;
            }
            Some((_, ExternalEvent::Status)) => server.merge(&json!({"status": {"changes": changes}})).await,
            Some((_, ExternalEvent::Delete)) => server.delete().await,
            Some((_, ExternalEvent::Trouble(trouble))) => server.trouble(Some(trouble)),
            Some((_, ExternalEvent::Restart(downtime))) => return downtime,
            None => break,
        }
    }
    0.0
}

/// Tells whether a request has stored an essence as handled.
fn is_end(entry: &Entry) -> bool {
    entry.shown["response"] == 200 && entry.shown["payload"]["metadata"]["annotations"].get(LAST_HANDLED).is_some()
}

/// Checks that a cause ends only after all of its handlers have finished.
fn check_ends(input: &Value, entries: &[Entry]) -> Result<(), TestCaseError> {
    let mut reason = Value::Null;
    let mut ended = BTreeSet::new();
    for entry in entries {
        if entry.shown.get("call").is_some() {
            reason = entry.shown["reason"].clone();
            if entry.is_final {
                ended.insert(entry.shown["call"].as_str().unwrap_or_default().to_owned());
            }
        }
        if is_end(entry) {
            let of_reason =
                input["handlers"].as_array().into_iter().flatten().filter(|handler| handler["on"] == reason);
            for id in of_reason.flat_map(ids) {
                prop_assert!(ended.contains(&id), "{} was lost at {}", id, entry.shown);
            }
            ended.clear();
            reason = Value::Null;
        }
    }
    Ok(())
}

/// Returns the ids of a handler, and of its sub-handlers unless it finally gives up.
fn ids(handler: &Value) -> Vec<String> {
    let text = |id: &Value| id.as_str().unwrap_or_default().to_owned();
    let gives_up =
        handler["script"].as_array().and_then(|steps| steps.last()).is_some_and(|step| step.get("permanent").is_some());
    let subs = handler["subs"].as_array().into_iter().flatten().filter(|_| !gives_up);
    let id = text(&handler["id"]);
    subs.map(|sub| format!("{id}/{}", text(&sub["id"]))).chain([id.clone()]).collect()
}

/// Checks that finally nothing is pending, and no progress is left.
fn check_rest(scene: &Scene, is_deleted: bool) -> Result<(), TestCaseError> {
    let server = &scene.world.server;
    let object = server.object();
    if is_deleted || object["metadata"].get("deletionTimestamp").is_some() || server.is_gone() {
        prop_assert!(server.is_gone(), "the object is held back: {}", object);
        return Ok(());
    }
    let body = Body::from(object.clone());
    let served = &scene.served;
    if !served.handlers.is_empty() {
        let change =
            essence::change(&served.storages, &body, &served.extra_fields).expect("what is stored is well-formed");
        prop_assert!(change.old.is_some() && change.diff.is_empty(), "not handled: {}", object);
    }
    let annotations = object.pointer("/metadata/annotations").and_then(Value::as_object).into_iter().flatten();
    let left: Vec<&String> = annotations.map(|(key, _)| key).filter(|key| *key != LAST_HANDLED).collect();
    prop_assert!(left.is_empty(), "left over: {:?}", left);
    let is_held = served
        .handlers
        .iter()
        .any(|handler| matches!(handler.on, On::Delete { optional: false } | On::Daemon | On::Timer));
    prop_assert_eq!(body.has_finalizer(&served.storages.finalizer), is_held);
    Ok(())
}

fn cases() -> u32 {
    std::env::var("KOPFD_CASES").map_or(200, |number| number.parse().expect("a number of cases"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, max_shrink_time: 60_000, ..ProptestConfig::default() })]

    #[test]
    fn every_cause_is_handled_completely_and_nothing_twice((input, external_events, is_deleted) in case()) {
        let scene = in_virtual_time(run(&input, external_events, is_deleted));
        let entries = scene.world.timeline.entries();
        calls::check_views(&entries)?;
        calls::check_repetitions(&entries)?;
        check_ends(&input, &entries)?;
        check_rest(&scene, is_deleted)?;
    }
}

#[test]
fn one_function_for_several_causes_is_called_for_each_of_them() {
    let handlers = ["create", "update", "resume"].map(|on| json!({"on": on, "id": "both", "function": "both"}));
    let input = json!({
        "handlers": handlers,
        "actions": [{"at": 10, "merge": {"spec": {"x": 2}}}],
        "until": 60,
    });
    let object = json!({
        "apiVersion": "kopf.dev/v1", "kind": "KopfExample",
        "metadata": {"name": "o", "namespace": "ns", "uid": "u1", "resourceVersion": "1"}, "spec": {"x": 1},
    });
    let calls = in_virtual_time(async {
        let scene = Scene::of(&input, object).expect("the handlers do not contradict each other");
        scene.run(&input).await;
        scene.world.timeline.with("call")
    });
    let reasons: Vec<&Value> = calls.iter().map(|call| &call.shown["reason"]).collect();
    assert_eq!(reasons, ["create", "update"]);
}
