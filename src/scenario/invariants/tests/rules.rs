//! Each rule, followed and broken by hand: what an engine reports, beside what the server has stored.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use super::super::{InvariantReport, Invariants, Process, Write};
use crate::apiserver::storage::resource::Resource;
use crate::apiserver::{ApiServer, Settings, admin_client};
use crate::handling::{Handler, On, Outcome, Reason, Record, Verdict};
use crate::kit::Clock;
use crate::manifest::Operator;
use crate::object::{Body, Patch, Selector};
use crate::persistence::{Storages, essence, write};
use crate::scenario::timeline::Subject;
use crate::script::{Attempted, Returned};

const FINALIZER: &str = "kopf.zalando.org/KopfFinalizerMarker";

/// An operator of config maps, whose engine is played by the test.
struct Engine {
    api: ApiServer,
    invariants: Invariants,
    storages: Storages,
    clock: Clock,
    process: Process,
}

impl Engine {
    fn new() -> Self {
        let clock = Clock::starting_at("2020-01-01T00:00:00Z".parse().unwrap());
        let api = ApiServer::new(Settings { seed: Some(1), ..Settings::default() }, clock.clone());
        let operator = Operator { handlers: ["a", "b", "resumed"].map(handler).to_vec(), ..Operator::default() };
        let invariants = Invariants::new(api.clone(), clock.clone(), &[operator]);
        Self { api, invariants, storages: Storages::default(), clock, process: Process { run: 0, operator: 0 } }
    }

    /// Starts the operator again.
    fn restart(&mut self) {
        self.process.run += 1;
        self.invariants.run_started(self.process.run);
    }

    fn object(&self) -> Body {
        let resource = Resource { group: String::new(), plural: "configmaps".to_owned() };
        let stored = self.api.read(&resource, &("default".to_owned(), "x".to_owned())).expect("the object is there");
        Body::from((*stored.value).clone())
    }

    /// Sends a request of anybody.
    async fn send(&self, method: Method, object: Value) {
        let all = "/api/v1/namespaces/default/configmaps";
        let path = if method == Method::POST { all.to_owned() } else { format!("{all}/x") };
        let media = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        admin_client::send(&self.api, method, &path, Some(media), object.to_string()).await.unwrap();
    }

