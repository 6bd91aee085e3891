//! The environment of one run: the API server, the clock, and the operators through all their starts and stops.

mod faults;
mod fresh_indexes;
mod lifecycle;
mod objects;
mod observed;
mod outside;
mod reloading;
mod rights;
mod settling;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use tokio::sync::{Mutex, OnceCell};

use crate::apiserver::admin_client::{self, ObjectHandle};
use crate::apiserver::admission::Caller;
use crate::apiserver::auth::access::{Authentication, MASTERS, User};
use crate::apiserver::{ApiServer, Settings};
use crate::engines::{Endpoints, Hooks};
use crate::kit::{Clock, Stop, Tasks};
use crate::manifest::Operator;
use crate::manifest::tree::SourceSpan;
use crate::reactor::Admission;
use crate::reactor::activity::Broken;

use super::chaos::Chaos;
use super::compare::FinalState;
use super::expressions::Interpreter;
use super::invariants::Invariants;
use super::model::{OPERATOR_USER, PeerChange, Scenario, Target};
use super::operator_run::OperatorRun;
use super::peers;
use super::problem::Problem;
use super::recorder::RunningTasks;
use super::revised_files::RevisedFiles;
use super::timeline::{Event, Timeline};
use super::verify::Exited;
use super::webhooks;

pub(super) use faults::UnknownResource;

use faults::{InjectedFaults, unknown_resource};
use outside::StubbedOutside;

/// The environment of one run.
pub(super) struct Environment {
    scenario: Arc<Scenario>,
    seed: u64,
    pub api: ApiServer,
    pub timeline: Arc<Timeline>,
    pub invariants: Arc<Invariants>,
    /// Random disturbances, in runs with a seed.
    pub chaos: Option<Arc<Chaos>>,
    clock: Clock,
    /// The operators with their newest files.
    operators: parking_lot::Mutex<Arc<Vec<Operator>>>,
    /// The changed files of the operators.
    files: parking_lot::Mutex<Option<RevisedFiles>>,
    run: Mutex<Option<OperatorRun>>,
    /// Running timers and daemons of the current run.
    running_tasks: parking_lot::Mutex<Arc<parking_lot::Mutex<RunningTasks>>>,
    /// The last end of the operators.
    exit: parking_lot::Mutex<Option<Exited>>,
    /// The probes and metrics of the current run. As in a process, they begin anew with each start.
    endpoints: parking_lot::Mutex<Endpoints>,
    /// Held while the operators are being stopped and started again.
    transition_lock: Mutex<()>,
    run_count: AtomicU32,
    /// Evaluates the expressions of matchers; started with the first one.
    interpreter: OnceCell<Interpreter>,
    pub faults: InjectedFaults,
    pub outside: StubbedOutside,
    /// The webhooks of the operators, through all runs.
    admission: Admission,
    controllers: Stop,
    /// Cancels the controllers of the server when the environment is dropped.
    _tasks: Tasks<()>,
}

impl Environment {
    /// Creates the environment with an empty server.
    pub(super) fn new(
        scenario: Arc<Scenario>,
        seed: u64,
        clock: Clock,
        timeline: Arc<Timeline>,
        chaos: Option<Arc<Chaos>>,
    ) -> Self {
        let groups: &[&str] =
            if scenario.has_derived_rights { &["system:authenticated"] } else { &[MASTERS, "system:authenticated"] };
        let operator = User::new(OPERATOR_USER, groups);
        let authentication = Authentication::Tokens(BTreeMap::from([(OPERATOR_USER.to_owned(), operator)]));
        let admission = Admission::in_process();
        let webhooks = Caller { hook: Some(webhooks::hook(&admission)), ..Caller::default() };
        let api = ApiServer::new(
            Settings { authentication, seed: Some(seed), webhooks, ..Settings::default() },
            clock.clone(),
        );
        let controllers = Stop::new();
        let mut tasks = Tasks::default();
        tasks.spawn("controllers", {
            let (api, stop) = (api.clone(), controllers.clone());
            async move { api.run_controllers(stop).await }
        });
        let invariants = Arc::new(Invariants::new(api.clone(), clock.clone(), &scenario.operators));
        let faults = InjectedFaults::new(api.clone());
        let run_count = AtomicU32::new(0);
        let outside = StubbedOutside::of(&scenario, &timeline, chaos.is_some());
        Self {
            operators: parking_lot::Mutex::new(Arc::clone(&scenario.operators)),
            files: parking_lot::Mutex::default(),
            scenario,
            seed,
            api,
            timeline,
            invariants,
            chaos,
            clock,
            run: Mutex::new(None),
            running_tasks: parking_lot::Mutex::default(),
            exit: parking_lot::Mutex::new(None),
            endpoints: parking_lot::Mutex::default(),
            transition_lock: Mutex::new(()),
            run_count,
            interpreter: OnceCell::new(),
            faults,
            outside,
            admission,
            controllers,
            _tasks: tasks,
        }
    }

