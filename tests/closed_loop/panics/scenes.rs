//! The life of one object, from its first event to its end, while the world of its operator panics.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use kopfd::apiserver::bootstrap;
use kopfd::cluster::{Networking, Watcher};
use kopfd::engines::leading::{Campaign, Election, LeadingOptions, LeadingView, Led};
use kopfd::engines::{Blocker, Lead, Readiness};
use kopfd::handling::leading::Timing;
use kopfd::kit::{Clock, Stop};
use kopfd::reactor::kind::{Kind, KindSink};
use kopfd::reactor::{ActivityMonitor, WorkerSettings};
use kopfd::telemetry::{self, Line, OperatorMetrics};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tracing::Level;

use super::watched::Watched;
use super::{CALLS, INJECTED, PANICS, Panicking, Panics, RAISED, RAISED_AT, REACHED, UNREADABLE, read};
use crate::world::Scene;
use crate::world::api_server::{api_server, client};
use crate::world::server::Trouble;

/// The name of the watch.
pub(super) const WATCH: &str = "watch of the object";

/// What an operator has besides handlers of creations, updates and deletions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Variant {
    /// Nothing, so that the events of its own patches are skipped.
    Plain,
    /// A handler of events, an index, and one worker at a time. Objects of another kind are still indexed when the
    /// first event comes.
    Indexed,
    /// A handler of events, a daemon, and a timer. The object has the label that all handlers select by for a part of
    /// its life.
    Background,
    /// A handler of events, an index, and an election that is won when the object is known already.
    Elected,
}

/// The result of a run.
#[derive(Debug)]
pub(super) struct Run {
    /// The number of calls of the world.
    pub(super) calls: usize,
    /// The names of the functions that were called.
    pub(super) reached: BTreeSet<&'static str>,
    /// The number of panics.
    pub(super) raised: usize,
    /// The function of the last panic.
    pub(super) raised_at: &'static str,
    /// Whether that was called by the worker of the object; otherwise by the watch.
    pub(super) is_of_worker: bool,
    /// The calls of each handler.
    pub(super) called: BTreeMap<String, usize>,
    pub(super) reports: Vec<Report>,
    pub(super) updated_to: Value,
    pub(super) timeline: Vec<Value>,
    pub(super) is_gone: bool,
}

/// A logged panic.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Report {
    /// Of the object with this unique id.
    Object(Option<String>),
    /// Of a task.
    Task(Value),
}

impl Report {
    fn of(line: &Line) -> Option<Self> {
        if let Some(panic) = line.fields.get("panic") {
            return (panic == INJECTED).then(|| Self::Task(line.fields["task"].clone()));
        }
        let uid = || line.object.as_ref().and_then(|object| object.uid.clone());
        line.message.contains(INJECTED).then(|| Self::Object(uid()))
    }
}

impl Variant {
    pub(super) const ALL: [Self; 4] = [Self::Plain, Self::Indexed, Self::Background, Self::Elected];