    async fn create(&self) -> Body {
        self.send(Method::POST, json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"n": "0"}})).await;
        self.see()
    }

    /// Begins a cycle with the present state.
    fn see(&self) -> Body {
        let body = self.object();
        self.invariants.object_seen(self.process, &body);
        body
    }

    fn call(&self, body: &Body, id: &str, reason: Option<Reason>, retry: u64) {
        self.invariants.called(self.process, body, &handler(id), reason, retry);
    }

    fn finish(&self, body: &Body) {
        self.finish_with(body, &returned([]));
    }

    fn finish_with(&self, body: &Body, returned: &Returned) {
        self.invariants.returned(self.process, body, returned);
    }

    /// Makes an attempt.
    fn attempt(&self, body: &Body, id: &str, reason: Reason, retry: u64, outcome: &Outcome) {
        self.call(body, id, Some(reason), retry);
        self.finish(body);
        self.invariants.attempt_judged(self.process, body, &handler(id), retry, outcome);
    }

    /// Makes an attempt of a handler whose sub-handler `s` completes.
    fn attempt_sub_handler(&self, body: &Body, id: &str, reason: Reason) {
        self.call(body, id, Some(reason), 0);
        self.finish_with(body, &returned([(&format!("{id}/s"), 0, success())]));
    }

    /// Sends a patch of the engine, whose answer comes, or is lost.
    async fn apply(&self, patch: Patch, is_acknowledged: bool) {
        self.send(Method::PATCH, Value::Object(patch.merge)).await;
        let after = self.object();
        let write = self.write(&after, None, true);
        self.invariants.written(&write);
        self.invariants.answered(&write, is_acknowledged);
    }

    /// Returns the write that results in an object.
    fn write<'a>(&self, object: &'a Body, subresource: Option<&'a str>, is_of_engine: bool) -> Write<'a> {
        let version = object.resource_version().and_then(|version| version.parse().ok());
        Write { process: self.process, object, subresource, is_of_engine, version }
    }

    /// Returns the patch with the record of attempts.
    fn recorded(&self, id: &str, purpose: Reason, outcomes: &[Outcome]) -> Patch {
        let now = self.clock.now();
        let record = outcomes.iter().fold(Record::fresh(now, Some(purpose)), |record, outcome| record.after(outcome, now));
        let mut patch = Patch::default();
        write::store(&self.storages.progress, &self.object(), id, &record, &mut patch);
        patch
    }

    /// Returns the patch that removes the record of a handler.
    fn purged(id: &str) -> Patch {
        merge(&json!({"metadata": {"annotations": {(format!("kopf.zalando.org/{id}")): null}}}))
    }

    /// Returns the patch that stores the essence of a state as handled, and purges what was stored meanwhile.
    fn handled(&self, body: &Body) -> Patch {
        let change = essence::change(&self.storages, body, &[]).unwrap();
        let mut patch = Self::purged("a");
        essence::store(&self.storages.diffbase, body, &change.new.unwrap(), &mut patch);
        patch
    }

    fn end(&self, body: &Body, error: Option<&str>) {
        self.invariants.cycle_ended(self.process, body, error);
    }

    /// Handles a change with one handler, which succeeds at once.
    async fn handle(&self, body: &Body, reason: Reason, is_acknowledged: bool) {
        self.attempt(body, "a", reason, 0, &success());
        self.apply(self.handled(body), is_acknowledged).await;
        self.end(body, None);
    }

    /// Handles the creation with one handler.
    async fn live(&self) -> Body {
        let body = self.create().await;
        self.handle(&body, Reason::Create, true).await;
        body
    }

    fn verdict(&self) -> InvariantReport {
        self.invariants.verdict()
    }

    fn violations(&self) -> Vec<String> {
        self.verdict().violations
    }
}

fn handler(id: &str) -> Handler {
    let on = if id == "resumed" { On::Resume { deleted: false } } else { On::Field };
    Handler { selectors: vec![Selector::parse("v1/configmaps").unwrap()], ..Handler::simple(id, on) }
}

/// Returns the result of a call with these attempts of sub-handlers: the id, the number of earlier attempts, and the outcome of each.
fn returned<const N: usize>(attempts: [(&str, u64, Outcome); N]) -> Returned {
    let attempts = attempts.map(|(id, retry, outcome)| Attempted { id: id.to_owned(), retry, outcome });
    Returned { attempts: attempts.to_vec(), ..Returned::new(Verdict::Returned(None), Patch::default()) }
}

fn merge(changes: &Value) -> Patch {
    Patch { merge: changes.as_object().unwrap().clone(), ..Patch::default() }
}

fn success() -> Outcome {
    Outcome { is_final: true, ..Outcome::default() }
}

fn retry() -> Outcome {
    Outcome { delay: Some(Duration::from_secs(1)), error: Some("not yet".to_owned()), ..Outcome::default() }
}

fn completions(report: &InvariantReport) -> Vec<(&str, usize)> {
    report.completions.iter().map(|((_, id), count)| (id.as_str(), *count)).collect()
}

const NOTHING: [&str; 0] = [];

