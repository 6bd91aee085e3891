use std::collections::VecDeque;
use std::sync::OnceLock;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::{Value, json};

use super::*;
use crate::cluster::{self, Applied, Confirmation};
use crate::engines::effects::{Background, Environment, Indexing, Patcher, Scripts};
use crate::engines::events::{EventSink, EventStream};
use crate::handling::message::seconds;
use crate::handling::spawning::Cancellation;
use crate::handling::timer::{Rhythm, Schedule};
use crate::handling::{Change, On, SpawningHandlers, Verdict};
use crate::kit::Clock;
use crate::object::{Body, BodyFunction, Patch, Reply, Resource, Transform};
use crate::script::{Call, Evaluation, Object, ObjectMemo, Returned};
use crate::telemetry::OperatorMetrics;

/// The scripted behaviour of a call.
#[derive(Debug, Clone)]
enum Act {
    Return(Value),
    /// Sets `status.x`.
    Write(u64),
    Panic,
    /// Ends when it is asked to stop.
    Obey,
    /// Ends when it is cancelled.
    Ignore,
}

/// One object with a handler: its calls follow the acts, the last of which repeats.
struct Fixture {
    clock: Clock,
    events: EventStream,
    lines: Arc<Mutex<Vec<String>>>,
    acts: Mutex<VecDeque<Act>>,
    answers: Mutex<VecDeque<Result<Applied, Error>>>,
    background: OnceLock<BackgroundTasks<Fixture>>,
    handler: Arc<Handler>,
}

struct Lines {
    lines: Arc<Mutex<Vec<String>>>,
    began: Instant,
}

impl EventSink for Lines {
    fn accept(&self, event: &EngineEvent<'_>) {
        let line = match event {
            EngineEvent::Message(message) => message.to_string(),
            EngineEvent::TaskStarted { .. } => "started".to_owned(),
            EngineEvent::TaskEnded { is_requested, .. } => format!("ended, requested: {is_requested}"),
            EngineEvent::PatchPrepared { patch, .. } => {
                format!("patch {} and {} functions", json!(patch.merge), patch.transforms.len())
            }
            _ => return,
        };
        self.lines.lock().push(format!("{} {line}", seconds(self.began.elapsed())));
    }
}

impl Fixture {
    fn of(on: On, cancellation: Cancellation, acts: &[Act]) -> Arc<Self> {
        let lines = Arc::default();
        let events = EventStream::default().with(Arc::new(Lines { lines: Arc::clone(&lines), began: Instant::now() }));
        let fixture = Arc::new(Self {
            clock: Clock::starting_at("2020-01-01T00:00:00Z".parse().unwrap()),
            events,
            lines,
            acts: Mutex::new(acts.iter().cloned().collect()),
            answers: Mutex::default(),
            background: OnceLock::new(),
            handler: Arc::new(Handler::simple("t", on)),
        });
        let pause = Duration::from_mins(1);
        let schedule =
            (on == On::Timer).then_some(Schedule { rhythm: Rhythm::Interval { pause, is_sharp: false }, idle: None });
        let metrics = Arc::new(OperatorMetrics::default().timer("t"));
        let options = BackgroundOptions {
            tasks: HashMap::from([(
                0,
                Arc::new(TaskOptions {
                    initial_delay: None,
                    schedule,
                    cancellation,
                    metrics,
                    fingerprint: Arc::from("1"),
                }),
            )]),
            instant_exit: InstantExit { timeout: None, turns: 10, grace: Duration::ZERO },
            revision: Arc::default(),
            default_backoff: Duration::from_secs(5),
            error_delays: [1, 2].map(Duration::from_secs).into(),
        };
        assert!(fixture.background.set(BackgroundTasks::new(Arc::downgrade(&fixture), options)).is_ok());
        fixture
    }

    fn tasks(&self) -> &BackgroundTasks<Self> {
        self.background.get().unwrap()
    }

    /// Processes an event of the object, and returns the delays of its cycle.
    async fn see(&self, event_kind: EventKind, metadata: Value) -> Vec<Duration> {
        self.demand(event_kind, metadata).await.delays
    }

