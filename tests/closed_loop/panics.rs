//! Panics at every point of a worker and of its watch: the object is never lost, each panic is reported once, and there
//! is no endless loop.

mod scenes;
mod watched;

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use kopfd::cluster::{Applied, Confirmation, Seen, Sink as _};
use kopfd::engines::events::LogSink;
use kopfd::engines::{
    Background, Effects, EngineEvent, Environment, Error, EventSink, EventStream, IndexEvent, Indexing, ObjectEvent,
    Patcher, Readiness, Scripts,
};
use kopfd::handling::Handler;
use kopfd::handling::spawning::BackgroundDemand;
use kopfd::kit::Clock;
use kopfd::object::{Body, EventKind, Patch, Resource};
use kopfd::reactor::WorkerSettings;
use kopfd::reactor::kind::{Kind, KindSink};
use kopfd::script::{Call, Evaluation, OperatorMemo, Returned, Subject};
use kopfd::wire::PartialMetadata;
use serde_json::{Value, json};

use crate::world::scripted::ScriptedWorld;
use crate::world::{Scene, in_virtual_time};
use scenes::{Report, Variant, WATCH};

const INJECTED: &str = "injected";

/// A field of the status of objects that cannot be read.
const UNREADABLE: &str = "unreadable";

thread_local! {
    /// The number of calls of the world so far; the runtime of a scene has one thread.
    static CALLS: Cell<usize> = const { Cell::new(0) };
    /// The calls that panic.
    static PANICS: Cell<Panics> = const { Cell::new(Panics::Never) };
    /// The panics so far.
    static RAISED: Cell<usize> = const { Cell::new(0) };
    /// The function of the last panic, and the name of the span in which it was called.
    static RAISED_AT: Cell<(&'static str, Option<&'static str>)> = const { Cell::new(("", None)) };
    /// The functions of the world that were called so far.
    static REACHED: RefCell<BTreeSet<&'static str>> = const { RefCell::new(BTreeSet::new()) };
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

/// Counts a call of the world, and panics if it is selected. The panic hook is not run: the test's output stays
/// readable.
fn point(name: &'static str) {
    let number = CALLS.get();
    CALLS.set(number + 1);
    REACHED.with_borrow_mut(|reached| reached.insert(name));
    let is_due = match PANICS.get() {
        Panics::Never | Panics::Cancelled => false,
        Panics::At(due) => due == number,
        Panics::Always(always) => always == name,
    };
    if is_due {
        RAISED.set(RAISED.get() + 1);
        RAISED_AT.set((name, tracing::Span::current().metadata().map(tracing::Metadata::name)));
        resume_unwind(Box::new(INJECTED));
    }
}

fn read(text: &str, resource: &Resource) -> Result<Body, serde_json::Error> {
    point("read");
    // It could as well be nested too deeply.
    let text = if text.contains(UNREADABLE) { "" } else { text };
    kopfd::cluster::watch::read(text, resource)
}

/// The scripted world, whose calls may panic before they do anything.
struct Panicking {
    world: Arc<ScriptedWorld>,
    events: EventStream,
    readiness: Option<Arc<Readiness>>,
}

impl Panicking {
    /// Returns the world, with or without indexes.
    fn new(world: &Arc<ScriptedWorld>, is_indexed: bool) -> Self {
        let events = EventStream::default().with(Arc::new(PanickingSink(Arc::clone(world))));
        Self { world: Arc::clone(world), events, readiness: is_indexed.then(Arc::default) }
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

    fn has_background(&self, memo: &str) -> bool {
        point("has_background");
        self.world.has_background(memo)
    }
}

impl Indexing for Panicking {
    fn index<'a>(&'a self, event: IndexEvent<'a>) -> BoxFuture<'a, Result<(), Error>> {
        point("index");
        self.world.index(event)
    }

    fn is_filling(&self) -> bool {
        point("is_filling");
        false
    }

    fn unindex(&self, _uid: &str) {
        point("unindex");
    }

    fn readiness(&self) -> Option<&Arc<Readiness>> {
        point("readiness");
        self.readiness.as_ref()
    }
}

impl Environment for Panicking {
    fn clock(&self) -> &Clock {
        point("clock");
        self.world.clock()
    }

    fn random_below(&self, bound: usize) -> usize {
        point("random_below");
        self.world.random_below(bound)
    }
}

impl Effects for Panicking {
    fn events(&self) -> &EventStream {
        &self.events
    }
}

/// Panics before it passes an event on, and logs it.
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
            EngineEvent::ActivityCalled { .. }
            | EngineEvent::ActivityJudged { .. }
            | EngineEvent::ActivityEnded { .. } => "activity",
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
        LogSink.accept(event);
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

/// Lets each call of the world panic in a run of its own.
fn check_each_point(variant: Variant) {
    let run = |panics| in_virtual_time(variant.run(panics, Duration::ZERO));
    let undisturbed = run(Panics::Never);
    assert!(undisturbed.is_gone && undisturbed.raised == 0);
    assert!(undisturbed.calls > 100, "{} calls of the world are too few to tell anything", undisturbed.calls);
    assert_eq!(undisturbed.reached, variant.points());
    for number in 0..undisturbed.calls {
        let run = run(Panics::At(number));
        let place = format!("{variant:?}, call {number}, {}", run.raised_at);
        assert_eq!(run.raised, 1, "{place}");
        assert!(run.is_gone, "{place}: the object is held back");
        // Two changes may be handled as one, in their newest state.
        let uncalled: Vec<_> = variant.handlers().iter().filter(|id| !run.called.contains_key(**id)).collect();
        assert!(uncalled.is_empty(), "{place}: {uncalled:?} were not called: {:?}", run.called);
        assert_eq!(run.updated_to, json!({"x": 2}), "{place}");
        let report = if run.is_of_worker { Report::Object(Some("u1".to_owned())) } else { Report::Task(json!(WATCH)) };
        assert_eq!(run.reports, [report], "{place}: a panic is reported once, with what it has delayed");
    }
}

#[test]
fn a_panic_at_any_point_of_a_worker_delays_the_object_and_nothing_else() {
    check_each_point(Variant::Plain);
}

#[test]
fn a_panic_at_any_point_of_a_worker_that_indexes_and_waits_delays_the_object_and_nothing_else() {
    check_each_point(Variant::Indexed);
}

#[test]
fn a_panic_at_any_point_of_a_worker_with_daemons_delays_the_object_and_nothing_else() {
    check_each_point(Variant::Background);
}

#[test]
fn a_panic_at_any_point_of_a_worker_of_an_elected_replica_delays_the_object_and_nothing_else() {
    check_each_point(Variant::Elected);
}

#[test]
fn repeated_panics_are_throttled_and_the_object_is_handled_afterwards() {
    for variant in Variant::ALL {
        for point in variant.points() {
            let run = in_virtual_time(variant.run(Panics::Always(point), Duration::from_mins(10)));
            // Only the end of an object needs these, after the last panic.
            let fewest = usize::from(!["forget", "forgotten", "unindex"].contains(&point));
            // In ten minutes, the delays of 1, 1, 2, 3, 5 … seconds end about thirteen times; a report may panic, too.
            assert!((fewest..=40).contains(&run.raised), "{variant:?}, {point}: {} panics", run.raised);
            let is_handled =
                run.called.contains_key(variant.handlers()[0]) && run.called.contains_key(variant.handlers()[2]);
            assert!(run.is_gone && is_handled, "{variant:?}, {point}: the object was lost: {:#?}", run.timeline);
        }
    }
}

/// Reads all objects but one.
fn read_others(text: &str, resource: &Resource) -> Result<Body, serde_json::Error> {
    if text.contains("broken") {
        resume_unwind(Box::new(INJECTED));
    }
    kopfd::cluster::watch::read(text, resource)
}

#[test]
fn nothing_waits_for_an_object_whose_indexing_panics() {
    let input = json!({"handlers": [{"on": "index", "id": "indexed"}, {"on": "event", "id": "seen", "script": [{}]}]});
    for worker_limit in [None, Some(1)] {
        let scene = Scene::example(&input);
        let world = Arc::new(Panicking::new(&scene.world, true));
        let kind = Kind::new(world, Arc::clone(&scene.served), Arc::default(), worker_limit, Arc::from("test"))
            .with_reader(read_others);
        in_virtual_time(async {
            let mut sink = KindSink::new(Arc::new(kind));
            for uid in ["broken", "other"] {
                let mut object = scene.world.server.object();
                object["metadata"]["uid"] = json!(uid);
                let text = object.to_string();
                let head = PartialMetadata::of(&text).expect("the server has an object");
                sink.seen(Seen {
                    event_kind: EventKind::Listed,
                    head: &head,
                    text: &text,
                    resource: &scene.served.resource,
                })
                .await;
            }
            sink.listed().await;
            // Shorter than any pause after a panic.
            tokio::time::sleep(Duration::from_millis(500)).await;
        });
        let called: Vec<Value> =
            scene.world.timeline.with("call").iter().map(|call| call.shown["call"].clone()).collect();
        assert_eq!(called, ["indexed", "seen"], "with a limit of {worker_limit:?}");
    }
}

#[test]
fn a_cancelled_call_is_repeated_if_the_operator_continues() {
    let run = in_virtual_time(Variant::Plain.run(Panics::Cancelled, Duration::ZERO));
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
        Arc::new(Panicking::new(&scene.world, false)),
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
