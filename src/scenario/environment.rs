//! The environment of one run: the API server, the clock, and the operators through all their starts and stops.

mod faults;
mod fresh_indexes;
mod objects;
mod rights;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::{Mutex, OnceCell};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::apiserver::admin_client::{self, ObjectHandle};
use crate::apiserver::admission::Caller;
use crate::apiserver::auth::access::{Authentication, MASTERS, User};
use crate::apiserver::storage::resource::Resource;
use crate::apiserver::{ApiServer, Settings};
use crate::engines::peering::ProcessPeering;
use crate::engines::{Endpoints, EventStream, Hooks};
use crate::kit::errors::chain;
use crate::kit::{Clock, Stop, Tasks};
use crate::manifest::Operator;
use crate::manifest::tree::SourceSpan;
use crate::persistence::Keys;
use crate::reactor::activity::Broken;
use crate::reactor::operator::{self, Access, ExitTimeouts, ServerChoice, Shared};
use crate::reactor::precedence::Precedence;
use crate::reactor::reload::{self, RETRY_PAUSE as RELOAD_PAUSE, ReloadError, Reloaded, Reloader};
use crate::reactor::{ActivityMonitor, Admission, HookReach, Scope};
use crate::script::{Fibers, Outside, Threads};

use super::chaos::Chaos;
use super::compare::{FOREIGN_ANNOTATION, FinalState};
use super::credentials::ScenarioCredentials;
use super::expressions::{Interpreter, Question};
use super::invariants::{Invariants, Process};
use super::metrics::{self, Sample};
use super::model::{OPERATOR_USER, PeerChange, Scenario, Target};
use super::operator_run::{self, Exit, OperatorRun};
use super::peers;
use super::pending::PendingCalls;
use super::problem::Problem;
use super::recorder::{RunningTasks, TimelineRecorder};
use super::revised_files::{FileChanges, RevisedFiles};
use super::stubs::{HttpStubs, MachineStubs, PodStubs, SqlStubs, UnexpectedCalls};
use super::timeline::{Event, Subject, Timeline};
use super::transport::{ScenarioTransport, TransportOptions};
use super::verify::{Exited, Observations, ObservedObject, ProbeAnswer};
use super::webhooks;

pub(super) use faults::UnknownResource;

use faults::{InjectedFaults, unknown_resource};

/// Time limit for the operators' first lists.
const READY_TIMEOUT: Duration = Duration::from_mins(1);

/// Time limit for a graceful stop of the operators.
const STOP_TIMEOUT: Duration = Duration::from_mins(10);

/// The identity of the operators among their peers.
const OWN_IDENTITY: &str = "kopfd-test";

/// How often to check for pending work when no notification arrives.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The smallest step of the clock. Virtual time advances by it only after every task has become idle.
const TICK: Duration = Duration::from_millis(1);

/// How often an object with a failed cycle is written to trigger another one.
const MAX_TOUCHES: usize = 10;

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
    run_count: std::sync::atomic::AtomicU32,
    /// Evaluates the expressions of matchers; started with the first one.
    interpreter: OnceCell<Interpreter>,
    pub faults: InjectedFaults,
    /// The calls that no stub answers.
    pub unexpected: Arc<UnexpectedCalls>,
    /// What answers in place of HTTP servers, through all runs of the operators.
    pub http: Arc<HttpStubs>,
    /// What answers in place of the programs and files of the machine, through all runs of the operators.
    pub machine: Arc<MachineStubs>,
    /// What answers in place of databases, through all runs of the operators.
    pub sql: Arc<SqlStubs>,
    /// What answers in place of containers, through all runs of the operators.
    pods: Arc<PodStubs>,
    /// The webhooks of the operators, through all runs.
    admission: Admission,
    controllers: Stop,
    /// Cancels the controllers of the server when the environment is dropped.
    _tasks: Tasks<()>,
}

