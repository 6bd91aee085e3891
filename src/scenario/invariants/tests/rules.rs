//! Each rule, followed and broken by hand: the reports of an engine, beside the stored objects of the server.

mod calls;
mod repetitions;
mod stored;

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
        self.send(
            Method::POST,
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"n": "0"}}),
        )
        .await;
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
        Write { process: self.process, before: None, object, subresource, is_of_engine, version }
    }

    /// Returns the patch with the record of attempts.
    fn recorded(&self, id: &str, purpose: Reason, outcomes: &[Outcome]) -> Patch {
        let now = self.clock.now();
        let record =
            outcomes.iter().fold(Record::fresh(now, Some(purpose)), |record, outcome| record.after(outcome, now));
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
        essence::store(&self.storages, body, &change.new.unwrap(), &mut patch);
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

/// Returns the result of a call with these attempts of sub-handlers: the id, the number of earlier attempts, and the
/// outcome of each.
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