    /// Tells whether a change of the object finds that it needs a finalizer.
    async fn needs_finalizer(&self) -> bool {
        self.demand(EventKind::Modified, json!({})).await.demand_finalizer
    }

    async fn demand(&self, event_kind: EventKind, metadata: Value) -> BackgroundDemand {
        let mut body = json!({"metadata": {"name": "x", "uid": "u"}});
        body["metadata"].as_object_mut().unwrap().extend(metadata.as_object().unwrap().clone());
        let object = Object { resource: Arc::default(), body: Body::from(body), memo: ObjectMemo::empty("op/u") };
        let handlers = SpawningHandlers::of([Arc::clone(&self.handler)]);
        let event = ObjectEvent { object: &object, event_kind, change: &Change::default(), handlers: &handlers };
        self.tasks().update(event).await.unwrap()
    }

    async fn add(&self) {
        assert!(self.see(EventKind::Added, json!({})).await.is_empty());
    }

    fn refuse(&self, statuses: &[u16]) {
        let errors = statuses.iter().map(|status| Err(cluster::Error::of_answer(*status, None, b"").into()));
        self.answers.lock().extend(errors);
    }

    /// Returns the lines since the last call, after a time.
    async fn after(&self, time: u64) -> Vec<String> {
        tokio::time::sleep(Duration::from_secs(time)).await;
        std::mem::take(&mut *self.lines.lock())
    }
}

impl Scripts for Fixture {
    fn call<'a>(&'a self, _handler: &'a Handler, call: Call) -> BoxFuture<'a, Returned> {
        let act = {
            let mut acts = self.acts.lock();
            if acts.len() > 1 { acts.pop_front() } else { acts.front().cloned() }
        };
        async move {
            let Subject::Background { stopped, .. } = &call.subject else { panic!("only tasks are called") };
            let mut patch = call.patch;
            match act.expect("there is an act for each call") {
                Act::Return(value) => return Returned::new(Verdict::Returned(Some(value)), patch),
                Act::Write(number) => drop(patch.set(&["status", "x"], number.into())),
                Act::Panic => panic!("no way"),
                Act::Obey => stopped.raised().await,
                Act::Ignore => {
                    call.stop.requested().await;
                    return Returned { is_cancelled: true, ..Returned::new(Verdict::Returned(None), patch) };
                }
            }
            Returned::new(Verdict::Returned(None), patch)
        }
        .boxed()
    }

    fn evaluate<'a>(&'a self, _: &'a Subject, _: Evaluation) -> BoxFuture<'a, Result<bool, String>> {
        std::future::ready(Ok(true)).boxed()
    }

    fn forget(&self, memo: &Arc<str>) {
        self.lines.lock().push(format!("forgotten {memo}"));
    }
}

impl Patcher for Fixture {
    fn apply<'a>(
        &'a self,
        _: &'a Resource,
        _: &'a Body,
        _: &'a Patch,
        _: &'a dyn Confirmation,
    ) -> BoxFuture<'a, Result<Applied, Error>> {
        let answer = self.answers.lock().pop_front().unwrap_or_else(|| Ok(Applied::default()));
        std::future::ready(answer).boxed()
    }
}

impl Background for Fixture {}

impl Indexing for Fixture {}

impl Environment for Fixture {
    fn clock(&self) -> &Clock {
        &self.clock
    }
}

impl Effects for Fixture {
    fn events(&self) -> &EventStream {
        &self.events
    }
}