    /// Returns the seed of the run.
    pub(super) fn seed(&self) -> u64 {
        self.seed
    }

    /// Applies the objects of `given`.
    ///
    /// # Errors
    /// If the server refuses one: its position in the scenario and the reason.
    pub(super) async fn apply_given(&self) -> Result<(), (SourceSpan, Problem)> {
        objects::apply_given(&self.api, &self.scenario).await
    }

    /// Writes or removes the record of another operator.
    ///
    /// # Errors
    /// If the server refuses it.
    pub(super) async fn change_peer(&self, change: &PeerChange) -> Result<(), String> {
        peers::change(&self.api, &self.operators(), change, self.clock.now()).await
    }

    /// Returns all objects of the server without the objects and fields that differ between runs.
    pub(super) fn final_state(&self) -> FinalState {
        objects::final_state(&self.api, &self.scenario.seeds)
    }

    fn operators(&self) -> Arc<Vec<Operator>> {
        Arc::clone(&self.operators.lock())
    }

    /// Returns the differences of the operators' indexes from new indexes of the same objects.
    pub(super) async fn stale_indexes(&self) -> Vec<String> {
        let current = self.run.lock().await;
        let Some(run) = current.as_ref() else { return Vec::new() };
        let mut differences = Vec::new();
        for (operator, indexes) in self.operators().iter().zip(run.indexes()) {
            differences
                .extend(fresh_indexes::differences(&self.api, &self.scenario, operator, &indexes, &self.clock).await);
        }
        differences
    }

    pub(super) async fn broken(&self) -> Vec<Broken> {
        self.run.lock().await.as_ref().map(OperatorRun::broken).unwrap_or_default()
    }

    /// Replaces the set of running tasks. Those of an earlier run still have the earlier set.
    fn renew_running_tasks(&self) -> Arc<parking_lot::Mutex<RunningTasks>> {
        let mut current = self.running_tasks.lock();
        *current = Arc::default();
        Arc::clone(&current)
    }

    /// Replaces the probes and metrics.
    fn renew_endpoints(&self) -> Endpoints {
        let endpoints = Endpoints::default();
        *self.endpoints.lock() = endpoints.clone();
        endpoints
    }

    /// Returns the hooks of the running operators.
    pub(super) fn hooks(&self) -> Hooks {
        self.endpoints.lock().hooks.clone()
    }

    /// Records an event of the operators as a whole.
    fn record(&self, what: String) {
        self.timeline.add(Event::Operator(what));
    }

    /// Finds an object by its resource and name.
    ///
    /// # Errors
    /// If the resource or the object is ambiguous or unknown.
    pub(super) fn find(&self, target: &Target) -> Result<ObjectHandle, String> {
        let namespace = target.namespace.as_deref();
        admin_client::find(&self.api, &target.resource, &target.name, namespace).map_err(|error| {
            let suggestion = unknown_resource(&self.api, &target.resource).and_then(|unknown| unknown.suggestion);
            let hint = suggestion.map(|suggestion| format!("; did you mean `{suggestion}`?")).unwrap_or_default();
            format!("{error}{hint}")
        })
    }
}

impl Drop for Environment {
    fn drop(&mut self) {
        self.controllers.request("the end of the scenario");
    }
}
