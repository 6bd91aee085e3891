//! A scene: one object, its handlers, and the reactor's worker for it, in virtual time.

use std::sync::Arc;
use std::time::Duration;

use kopfd::engines::Lead;
use kopfd::handling::contradiction::Contradiction;
use kopfd::kit::Stop;
use kopfd::object::EventKind;
use kopfd::reactor::revision::{KindRevisions, Serving};
use kopfd::reactor::worker::{Attempt, Expected, Worker, WorkerSettings};
use kopfd::reactor::{Mailbox, Memories, Served};
use serde_json::{Value, json};

use super::declare::{self, Declared};
use super::embedded::Embedded;
use super::scripted::ScriptedWorld;
use super::server::{Server, version};
use super::timeline::{BEGINNING, Entry, Timeline};

/// Longer than any scene.
const FOREVER: Duration = Duration::from_secs(1_000_000_000);

/// One object and its environment.
pub(crate) struct Scene {
    pub(crate) world: Arc<ScriptedWorld>,
    pub(crate) served: Arc<Served>,
    pub(crate) memories: Arc<Memories>,
    pub(crate) mailbox: Arc<Mailbox>,
    settings: Arc<WorkerSettings>,
    uid: Arc<str>,
}

impl Scene {
    /// Returns the scene of a case with the usual object, starting now.
    pub(crate) fn example(input: &Value) -> Self {
        let object = json!({
            "apiVersion": "kopf.dev/v1", "kind": "KopfExample",
            "metadata": {"name": "o", "namespace": "ns", "uid": "u1", "resourceVersion": "1"}, "spec": {"x": 0},
        });
        Self::of(input, object).expect("the handlers do not contradict each other")
    }

    /// Returns the scene of a case with this object, starting now.
    pub(crate) fn of(input: &Value, object: Value) -> Result<Self, Contradiction> {
        let timeline = Arc::new(Timeline::starting_at(input["now"].as_str().unwrap_or(BEGINNING)));
        let server = Server::of(input, object.clone(), Arc::clone(&timeline));
        Self::with(input, &object, server, timeline)
    }

    /// Returns the scene of a case on the embedded server.
    pub(crate) async fn embedded(input: &Value, object: Value) -> Result<Self, Contradiction> {
        let timeline = Arc::new(Timeline::starting_at(input["now"].as_str().unwrap_or(BEGINNING)));
        let embedded = Embedded::of(input, object.clone(), &timeline.clock).await;
        let server = Server::of(input, object.clone(), Arc::clone(&timeline)).embedded_in(embedded);
        Self::with(input, &object, server, timeline)
    }

    fn with(input: &Value, object: &Value, server: Server, timeline: Arc<Timeline>) -> Result<Self, Contradiction> {
        let uid = object.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default().into();
        let server = Arc::new(server);
        let declared = Declared::of(&input["handlers"])?;
        let setting = |name: &str| input["settings"].get(name).unwrap_or(&Value::Null);
        let finalizer = input.get("finalizer").unwrap_or_else(|| setting("persistence.finalizer"));
        let storages = Arc::new(declare::storages(&Value::Null, &input["storage"], finalizer));
        let backoff = declare::duration(setting("execution.default_backoff")).unwrap_or(Duration::from_mins(1));
        let resource = declare::resource(&input["subresources"]);
        let served =
            Served::new(resource, &declared.handlers, storages, declare::lifecycle(&input["lifecycle"]), backoff);
        let defaults = WorkerSettings::default();
        let delays = setting("queueing.error_delays")
            .as_array()
            .map(|delays| delays.iter().filter_map(declare::duration).collect());
        let settings = WorkerSettings {
            consistency_timeout: declare::duration(setting("persistence.consistency_timeout"))
                .unwrap_or(defaults.consistency_timeout),
            idle_timeout: declare::duration(setting("queueing.idle_timeout")).unwrap_or(defaults.idle_timeout),
            error_delays: delays.unwrap_or(defaults.error_delays),
            breaker: defaults.breaker,
        };
        Ok(Self {
            world: ScriptedWorld::new(declared, server, timeline),
            served: Arc::new(served),
            memories: Arc::default(),
            mailbox: Arc::default(),
            settings: Arc::new(settings),
            uid,
        })
    }

    /// Makes the operator forget that it has handled the object in this run: a defect.
    pub(crate) fn forget_handling(&self) {
        self.memories.forget(&self.uid);
        self.memories.notice(&self.uid, true, Arc::default);
    }

    /// Returns a worker for the object.
    pub(crate) fn worker(&self) -> Worker<ScriptedWorld> {
        let serving = || Serving {
            trial: None,
            revision: 0,
            digest: Arc::default(),
            effects: Arc::clone(&self.world),
            served: Arc::clone(&self.served),
            settings: Arc::clone(&self.settings),
        };
        Worker {
            revisions: Arc::new(KindRevisions::fixed(serving(), Arc::clone(&self.memories))),
            serving: Arc::new(serving()),
            memories: Arc::clone(&self.memories),
            mailbox: Arc::clone(&self.mailbox),
            uid: Arc::clone(&self.uid),
            memo_key: Arc::clone(&self.uid),
            stop: Stop::new(),
            span: tracing::Span::none(),
            expected: Expected::default(),
            read: kopfd::cluster::watch::read,
            attempt: Attempt::default(),
            is_indexed_ahead: false,
            lead: Lead::permanent(),
            led_stop: None,
        }
    }

    /// Restarts the operator: it has no memory, and lists the object.
    pub(crate) fn restart(&mut self) {
        (self.memories, self.mailbox) = (Arc::default(), Arc::default());
        self.world.server.disconnect();
        let before = self.world.server.object();
        self.world.timeline.add(Entry {
            shown: json!({"life": "begins"}),
            version: version(&before),
            before,
            ..Entry::default()
        });
        if !self.world.server.is_gone() {
            self.world.server.announce(EventKind::Listed);
        }
    }

    /// Handles the events of the server endlessly.
    pub(crate) async fn live(&self) {
        tokio::join!(self.handle(), self.world.server.deliver(&self.mailbox), self.world.server.follow());
    }

    /// Handles all events endlessly, with a new worker after each pause.
    pub(crate) async fn handle(&self) {
        loop {
            if !self.mailbox.sleep(FOREVER).await {
                self.worker().run().await;
            }
        }
    }

    /// Runs the case's actions to the end.
    pub(crate) async fn run(&self, input: &Value) {
        let server = &self.world.server;
        let end = Duration::from_secs_f64(input["until"].as_f64().unwrap_or(600.0));
        let is_listed = input["listed"] == true;
        if is_listed {
            server.begin(true).await;
        }
        let apply_entry = async {
            if !is_listed {
                server.begin(false).await;
            }
            self.apply_entry(&input["actions"]).await;
        };
        let all = async { tokio::join!(self.live(), apply_entry) };
        let _ = tokio::time::timeout(end, all).await;
    }

    async fn apply_entry(&self, actions: &Value) {
        let beginning = tokio::time::Instant::now();
        for action in actions.as_array().into_iter().flatten() {
            tokio::time::sleep_until(beginning + Duration::from_secs_f64(action["at"].as_f64().unwrap_or(0.0))).await;
            match action.get("merge") {
                Some(payload) => self.world.server.merge(payload).await,
                None => self.world.server.delete().await,
            }
        }
    }
}
