//! The call of a script: five arguments, three fields read, one set in the patch.

use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use jiff::Timestamp;
use kopfd::handling::{Lifecycle, Reason, Verdict};
use kopfd::kit::{Clock, Stop};
use kopfd::object::{Body, Patch};
use kopfd::persistence::{Storages, Stored};
use kopfd::script::host::Options;
use kopfd::script::{Call, Host, Installed, Object, ObjectMemo, Program, Subhandling, Subject, Threads};
use serde_json::Value;
use tokio::task::LocalSet;

use crate::support::objects::{self, State};
use crate::support::table::{median, verdict};

const MANIFEST: &str = "apiVersion: kopfd.dev/v1
kind: Operator
metadata: {name: bench}
spec:
  resources:
    - resource: things.bench.kopfd.dev
      script: bench.rhai
      handlers:
        - {on: create, fn: create}
";

const SCRIPT: &str = "fn create(spec, meta, name, patch, logger) {
    let size = spec.size;
    let image = spec.image;
    let tier = meta.labels.tier;
    patch.status.summary = size;
}
";

const GOAL: f64 = 15.0;

const CALLS: usize = 20_000;

const ROUNDS: usize = 5;

/// Concurrent calls where the script thread must be kept busy.
const AT_ONCE: usize = 64;

/// Returns rows of figures.
pub(crate) fn measure() -> Vec<Vec<String>> {
    let directory = tempfile::tempdir().expect("a directory for the operator");
    let manifest = crate::write(directory.path(), &[("operator.yaml", MANIFEST), ("bench.rhai", SCRIPT)]);
    let operator = crate::load(manifest);
    let program = Arc::new(Program::load(operator.declaration).expect("the script has no mistakes"));
    let call = call(&operator.handlers[0]);
    let figure = |title: &str, micros: f64| {
        let title = format!("script: five arguments, three fields read, one set, {title}");
        vec![title, format!("{micros:.1} µs"), format!("{GOAL:.0}"), verdict(micros <= GOAL)]
    };
    let here = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let on_thread = here.block_on(LocalSet::new().run_until(repeated(Threads::Current, &program, &call, 1)));
    let engine = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    let busy = engine.block_on(repeated(Threads::Own(1), &program, &call, AT_ONCE));
    let round_trip = engine.block_on(repeated(Threads::Own(1), &program, &call, 1));
    // A single call waits for two sleeping threads to be woken: that is the time of the machine, without a goal.
    let mut alone = figure("to the script thread and back, one by one", round_trip);
    alone.truncate(2);
    vec![
        figure("on the script thread", on_thread),
        figure(&format!("to the script thread and back, {AT_ONCE} at once"), busy),
        alone,
    ]
}

/// Returns the microseconds per call, with this many concurrent calls.
async fn repeated(threads: Threads, program: &Arc<Program>, call: &Call, at_once: usize) -> f64 {
    let host = Host::start(Options { threads, ..Options::default() }).expect("script threads can be started");
    let installed = host.install(Arc::clone(program)).await.expect("the script can be installed");
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let began = Instant::now();
        for _ in 0..CALLS / at_once {
            futures::future::join_all((0..at_once).map(|_| once(&host, &installed, call.clone()))).await;
        }
        rounds.push(began.elapsed().as_secs_f64() * 1e6 / (CALLS / at_once * at_once) as f64);
    }
    median(&rounds)
}

async fn once(host: &Host, installed: &Installed, call: Call) {
    let returned = host.call(installed, call).await;
    assert!(matches!(returned.verdict, Verdict::Returned(_)), "{:?}", returned.verdict);
    assert_eq!(returned.patch.merge["status"]["summary"], 3);
}

/// Returns a call of a handler of creations.
pub(crate) fn call(handler: &kopfd::handling::Handler) -> Call {
    let body = Body::from(
        serde_json::from_str::<Value>(&objects::object(1, State::New, objects::SIZE)).expect("objects are JSON"),
    );
    let now: Timestamp = Clock::system().now();
    let records = Stored { storages: Arc::new(Storages::default()), body: body.clone(), now };
    let subhandling = Subhandling {
        parent: Arc::new(handler.clone()),
        records: Arc::new(records),
        purpose: Reason::Create,
        lifecycle: Lifecycle::Asap,
        default_backoff: Duration::from_mins(1),
        defaults: handler.policy.clone(),
    };
    let object = Object { resource: Arc::default(), body, memo: ObjectMemo::empty("bench/1") };
    let subject = Subject::Change { object, reason: Reason::Create, change: Arc::default() };
    Call {
        target: handler.target,
        subject,
        patch: Patch::default(),
        retry: 0,
        started: now,
        param: Value::Null,
        subhandling: Some(subhandling),
        stop: Stop::new(),
        span: tracing::Span::none(),
    }
}
