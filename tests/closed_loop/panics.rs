//! Panics at every point of a worker: the object is never lost, each panic is reported once, and there is no endless loop.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use kopfd::cluster::{Applied, Confirmation, Seen, Sink as _};
use kopfd::engines::{
    Background, Effects, EngineEvent, Environment, Error, EventSink, EventStream, IndexEvent, Indexing, ObjectEvent, Patcher, Scripts,
};
use kopfd::handling::Handler;
use kopfd::handling::spawning::BackgroundDemand;
use kopfd::kit::Clock;
use kopfd::object::{Body, EventKind, Patch, Resource};
use kopfd::reactor::kind::{Kind, KindSink};
use kopfd::reactor::{ActivityMonitor, Event, WorkerSettings};
use kopfd::script::{Call, Evaluation, OperatorMemo, Returned, Subject};
use kopfd::wire::PartialMetadata;
use serde_json::{Value, json};

use crate::world::scripted::ScriptedWorld;
use crate::world::server::Trouble;
use crate::world::{Scene, in_virtual_time};

const INJECTED: &str = "injected";

thread_local! {
    /// The number of calls of the world so far; the runtime of a scene has one thread.
    static CALLS: Cell<usize> = const { Cell::new(0) };
    /// The calls that panic.
    static PANICS: Cell<Panics> = const { Cell::new(Panics::Never) };
    /// The panics so far.
    static RAISED: Cell<usize> = const { Cell::new(0) };
}

/// Selects the calls of the world that panic.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Panics {
    Never,
    /// The call with this number.
    At(usize),
    /// All calls of this function.
    Always(&'static str),
    /// None, but the first call of a handler returns as cancelled, as if its script thread had failed.
    Cancelled,
}

/// Counts a call of the world, and panics if it is selected. The panic hook is not run: the test's output stays readable.
fn point(name: &'static str) {
    let number = CALLS.get();
    CALLS.set(number + 1);
    let is_due = match PANICS.get() {
        Panics::Never | Panics::Cancelled => false,
        Panics::At(due) => due == number,
        Panics::Always(always) => always == name,
    };
    if is_due {
        RAISED.set(RAISED.get() + 1);
        resume_unwind(Box::new(INJECTED));
    }
}

fn read(text: &str, resource: &Resource) -> Result<Body, serde_json::Error> {
    point("read");
    kopfd::cluster::watch::read(text, resource)
}

/// The scripted world, whose calls may panic before they do anything.
struct Panicking {
    world: Arc<ScriptedWorld>,
    events: EventStream,
}

impl Panicking {
    fn new(world: &Arc<ScriptedWorld>) -> Self {
        let events = EventStream::default().with(Arc::new(PanickingSink(Arc::clone(world))));
        Self { world: Arc::clone(world), events }
    }
}

impl Scripts for Panicking {
    fn call<'a>(&'a self, handler: &'a Handler, call: Call) -> BoxFuture<'a, Returned> {
        point("call");
        let called = self.world.call(handler, call);
        let is_cancelled = PANICS.get() == Panics::Cancelled;
        if is_cancelled {
            PANICS.set(Panics::Never);
        }
        Box::pin(async move { Returned { is_cancelled, ..called.await } })
    }

    fn evaluate<'a>(&'a self, subject: &'a Subject, evaluation: Evaluation) -> BoxFuture<'a, Result<bool, String>> {
        point("evaluate");
        self.world.evaluate(subject, evaluation)
    }

    fn operator_memo(&self) -> Arc<OperatorMemo> {
        point("operator_memo");
        Arc::default()
    }

    fn forget(&self, _memo: &Arc<str>) {
        point("forget");
    }
}

impl Patcher for Panicking {
    fn apply<'a>(
        &'a self,
        resource: &'a Resource,
        body: &'a Body,
        patch: &'a Patch,
        confirmation: &'a dyn Confirmation,
    ) -> BoxFuture<'a, Result<Applied, Error>> {
        point("apply");
        let applied = self.world.apply(resource, body, patch, confirmation);
        Box::pin(async move {
            let applied = applied.await;
            point("applied");
            applied
        })
    }
}