fn polled() -> Cancellation {
    Cancellation { backoff: None, timeout: None, polling: Duration::from_secs(20) }
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_a_call_counts_as_an_arbitrary_error() {
    let fixture = Fixture::of(On::Timer, polled(), &[Act::Panic, Act::Return(json!(7))]);
    fixture.add().await;
    let lines = fixture.after(6).await;
    let expected = [
        "0 started",
        "0 Timer 't' is invoked.",
        "0 Timer 't' failed with an exception and will try again in 5 seconds: a defect of the engine: no way",
        "5 Timer 't' is invoked.",
        "5 Timer 't' succeeded.",
        "5 patch {\"status\":{\"t\":7}} and 0 functions",
    ];
    assert_eq!(lines, expected);
}

#[tokio::test(start_paused = true)]
async fn a_pause_stops_all_tasks_and_the_next_event_after_it_starts_them_again() {
    let fixture = Fixture::of(On::Daemon, polled(), &[Act::Obey]);
    fixture.add().await;
    fixture.after(1).await;
    fixture.tasks().pause();
    let expected = [
        "1 Daemon 't' succeeded.",
        "1 Daemon 't' has exited on request and will not be retried or restarted.",
        "1 ended, requested: true",
    ];
    assert_eq!(fixture.after(1).await, expected);
    fixture.add().await;
    fixture.tasks().resume();
    fixture.add().await;
    assert_eq!(fixture.after(1).await, ["2 started", "2 Daemon 't' is invoked."]);
}

#[tokio::test(start_paused = true)]
async fn a_daemon_that_outlives_a_pause_starts_again_after_its_end() {
    let slow = Cancellation {
        backoff: Some(Duration::from_secs(10)),
        timeout: Some(Duration::from_secs(5)),
        polling: Duration::from_secs(20),
    };
    let fixture = Fixture::of(On::Daemon, slow, &[Act::Ignore]);
    fixture.add().await;
    fixture.after(1).await;
    fixture.tasks().pause();
    fixture.after(1).await;
    fixture.tasks().resume();
    fixture.add().await;
    let lines = fixture.after(20).await;
    let ends: Vec<&str> =
        lines.iter().map(String::as_str).filter(|line| line.contains("ended") || line.contains("started")).collect();
    assert_eq!(ends, ["11 ended, requested: true", "11 started"]);
}

#[tokio::test(start_paused = true)]
async fn a_daemon_that_ignores_the_exit_is_cancelled_at_last() {
    let fixture = Fixture::of(On::Daemon, polled(), &[Act::Ignore]);
    fixture.add().await;
    fixture.after(1).await;
    fixture.tasks().end().await;
    fixture.add().await;
    let expected = [
        "1 Daemon 't' did not exit in time. Leaving it orphaned.",
        "6 Daemon 't' is cancelled. Will escalate.",
        "6 ended, requested: true",
    ];
    assert_eq!(fixture.after(0).await, expected);
    assert!(!fixture.tasks().has_tasks("op/u"));
}

#[tokio::test(start_paused = true)]
async fn a_task_that_stops_in_time_needs_no_further_cycle() {
    let deleting = || json!({"deletionTimestamp": "2020-01-01T00:00:00Z"});
    let obedient = Fixture::of(On::Daemon, polled(), &[Act::Obey]);
    obedient.add().await;
    obedient.after(1).await;
    assert!(obedient.see(EventKind::Modified, deleting()).await.is_empty());
    let limits = Cancellation { timeout: Some(Duration::from_secs(3)), ..polled() };
    let cancelled = Fixture::of(On::Daemon, limits, &[Act::Ignore]);
    cancelled.add().await;
    cancelled.after(1).await;
    assert!(cancelled.see(EventKind::Modified, deleting()).await.is_empty());
    let deaf = Fixture::of(On::Daemon, polled(), &[Act::Ignore]);
    deaf.add().await;
    deaf.after(1).await;
    assert_eq!(deaf.see(EventKind::Modified, deleting()).await, [Duration::from_secs(20)]);
    assert_eq!(deaf.see(EventKind::Modified, deleting()).await, [Duration::from_secs(20)]);
    assert!(deaf.tasks().has_tasks("op/u") && !obedient.tasks().has_tasks("op/u"));
}

#[tokio::test(start_paused = true)]
async fn the_tasks_of_a_deleted_object_are_stopped_and_none_is_started() {
    let fixture = Fixture::of(On::Daemon, polled(), &[Act::Obey]);
    fixture.see(EventKind::Deleted, json!({})).await;
    assert!(fixture.after(1).await.is_empty());
    fixture.add().await;
    fixture.after(1).await;
    assert!(fixture.tasks().has_tasks("op/u"));
    assert!(fixture.see(EventKind::Deleted, json!({})).await.is_empty());
    let lines = fixture.after(1).await;
    assert_eq!(
        lines[2..],
        ["forgotten op/u", "2 ended, requested: true"],
        "the memo may have been written to since the deletion"
    );
    assert!(!fixture.tasks().has_tasks("op/u"));
}

#[tokio::test(start_paused = true)]
async fn a_patch_is_sent_again_until_it_is_stored() {
    let fixture = Fixture::of(On::Timer, polled(), &[Act::Write(1), Act::Write(2)]);
    fixture.refuse(&[503, 409, 403]);
    fixture.add().await;
    let lines = fixture.after(70).await;
    let patches: Vec<&str> = lines.iter().filter(|line| line.contains("patch")).map(String::as_str).collect();
    let first = "patch {\"status\":{\"x\":1}} and 0 functions";
    assert_eq!(
        patches,
        [
            format!("0 {first}"),
            format!("1 {first}"),
            format!("3 {first}"),
            format!("5 {first}"),
            "65 patch {\"status\":{\"x\":2}} and 0 functions".into()
        ]
    );
    assert!(
        lines.contains(&"1 Throttling for 2 seconds due to an unexpected error: HTTP 409 (Conflict)".to_owned()),
        "{lines:#?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_stopping_task_sends_its_patch_for_the_last_time() {
    let fixture = Fixture::of(On::Timer, polled(), &[Act::Write(1)]);
    fixture.refuse(&[503, 503]);
    fixture.add().await;
    tokio::task::yield_now().await;
    fixture.tasks().end().await;
    let lines = fixture.after(1).await;
    let lost = "0 Timer 't': the changes are lost, since it must stop: HTTP 503 (Service Unavailable)".to_owned();
    assert!(lines.contains(&lost) && lines.last().is_some_and(|line| line.contains("ended")), "{lines:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_daemon_that_has_returned_needs_no_finalizer_while_its_last_patch_is_sent() {
    let fixture = Fixture::of(On::Daemon, polled(), &[Act::Write(1)]);
    fixture.refuse(&[503]);
    fixture.add().await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(fixture.tasks().has_tasks("op/u") && !fixture.needs_finalizer().await);
    let lines = fixture.after(1).await;
    assert_eq!(
        lines[lines.len() - 2..],
        ["1 Daemon 't' has exited on its own and will not be retried or restarted.", "1 ended, requested: false"]
    );
    assert!(!fixture.needs_finalizer().await);
}

#[tokio::test(start_paused = true)]
async fn a_daemon_whose_last_patch_is_refused_continues_to_need_its_finalizer() {
    let fixture = Fixture::of(On::Daemon, polled(), &[Act::Write(1), Act::Obey]);
    fixture.refuse(&[422]);
    fixture.add().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(fixture.needs_finalizer().await, "it will be called again");
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(fixture.needs_finalizer().await);
}

#[tokio::test(start_paused = true)]
async fn a_refused_patch_is_an_error_of_the_attempt() {
    let fixture = Fixture::of(On::Timer, polled(), &[Act::Write(1), Act::Write(2)]);
    fixture.refuse(&[422]);
    fixture.add().await;
    let lines = fixture.after(6).await;
    let text = "the changes were refused: HTTP 422 (Unprocessable Entity)";
    let failed = format!("0 Timer 't' failed with an exception and will try again in 5 seconds: {text}");
    assert_eq!(lines[4], failed, "{lines:#?}");
    assert_eq!(lines.last().unwrap(), "5 patch {\"status\":{\"x\":2}} and 0 functions");
}

#[derive(Debug)]
struct Unneeded;

impl BodyFunction for Unneeded {
    fn start(&self, body: Value, reply: Reply) {
        reply(Ok(body));
    }
}

#[tokio::test(start_paused = true)]
async fn functions_that_met_a_conflict_are_passed_to_the_next_call() {
    let fixture = Fixture::of(On::Timer, polled(), &[Act::Write(1), Act::Write(2)]);
    let remaining = vec![Transform::Function(Arc::new(Unneeded))];
    fixture.answers.lock().push_back(Ok(Applied { remaining, ..Applied::default() }));
    fixture.add().await;
    let lines = fixture.after(61).await;
    assert_eq!(lines.last().unwrap(), "60 patch {\"status\":{\"x\":2}} and 1 functions", "{lines:#?}");
}
