//! The stage: the server, the clock, and the operators on it, through all their lives.

mod faults;
mod objects;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::{Mutex, OnceCell};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::apiserver::admin_client::{self, Meant};
use crate::apiserver::auth::access::{Authentication, MASTERS, User};
use crate::apiserver::faults::Rule;
use crate::apiserver::storage::resource::Resource;
use crate::apiserver::{Api, Settings};
use crate::cluster::Client;
use crate::kit::{Clock, Stop, Tasks};
use crate::manifest::tree::Spot;
use crate::reactor::account::Broken;
use crate::reactor::operator::{self, Shared};
use crate::reactor::precedence::Precedence;
use crate::reactor::{Account, EventStream, Scope};

use super::account::Accountant;
use super::chaos::Chaos;
use super::compare::FOREIGN_ANNOTATION;
use super::dues::Dues;
use super::expressions::{Interpreter, Question};
use super::invariants::{Invariants, Process};
use super::judge::{Seen, Witness};
use super::life::{self, Death, Life};
use super::story::{Scenario, Target};
use super::timeline::{Event, Subject, Timeline};
use super::wire::{Parts, Wire};

pub use faults::Unknown;

/// The user that the operators are to the server.
pub const OPERATOR: &str = "kopfd-operator";

/// How long operators may take to have listed everything.
const READINESS: Duration = Duration::from_mins(1);

/// How long operators may take to stop.
const STOPPING: Duration = Duration::from_mins(10);

/// How often is looked whether everything has settled, if nothing is heard.
const LOOK: Duration = Duration::from_secs(1);

/// The shortest time by the clock. It passes only when nobody has anything to do at this moment.
const TICK: Duration = Duration::from_millis(1);

/// How often something happens to an object whose cycles fail.
const MOST_TOUCHES: usize = 10;

/// The stage of one run.
pub struct Stage {
    scenario: Arc<Scenario>,
    seed: u64,
    /// The server.
    pub api: Api,
    /// What happens.
    pub timeline: Arc<Timeline>,
    /// What must not happen.
    pub invariants: Arc<Invariants>,
    /// The trouble, if there is to be any.
    pub chaos: Option<Arc<Chaos>>,
    clock: Clock,
    life: Mutex<Option<Life>>,
    /// Held from one life to the next.
    between: Mutex<()>,
    lives: std::sync::atomic::AtomicU32,
    /// Answers expressions, once there is one to be answered.
    interpreter: OnceCell<Interpreter>,
    /// The faults of the scenario, with their places and their numbers.
    faults: parking_lot::Mutex<Vec<(Spot, u64, Rule)>>,
    controllers: Stop,
    /// Cancels the server's own tasks with the stage.
    _tasks: Tasks<()>,
}

impl Stage {
    /// Sets the stage: the server, with nothing on it yet.
    pub fn set(scenario: Arc<Scenario>, seed: u64, clock: Clock, timeline: Arc<Timeline>, chaos: Option<Arc<Chaos>>) -> Self {
        let operator = User::new(OPERATOR, &[MASTERS, "system:authenticated"]);
        let authentication = Authentication::Tokens(BTreeMap::from([(OPERATOR.to_owned(), operator)]));
        let api = Api::new(Settings { authentication, seed: Some(seed), ..Settings::default() }, clock.clone());
        let controllers = Stop::new();
        let mut tasks = Tasks::default();
        tasks.spawn("controllers", {
            let (api, stop) = (api.clone(), controllers.clone());
            async move { api.attend(stop).await }
        });
        let invariants = Arc::new(Invariants::new(api.clone(), clock.clone(), &scenario.operators));
        let lives = std::sync::atomic::AtomicU32::new(0);
        Self {
            scenario,
            seed,
            api,
            timeline,
            invariants,
            chaos,
            clock,
            life: Mutex::new(None),
            between: Mutex::new(()),
            lives,
            interpreter: OnceCell::new(),
            faults: parking_lot::Mutex::default(),
            controllers,
            _tasks: tasks,
        }
    }