impl Environment {
    /// Creates the environment with an empty server.
    pub(super) fn new(scenario: Arc<Scenario>, seed: u64, clock: Clock, timeline: Arc<Timeline>, chaos: Option<Arc<Chaos>>) -> Self {
        let groups: &[&str] = if scenario.has_derived_rights { &["system:authenticated"] } else { &[MASTERS, "system:authenticated"] };
        let operator = User::new(OPERATOR_USER, groups);
        let authentication = Authentication::Tokens(BTreeMap::from([(OPERATOR_USER.to_owned(), operator)]));
        let admission = Admission::in_process();
        let webhooks = Caller { hook: Some(webhooks::hook(&admission)), ..Caller::default() };
        let api = ApiServer::new(Settings { authentication, seed: Some(seed), webhooks, ..Settings::default() }, clock.clone());
        let controllers = Stop::new();
        let mut tasks = Tasks::default();
        tasks.spawn("controllers", {
            let (api, stop) = (api.clone(), controllers.clone());
            async move { api.run_controllers(stop).await }
        });
        let invariants = Arc::new(Invariants::new(api.clone(), clock.clone(), &scenario.operators));
        let faults = InjectedFaults::new(api.clone());
        let run_count = std::sync::atomic::AtomicU32::new(0);
        let unexpected: Arc<UnexpectedCalls> = Arc::default();
        let records = scenario.records_http && chaos.is_none();
        let http = HttpStubs::new(scenario.stubs.http.clone(), records, Arc::clone(&timeline), Arc::clone(&unexpected));
        let http = Arc::new(http);
        let machine = Arc::new(MachineStubs::new(scenario.stubs.clone(), Arc::clone(&timeline), Arc::clone(&unexpected)));
        let sql = Arc::new(SqlStubs::new(scenario.stubs.sql.clone(), Arc::clone(&timeline), Arc::clone(&unexpected)));
        let pods = Arc::new(PodStubs::new(scenario.stubs.pods.clone(), Arc::clone(&timeline), Arc::clone(&unexpected)));
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
            unexpected,
            http,
            machine,
            sql,
            pods,
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

    /// Returns the world outside of the cluster, in which stubs answer.
    fn outside(&self) -> Outside {
        Outside::new(
            Arc::<HttpStubs>::clone(&self.http),
            Arc::<MachineStubs>::clone(&self.machine),
            Arc::<MachineStubs>::clone(&self.machine),
        )
        .with_databases(Arc::<SqlStubs>::clone(&self.sql))
        .with_pods(Arc::<PodStubs>::clone(&self.pods))
    }

    fn subjects(&self, like: &Subject) -> impl Iterator<Item = Subject> + use<> {
        objects::subjects(&self.api, &self.scenario, &self.timeline, like)
    }

    /// Starts the operators for the first time.
    ///
    /// # Errors
    /// If an operator cannot run.
    pub(super) async fn start_first(&self) -> Result<(), String> {
        let _guard = self.lock_transition().await;
        self.start().await
    }

    /// Waits until no other task stops or starts the operators, and keeps others from doing so while the guard is held.
    pub(super) async fn lock_transition(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.transition_lock.lock().await
    }

    /// Starts the operators, and waits until they have listed everything.
    ///
    /// # Errors
    /// If an operator cannot run.
    pub(super) async fn start(&self) -> Result<(), String> {
        let mut current = self.run.lock().await;
        let number = self.run_count.fetch_add(1, std::sync::atomic::Ordering::SeqCst) + 1;
        self.record(if number == 1 { "the operator starts".to_owned() } else { format!("the operator starts again (run {number})") });
        self.invariants.run_started(number);
        let pending_calls: Arc<parking_lot::Mutex<PendingCalls>> = Arc::default();
        let running_tasks = self.renew_running_tasks();
        let operators = self.operators();
        self.grant(&operators).await?;
        let prefixes = operators.iter().map(|operator| operator.settings.persistence.storages.prefix().to_owned()).collect();
        let transport = ScenarioTransport::new(TransportOptions {
            api: self.api.clone(),
            timeline: Arc::clone(&self.timeline),
            invariants: Arc::clone(&self.invariants),
            chaos: self.chaos.clone(),
            prefixes,
            token: OPERATOR_USER.to_owned(),
            run: number,
        });
        let namespaces = self.scenario.namespaces.clone();
        let scope = if namespaces.is_empty() { Scope::Cluster } else { Scope::Namespaces(namespaces) };
        let precedence = Precedence::of(&operators);
        let shared = Shared {
            clock: self.clock.clone(),
            scope,
            precedence,
            monitor: None,
            events: EventStream::default(),
            has_change_log: false,
            script_threads: Threads::Current,
            seed: Some(self.seed),
            exit_timeouts: ExitTimeouts::default(),
            fibers: Fibers::default(),
            endpoints: self.renew_endpoints(),
            digest_keys: Keys::of_embedded_server(),
            has_trials: true,
            pod: None,
            admission: self.admission.clone(),
            hooks: HookReach::InProcess,
            peering: ProcessPeering::of(OWN_IDENTITY),
            leading: None,
            checks_rights: false,
        };
        let stop = Stop::new();
        let (mut tasks, mut monitors, mut reloaders) = (Vec::new(), Vec::new(), Vec::new());
        for (index, operator) in operators.iter().cloned().enumerate() {
            let login = Box::new(transport.of_operator(index));
            let access =
                Access { login, server: ServerChoice::Default, credentials: Arc::new(ScenarioCredentials), outside: Some(self.outside()) };
            let process = Process { run: number, operator: index };
            let recorder = TimelineRecorder {
                timeline: Arc::clone(&self.timeline),
                invariants: Arc::clone(&self.invariants),
                process,
                operator: operator.name.clone(),
                pending_calls: Arc::clone(&pending_calls),
                running_tasks: Arc::clone(&running_tasks),
            };
            let events = EventStream::default().with(Arc::new(recorder));
            let monitor = Arc::new(ActivityMonitor::default());
            let shared = Shared { monitor: Some(Arc::clone(&monitor)), events, ..shared.clone() };
            monitors.push(monitor);
            let (reloader, reloads) = reload::channel();
            reloaders.push((operator.name.clone(), reloader));
            tasks.push(tokio::task::spawn_local(operator::serve(operator, access, shared, reloads, stop.clone())));
        }
        *current = Some(OperatorRun { transport, monitors, pending_calls, reloaders, stop, tasks });
        drop(current);
        self.until_ready().await
    }

    /// Disturbances can delay an operator beyond the time limit; the scenario then continues without waiting for it.
    async fn until_ready(&self) -> Result<(), String> {
        let deadline = Instant::now() + READY_TIMEOUT;
        loop {
            let mut current = self.run.lock().await;
            let Some(run) = current.as_mut() else { return Ok(()) };
            if run.is_ready() || Instant::now() >= deadline {
                return Ok(());
            }
            if let Some(exit) = run.exit().await {
                return self.handle_exit(exit, &mut current).await;
            }
            let monitors = run.monitors.clone();
            drop(current);
            // The timeout covers a change between the check and the wait.
            let _ = tokio::time::timeout(POLL_INTERVAL, operator_run::changed(&monitors)).await;
        }
    }

    /// In a cluster, an operator that cannot reach the server is restarted. Any other exit is a failure, unless the scenario expects it.
    async fn handle_exit(&self, exit: Exit, current: &mut Option<OperatorRun>) -> Result<(), String> {
        match (exit, &self.chaos) {
            (Exit::Unreachable(text), Some(chaos)) => {
                chaos.record_exit(&text);
                Ok(())
            }
            (Exit::Unreachable(text) | Exit::Broken(text), _) => {
                // As in a process, all operators end with the first one.
                if let Some(run) = current.take() {
                    self.end(run).await;
                }
                self.exited(1, text)
            }
        }
    }

    /// Records an end of the operators.
    ///
    /// # Errors
    /// Its error, if the scenario does not expect it.
    fn exited(&self, code: u8, message: String) -> Result<(), String> {
        if code != 0 {
            self.record(format!("the operator exits with code {code}: {message}"));
        }
        *self.exit.lock() = Some(Exited { code, message: message.clone() });
        if code == 0 || self.scenario.expects_exit() { Ok(()) } else { Err(message) }
    }

    /// Stops the operators gracefully, as a signal does.
    ///
    /// # Errors
    /// The error of an operator that cannot end without one.
    pub(super) async fn stop(&self) -> Result<(), String> {
        let Some(run) = self.run.lock().await.take() else { return Ok(()) };
        self.record("the operator stops".to_owned());
        let failed = self.end(run).await;
        tokio::time::sleep(TICK).await;
        match failed {
            None => self.exited(0, String::new()),
            Some(message) => self.exited(1, message),
        }
    }

    /// Stops operators. Returns the first error.
    async fn end(&self, run: OperatorRun) -> Option<String> {
        run.stop.request("the scenario");
        let deadline = Instant::now() + STOP_TIMEOUT;
        let mut failed = None;
        for task in run.tasks {
            let abort = task.abort_handle();
            if let Ok(ended) = tokio::time::timeout_at(deadline, task).await {
                // In a cluster, an operator that cannot reach the server is restarted.
                failed = failed.or(operator_run::exit_of(ended).and_then(|exit| match exit {
                    Exit::Broken(text) => Some(text),
                    Exit::Unreachable(_) => None,
                }));
            } else {
                self.record("the operator does not stop in time, and is killed".to_owned());
                run.transport.disconnect();
                abort.abort();
            }
        }
        failed
    }

    /// Ends the operators without notice.
    pub(super) async fn kill(&self) {
        let Some(run) = self.run.lock().await.take() else { return };
        self.record("the operator is killed".to_owned());
        self.invariants.run_killed();
        self.renew_running_tasks();
        run.transport.disconnect();
        run.tasks.iter().for_each(JoinHandle::abort);
        for task in run.tasks {
            // The task was aborted; its unfinished work is dropped with it.
            let _ = task.await;
        }
        tokio::time::sleep(TICK).await;
    }

    /// Kills and restarts the operators whenever a disturbance asks for it; never returns otherwise.
    ///
    /// # Errors
    /// If an operator cannot run.
    pub(super) async fn restart_after_crashes(&self) -> Result<(), String> {
        let Some(chaos) = &self.chaos else { return std::future::pending().await };
        loop {
            chaos.crashed().await;
            let _guard = self.lock_transition().await;
            self.kill().await;
            tokio::time::sleep(chaos.downtime()).await;
            self.start().await?;
        }
    }

    fn operators(&self) -> Arc<Vec<Operator>> {
        Arc::clone(&self.operators.lock())
    }

    /// Changes files of the operators, and reloads them. In disturbed runs, that happens at a random moment.
    ///
    /// # Errors
    /// If the files have errors and should have none, or the other way round.
    pub(super) async fn reload(&self, changes: &FileChanges, is_refused: bool) -> Result<(), String> {
        if let Some(chaos) = &self.chaos {
            tokio::time::sleep(chaos.downtime()).await;
        }
        let loaded = self.change_files(changes)?;
        let operators = match (loaded, is_refused) {
            (Ok(operators), _) => operators,
            (Err(text), true) => {
                self.record(format!("the files have errors: {text}"));
                return Ok(());
            }
            (Err(text), false) => return Err(text),
        };
        let names = |operators: &[Operator]| operators.iter().map(|operator| operator.name.clone()).collect::<Vec<_>>();
        if names(&operators) != names(&self.operators()) {
            return Err("a reload in a scenario cannot add, remove or rename operators".to_owned());
        }
        self.invariants.files_changed(&operators);
        *self.operators.lock() = Arc::new(operators.clone());
        self.grant(&operators).await?;
        // A killed operator starts with the new files.
        let reloaders = self.run.lock().await.as_ref().map(|run| run.reloaders.clone()).unwrap_or_default();
        let precedence = Precedence::of(&operators);
        let mut has_refused = false;
        for (operator, (name, reloader)) in operators.into_iter().zip(reloaders) {
            let is_repeated = self.chaos.is_some() && !is_refused;
            match reload_one(&reloader, &operator, precedence.before(&name), is_repeated).await {
                Ok(Reloaded::Unchanged) | Err(ReloadError::Ended) => {}
                Ok(Reloaded::Changed(_)) => self.record(format!("operator {name} is reloaded")),
                Ok(Reloaded::OnTrial(_)) => self.record(format!("operator {name} tries the new revision on a share of the objects")),
                Err(ReloadError::Starting) => return self.start_anew().await,
                Err(failure) if is_refused => {
                    has_refused = true;
                    self.record(format!("operator {name} is not reloaded: {}", chain(&failure)));
                }
                Err(failure) => return Err(format!("operator {name} is not reloaded: {}", chain(&failure))),
            }
        }
        // A disturbed operator may have been killed meanwhile.
        if is_refused && !has_refused && self.chaos.is_none() {
            return Err("the files have taken effect, but should be refused".to_owned());
        }
        Ok(())
    }

    /// Operators that have not started yet start anew with changed files.
    async fn start_anew(&self) -> Result<(), String> {
        let _guard = self.lock_transition().await;
        self.record("the operator is still starting, and starts anew with the changed files".to_owned());
        if let Some(run) = self.run.lock().await.take() {
            self.end(run).await;
        }
        self.start().await
    }

    /// Grants the operators what they need, if they have only that.
    async fn grant(&self, operators: &[Operator]) -> Result<(), String> {
        if self.scenario.has_derived_rights { rights::grant(&self.api, operators, &self.scenario).await } else { Ok(()) }
    }

    /// Changes files. The inner result has the operators, or their first mistake.
    fn change_files(&self, changes: &FileChanges) -> Result<Result<Vec<Operator>, String>, String> {
        let mut files = self.files.lock();
        if files.is_none() {
            *files = Some(RevisedFiles::copy(&self.scenario.operators)?);
        }
        Ok(files.as_ref().map_or_else(|| Ok(Vec::new()), |files| files.change(changes)))
    }

    /// Waits until nothing is pending, up to a time limit.
    ///
    /// # Errors
    /// The work still pending after the limit.
    pub(super) async fn settle(&self, within: Duration) -> Result<(), String> {
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
            self.wait_for_change(deadline.min(Instant::now() + POLL_INTERVAL)).await;
        }
    }