impl Background for Panicking {
    fn update_background<'a>(&'a self, event: ObjectEvent<'a>) -> BoxFuture<'a, Result<BackgroundDemand, Error>> {
        point("update_background");
        self.world.update_background(event)
    }
}

impl Indexing for Panicking {
    fn index<'a>(&'a self, event: IndexEvent<'a>) -> BoxFuture<'a, Result<(), Error>> {
        point("index");
        self.world.index(event)
    }

    fn unindex(&self, _uid: &str) {
        point("unindex");
    }
}

impl Environment for Panicking {
    fn clock(&self) -> &Clock {
        point("clock");
        self.world.clock()
    }

    fn chance(&self, bound: usize) -> usize {
        point("chance");
        self.world.chance(bound)
    }
}

impl Effects for Panicking {
    fn events(&self) -> &EventStream {
        &self.events
    }
}

/// Panics before it passes an event on.
struct PanickingSink(Arc<ScriptedWorld>);

impl EventSink for PanickingSink {
    fn accept(&self, event: &EngineEvent<'_>) {
        point(match event {
            EngineEvent::Message(_) => "message",
            EngineEvent::HandlingReported { .. } => "reported",
            EngineEvent::ObjectSeen { .. } => "seen",
            EngineEvent::HandlerCalled { .. } => "called",
            EngineEvent::HandlerReturned { .. } => "returned",
            EngineEvent::AttemptJudged { .. } => "judged",
            EngineEvent::TaskStarted { .. } => "started",
            EngineEvent::InitialDelayComputed { .. } => "delayed",
            EngineEvent::AttemptConcluded { .. } => "concluded",
            EngineEvent::BackgroundObserved { .. } | EngineEvent::BackgroundDecided { .. } => "background",
            EngineEvent::TaskStopping { .. } => "stopping",
            EngineEvent::TaskEnded { .. } => "over",
            EngineEvent::CycleDecided { .. } => "decided",
            EngineEvent::PatchPrepared { .. } => "prepared",
            EngineEvent::PatchSent { .. } => "sent",
            EngineEvent::CycleEnded { .. } => "ended",
            EngineEvent::ObjectForgotten { .. } => "forgotten",
            EngineEvent::OperatorPaused { .. } | EngineEvent::OperatorResumed => "pause",
            EngineEvent::LoopBegan { .. } | EngineEvent::LoopEnded { .. } => "loop",
            EngineEvent::IndexFunctionJudged { .. } => "indexed",
            EngineEvent::ActivityCalled { .. } | EngineEvent::ActivityJudged { .. } | EngineEvent::ActivityEnded { .. } => "activity",
            EngineEvent::ScheduleStarted { .. }
            | EngineEvent::ScheduleCalled { .. }
            | EngineEvent::ScheduleJudged { .. }
            | EngineEvent::ScheduleGivenUp { .. }
            | EngineEvent::ScheduleSynced { .. }
            | EngineEvent::ScheduleEnded { .. } => "schedule",
            EngineEvent::WebhookCalled { .. }
            | EngineEvent::WebhookJudged { .. }
            | EngineEvent::WebhookEnded { .. }
            | EngineEvent::Reviewed { .. }
            | EngineEvent::Converted { .. } => "webhook",
        });
        self.0.events().emit(event);
    }

    fn wants_debugging(&self) -> bool {
        point("wants_debugging");
        true
    }

    fn wants_states(&self) -> bool {
        point("wants_states");
        true
    }
}

/// The result of a run.
struct Run {
    calls: usize,
    raised: usize,
    called: BTreeMap<String, usize>,
    reports: usize,
    updated_to: Value,
    timeline: Vec<Value>,
    is_gone: bool,
}