    /// Starts the operators for the first time.
    ///
    /// # Errors
    /// If one of them cannot run.
    pub async fn begin(&self) -> Result<(), String> {
        let _turn = self.transition().await;
        self.start().await
    }

    /// Waits until nobody else ends or begins a life. What is returned is held until that is done.
    pub async fn transition(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.between.lock().await
    }

    /// Starts the operators, and waits until they have listed everything.
    ///
    /// # Errors
    /// If one of them cannot run.
    pub async fn start(&self) -> Result<(), String> {
        let mut place = self.life.lock().await;
        let number = self.lives.fetch_add(1, std::sync::atomic::Ordering::SeqCst) + 1;
        self.tell(if number == 1 {
            "the operator starts".to_owned()
        } else {
            format!("the operator starts again, for the {} time", ordinal(number))
        });
        self.invariants.begun(number);
        let dues: Arc<parking_lot::Mutex<Dues>> = Arc::default();
        let prefixes = self.scenario.operators.iter().map(|operator| operator.settings.persistence.storages.prefix().to_owned()).collect();
        let wire = Wire::new(Parts {
            api: self.api.clone(),
            timeline: Arc::clone(&self.timeline),
            invariants: Arc::clone(&self.invariants),
            chaos: self.chaos.clone(),
            prefixes,
            token: OPERATOR.to_owned(),
            life: number,
        });
        let namespaces = self.scenario.namespaces.clone();
        let scope = if namespaces.is_empty() { Scope::Cluster } else { Scope::Namespaces(namespaces) };
        let precedence = Precedence::of(&self.scenario.operators);
        let shared = Shared {
            clock: self.clock.clone(),
            scope,
            precedence,
            account: None,
            events: EventStream::default(),
            has_change_log: false,
            seed: Some(self.seed),
        };
        let stop = Stop::new();
        let (mut tasks, mut accounts) = (Vec::new(), Vec::new());
        for (index, operator) in self.scenario.operators.iter().cloned().enumerate() {
            let (networking, watching) = operator::connection(&operator.settings);
            let login = Box::new(wire.of_operator(index));
            let client = Client::with_login(login, networking, watching, self.clock.clone()).await.map_err(|error| error.chain())?;
            let process = Process { life: number, operator: index };
            let (timeline, invariants, dues) = (Arc::clone(&self.timeline), Arc::clone(&self.invariants), Arc::clone(&dues));
            let events = EventStream::default().with(Arc::new(Accountant { timeline, invariants, process, dues }));
            let account = Arc::new(Account::default());
            let shared = Shared { account: Some(Arc::clone(&account)), events, ..shared.clone() };
            accounts.push(account);
            tasks.push(tokio::task::spawn_local(operator::serve(operator, client, shared, stop.clone())));
        }
        *place = Some(Life { wire, accounts, dues, stop, tasks });
        drop(place);
        self.until_ready().await
    }

    /// Some troubles let an operator begin late; then the story goes on without waiting for it.
    async fn until_ready(&self) -> Result<(), String> {
        let deadline = Instant::now() + READINESS;
        loop {
            let mut place = self.life.lock().await;
            let Some(life) = place.as_mut() else { return Ok(()) };
            if life.is_ready() || Instant::now() >= deadline {
                return Ok(());
            }
            if let Some(death) = life.problem().await {
                return self.die_of(death);
            }
            let accounts = life.accounts.clone();
            drop(place);
            // The time is only for what might happen between the look and the wait.
            let _ = tokio::time::timeout(LOOK, life::changed(&accounts)).await;
        }
    }