    /// Settles, then writes the objects whose last cycle failed, and repeats: such an object is processed again only at
    /// its next event.
    ///
    /// # Errors
    /// The work still pending after the limit.
    pub(super) async fn settle_all(&self, within: Duration) -> Result<(), String> {
        let deadline = Instant::now() + within;
        let mut attempts = 0;
        loop {
            self.settle(deadline.saturating_duration_since(Instant::now())).await?;
            let failed = self.invariants.failed_objects();
            if failed.is_empty() || attempts >= MAX_TOUCHES {
                return Ok(());
            }
            for subject in &failed {
                self.touch(subject).await;
            }
            attempts += 1;
        }
    }

    /// Writes an object as another client would, without changing fields that operators read.
    async fn touch(&self, subject: &Subject) {
        let Subject { group, kind, namespace, name } = subject;
        let registry = self.api.registry();
        let served =
            registry.all().find(|served| served.kind.group == *group && served.kind.kind == *kind).map(|served| served.full_name());
        let namespace = Some(namespace.as_str()).filter(|namespace| !namespace.is_empty());
        let Some(Ok(found)) = served.map(|resource| admin_client::find(&self.api, &resource, name, namespace)) else { return };
        self.record(format!("another client writes {subject}, whose last cycle failed"));
        let patch = json!({"metadata": {"annotations": {FOREIGN_ANNOTATION: self.api.revision().to_string()}}});
        // An object that is being deleted at this moment needs no event.
        let _ = admin_client::patch(&self.api, &found, None, "application/merge-patch+json", &patch).await;
    }

