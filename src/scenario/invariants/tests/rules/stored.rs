//! The records of attempts, causes and statuses that must be stored.

use http::Method;
use serde_json::{Value, json};

use super::{Engine, FINALIZER, NOTHING, completions, handler, merge, retry, returned, success};
use crate::handling::{Handler, Outcome, Reason};
use crate::object::Body;
use crate::scenario::timeline::Subject;

#[tokio::test(start_paused = true)]
async fn attempts_that_are_not_stored_are_found_unless_the_cycle_has_failed() {
    let violations = async |outcome: Outcome, error| {
        let engine = Engine::new();
        let body = engine.create().await;
        engine.attempt(&body, "a", Reason::Create, 2, &outcome);
        engine.end(&body, error);
        assert_eq!(engine.invariants.failed_objects().len(), usize::from(error.is_some()));
        let report = engine.verdict();
        assert!(report.completions.is_empty());
        report.violations
    };
    assert_eq!(violations(success(), None).await[0], "the end of `a#2` for ConfigMap default/x was not stored");
    assert_eq!(violations(retry(), None).await, ["an attempt of `a#2` for ConfigMap default/x was not stored"]);
    assert_eq!(violations(success(), Some("HTTP 500")).await, NOTHING);
}

#[tokio::test(start_paused = true)]
async fn causes_that_end_before_their_handlers_are_found() {
    let engine = Engine::new();
    let body = engine.create().await;
    engine.attempt(&body, "a", Reason::Create, 0, &retry());
    engine.apply(engine.handled(&body), true).await;
    engine.end(&body, None);
    assert_eq!(engine.violations(), ["the cause of `a` for ConfigMap default/x was ended, though a retry is pending"]);
}

#[tokio::test(start_paused = true)]
async fn essences_that_were_not_handled_are_found() {
    let engine = Engine::new();
    let body = engine.create().await;
    engine.attempt(&body, "a", Reason::Create, 0, &success());
    engine.send(Method::PATCH, json!({"data": {"n": "1"}})).await;
    engine.apply(engine.handled(&engine.object()), true).await;
    engine.end(&body, None);
    assert_eq!(engine.violations(), ["the essence stored for ConfigMap default/x is not the one that was handled"]);
}

#[tokio::test(start_paused = true)]
async fn causes_without_a_change_are_found() {
    let engine = Engine::new();
    let body = engine.live().await;
    let other = Body::from(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}, "data": {"n": "other"}}));
    // Another client stores another essence, and then the old one again. The object itself does not change.
    for essence in [engine.handled(&other), engine.handled(&body)] {
        engine.send(Method::PATCH, Value::Object(essence.merge)).await;
    }
    assert_eq!(engine.violations(), ["ConfigMap default/x had 1 essences, but 3 were stored as handled"]);
}

#[tokio::test(start_paused = true)]
async fn records_that_are_purged_before_the_end_of_their_cause_are_found() {
    let purged = async |purpose| {
        let engine = Engine::new();
        let body = engine.create().await;
        engine.attempt(&body, "a", Reason::Create, 0, &success());
        engine.apply(engine.recorded("a", purpose, &[success()]), true).await;
        engine.end(&body, None);
        let body = engine.see();
        engine.apply(Engine::purged("a"), true).await;
        engine.end(&body, None);
        let body = engine.see();
        engine.handle(&body, Reason::Create, true).await;
        engine.violations()
    };
    assert_eq!(
        purged(Reason::Create).await[0],
        "the record of `a` for ConfigMap default/x was purged before its cause had ended"
    );
    assert_eq!(purged(Reason::Update).await, NOTHING, "it was superseded");
}