    /// The functions of the world that are called in a life without panics.
    pub(super) fn points(self) -> BTreeSet<&'static str> {
        let effects = ["read", "call", "evaluate", "operator_memo", "forget", "apply", "applied", "clock"];
        let events =
            ["message", "reported", "seen", "called", "returned", "judged", "decided", "prepared", "sent", "ended"];
        let questions = ["wants_debugging", "readiness", "unindex"];
        let more: &[&str] = match self {
            Self::Plain => &["is_filling", "wants_states"],
            Self::Indexed | Self::Elected => &["index"],
            Self::Background => &["is_filling", "update_background", "has_background", "random_below", "forgotten"],
        };
        effects.into_iter().chain(events).chain(questions).chain(more.iter().copied()).collect()
    }

    /// The handlers that are called.
    pub(super) fn handlers(self) -> &'static [&'static str] {
        match self {
            // When it is deleted, its handlers do not select it any more.
            Self::Background => &["created", "updated", "daemon", "seen"],
            Self::Plain => &["created", "updated", "deleted"],
            Self::Indexed | Self::Elected => &["created", "updated", "deleted", "seen", "indexed"],
        }
    }

    fn is_indexed(self) -> bool {
        matches!(self, Self::Indexed | Self::Elected)
    }

    fn input(self) -> Value {
        let mut handlers = vec![
            json!({"on": "create", "id": "created", "script": [{"temporary": "not yet", "delay": 5}, {}], "options": {"when": {"$when": "true"}}}),
            json!({"on": "update", "id": "updated", "script": [{"return": {"done": true}}]}),
            json!({"on": "delete", "id": "deleted", "script": [{}]}),
        ];
        if self != Self::Plain {
            handlers.push(json!({"on": "event", "id": "seen", "script": [{}]}));
        }
        if self.is_indexed() {
            handlers.push(json!({"on": "index", "id": "indexed"}));
        }
        if self == Self::Background {
            handlers.extend(["daemon", "timer"].map(|on| json!({"on": on, "id": on})));
            for handler in &mut handlers {
                handler["options"]["labels"] = json!({"on": {"$filter": "PRESENT"}});
            }
        }
        let lifecycle = if self == Self::Background { "randomized" } else { "asap" };
        json!({"event_latency": 0.1, "handlers": handlers, "lifecycle": lifecycle})
    }

    /// Creates, changes and deletes an object, with a failing request and a retry, while the world panics.
    pub(super) async fn run(self, panics: Panics, heals_after: Duration) -> Run {
        PANICS.set(Panics::Never);
        let scene = Scene::example(&self.input());
        let clock = scene.world.timeline.clock.clone();
        let reports: Arc<Mutex<Vec<Report>>> = Arc::default();
        let collected = Arc::clone(&reports);
        let guard =
            telemetry::listen(Level::ERROR, clock.clone(), move |line| collected.lock().extend(Report::of(&line)));
        let world = Arc::new(Panicking::new(&scene.world, self.is_indexed()));
        let monitor = Arc::new(ActivityMonitor::default());
        let lead = if self == Self::Elected { Lead::elected(clock.clone()) } else { Lead::permanent() };
        let limit = (self == Self::Indexed).then_some(1);
        let kind = Kind::new(
            Arc::clone(&world),
            Arc::clone(&scene.served),
            Arc::new(WorkerSettings::default()),
            limit,
            Arc::from("test"),
        );
        let kind = Arc::new(kind.with_monitor(Some(Arc::clone(&monitor))).with_reader(read).led_by(&lead));
        let watched = Watched::new(&scene.world.server, self == Self::Indexed);
        let watcher = Watcher::new(watched.client(&clock).await, (*scene.served.resource).clone(), None);
        let mut watcher = watcher.expect("all namespaces can be watched").with_relists(lead.begins());
        let (mut sink, stop) = (KindSink::new(Arc::clone(&kind)), Stop::new());
        let filling = world.readiness.as_ref().map(Readiness::block);
        CALLS.set(0);
        RAISED.set(0);
        RAISED_AT.set(("", None));
        REACHED.take();
        PANICS.set(panics);
        tokio::select! {
            biased;
            () = watcher.keep_running(WATCH, &mut sink, &stop) => unreachable!("the watch goes on for ever"),
            () = self.live(&scene, &watched, filling, &lead, heals_after) => {}
        }
        PANICS.set(Panics::Never);
        drop(guard);
        assert!(kind.queues.is_empty(), "{self:?}, {panics:?}: a mailbox is left without a worker");
        assert!(monitor.is_quiet(), "{self:?}, {panics:?}: a worker counts as running");
        assert!(kind.memories.is_empty(), "{self:?}, {panics:?}: the deleted object is remembered");
        let (mut called, mut updated_to) = (BTreeMap::new(), Value::Null);
        for call in scene.world.timeline.with("call") {
            if call.shown["reason"] == "update" {
                updated_to = call.shown["new"]["spec"].clone();
            }
            *called.entry(call.shown["call"].as_str().unwrap_or_default().to_owned()).or_default() += 1;
        }
        let timeline = scene
            .world
            .timeline
            .entries()
            .into_iter()
            .map(|entry| entry.shown)
            .chain(scene.world.timeline.logs())
            .collect();
        Run {
            calls: CALLS.get(),
            reached: REACHED.take(),
            raised: RAISED.get(),
            raised_at: RAISED_AT.get().0,
            is_of_worker: RAISED_AT.get().1 == Some("object"),
            called,
            reports: std::mem::take(&mut reports.lock()),
            updated_to,
            timeline,
            is_gone: scene.world.server.is_gone(),
        }
    }

    /// Does what others do to the object.
    async fn live(
        self,
        scene: &Scene,
        watched: &Watched,
        filling: Option<Blocker>,
        lead: &Lead,
        heals_after: Duration,
    ) {
        let (server, clock) = (&scene.world.server, &scene.world.timeline.clock);
        let is_permanent = matches!(PANICS.get(), Panics::Always(_));
        let minute = Duration::from_mins(1);
        tokio::time::sleep(Duration::from_secs(5)).await;
        drop(filling);
        if self != Self::Indexed {
            watched.create();
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
        if self == Self::Background {
            server.merge(&json!({"metadata": {"labels": {"on": "yes"}}})).await;
        }
        let _election = if self == Self::Elected { Some(elect(lead, clock).await) } else { None };
        tokio::time::sleep(minute).await;
        if !is_permanent {
            server.trouble(Some(Trouble::Fail(500)));
            server.merge(&json!({"spec": {"x": 1}})).await;
            // This one arrives while the object is throttled.
            tokio::time::sleep(Duration::from_millis(500)).await;
            server.merge(&json!({"status": {"noise": true}})).await;
            tokio::time::sleep(minute).await;
            server.merge(&json!({"status": {UNREADABLE: true}})).await;
            tokio::time::sleep(minute).await;
            server.merge(&json!({"status": {UNREADABLE: null}})).await;
            tokio::time::sleep(minute).await;
        }
        server.merge(&json!({"spec": {"x": 2}})).await;
        tokio::time::sleep(heals_after).await;
        if is_permanent {
            PANICS.set(Panics::Never);
        }
        tokio::time::sleep(Duration::from_hours(1)).await;
        if self == Self::Background {
            server.merge(&json!({"metadata": {"labels": null}})).await;
            tokio::time::sleep(Duration::from_hours(1)).await;
        }
        server.delete().await;
        tokio::time::sleep(Duration::from_hours(1)).await;
    }
}

/// Begins an election without other replicas, whose only term is longer than the life of the object.
async fn elect(lead: &Lead, clock: &Clock) -> Election {
    let api = api_server(clock);
    bootstrap::apply(&api, Vec::new()).await.expect("there is nothing to apply");
    let hours = Duration::from_hours;
    let timing = Timing { lease_duration: hours(72), renew_deadline: hours(48), retry_period: hours(24) };
    let name = || "test".to_owned();
    let options = LeadingOptions { lease: None, namespace: None, identity: name(), peer: name(), timing };
    let campaign = Campaign {
        operator: name(),
        client: client(&api, Networking::default(), clock).await,
        clock: clock.clone(),
        lead: lead.clone(),
        led: Arc::new(NothingElse),
        metrics: OperatorMetrics::default(),
        view: LeadingView::default(),
    };
    Election::start(&options, campaign)
}

/// An operator that has nothing but its objects.
struct NothingElse;

impl Led for NothingElse {
    fn announce(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    fn begin(&self) {}

    fn end(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}