    /// Returns the differences of the operators' indexes from new indexes of the same objects.
    pub(super) async fn stale_indexes(&self) -> Vec<String> {
        let current = self.run.lock().await;
        let Some(run) = current.as_ref() else { return Vec::new() };
        let mut differences = Vec::new();
        for (operator, indexes) in self.operators().iter().zip(run.indexes()) {
            differences.extend(fresh_indexes::differences(&self.api, &self.scenario, operator, &indexes, &self.clock).await);
        }
        differences
    }

    pub(super) async fn broken(&self) -> Vec<Broken> {
        self.run.lock().await.as_ref().map(OperatorRun::broken).unwrap_or_default()
    }

    /// Describes the pending work, or `None` if there is none.
    async fn pending(&self) -> Result<Option<String>, String> {
        let mut current = self.run.lock().await;
        let Some(run) = current.as_mut() else {
            let has_failed = self.exit.lock().as_ref().is_some_and(|exit| exit.code != 0);
            return Ok((!has_failed).then(|| "the operator is stopped".to_owned()));
        };
        if let Some(exit) = run.exit().await {
            return self.handle_exit(exit, &mut current).await.map(|()| Some("the operator has exited".to_owned()));
        }
        if !run.is_ready() {
            return Ok(Some("the operator has not listed everything yet".to_owned()));
        }
        if !run.is_quiet() {
            return Ok(Some(run.pending()));
        }
        if !self.api.is_settled() {
            return Ok(Some("the controllers of the server are still working".to_owned()));
        }
        Ok(run.transport.pending())
    }