    /// An operator that does not get through is started again by whoever runs it; one that is broken is a failure.
    fn die_of(&self, death: Death) -> Result<(), String> {
        match (death, &self.chaos) {
            (Death::Unreachable(text), Some(chaos)) => {
                chaos.note_death(&text);
                Ok(())
            }
            (Death::Unreachable(text) | Death::Broken(text), _) => Err(text),
        }
    }

    /// Stops the operators as a signal does.
    pub async fn stop(&self) {
        let Some(life) = self.life.lock().await.take() else { return };
        self.tell("the operator stops".to_owned());
        life.stop.request("the scenario");
        let deadline = Instant::now() + STOPPING;
        for task in life.tasks {
            let abort = task.abort_handle();
            if tokio::time::timeout_at(deadline, task).await.is_err() {
                self.tell("the operator does not stop, and is killed".to_owned());
                life.wire.cut();
                abort.abort();
            }
        }
        tokio::time::sleep(TICK).await;
    }

    /// Ends the operators without any notice.
    pub async fn kill(&self) {
        let Some(life) = self.life.lock().await.take() else { return };
        self.tell("the operator is killed".to_owned());
        life.wire.cut();
        life.tasks.iter().for_each(JoinHandle::abort);
        for task in life.tasks {
            // It was cancelled; what it had begun is dropped with it.
            let _ = task.await;
        }
        tokio::time::sleep(TICK).await;
    }

    /// Lets the operators die and live again whenever the trouble says so, for ever.
    ///
    /// # Errors
    /// If one of them cannot run.
    pub async fn revive(&self) -> Result<(), String> {
        let Some(chaos) = &self.chaos else { return std::future::pending().await };
        loop {
            chaos.crashed().await;
            let _turn = self.transition().await;
            self.kill().await;
            tokio::time::sleep(chaos.downtime()).await;
            self.start().await?;
        }
    }

    /// Waits until nothing is due, at most for a time.
    ///
    /// # Errors
    /// What is still due then, in words.
    pub async fn settle(&self, within: Duration) -> Result<(), String> {
        let deadline = Instant::now() + within;
        loop {
            let Some(pending) = self.pending().await? else {
                tokio::time::sleep(TICK).await;
                if self.pending().await?.is_none() {
                    self.invariants.settled();
                    return Ok(());
                }
                continue;
            };
            if Instant::now() >= deadline {
                return Err(pending);
            }
            self.heard(deadline.min(Instant::now() + LOOK)).await;
        }
    }

    /// Settles, and lets something happen to the objects whose last cycles have failed, again and again: only at its next event, such an object
    /// is processed again.
    ///
    /// # Errors
    /// What is still due, in words.
    pub async fn settle_all(&self, within: Duration) -> Result<(), String> {
        let deadline = Instant::now() + within;
        let mut attempts = 0;
        loop {
            self.settle(deadline.saturating_duration_since(Instant::now())).await?;
            let failed = self.invariants.failed_objects();
            if failed.is_empty() || attempts >= MOST_TOUCHES {
                return Ok(());
            }
            for subject in &failed {
                self.touch(subject).await;
            }
            attempts += 1;
        }
    }

    /// Writes an object as somebody else who means no harm.
    async fn touch(&self, subject: &Subject) {
        let Subject { group, kind, namespace, name } = subject;
        let registry = self.api.registry();
        let served =
            registry.all().find(|served| served.kind.group == *group && served.kind.kind == *kind).map(|served| served.full_name());
        let namespace = Some(namespace.as_str()).filter(|namespace| !namespace.is_empty());
        let Some(Ok(meant)) = served.map(|resource| admin_client::find(&self.api, &resource, name, namespace)) else { return };
        self.tell(format!("somebody else writes {subject}, whose last cycle has failed"));
        let patch = json!({"metadata": {"annotations": {FOREIGN_ANNOTATION: self.api.with(|state| state.store.revision()).to_string()}}});
        // An object that is just vanishing needs no event.
        let _ = admin_client::patch(&self.api, &meant, None, "application/merge-patch+json", &patch).await;
    }

