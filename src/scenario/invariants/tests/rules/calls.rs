//! Calls that are violations, and similar calls that are allowed.

use std::time::Duration;

use http::Method;
use serde_json::json;

use super::{Engine, FINALIZER, NOTHING, retry, returned, success};
use crate::handling::{Outcome, Reason};
use crate::script::Returned;

#[tokio::test(start_paused = true)]
async fn sub_handlers_are_checked_as_handlers_are() {
    let engine = Engine::new();
    let body = engine.create().await;
    engine.call(&body, "a", Some(Reason::Create), 0);
    engine.finish_with(&body, &returned([("a/s", 0, retry()), ("a/t", 0, success())]));
    engine.apply(engine.recorded("a/s", Reason::Create, &[retry()]), true).await;
    engine.apply(engine.recorded("a/t", Reason::Create, &[success()]), true).await;
    engine.end(&body, None);
    let body = engine.see();
    let again = returned([("a/t", 0, success())]);
    engine.call(&body, "b", Some(Reason::Create), 0);
    engine.finish_with(&body, &Returned { is_cancelled: true, ..again.clone() });
    engine.call(&body, "a", Some(Reason::Create), 0);
    engine.finish_with(&body, &again);
    assert_eq!(
        engine.violations()[0],
        "`a/t#0` was called for ConfigMap default/x, though its end is stored on the object"
    );
}

#[tokio::test(start_paused = true)]
async fn calls_at_the_same_time_and_twice_in_a_cycle_are_found() {
    let engine = Engine::new();
    let body = engine.create().await;
    engine.call(&body, "a", None, 0);
    engine.finish(&body);
    engine.call(&body, "a", Some(Reason::Create), 0);
    assert_eq!(engine.violations(), NOTHING, "one handler is for the event, the other for the change");
    engine.call(&body, "b", Some(Reason::Create), 0);
    engine.finish(&body);
    engine.finish(&body);
    engine.call(&body, "b", Some(Reason::Create), 0);
    let expected = [
        "2 calls for ConfigMap default/x at the same time",
        "`b` was called twice for ConfigMap default/x in one cycle",
    ];
    assert_eq!(engine.violations(), expected);
}

#[tokio::test(start_paused = true)]
async fn calls_after_the_end_or_with_too_few_attempts_are_found() {
    let violations = async |outcomes: &[Outcome], again: u64| {
        let engine = Engine::new();
        let body = engine.create().await;
        engine.apply(engine.recorded("a", Reason::Create, outcomes), false).await;
        engine.end(&body, None);
        // The answer is lost, but the event shows the write.
        let body = engine.see();
        engine.call(&body, "a", Some(Reason::Create), again);
        engine.violations()
    };
    let told =
        |what: &str, number: u64| vec![format!("`a#{number}` was called for ConfigMap default/x, though {what}")];
    assert_eq!(violations(&[success()], 1).await, told("its end is stored on the object", 1));
    assert_eq!(violations(&[retry(), retry()], 1).await, told("2 attempts are stored on the object", 1));
    assert_eq!(violations(&[retry(), retry()], 2).await, NOTHING);
}

#[tokio::test(start_paused = true)]
async fn calls_for_changes_that_are_handled_are_found() {
    let mut engine = Engine::new();
    let body = engine.live().await;
    // The cycle begins with the state before the patch.
    engine.restart();
    engine.invariants.object_seen(engine.process, &body);
    engine.call(&body, "resumed", Some(Reason::Create), 0);
    engine.finish(&body);
    engine.call(&body, "b", Some(Reason::Delete), 0);
    engine.finish(&body);
    assert_eq!(engine.violations(), NOTHING, "neither is for the change");
    engine.call(&body, "a", Some(Reason::Create), 0);
    assert_eq!(
        engine.violations(),
        ["`a#0` was called for ConfigMap default/x, though its change is stored as handled"]
    );
}

#[tokio::test(start_paused = true)]
async fn calls_about_states_before_the_own_write_are_found_while_its_event_can_be_waited_for() {
    let violations = async |is_acknowledged, waits: Duration| {
        let engine = Engine::new();
        let before = engine.create().await;
        engine.apply(engine.recorded("b", Reason::Create, &[retry()]), is_acknowledged).await;
        engine.end(&before, None);
        tokio::time::sleep(waits).await;
        engine.invariants.object_seen(engine.process, &before);
        engine.attempt(&before, "a", Reason::Create, 0, &success());
        engine.end(&before, None);
        engine.violations()
    };
    let found = violations(true, Duration::from_secs(4)).await;
    assert!(found[0].starts_with("`a#0` was called for ConfigMap default/x, though it is about version "), "{found:?}");
    assert_eq!(violations(true, Duration::from_millis(4999)).await, NOTHING, "the consistency timeout is over");
    assert_eq!(violations(false, Duration::ZERO).await, NOTHING, "the engine does not know of its write");
}

#[tokio::test(start_paused = true)]
async fn resumptions_are_found_if_they_are_repeated_in_one_run() {
    let mut engine = Engine::new();
    engine.live().await;
    let resume = |engine: &Engine| {
        let body = engine.see();
        engine.attempt(&body, "resumed", Reason::Resume, 0, &success());
        engine.end(&body, None);
    };
    engine.restart();
    resume(&engine);
    engine.restart();
    resume(&engine);
    assert_eq!(engine.violations(), NOTHING);
    resume(&engine);
    assert_eq!(
        engine.violations(),
        ["`resumed#0` was called for ConfigMap default/x, though it was already resumed in this run"]
    );
}

#[tokio::test(start_paused = true)]
async fn deletion_handlers_are_not_called_again_while_their_end_is_kept_in_memory() {
    let engine = Engine::new();
    engine.live().await;
    engine.send(Method::PATCH, json!({"metadata": {"finalizers": [FINALIZER]}})).await;
    engine.send(Method::DELETE, json!({})).await;
    for _ in 0..2 {
        let body = engine.see();
        engine.attempt(&body, "b", Reason::Delete, 0, &success());
        engine.end(&body, None);
    }
    assert_eq!(
        engine.violations()[0],
        "`b#0` was called for ConfigMap default/x, though it has already completed in this run"
    );
}

#[tokio::test(start_paused = true)]
async fn calls_for_a_change_that_was_handled_before_the_cycle_are_found() {
    let engine = Engine::new();
    engine.live().await;
    let body = engine.see();
    engine.call(&body, "a", Some(Reason::Update), 0);
    assert_eq!(
        engine.violations(),
        ["`a#0` was called for ConfigMap default/x, though its change is stored as handled"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_failed_cycle_does_not_wait_for_what_it_has_written() {
    let engine = Engine::new();
    let before = engine.create().await;
    engine.apply(engine.recorded("b", Reason::Create, &[retry()]), true).await;
    engine.end(&before, Some("HTTP 500"));
    engine.invariants.object_seen(engine.process, &before);
    engine.call(&before, "a", Some(Reason::Create), 0);
    assert_eq!(engine.violations(), NOTHING);
}