    async fn wait_for_change(&self, until: Instant) {
        let current = self.run.lock().await;
        let sources = current.as_ref().map(|run| (run.monitors.clone(), run.transport.clone()));
        drop(current);
        let Some((monitors, transport)) = sources else { return tokio::time::sleep_until(until).await };
        tokio::select! {
            biased;
            () = operator_run::changed(&monitors) => {}
            () = transport.changed() => {}
            () = tokio::time::sleep_until(until) => {}
        }
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

impl Observations for Environment {
    fn object(&self, target: &Target) -> Result<ObservedObject, String> {
        let found = self.find(target)?;
        let kind = &found.served.kind;
        let (namespace, name) = found.key.clone();
        let subject = Subject { group: kind.group.clone(), kind: kind.kind.clone(), namespace, name };
        Ok(ObservedObject { subject, plural: kind.plural.clone(), value: found.value() })
    }

    fn has_existed(&self, observed: &ObservedObject, namespace: Option<&str>) -> bool {
        let is_in_namespace = |subject: &Subject| namespace.is_none_or(|namespace| namespace == subject.namespace);
        self.subjects(&observed.subject).any(|subject| subject.name == observed.subject.name && is_in_namespace(&subject))
    }

    fn names(&self, subject: &Subject) -> Vec<String> {
        self.subjects(subject).map(|subject| subject.name).collect()
    }

    fn index(&self, name: &str) -> Result<Value, String> {
        let run = self.run.try_lock().map_err(|_| "the operator is starting".to_owned())?;
        let run = run.as_ref().ok_or_else(|| "the operator is stopped".to_owned())?;
        let found = run.indexes().into_iter().find_map(|indexes| indexes.get(name).map(|index| index.to_value()));
        found.ok_or_else(|| "the operator has no such index".to_owned())
    }

    fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    fn tasks(&self, subject: &Subject) -> Result<Vec<String>, String> {
        let running = Arc::clone(&self.running_tasks.lock());
        let ids = running.lock().iter().filter(|(of, _)| of == subject).map(|(_, handler)| handler.clone()).collect();
        Ok(ids)
    }

    fn events(&self) -> Vec<Arc<Value>> {
        let events = Resource { group: String::new(), plural: "events".to_owned() };
        self.api.list(&events, None).into_iter().map(|(_, stored)| Arc::clone(&stored.value)).collect()
    }

    fn metrics(&self) -> Result<Vec<Sample>, String> {
        Ok(metrics::samples(&self.endpoints.lock().metrics.text()))
    }

    fn exit(&self) -> Option<Exited> {
        self.exit.lock().clone()
    }

    fn pauses(&self) -> Vec<String> {
        let endpoints = self.endpoints.lock().clone();
        let status = endpoints.board.status(&endpoints.health);
        status.operators.into_iter().flat_map(|operator| operator.paused).collect()
    }

    async fn probes(&self) -> Option<ProbeAnswer> {
        let endpoints = self.endpoints.lock().clone();
        let answer = endpoints.probes().await?;
        Some(ProbeAnswer { status: answer.status, body: answer.body })
    }

    async fn evaluate(&self, question: &Question) -> Result<bool, String> {
        let start = || Interpreter::start(self.scenario.expressions.clone(), self.clock.clone(), self.seed);
        self.interpreter.get_or_try_init(start).await?.evaluate(question).await
    }
}

impl Drop for Environment {
    fn drop(&mut self) {
        self.controllers.request("the end of the scenario");
    }
}
/// Reloads an operator. Disturbances may prevent that its indexes are filled: as in a process, that is tried again.
async fn reload_one(reloader: &Reloader, operator: &Operator, earlier: Precedence, is_repeated: bool) -> Result<Reloaded, ReloadError> {
    loop {
        let reloaded = reloader.reload(operator.clone(), earlier.clone()).await;
        if !is_repeated || !matches!(reloaded, Err(ReloadError::Index { .. })) {
            return reloaded;
        }
        tokio::time::sleep(RELOAD_PAUSE).await;
    }
}