#[tokio::test(start_paused = true)]
async fn a_life_without_defects_is_counted() {
    let engine = Engine::new();
    let body = engine.create().await;
    engine.attempt(&body, "a", Reason::Create, 0, &retry());
    engine.attempt(&body, "b", Reason::Create, 0, &success());
    engine.apply(engine.recorded("a", Reason::Create, &[retry()]), true).await;
    engine.apply(engine.recorded("b", Reason::Create, &[success()]), true).await;
    engine.end(&body, None);
    let body = engine.see();
    engine.attempt(&body, "a", Reason::Create, 1, &success());
    engine.apply(engine.handled(&body), true).await;
    engine.end(&body, None);
    engine.send(Method::PATCH, json!({"data": {"n": "1"}})).await;
    let body = engine.see();
    engine.handle(&body, Reason::Update, true).await;
    let report = engine.verdict();
    assert_eq!(report.violations, NOTHING);
    assert_eq!(completions(&report), [("a", 2), ("b", 1)]);
    assert_eq!(report.causes.into_values().collect::<Vec<_>>(), [2]);
    assert!(report.lost_statuses.is_empty() && engine.invariants.failed_objects().is_empty());
}

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
    assert_eq!(engine.violations()[0], "`a/t#0` was called for ConfigMap default/x, though its end is stored on the object");
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
    let expected = ["2 calls for ConfigMap default/x at the same time", "`b` was called twice for ConfigMap default/x in one cycle"];
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
    let told = |what: &str, number: u64| vec![format!("`a#{number}` was called for ConfigMap default/x, though {what}")];
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
    assert_eq!(engine.violations(), ["`a#0` was called for ConfigMap default/x, though its change is stored as handled"]);
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
    assert_eq!(engine.violations(), ["`resumed#0` was called for ConfigMap default/x, though it was already resumed in this run"]);
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
    assert_eq!(purged(Reason::Create).await[0], "the record of `a` for ConfigMap default/x was purged before its cause had ended");
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
    let lost = |id: &str| format!("`{id}` completed 2 times for ConfigMap default/x: 0 were stored, and 1 repetitions are allowed");
    assert!(violations.ends_with(&[lost("a"), lost("b")]), "{violations:?}");
}

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
    assert_eq!(engine.violations()[0], "`b#0` was called for ConfigMap default/x, though it has already completed in this run");
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
    assert!(!is_lost(&[None], true, |engine, body| engine.invariants.object_seen(engine.process, body)).await, "the next cycle has begun");
}

#[tokio::test(start_paused = true)]
async fn a_run_ends_at_ten_violations() {
    let engine = Engine::new();
    let body = engine.create().await;
    let limit = async || tokio::time::timeout(Duration::from_secs(1), engine.invariants.limit_reached()).await.is_ok();
    // The first call is allowed.
    for count in 1..=11 {
        assert!(!limit().await, "{count}");
        engine.call(&body, "a", None, 0);
        engine.finish(&body);
    }
    assert!(limit().await);
    engine.call(&body, "a", None, 0);
    assert_eq!(engine.violations().len(), 10);
}

#[tokio::test(start_paused = true)]
async fn objects_that_have_gone_have_not_failed() {
    let engine = Engine::new();
    let body = engine.create().await;
    engine.end(&body, Some("HTTP 500"));
    assert_eq!(engine.invariants.failed_objects(), [Subject::of(&body)]);
    engine.send(Method::DELETE, json!({})).await;
    assert!(engine.invariants.failed_objects().is_empty());
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

#[tokio::test(start_paused = true)]
async fn calls_for_a_change_that_was_handled_before_the_cycle_are_found() {
    let engine = Engine::new();
    engine.live().await;
    let body = engine.see();
    engine.call(&body, "a", Some(Reason::Update), 0);
    assert_eq!(engine.violations(), ["`a#0` was called for ConfigMap default/x, though its change is stored as handled"]);
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
async fn a_failed_cycle_does_not_wait_for_what_it_has_written() {
    let engine = Engine::new();
    let before = engine.create().await;
    engine.apply(engine.recorded("b", Reason::Create, &[retry()]), true).await;
    engine.end(&before, Some("HTTP 500"));
    engine.invariants.object_seen(engine.process, &before);
    engine.call(&before, "a", Some(Reason::Create), 0);
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