/// Creates, changes and deletes an object, with a failing request and a retry, while the world panics.
async fn run(panics: Panics, heals_after: Duration) -> Run {
    let input = json!({"event_latency": 0.1, "handlers": [
        {"on": "event", "id": "seen", "script": [{}]},
        {"on": "create", "id": "created", "script": [{"temporary": "not yet", "delay": 5}, {}], "options": {"when": {"$when": "true"}}},
        {"on": "update", "id": "updated", "script": [{"return": {"done": true}}]},
        {"on": "delete", "id": "deleted", "script": [{}]},
    ]});
    let scene = Scene::example(&input);
    CALLS.set(0);
    RAISED.set(0);
    PANICS.set(panics);
    let monitor = Arc::new(ActivityMonitor::default());
    let world = Arc::new(Panicking::new(&scene.world));
    let kind = Kind::new(world, Arc::clone(&scene.served), Arc::new(WorkerSettings::default()), None, Arc::from("test"));
    let kind = Arc::new(kind.with_monitor(Some(Arc::clone(&monitor))).with_reader(read));
    let server = &scene.world.server;
    let apply_entry = async {
        server.announce(EventKind::Added);
        tokio::time::sleep(Duration::from_mins(1)).await;
        if !matches!(panics, Panics::Always(_)) {
            server.trouble(Some(Trouble::Fail(500)));
            server.merge(&json!({"spec": {"x": 1}})).await;
            // This one arrives while the object is throttled.
            tokio::time::sleep(Duration::from_millis(500)).await;
            server.merge(&json!({"status": {"noise": true}})).await;
            tokio::time::sleep(Duration::from_mins(1)).await;
        }
        server.merge(&json!({"spec": {"x": 2}})).await;
        tokio::time::sleep(heals_after).await;
        if let Panics::Always(_) = panics {
            PANICS.set(Panics::Never);
        }
        tokio::time::sleep(Duration::from_hours(1)).await;
        server.delete().await;
        tokio::time::sleep(Duration::from_hours(1)).await;
    };
    let feed = async {
        let mut sink = KindSink::new(Arc::clone(&kind));
        sink.listed().await;
        loop {
            let Event { event_kind, raw, .. } = server.next_event().await;
            let head = PartialMetadata::of(&raw).expect("the server sends objects");
            sink.seen(Seen { event_kind, head: &head, text: &raw, resource: &scene.served.resource }).await;
        }
    };
    tokio::select! {
        () = apply_entry => {}
        () = feed => unreachable!("the server goes on for ever"),
    }
    assert!(kind.queues.is_empty(), "{panics:?}: a mailbox is left without a worker");
    assert!(monitor.is_quiet(), "{panics:?}: a worker counts as running");
    assert!(kind.memories.is_empty(), "{panics:?}: the deleted object is remembered");
    let (mut called, mut updated_to) = (BTreeMap::new(), Value::Null);
    for call in scene.world.timeline.with("call") {
        if call.shown["reason"] == "update" {
            updated_to = call.shown["new"]["spec"].clone();
        }
        *called.entry(call.shown["call"].as_str().unwrap_or_default().to_owned()).or_default() += 1;
    }
    let is_report = |line: &&Value| line[0] == "ERROR" && line[1].as_str().unwrap_or_default().contains(INJECTED);
    let reports = scene.world.timeline.logs().iter().filter(is_report).count();
    let timeline = scene.world.timeline.entries().into_iter().map(|entry| entry.shown).chain(scene.world.timeline.logs()).collect();
    Run { calls: CALLS.get(), raised: RAISED.get(), called, reports, updated_to, timeline, is_gone: server.is_gone() }
}

#[test]
fn a_panic_at_any_point_of_a_worker_delays_the_object_and_nothing_else() {
    let undisturbed = in_virtual_time(run(Panics::Never, Duration::ZERO));
    assert!(undisturbed.is_gone && undisturbed.raised == 0);
    assert!(undisturbed.calls > 100, "{} calls of the world are too few to tell anything", undisturbed.calls);
    for number in 0..undisturbed.calls {
        let run = in_virtual_time(run(Panics::At(number), Duration::ZERO));
        assert_eq!(run.raised, 1, "call {number}");
        assert!(run.is_gone, "call {number}: the object is held back");
        // Two changes may be handled as one, in their newest state.
        assert!(["created", "updated", "deleted"].iter().all(|id| run.called.contains_key(*id)), "call {number}: {:?}", run.called);
        assert_eq!(run.updated_to, json!({"x": 2}), "call {number}");
        assert_eq!(run.reports, 1, "call {number}: a panic is reported once");
    }
}

