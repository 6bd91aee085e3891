//! Calls and attempts that may be repeated, since the engine has lost their result.

use std::time::Duration;

use http::Method;
use serde_json::json;

use super::{Engine, FINALIZER, NOTHING, completions, success};
use crate::handling::Reason;

#[tokio::test(start_paused = true)]
async fn what_a_restart_repeats_is_allowed() {
    let mut engine = Engine::new();
    let body = engine.create().await;
    engine.attempt(&body, "a", Reason::Create, 0, &success());
    engine.restart();
    let body = engine.see();
    engine.handle(&body, Reason::Create, true).await;
    let report = engine.verdict();
    assert_eq!((report.violations.as_slice(), completions(&report)), (&[][..], vec![("a", 1)]));
}

#[tokio::test(start_paused = true)]
async fn what_the_engine_cannot_know_to_be_stored_may_be_repeated() {
    let engine = Engine::new();
    let before = engine.create().await;
    engine.handle(&before, Reason::Create, false).await;
    engine.invariants.object_seen(engine.process, &before);
    engine.handle(&before, Reason::Create, true).await;
    let report = engine.verdict();
    assert_eq!((report.violations.as_slice(), completions(&report)), (&[][..], vec![("a", 1)]));
}

#[tokio::test(start_paused = true)]
async fn sub_handlers_may_be_repeated_where_handlers_may() {
    let engine = Engine::new();
    let before = engine.create().await;
    for is_acknowledged in [false, true] {
        engine.invariants.object_seen(engine.process, &before);
        engine.attempt_sub_handler(&before, "a", Reason::Create);
        engine.apply(engine.recorded("a/s", Reason::Create, &[success()]), is_acknowledged).await;
        engine.end(&before, None);
    }
    assert_eq!(engine.violations(), NOTHING);
}

#[tokio::test(start_paused = true)]
async fn what_was_not_stored_before_a_restart_is_not_missed_after_it() {
    let mut engine = Engine::new();
    let body = engine.create().await;
    engine.attempt(&body, "a", Reason::Create, 0, &success());
    engine.restart();
    let body = engine.see();
    engine.end(&body, None);
    assert_eq!(engine.violations(), NOTHING);
}

#[tokio::test(start_paused = true)]
async fn deletion_handlers_are_called_again_after_a_restart() {
    let mut engine = Engine::new();
    engine.live().await;
    engine.send(Method::PATCH, json!({"metadata": {"finalizers": [FINALIZER]}})).await;
    engine.send(Method::DELETE, json!({})).await;
    for _ in 0..2 {
        engine.restart();
        let body = engine.see();
        engine.attempt(&body, "b", Reason::Delete, 0, &success());
        engine.end(&body, None);
    }
    assert_eq!(engine.violations(), NOTHING);
}

#[tokio::test(start_paused = true)]
async fn each_repetition_of_a_recorded_attempt_allows_one_more_completion() {
    // The cause is stored as handled once, and each repetition changes the record, since its times are later.
    let violations = async |repetitions: usize, is_sub_handler: bool| {
        let engine = Engine::new();
        let before = engine.create().await;
        for _ in 0..=repetitions {
            engine.invariants.object_seen(engine.process, &before);
            if is_sub_handler {
                engine.attempt_sub_handler(&before, "b", Reason::Create);
            } else {
                engine.attempt(&before, "a", Reason::Create, 0, &success());
            }
            let id = if is_sub_handler { "b/s" } else { "a" };
            engine.apply(engine.recorded(id, Reason::Create, &[success()]), false).await;
            engine.end(&before, None);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        engine.violations()
    };
    for is_sub_handler in [false, true] {
        for repetitions in 0..=2 {
            assert_eq!(violations(repetitions, is_sub_handler).await, NOTHING, "{repetitions} repetitions");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn each_repetition_of_an_unacknowledged_sub_handler_allows_one_more_completion() {
    let engine = Engine::new();
    let before = engine.create().await;
    for is_acknowledged in [false, false, true] {
        engine.invariants.object_seen(engine.process, &before);
        engine.attempt_sub_handler(&before, "a", Reason::Create);
        // The cause ends without a record of the sub-handler. Storing the same essence again changes nothing.
        engine.apply(engine.handled(&before), is_acknowledged).await;
        engine.end(&before, None);
    }
    let report = engine.verdict();
    assert_eq!((report.violations.as_slice(), completions(&report)), (&[][..], vec![("a/s", 1)]));
}

#[tokio::test(start_paused = true)]
async fn sub_handlers_of_resumptions_that_end_at_once_are_repeated_after_each_restart() {
    let mut engine = Engine::new();
    engine.live().await;
    for _ in 0..3 {
        engine.restart();
        let body = engine.see();
        engine.attempt_sub_handler(&body, "resumed", Reason::Resume);
        engine.end(&body, None);
        assert_eq!(engine.violations(), NOTHING);
    }
}

#[tokio::test(start_paused = true)]
async fn causes_may_be_handled_once_more_for_each_repetition() {
    let engine = Engine::new();
    let before = engine.create().await;
    let handle = async |is_acknowledged| {
        engine.handle(&before, Reason::Create, is_acknowledged).await;
        // Another client removes the stored essence, so that storing it again counts as another cause.
        engine.send(Method::PATCH, json!({"metadata": {"annotations": null}})).await;
    };
    handle(false).await;
    for _ in 0..2 {
        engine.invariants.object_seen(engine.process, &before);
        handle(false).await;
    }
    assert_eq!(engine.violations(), NOTHING);
    // The engine has seen the current state, so this is not an allowed repetition.
    engine.see();
    handle(true).await;
    assert_eq!(engine.violations(), ["ConfigMap default/x had 1 essences, but 4 were stored as handled"]);
}