    /// Returns the objects whose last cycles have failed.
    pub async fn broken(&self) -> Vec<Broken> {
        self.life.lock().await.as_ref().map(Life::broken).unwrap_or_default()
    }

    /// Returns what is due, in words.
    async fn pending(&self) -> Result<Option<String>, String> {
        let mut place = self.life.lock().await;
        let Some(life) = place.as_mut() else { return Ok(Some("the operator is away".to_owned())) };
        if let Some(death) = life.problem().await {
            return self.die_of(death).map(|()| Some("the operator has died".to_owned()));
        }
        if !life.is_ready() {
            return Ok(Some("the operator has not listed everything yet".to_owned()));
        }
        if !life.is_calm() {
            return Ok(Some(life.due()));
        }
        if !self.api.is_settled() {
            return Ok(Some("the controllers of the server are at work".to_owned()));
        }
        Ok(life.wire.pending())
    }

    async fn heard(&self, until: Instant) {
        let place = self.life.lock().await;
        let hear = place.as_ref().map(|life| (life.accounts.clone(), life.wire.clone()));
        drop(place);
        let Some((accounts, wire)) = hear else { return tokio::time::sleep_until(until).await };
        tokio::select! {
            biased;
            () = life::changed(&accounts) => {}
            () = wire.changed() => {}
            () = tokio::time::sleep_until(until) => {}
        }
    }

    /// Tells something about the operators as such.
    fn tell(&self, what: String) {
        self.timeline.add(Event::Operator(what));
    }

    /// Returns an object by the name of its resource and its own.
    ///
    /// # Errors
    /// If it is not clear which one is meant.
    pub fn find(&self, target: &Target) -> Result<Meant, String> {
        let namespace = target.namespace.as_deref();
        admin_client::find(&self.api, &target.resource, &target.name, namespace).map_err(|unclear| {
            let meant = self.unknown(&target.resource).and_then(|unknown| unknown.meant);
            let hint = meant.map(|meant| format!("; did you mean `{meant}`?")).unwrap_or_default();
            format!("{unclear}{hint}")
        })
    }
}

impl Witness for Stage {
    fn seen(&self, target: &Target) -> Result<Seen, String> {
        let meant = self.find(target)?;
        let kind = &meant.served.kind;
        let (namespace, name) = meant.key.clone();
        let subject = Subject { group: kind.group.clone(), kind: kind.kind.clone(), namespace, name };
        Ok(Seen { subject, plural: kind.plural.clone(), value: meant.value() })
    }

    fn has_existed(&self, seen: &Seen, namespace: Option<&str>) -> bool {
        let is_place = |subject: &Subject| namespace.is_none_or(|namespace| namespace == subject.namespace);
        self.subjects(&seen.subject).any(|subject| subject.name == seen.subject.name && is_place(&subject))
    }

    fn names(&self, subject: &Subject) -> Vec<String> {
        self.subjects(subject).map(|subject| subject.name).collect()
    }

    fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    fn events(&self) -> Vec<Arc<Value>> {
        let events = Resource { group: String::new(), plural: "events".to_owned() };
        self.api.with(|state| state.store.list(&events, None)).into_iter().map(|(_, stored)| Arc::clone(&stored.value)).collect()
    }

    async fn answer(&self, question: &Question) -> Result<bool, String> {
        let start = || Interpreter::start(self.scenario.expressions.clone(), self.clock.clone(), self.seed);
        self.interpreter.get_or_try_init(start).await?.answer(question).await
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.controllers.request("the end of the scenario");
    }
}

fn ordinal(number: u32) -> String {
    match (number % 10, number % 100) {
        (1, tens) if tens != 11 => format!("{number}st"),
        (2, tens) if tens != 12 => format!("{number}nd"),
        (3, tens) if tens != 13 => format!("{number}rd"),
        _ => format!("{number}th"),
    }
}