#[test]
fn repeated_panics_are_throttled_and_the_object_is_handled_afterwards() {
    let effects = ["read", "call", "apply", "applied", "clock", "evaluate"];
    let events = ["message", "wants_debugging", "seen", "called", "returned", "judged", "decided", "prepared", "sent", "ended"];
    for point in effects.into_iter().chain(events) {
        let run = in_virtual_time(run(Panics::Always(point), Duration::from_mins(10)));
        // In ten minutes, the delays of 1, 1, 2, 3, 5 … seconds end about thirteen times; a report may panic, too.
        assert!((2..=40).contains(&run.raised), "{point}: {} panics", run.raised);
        assert!(run.is_gone && run.called.contains_key("deleted"), "{point}: the object was lost: {:#?}", run.timeline);
    }
}

#[test]
fn a_cancelled_call_is_repeated_if_the_operator_continues() {
    let run = in_virtual_time(run(Panics::Cancelled, Duration::ZERO));
    assert!(run.is_gone && run.called.contains_key("deleted"), "{:#?}", run.timeline);
    let report = "Throttling for 1 seconds due to a defect of the engine: a call was cancelled, though the operator does not stop";
    assert_eq!(run.timeline.iter().filter(|line| line[1] == report).count(), 1, "{:#?}", run.timeline);
}

#[test]
fn a_call_that_is_cancelled_at_the_end_of_the_operator_is_no_defect() {
    let input = json!({"handlers": [{"on": "create", "id": "created", "script": [{"takes": 2.5}]}]});
    let scene = Scene::example(&input);
    PANICS.set(Panics::Cancelled);
    let kind = Kind::new(
        Arc::new(Panicking::new(&scene.world)),
        Arc::clone(&scene.served),
        Arc::new(WorkerSettings::default()),
        None,
        "test".into(),
    );
    let kind = Arc::new(kind);
    in_virtual_time(async {
        let text = scene.world.server.object().to_string();
        let head = PartialMetadata::of(&text).expect("the server has an object");
        let seen = Seen { event_kind: EventKind::Added, head: &head, text: &text, resource: &scene.served.resource };
        KindSink::new(Arc::clone(&kind)).seen(seen).await;
        // The call ends half a second after it is to be cancelled.
        kind.finish(Duration::from_secs(2)).await;
    });
    assert!(kind.queues.is_empty());
    let told = scene.world.timeline.logs();
    assert!(told.iter().any(|line| line[1] == "Handler 'created' is cancelled. Will escalate."), "{told:#?}");
    assert!(!told.iter().any(|line| line[0] == "ERROR"), "{told:#?}");
    assert!(scene.world.timeline.with("response").is_empty(), "nothing is stored of it");
}

#[test]
fn endless_delays_and_limits_are_no_overflow() {
    let endless = json!({"timeout": 1e300, "backoff": 1e300, "retries": u64::MAX});
    let input = json!({"handlers": [
        {"on": "create", "id": "created", "script": [{"temporary": "much later", "delay": 1e300}], "options": endless},
        {"on": "delete", "id": "deleted", "script": [{"error": "never"}], "options": endless},
    ], "settings": {"queueing.idle_timeout": 1e300, "queueing.error_delays": [1e300], "persistence.consistency_timeout": 1e300,
        "execution.default_backoff": 1e300}, "fail_requests": [{"nth": 4, "status": 500}], "until": 100_000,
        "actions": [{"at": 50, "merge": {"spec": {"x": 1}}}, {"at": 60, "delete": true}]});
    let scene = in_virtual_time(async {
        let scene = Scene::example(&input);
        scene.run(&input).await;
        scene
    });
    let messages = scene.world.timeline.logs();
    assert!(!messages.iter().any(|line| line[1].as_str().unwrap_or_default().contains("defect")), "{messages:#?}");
    let called: Vec<Value> = scene.world.timeline.with("call").iter().map(|call| call.shown["call"].clone()).collect();
    assert_eq!(called, ["created", "deleted"], "{messages:#?}");
}
