//! The number of handler calls: no attempt is repeated unless its end was lost, or another change followed.
//!
//! In kopf, the end of an attempt is stored with the patch of its cycle, and a cycle gets the object from its event. So
//! an attempt can be repeated for the same essence in only three cases:
//!
//! 1. The operator ended between the call and the answer to the last request of the cycle.
//! 2. A request of the cycle was refused. In this case the operator does not wait for the events of earlier requests of
//!    the same cycle: an older event may still be processed.
//! 3. An event without the own patch arrived after the consistency timeout. The worlds of the closed loop are faster.
//!
//! Update handlers are also called again for each cause, which begins with another essence than the handled one.
//! Creations and deletions begin once in the life of an object, and resumptions once in each operator run.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{LAST_HANDLED, PREFIX, is_end};
use crate::world::server::version;
use crate::world::timeline::Entry;
use crate::world::{Scene, in_virtual_time};

/// Returns the record of a handler on an object.
fn record(object: &Value, id: &str) -> Option<Value> {
    let key = format!("{PREFIX}{}", id.replace('/', "."));
    serde_json::from_str(object["metadata"]["annotations"].get(key)?.as_str()?).ok()
}

/// Returns the last handled essence of an object.
fn handled(object: &Value) -> Option<Value> {
    serde_json::from_str(object["metadata"]["annotations"].get(LAST_HANDLED)?.as_str()?).ok()
}

/// The knowledge of the operator at a point of the timeline.
#[derive(Default)]
struct View<'a> {
    /// The object of the current event.
    seen: Option<&'a Value>,
    /// The minimum version of the object: that of the list at the start, or of the last patch whose requests were all
    /// answered.
    least: Option<u64>,
    /// The resulting version of the cycle's requests; `None` if one of them was refused.
    written: Option<u64>,
    has_failed: bool,
}

impl<'a> View<'a> {
    fn follow(&mut self, entry: &'a Entry) {
        let shown = &entry.shown;
        if shown.get("life").is_some() {
            *self = Self { least: entry.version, ..Self::default() };
        } else if shown.get("event").is_some() {
            let written = self.written.take().filter(|_| !self.has_failed);
            *self = Self { seen: Some(&entry.before), least: written.or(self.least), ..Self::default() };
        } else if shown.get("response").is_some() {
            self.has_failed |= entry.version.is_none();
            self.written = entry.version;
        }
    }
}

/// Checks that every call is due for the object that the operator sees, and that this object includes its own last
/// patch.
pub(crate) fn check_views(entries: &[Entry]) -> Result<(), TestCaseError> {
    let mut view = View::default();
    for entry in entries {
        view.follow(entry);
        let Some(id) = entry.shown.get("call").and_then(Value::as_str) else { continue };
        let seen = view.seen.unwrap_or(&Value::Null);
        prop_assert!(
            version(seen) >= view.least,
            "{} was called for version {:?} after {:?}",
            id,
            version(seen),
            view.least
        );
        let record = record(seen, id).unwrap_or_else(|| json!({"retries": 0}));
        let is_finished = record["success"] == true || record["failure"] == true;
        prop_assert!(!is_finished, "{} was called though it had finished: {}", id, seen);
        prop_assert_eq!(&record["retries"], &entry.shown["retry"], "{} was called in another attempt: {}", id, seen);
        let is_change = entry.shown["reason"] == "create" || entry.shown["reason"] == "update";
        let is_handled = is_change && handled(seen).is_some_and(|handled| handled == entry.shown["new"]);
        prop_assert!(!is_handled, "{} was called though its change was handled: {}", id, seen);
    }
    Ok(())
}

/// Tells whether an entry allows earlier calls to be repeated: the operator ended, or a request was refused.
fn is_loss(entry: &Entry) -> bool {
    entry.shown.get("life").is_some() || entry.shown.get("response").is_some_and(|response| response != 200)
}

/// Checks that no attempt is repeated, unless its end may have been lost, or it belongs to a later update.
pub(crate) fn check_repetitions(entries: &[Entry]) -> Result<(), TestCaseError> {
    let mut attempts: BTreeMap<(&str, u64), usize> = BTreeMap::new();
    for (place, entry) in entries.iter().enumerate() {
        let Some(id) = entry.shown.get("call").and_then(Value::as_str) else { continue };
        let retry = entry.shown["retry"].as_u64().unwrap_or_default();
        let Some(before) = attempts.insert((id, retry), place) else { continue };
        let is_allowed = |entry: &Entry| is_loss(entry) || (id.starts_with("update") && is_end(entry));
        prop_assert!(
            entries[before..place].iter().any(is_allowed),
            "{}#{} was called twice, and nothing was lost",
            id,
            retry
        );
    }
    Ok(())
}

/// Runs an operator twice with two handlers for each cause: in each run the status changes, and then the essence. The
/// operator has a defect, injected at its start, or before the status changes.
fn entries_of(at_start: impl Fn(&Scene), later: impl Fn(&Scene)) -> Vec<Entry> {
    let handlers =
        ["create", "update", "resume"].map(|on| [0, 1].map(|index| json!({"on": on, "id": format!("{on}{index}")})));
    let input = json!({"handlers": handlers.concat(), "event_latency": 0.3});
    let pause = || tokio::time::sleep(Duration::from_secs(10));
    in_virtual_time(async {
        let mut scene = Scene::example(&input);
        at_start(&scene);
        for life in 1..3 {
            scene.restart();
            let acts = async {
                pause().await;
                later(&scene);
                scene.world.server.merge(&json!({"status": {"x": life}})).await;
                pause().await;
                scene.world.server.merge(&json!({"spec": {"x": life}})).await;
                pause().await;
            };
            tokio::select! {
                () = scene.live() => unreachable!("a life has no end of its own"),
                () = acts => {}
            }
        }
        scene.world.timeline.entries()
    })
}

fn ids(entries: &[Entry]) -> Vec<&str> {
    entries.iter().filter_map(|entry| entry.shown.get("call").and_then(Value::as_str)).collect()
}

#[test]
fn each_handler_is_called_once_for_each_cause() {
    let entries = entries_of(|_| {}, |_| {});
    let calls = ["create0", "create1", "update0", "update1", "resume0", "resume1", "update0", "update1"];
    assert_eq!(ids(&entries), calls);
    check_views(&entries).unwrap();
    check_repetitions(&entries).unwrap();
}

#[test]
fn successes_that_are_forgotten_are_found() {
    let is_success = |_: &str, value: &Value| value.as_str().is_some_and(|text| text.contains(r#""success":true"#));
    let entries = entries_of(|scene| scene.world.server.forget(is_success), |_| {});
    assert!(check_repetitions(&entries).is_err(), "{:?}", ids(&entries));
}

#[test]
fn causes_that_begin_again_are_found() {
    let entries = entries_of(|scene| scene.world.server.forget(|key, _| key == LAST_HANDLED), |_| {});
    assert!(check_repetitions(&entries).is_err(), "{:?}", ids(&entries));
}

#[test]
fn repeated_resumptions_of_one_run_are_found() {
    let entries = entries_of(|_| {}, Scene::forget_handling);
    assert!(check_repetitions(&entries).is_err(), "{:?}", ids(&entries));
}