#[tokio::test(start_paused = true)]
async fn completions_that_are_lost_are_found() {
    let engine = Engine::new();
    let body = engine.create().await;
    for _ in 0..2 {
        engine.attempt(&body, "a", Reason::Create, 0, &success());
        engine.attempt(&body, "b", Reason::Create, 0, &success());
        engine.apply(engine.recorded("a", Reason::Create, &[success()]), true).await;
        engine.apply(engine.recorded("b", Reason::Create, &[success()]), true).await;
        engine.end(&body, None);
        engine.see();
    }
    let violations = engine.violations();
    let lost = |id: &str| {
        format!("`{id}` completed 2 times for ConfigMap default/x: 0 were stored, and 1 repetitions are allowed")
    };
    assert!(violations.ends_with(&[lost("a"), lost("b")]), "{violations:?}");
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_deletion_comes_with_the_finalizer() {
    let engine = Engine::new();
    let hold = json!({"metadata": {"finalizers": [FINALIZER, "other.dev/x"]}});
    engine.live().await;
    engine.send(Method::PATCH, hold).await;
    engine.send(Method::DELETE, json!({})).await;
    let body = engine.see();
    engine.attempt(&body, "b", Reason::Delete, 0, &success());
    // The removal meets a conflict, and the engine sends it in the next cycle.
    engine.end(&body, None);
    let body = engine.see();
    engine.apply(merge(&json!({"metadata": {"finalizers": ["other.dev/x"]}})), true).await;
    engine.end(&body, None);
    let report = engine.verdict();
    assert_eq!((report.violations.as_slice(), completions(&report)), (&[][..], vec![("a", 1), ("b", 1)]));
}

#[tokio::test(start_paused = true)]
async fn statuses_are_lost_if_the_second_of_two_requests_does_not_follow() {
    let is_lost = async |subresources: &[Option<&str>], is_of_engine, end: fn(&mut Engine, &Body)| {
        let mut engine = Engine::new();
        let body = engine.create().await;
        for subresource in subresources {
            engine.invariants.written(&engine.write(&body, *subresource, is_of_engine));
        }
        end(&mut engine, &body);
        engine.restart();
        let report = engine.verdict();
        assert!(report.lost_statuses.iter().all(|lost| *lost == Subject::of(&body)));
        !report.lost_statuses.is_empty()
    };
    assert!(is_lost(&[None], true, |_, _| {}).await, "it crashed");
    assert!(is_lost(&[None, Some("scale")], true, |_, _| {}).await);
    assert!(is_lost(&[None], true, |engine, body| engine.end(body, Some("HTTP 422"))).await);
    assert!(!is_lost(&[None, Some("status")], true, |_, _| {}).await);
    assert!(!is_lost(&[None], false, |_, _| {}).await, "a script has written it");
    assert!(!is_lost(&[None], true, |engine, _| engine.invariants.settled()).await);
    assert!(
        !is_lost(&[None], true, |engine, body| engine.invariants.object_seen(engine.process, body)).await,
        "the next cycle has begun"
    );
}

#[tokio::test(start_paused = true)]
async fn records_that_do_not_show_the_attempt_do_not_store_it() {
    let violations = async |retries: u64, outcome: Outcome, stored: &[Outcome]| {
        let engine = Engine::new();
        let body = engine.create().await;
        engine.attempt(&body, "a", Reason::Create, retries, &outcome);
        engine.call(&body, "b", Some(Reason::Create), 0);
        engine.finish_with(&body, &returned([("a/s", retries, outcome)]));
        engine.apply(engine.recorded("a", Reason::Create, stored), true).await;
        engine.apply(engine.recorded("a/s", Reason::Create, stored), true).await;
        engine.end(&body, None);
        engine.violations()
    };
    assert_eq!(violations(1, retry(), &[retry(), retry()]).await, NOTHING);
    let told = |what: &str| ["a#1", "a/s#1"].map(|id| format!("{what} `{id}` for ConfigMap default/x was not stored"));
    assert_eq!(violations(1, retry(), &[retry()]).await, told("an attempt of"));
    assert_eq!(violations(1, success(), &[retry(), retry()]).await[..2], told("the end of"));
}

#[tokio::test(start_paused = true)]
async fn two_functions_with_one_id_have_one_record() {
    let completions_of = async |first: Outcome| {
        let engine = Engine::new();
        let body = engine.create().await;
        for (function, outcome) in [("one", &first), ("other", &success())] {
            let handler = Handler { function: function.to_owned(), ..handler("a") };
            engine.invariants.called(engine.process, &body, &handler, Some(Reason::Create), 0);
            engine.finish(&body);
            engine.invariants.attempt_judged(engine.process, &body, &handler, 0, outcome);
        }
        engine.apply(engine.handled(&body), true).await;
        engine.end(&body, None);
        let report = engine.verdict();
        assert_eq!(report.violations, NOTHING);
        report.completions.into_values().collect::<Vec<_>>()
    };
    assert_eq!((completions_of(success()).await, completions_of(retry()).await), (vec![1], vec![1]));
}

#[tokio::test(start_paused = true)]
async fn completions_may_be_stored_one_after_another() {
    let engine = Engine::new();
    let body = engine.create().await;
    for id in ["a", "b"] {
        engine.attempt(&body, id, Reason::Create, 0, &success());
    }
    for id in ["a", "b"] {
        engine.apply(engine.recorded(id, Reason::Create, &[success()]), true).await;
    }
    engine.end(&body, None);
    assert_eq!(engine.violations(), NOTHING);
}
