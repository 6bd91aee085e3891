//! One operator, from its checked manifest to its last worker.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::FusedFuture as _;
use jiff::Timestamp;
use parking_lot::Mutex;
use tracing::{error, info, warn};

use crate::cluster::config::{self, BuiltIn, CredentialSources};
use crate::cluster::transport::Login;
use crate::cluster::{self, Client, ConnectionSettings, ObjectClient, ResourceResolver};
use crate::handling::trial::{Fault, TrialVerdict};
use crate::handling::{Handler, Level, Policy};
use crate::kit::{Clock, Stop, Tasks};
use crate::manifest::canary::Canary;
use crate::manifest::operator::Moment;
use crate::manifest::{Operator, Settings};
use crate::persistence::{Keys, MissingKey};
use crate::script::host::{self, Fibers, Threads};
use crate::script::{Credentials, Host, Indexes, Problem, Program};

use super::activity::ActivityMonitor;
use super::admission::{Admission, AdmissionError, Reach, Reviewed, Unready, WatchedKinds};
use super::built_in_credentials::BuiltInCredentials;
use super::change_log::ChangeLog;
use super::live_effects::{HostScripts, LiveEffects};
use super::observer::{Declared, Observer, Reviser, Scope};
use super::precedence::Precedence;
use super::reload::{self, Loaded, Preparation, Prepared, ReloadError, Reloaded, Reloads, Revising};
use super::revision::Revision;
use super::rights;
use super::script_api::ScriptApi;
use super::status::{Functions, LiveStatus, shown};
use super::trial::{Trial, TrialEnd};
use super::worker::WorkerSettings;
use crate::engines::activities::login::{ActivityLogin, Server};
use crate::engines::activities::probes::Probes;
use crate::engines::activities::{Activities, ActivityError};
use crate::engines::admission::reviewer::{ReviewRevision, Reviewer, ReviewerParts};
use crate::engines::background::BackgroundOptions;
use crate::engines::deployment;
use crate::engines::effects::{Indexing as _, Scripts};
use crate::engines::endpoints::Endpoints;
use crate::engines::events::{EventSink, EventStream, LogSink};
use crate::engines::health::Health;
use crate::engines::leading::{Campaign, Election, HANDOVER_TIMEOUT, Lead, LeadingOptions, LeadingView, Led};
use crate::engines::metrics::MetricsSink;
use crate::engines::pause::Pause;
use crate::engines::peering::{Conflict, Overrides, PeeringContext, Peerings, ProcessPeering};
use crate::engines::posting::{self, LogPoster, Poster, Queue};
use crate::engines::schedules::store::ScheduleStore;
use crate::engines::schedules::{ScheduleContext, Schedules};
use crate::engines::status::{RolledBack, StatusSource};
use crate::telemetry::metrics::IndexMetrics;
use crate::telemetry::{Metrics, OperatorMetrics};

/// Time limit of the end of the posting of Events: for the queued ones, and for a request that is not answered.
const POSTING_TIMEOUT: Duration = Duration::from_secs(3);

/// How long the leader posts its queued Events before another replica takes over.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(200);

/// The shared state of the operators of one process.
#[derive(Debug, Clone)]
pub struct Shared {
    /// The clock.
    pub clock: Clock,
    /// Which namespaces are served.
    pub scope: Scope,
    /// The operators in their order: of two that would overwrite each other's records on a kind, the first one serves it.
    pub precedence: Precedence,
    /// The monitor of the activity, if there is one.
    pub monitor: Option<Arc<ActivityMonitor>>,
    /// Further sinks of engine events, besides the log and the monitor.
    pub events: EventStream,
    /// Whether changes of objects are logged.
    pub has_change_log: bool,
    /// The threads of the scripts of each operator.
    pub script_threads: Threads,
    /// The fibers of the process, which all operators share.
    pub fibers: Fibers,
    /// The seed of randomness, in simulations.
    pub seed: Option<u64>,
    /// The times after which an exiting process is killed.
    pub exit_timeouts: ExitTimeouts,
    /// The endpoints of the process.
    pub endpoints: Endpoints,
    /// The keys of the digests that stand for the values of Secrets.
    pub digest_keys: Keys,
    /// Whether new revisions are tried on a share of the objects first, if the settings say so.
    pub has_trials: bool,
    /// The name of the pod that the process runs in, if it runs in one.
    pub pod: Option<String>,
    /// The admission webhooks of the process.
    pub admission: Admission,
    /// What the process says about itself to the peers of its operators.
    pub peering: ProcessPeering,
    /// How the replicas of each operator elect their leader; without it, this process handles.
    pub leading: Option<LeadingOptions>,
    /// Whether the rights of the operators are checked at their start.
    pub checks_rights: bool,
}

/// The time after which the exiting process is killed: the longest of its operators.
#[derive(Debug, Clone, Default)]
pub struct ExitTimeouts(Arc<Mutex<BTreeMap<String, Option<Duration>>>>);

impl ExitTimeouts {
    /// Sets the time of an operator; `None` means no limit.
    pub fn set(&self, operator: &str, timeout: Option<Duration>) {
        self.0.lock().insert(operator.to_owned(), timeout);
    }

    /// Returns the time of an operator; `None` means no limit.
    pub fn of(&self, operator: &str) -> Option<Duration> {
        self.0.lock().get(operator).copied().flatten()
    }

    /// Returns the longest time; `None` if an operator has no limit.
    pub fn longest(&self) -> Option<Duration> {
        let timeouts: Option<Vec<Duration>> = self.0.lock().values().copied().collect();
        timeouts?.into_iter().max()
    }
}

/// How an operator connects to the API server.
pub struct Access {
    /// The login of operators without login functions.
    pub login: Box<dyn Login>,
    /// The server of operators with login functions.
    pub server: ServerChoice,
    /// The credentials of the built-in logins, for login functions.
    pub credentials: Arc<dyn Credentials>,
}

impl Access {
    /// Returns the access by the built-in logins of this process, with the kubeconfig and the context of the options.
    pub fn of_process(options: config::Options, server: ServerChoice) -> Self {
        let login = Box::new(BuiltIn::new(options.clone(), CredentialSources::of_process()));
        Self { login, server, credentials: Arc::new(BuiltInCredentials::of_process(options)) }
    }
}

/// The server of an operator with login functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerChoice {
    /// The one that the login functions name.
    Declared,
    /// Always that of the default login: the embedded API server.
    Default,
}

/// Why an operator cannot run.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Its scripts cannot be installed.
    #[error("failed to install the scripts of operator {operator}")]
    Scripts {
        /// The operator.
        operator: String,
        /// The problems.
        problems: Vec<Problem>,
    },
    /// The system cannot create the script threads.
    #[error("failed to start the script threads")]
    Threads(#[source] std::io::Error),
    /// The values of Secrets cannot be digested.
    #[error(transparent)]
    Key(#[from] MissingKey),
    /// A startup handler has failed.
    #[error(transparent)]
    Startup(ActivityError),
    /// It cannot be one peer with another operator of the process.
    #[error(transparent)]
    Peering(#[from] Conflict),
    /// There are no usable credentials.
    #[error("cannot connect to the cluster")]
    Login(#[source] cluster::Error),
    /// The webhooks cannot be served.
    #[error("cannot serve the webhooks of operator {operator}")]
    Admission {
        /// The operator.
        operator: String,
        /// The cause.
        #[source]
        source: AdmissionError,
    },
    /// The kinds of the cluster cannot be discovered.
    #[error("failed to discover the kinds of the cluster")]
    Discovery(#[source] cluster::Error),
    /// A cleanup handler has failed.
    #[error(transparent)]
    Cleanup(ActivityError),
}

/// Serves an operator until the stop is requested: first its startup, then the login and the watches, and its cleanup last. A request to
/// reload it before it watches is answered with [`ReloadError::Starting`].
///
/// # Errors
/// If its scripts cannot be installed, a startup or cleanup handler fails, or the login or the discovery fails at the start. An operator
/// with login functions also ends if a later login fails.
pub async fn serve(mut operator: Operator, access: Access, shared: Shared, mut reloads: Reloads, stop: Stop) -> Result<(), ServeError> {
    let is_clusterwide = matches!(shared.scope, Scope::Cluster);
    shared.peering.overrides.apply(&mut operator.settings.peering, is_clusterwide);
    let settings = operator.settings.clone();
    settings.persistence.storages.clone().with_keys(&shared.digest_keys)?;
    let starting = shared.endpoints.health.gate(format!("operator '{}' is starting", operator.name));
    let started = start(&operator, access, &shared, &stop).await?;
    let activities = Arc::clone(&started.activities);
    let started_up = tokio::select! {
        settings = activities.start_up(settings, &stop) => settings,
        never = reloads.answer_at_start(&started.revision) => never,
    };
    let settings = match started_up {
        Ok(settings) => settings,
        Err(ActivityError::Stopped) => return Ok(()),
        Err(failed) => return Err(ServeError::Startup(failed)),
    };
    let _member = shared.peering.peers.join(&operator.name, &settings.peering)?;
    drop(starting);
    shared.exit_timeouts.set(&operator.name, settings.process.ultimate_exiting_timeout);
    started.client.configure(connection(&settings));
    started.scripts.host.set_memory(settings.scripts.memory);
    if let Some(log) = &started.log {
        log.set_prefix(settings.persistence.storages.prefix());
    }
    let exit_timeouts = shared.exit_timeouts.clone();
    let name = operator.name.clone();
    let probes = shared.endpoints.register(&operator.name, Probes::new(Arc::clone(&activities), stop.clone()));
    let mut posting = PostingTask::default();
    let served = Box::pin(run(operator, started, settings, shared, (reloads, stop), &mut posting)).await;
    drop(probes);
    let cleaned = activities.clean_up(exit_timeouts.of(&name)).await.map_err(ServeError::Cleanup);
    // Cleanup functions may post Events, too.
    posting.end().await;
    served.and(cleaned)
}

/// The task that posts Events; it begins after the login.
#[derive(Default)]
struct PostingTask {
    stop: Stop,
    tasks: Tasks<()>,
}

impl PostingTask {
    async fn end(mut self) {
        self.stop.request("the operator ends");
        self.tasks.finish(POSTING_TIMEOUT).await;
    }
}

/// An operator whose scripts are installed.
struct Started {
    /// The digest of its files.
    revision: String,
    scripts: Arc<HostScripts>,
    client: Client,
    kinds: Arc<ResourceResolver>,
    activities: Arc<Activities>,
    events: EventStream,
    log: Option<Arc<ChangeLog>>,
    poster: Poster,
    posted: Queue,
    counted: Arc<MetricsSink>,
    lead: Lead,
}

/// Installs the scripts of an operator. The client logs in with its first request.
async fn start(operator: &Operator, access: Access, shared: &Shared, stop: &Stop) -> Result<Started, ServeError> {
    let Operator { name, settings, .. } = operator;
    let Access { login, server, credentials } = access;
    let own = Arc::new(OnceLock::new());
    let has_login = operator.activities.iter().any(|activity| activity.moment == Moment::Login);
    let login: Box<dyn Login> = match (has_login, server) {
        (false, _) => login,
        (true, ServerChoice::Declared) => Box::new(ActivityLogin::new(Server::Declared, Arc::clone(&own), stop.clone())),
        (true, ServerChoice::Default) => Box::new(ActivityLogin::new(Server::Fixed(login), Arc::clone(&own), stop.clone())),
    };
    let client = Client::new(login, connection(settings), shared.clock.clone());
    let metrics = shared.endpoints.metrics.operator(name);
    client.measure(metrics.clone());
    let kinds = Arc::new(ResourceResolver::new(client.clone()));
    let log = shared.has_change_log.then(|| Arc::new(ChangeLog::new(settings.persistence.storages.prefix())));
    let (poster, posted) = posting::queue(settings.posting.clone());
    let lead = shared.leading.as_ref().map_or_else(Lead::permanent, |_| Lead::elected(shared.clock.clone()));
    let api_with = |client, poster| ScriptApi::new(ObjectClient::new(client, name), Arc::clone(&kinds), poster).logged_by(log.clone());
    let mut api = api_with(client.clone(), poster.clone());
    let mut led_poster = poster.clone();
    if lead.is_elected() {
        led_poster = poster.fenced(Arc::new(lead.clone()));
        api = api_with(client.fenced(Arc::new(lead.clone())), led_poster.clone()).beside(api);
    }
    let failed = |problems| ServeError::Scripts { operator: name.clone(), problems };
    let program = Program::load(operator.declaration.clone()).inspect_err(|_| metrics.load_failed()).map_err(failed)?;
    let revision = operator.revision(&program);
    let options = host::Options {
        threads: shared.script_threads,
        fibers: shared.fibers.clone(),
        clock: shared.clock.clone(),
        seed: shared.seed,
        api: Some(Arc::new(api)),
        credentials: Some(credentials),
        memory: settings.scripts.memory,
    };
    let host = Host::start(options).map_err(ServeError::Threads)?;
    let installed = host.install(Arc::new(program)).await.inspect_err(|_| metrics.load_failed()).map_err(failed)?;
    metrics.loaded(&revision, shared.clock.now());
    measure_indexes(&shared.endpoints.metrics, &metrics, installed.indexes());
    if let Some(monitor) = &shared.monitor {
        monitor.indexes_installed(name, installed.indexes());
    }
    let scripts = Arc::new(HostScripts::new(host, installed, &metrics));
    let counted = Arc::new(MetricsSink::new(metrics));
    let counting = EventStream::default().with(Arc::clone(&counted) as Arc<dyn EventSink>).with(Arc::new(LogPoster(led_poster)));
    let events = event_stream(shared.monitor.clone(), counting.with(Arc::new(shared.events.clone())), log.clone());
    let calls = Arc::clone(&scripts) as Arc<dyn Scripts>;
    let activities = Activities::new(calls, operator.activities.clone(), settings, shared.clock.clone(), events.clone());
    let activities = Arc::new(activities);
    own.set(Arc::downgrade(&activities)).expect("the activities are given once");
    Ok(Started { revision, scripts, client, kinds, activities, events, log, poster, posted, counted, lead })
}

/// Has the sizes of indexes read with the metrics: they change at almost every event.
fn measure_indexes(metrics: &Metrics, operator: &OperatorMetrics, indexes: &Arc<Indexes>) {
    let gauges: Vec<IndexMetrics> = indexes.iter().map(|index| operator.index(index.name())).collect();
    let indexes = Arc::downgrade(indexes);
    metrics.refreshed_by(move || {
        let Some(indexes) = indexes.upgrade() else { return false };
        indexes.iter().zip(&gauges).for_each(|(index, gauge)| gauge.set(index.objects(), index.keys()));
        true
    });
}

/// Logs in and watches until the stop is requested, or the login functions fail.
async fn run(
    operator: Operator,
    started: Started,
    settings: Settings,
    shared: Shared,
    (mut reloads, stop): (Reloads, Stop),
    posting: &mut PostingTask,
) -> Result<(), ServeError> {
    let metrics = shared.endpoints.metrics.operator(&operator.name);
    let program = Arc::clone(started.scripts.installed.program());
    let loaded = Loaded::first(&operator, &program, &settings);
    let background = BackgroundOptions::of(&operator.timers, &operator.daemons, &program, &settings, &metrics);
    let background = BackgroundOptions { revision: loaded.revision.as_str().into(), ..background };
    let handlers = operator.indexes.iter().chain(operator.object_handlers()).cloned().collect();
    let functions = Mutex::new(Functions::of(&operator));
    let checked = shared.checks_rights.then(|| Operator { settings: settings.clone(), ..operator.clone() });
    let webhook_kinds = reload::webhook_kinds(&operator);
    let Operator { name, defaults, schedules, webhooks, conversions, .. } = operator;
    let Started { revision, scripts, client, kinds, activities, events, log, poster, posted, counted, lead } = started;
    tokio::select! {
        biased;
        () = stop.requested() => return Ok(()),
        logged_in = client.log_in() => logged_in.map_err(ServeError::Login)?,
        never = reloads.answer_at_start(&revision) => never,
    }
    let own_stop = stop.child();
    posted.configure(settings.posting.clone());
    let posts = posted.run(client.clone(), shared.clock.clone(), name.clone(), posting.stop.clone());
    posting.tasks.spawn("posting of Events", posts);
    if let Some(checked) = checked {
        let at_home = shared.leading.as_ref().filter(|options| options.namespace.is_none());
        let lease = at_home.map(|options| options.lease.clone().unwrap_or_else(|| name.clone()));
        let check = rights::check(checked, client.clone(), shared.scope.clone(), lease);
        let stop = own_stop.child();
        posting.tasks.spawn("check of rights", async move {
            tokio::select! {
                biased;
                () = stop.requested() => {}
                () = check => {}
            }
        });
    }
    let Shared { endpoints, exit_timeouts, pod, has_trials, .. } = &shared;
    let (endpoints, exit_timeouts) = (endpoints.clone(), exit_timeouts.clone());
    let (pod, has_trials) = (pod.clone(), *has_trials);
    let pause = Pause::default();
    let health = endpoints.health.of_operator(&pause);
    let calls = Arc::clone(&scripts) as Arc<dyn Scripts>;
    let writer = if lead.is_elected() { client.fenced(Arc::new(lead.clone())) } else { client.clone() };
    let effects = LiveEffects::new(scripts, writer.clone(), shared.clock.clone()).with_events(events.clone()).with_seed(shared.seed);
    let effects = effects.with_health(health.clone(), format!("operator '{name}' has not filled its indexes yet"));
    let effects = effects.with_background(background);
    let review_calls = Arc::clone(&calls);
    let (clock, review_events) = (shared.clock.clone(), events.clone());
    let election = shared.leading.as_ref().map(|options| {
        effects.background().iter().for_each(|background| background.limit_exit(HANDOVER_TIMEOUT));
        let (operator, view) = (name.clone(), LeadingView::default());
        let led = Arc::clone(&effects) as Arc<dyn Led>;
        let (client, clock, lead, metrics) = (client.clone(), shared.clock.clone(), lead.clone(), metrics.clone());
        let campaign = Campaign { operator, client, clock, lead, led, metrics, view: view.clone() };
        (Election::start(options, campaign), view)
    });
    let (election, leading) = election.unzip();
    let exit_limit = if lead.is_elected() { HANDOVER_TIMEOUT } else { Duration::MAX };
    let schedule_context = ScheduleContext {
        scripts: calls,
        clock: shared.clock.clone(),
        pause: pause.clone(),
        events,
        lead: lead.clone(),
        readiness: effects.readiness().map(Arc::clone).unwrap_or_default(),
        metrics: metrics.clone(),
        store: ScheduleStore::new(writer, &name),
        settings: activities.settings(),
        default_backoff: settings.execution.default_backoff,
        error_delays: settings.queueing.error_delays.clone().into(),
        exit_timeout: settings.queueing.exit_timeout.min(exit_limit),
    };
    let peering = (shared.peering.overrides.clone(), matches!(shared.scope, Scope::Cluster));
    let peerings = peerings(&name, &settings, &shared, &client, &pause);
    let earlier = shared.precedence.before(&name);
    let storages = settings.persistence.storages.clone().with_keys(&shared.digest_keys)?;
    let declared = Declared {
        storages: Arc::new(storages),
        revision: loaded.revision.as_str().into(),
        earlier,
        sub_defaults: defaults,
        webhooks: webhook_kinds,
        monitor: shared.monitor.clone(),
        health,
        pause: pause.clone(),
        metrics: metrics.clone(),
        exit_timeout: settings.queueing.exit_timeout.min(exit_limit),
        lead,
        ..declare(&name, handlers, &settings, shared.scope)
    };
    #[cfg(test)]
    let schedules = super::defects::spoiled_schedules(schedules);
    // The observer holds up the schedules, too, until it knows which kinds are indexed.
    let mut observer = Observer::new(declared, effects, client.clone(), kinds);
    if let Some(peerings) = peerings {
        observer = observer.with_peerings(peerings);
    }
    let (revisions, watched) = observer.view();
    let reviewer = Arc::new(Reviewer::new(ReviewerParts {
        operator: name.as_str().into(),
        revision: ReviewRevision { scripts: review_calls, webhooks, conversions },
        kinds: observer.webhook_kinds(),
        watched: Arc::new(WatchedKinds(watched.clone())),
        clock: clock.clone(),
        events: review_events,
        metrics: metrics.clone(),
        // Calls that have begun run to their end, as the reviews do.
        stop: Stop::new(),
    }));
    let (admission, at_start) = (shared.admission.clone(), settings.clone());
    let gate = endpoints.health.gate(format!("the API server does not know the webhooks of operator '{name}' yet"));
    let unready: Unready = Arc::new((gate, shared.monitor.as_ref().map(ActivityMonitor::webhooks_unready)));
    let status = Arc::new(LiveStatus {
        name: name.clone(),
        revisions,
        kinds: watched,
        functions,
        calls: counted,
        metrics: metrics.clone(),
        pause,
        trial: Mutex::default(),
        rolled_back: Mutex::default(),
        leading,
    });
    let _listed = endpoints.board.list(&name, Arc::clone(&status) as Arc<dyn StatusSource>);
    let reviews_client = client.clone();
    let mut running = RunningOperator {
        status,
        reviewer: Arc::clone(&reviewer),
        needs_server: matches!(admission.reach, Reach::Network(_)),
        settings,
        trial: None,
        refused: None,
        has_trials,
        pod,
        peering,
        health: endpoints.health.clone(),
        loaded,
        reviser: observer.reviser(),
        client: client.clone(),
        activities: Arc::clone(&activities),
        schedules: Schedules::start(schedules, &schedule_context, &own_stop),
        schedule_context,
        poster,
        log,
        metrics,
        process_metrics: endpoints.metrics,
        monitor: shared.monitor,
        exit_timeouts,
        stop: own_stop.clone(),
    };
    // Reviews are answered until the last worker has ended.
    let reviews_stop = Stop::new();
    let reviewed = Reviewed { reviewer, settings: &at_start, client: &reviews_client, clock: &clock, unready };
    let mut reviews = Box::pin(admission.serve(reviewed, &reviews_stop)).fuse();
    let served = {
        let mut observed = std::pin::pin!(observer.run(own_stop.clone()));
        tokio::select! {
            ended = &mut observed => ended.map_err(ServeError::Discovery),
            failure = client.login_failed(), if activities.has(Moment::Login) => {
                own_stop.request("the login has failed");
                // The error of the discovery would only repeat that of the login.
                let _ = observed.await;
                if stop.is_requested() { Ok(()) } else { Err(ServeError::Login(failure.into())) }
            }
            failed = &mut reviews => {
                own_stop.request("the webhooks cannot be served");
                let observed = observed.await.map_err(ServeError::Discovery);
                failed.map_err(|source| ServeError::Admission { operator: name.clone(), source }).and(observed)
            }
            () = reloads.answer(&mut running) => Ok(()),
        }
    };
    own_stop.request("the operator ends");
    reviews_stop.request("the operator ends");
    let reviewed = if reviews.is_terminated() { Ok(()) } else { reviews.await };
    running.end_trial();
    running.schedules.finish().await;
    if let Some(election) = election {
        running.poster.flush(FLUSH_TIMEOUT).await;
        election.end().await;
    }
    served.and(reviewed.map_err(|source| ServeError::Admission { operator: name, source }))
}

/// An operator that watches, and can be reloaded.
struct RunningOperator {
    status: Arc<LiveStatus<LiveEffects>>,
    reviewer: Arc<Reviewer>,
    /// Whether webhooks need a server of the settings.
    needs_server: bool,
    /// The settings of the revision in service.
    settings: Settings,
    trial: Option<Trial>,
    /// The digest of the revision that was rolled back: it is not tried again while the files are the same.
    refused: Option<Arc<str>>,
    has_trials: bool,
    pod: Option<String>,
    /// The options of peering, and whether the operator serves all namespaces.
    peering: (Overrides, bool),
    health: Health,
    loaded: Loaded,
    reviser: Reviser<LiveEffects>,
    client: Client,
    activities: Arc<Activities>,
    schedules: Schedules,
    schedule_context: ScheduleContext,
    poster: Poster,
    log: Option<Arc<ChangeLog>>,
    metrics: OperatorMetrics,
    process_metrics: Metrics,
    monitor: Option<Arc<ActivityMonitor>>,
    exit_timeouts: ExitTimeouts,
    stop: Stop,
}

impl Revising for RunningOperator {
    async fn reload(&mut self, operator: Operator, earlier: Precedence, outdated: &Stop) -> Result<Reloaded, ReloadError> {
        // Boxed, because an operator has no place for the state of a rare event.
        let reloaded = Box::pin(self.replace(operator, earlier, outdated)).await;
        reloaded.inspect_err(|failure| {
            if !matches!(failure, ReloadError::Outdated | ReloadError::Ended) {
                self.metrics.load_failed();
            }
        })
    }

    async fn due(&self) {
        match &self.trial {
            Some(trial) => trial.due().await,
            None => std::future::pending().await,
        }
    }

    async fn act(&mut self) {
        match self.trial.as_mut().map(Trial::decide) {
            None | Some(TrialVerdict::Continue) => {}
            // Boxed, because an operator has no place for the state of a rare event.
            Some(TrialVerdict::Promote) => Box::pin(self.promote()).await,
            Some(TrialVerdict::RollBack(fault)) => self.roll_back(fault).await,
        }
    }
}

impl RunningOperator {
    async fn replace(&mut self, mut operator: Operator, earlier: Precedence, outdated: &Stop) -> Result<Reloaded, ReloadError> {
        let (overrides, is_clusterwide) = &self.peering;
        overrides.apply(&mut operator.settings.peering, *is_clusterwide);
        let program = Program::load(operator.declaration.clone()).map_err(ReloadError::Scripts)?;
        let program = program.after(self.reviser.newest().world.scripts().installed.program());
        let revision = operator.revision(&program);
        if revision == self.loaded.revision {
            self.metrics.loaded(&revision, self.now());
            self.withdraw().await;
            return Ok(Reloaded::Unchanged);
        }
        let is_on_trial = self.trial.as_ref().is_some_and(|trial| **trial.revision() == *revision);
        if is_on_trial || self.refused.as_deref() == Some(&*revision) {
            return Ok(Reloaded::Unchanged);
        }
        let (reviser, client, metrics, stop) = (&self.reviser, &self.client, &self.metrics, &self.stop);
        let preparation = Preparation { reviser, client, metrics, stop, outdated };
        let prepared = preparation.prepare(operator, earlier, program, &mut self.loaded).await?;
        if let Some(trial) = self.trial.take() {
            self.report_end(&trial.give_up(), &TrialEnd::Replaced);
        }
        self.forget_rollback();
        if let Some(canary) = prepared.settings.reload.canary.filter(|_| self.has_trials) {
            self.try_out(prepared, canary).await;
            return Ok(Reloaded::OnTrial(revision));
        }
        self.take_effect(prepared).await;
        Ok(Reloaded::Changed(revision))
    }

    fn now(&self) -> Timestamp {
        self.schedule_context.clock.now()
    }

    /// Lets a revision serve a share of the objects. The settings, the kinds and what belongs to the operator itself stay as they are.
    async fn try_out(&mut self, prepared: Prepared, canary: Canary) {
        let running = self.reviser.newest();
        let revision = prepared.revision.with_settings_of(&running);
        let options = self.background_options(&prepared, &self.settings);
        let trial = Trial::begin(prepared, canary, &running);
        if let Some(background) = revision.world.background() {
            background.try_out(revision.number, Arc::downgrade(&revision.world), options, trial.scope());
        }
        self.metrics.loaded(&self.loaded.revision, self.now());
        self.metrics.trial_began(trial.revision());
        self.note_trial(Some(trial.description()));
        *self.status.trial.lock() = Some(trial.view(self.now()));
        let name = &trial.prepared.operator.name;
        info!(target: "kopfd::reload", revision = &**trial.revision(), before = self.loaded.revision, "Operator '{name}' is reloaded: {}.", trial.description());
        self.reviser.try_out(revision, trial.share()).await;
        self.trial = Some(trial);
    }

    /// Lets the revision on trial take effect for all objects.
    async fn promote(&mut self) {
        let Some(trial) = self.trial.take() else { return };
        let prepared = trial.end();
        let message = format!("Revision {} was tried, and takes effect for all objects.", prepared.revision.digest);
        self.report_end(&prepared, &TrialEnd::Promoted);
        self.take_effect(prepared).await;
        self.report_to_deployment(Level::Info, "RevisionPromoted", &message).await;
    }

    /// Lets the revision before serve all objects again.
    async fn roll_back(&mut self, fault: Fault) {
        let Some(trial) = self.trial.take() else { return };
        let prepared = trial.give_up();
        self.leave_trial().await;
        let (revision, before, reason) = (Arc::clone(&prepared.revision.digest), self.loaded.revision.clone(), fault.text.clone());
        self.report_end(&prepared, &TrialEnd::RolledBack(fault));
        let name = &prepared.operator.name;
        let message = format!("Revision {revision} is rolled back to {before}: {reason}.");
        error!(target: "kopfd::reload", revision = &*revision, before, "Operator '{name}': {message} It is not tried again until the files change.");
        self.note_trial(Some(format!("revision {revision} of operator '{name}' was rolled back to {before}: {reason}")));
        *self.status.rolled_back.lock() = Some(RolledBack { revision: revision.to_string(), at: shown(self.now()), reason });
        self.refused = Some(revision);
        self.report_to_deployment(Level::Error, "RevisionRolledBack", &message).await;
    }

    /// Ends the trial, if there is one, since the files are those of the revision in service again.
    async fn withdraw(&mut self) {
        self.forget_rollback();
        let Some(trial) = self.trial.take() else { return };
        let prepared = trial.give_up();
        self.leave_trial().await;
        self.report_end(&prepared, &TrialEnd::Withdrawn);
        let (name, revision, before) = (&prepared.operator.name, &*prepared.revision.digest, &self.loaded.revision);
        info!(target: "kopfd::reload", revision, before, "Operator '{name}': the trial of revision {revision} has ended, since the files are those of {before} again.");
    }

    /// Lets the revision in service follow all objects: first the tasks of objects, then all events.
    async fn leave_trial(&self) {
        let running = self.reviser.newest();
        if let Some(background) = running.world.background() {
            background.withdraw();
        }
        self.reviser.withdraw().await;
    }

    fn report_end(&self, prepared: &Prepared, end: &TrialEnd) {
        self.metrics.trial_ended(&prepared.revision.digest, end.outcome());
        self.note_trial(None);
        *self.status.trial.lock() = None;
    }

    /// Leaves nothing of a trial or a rollback to be shown, since the operator ends.
    fn end_trial(&mut self) {
        self.forget_rollback();
        if let Some(trial) = self.trial.take() {
            self.report_end(&trial.give_up(), &TrialEnd::Withdrawn);
        }
    }

    fn forget_rollback(&mut self) {
        if self.refused.take().is_some() {
            self.note_trial(None);
            *self.status.rolled_back.lock() = None;
        }
    }

    fn note_trial(&self, note: Option<String>) {
        self.health.note(&format!("trial of {}", self.status.name), note);
    }

    async fn report_to_deployment(&self, level: Level, reason: &str, message: &str) {
        if let Some(pod) = &self.pod {
            let message = format!("Operator '{}': {message}", self.status.name);
            deployment::report(&self.client, pod, &self.poster, level, reason, &message).await;
        }
    }

    fn background_options(&self, prepared: &Prepared, settings: &Settings) -> BackgroundOptions {
        let Operator { timers, daemons, .. } = &prepared.operator;
        let options = BackgroundOptions::of(timers, daemons, &prepared.program, settings, &self.metrics);
        BackgroundOptions { revision: Arc::clone(&prepared.revision.digest), ..options }
    }

    /// Lets everything follow a revision: first the tasks of objects, then all events, and then what belongs to the operator itself.
    async fn take_effect(&mut self, prepared: Prepared) {
        let before = self.loaded.replace(&prepared);
        let options = self.background_options(&prepared, &prepared.settings);
        let now = self.now();
        let Prepared { operator, revision, settings, filled, earlier, .. } = prepared;
        let (operator, revision) = (&operator, Revision { since: now, ..revision });
        let digest = Arc::clone(&revision.digest);
        let world = Arc::clone(&revision.world);
        if let Some(background) = world.background() {
            background.revise(revision.number, Arc::downgrade(&world), options);
        }
        *self.status.functions.lock() = Functions::of(operator);
        self.configure(operator, &settings);
        let indexes = world.scripts().installed.indexes();
        measure_indexes(&self.process_metrics, &self.metrics, indexes);
        if let Some(monitor) = &self.monitor {
            monitor.indexes_installed(&operator.name, indexes);
        }
        world.follow_alone();
        let scripts = Arc::clone(world.scripts()) as Arc<dyn Scripts>;
        reload::warn_of_login(operator, self.activities.has(Moment::Login));
        self.activities.revise(Arc::clone(&scripts), operator.activities.clone(), &settings);
        let (webhooks, conversions) = (operator.webhooks.clone(), operator.conversions.clone());
        self.reviewer.revise(ReviewRevision { scripts: Arc::clone(&scripts), webhooks, conversions });
        self.reviser.replace(revision, earlier, filled).await;
        self.schedule_context.scripts = scripts;
        self.schedule_context.settings = self.activities.settings();
        self.schedule_context.default_backoff = settings.execution.default_backoff;
        self.schedule_context.error_delays = settings.queueing.error_delays.clone().into();
        self.schedules.revise(operator.schedules.clone(), &self.schedule_context);
        self.settings = settings;
        reload::report(&operator.name, &before, &digest, &self.metrics, &self.schedule_context.clock);
    }

    fn configure(&mut self, operator: &Operator, settings: &Settings) {
        self.loaded.warn_of_fixed_settings(&operator.name, settings);
        let is_reviewing = !operator.webhooks.is_empty() || !operator.conversions.is_empty();
        if self.needs_server && is_reviewing && self.settings.admission.server.is_none() {
            warn!(target: "kopfd::reload", "The webhooks of operator '{}' have no server. Restart it to start one.", operator.name);
        }
        self.exit_timeouts.set(&operator.name, settings.process.ultimate_exiting_timeout);
        self.client.configure(connection(settings));
        self.reviser.newest().world.scripts().host.set_memory(settings.scripts.memory);
        self.poster.configure(settings.posting.clone());
        if let Some(log) = &self.log {
            log.set_prefix(settings.persistence.storages.prefix());
        }
    }
}

/// Returns the event stream of an operator: first the monitor, then the other sinks, and the log last.
fn event_stream(monitor: Option<Arc<ActivityMonitor>>, followers: EventStream, log: Option<Arc<ChangeLog>>) -> EventStream {
    let sinks = monitor.map(|monitor| monitor as Arc<dyn EventSink>).into_iter();
    let sinks = sinks.chain([Arc::new(followers) as Arc<dyn EventSink>]).chain(log.map(|log| log as Arc<dyn EventSink>));
    sinks.chain([Arc::new(LogSink) as Arc<dyn EventSink>]).fold(EventStream::default(), EventStream::with)
}

fn declare(name: &str, handlers: Vec<Handler>, settings: &Settings, scope: Scope) -> Declared {
    let Settings { queueing, persistence, execution, scanning, .. } = settings;
    Declared {
        name: Arc::from(name),
        revision: Arc::default(),
        handlers: handlers.into_iter().map(Arc::new).collect(),
        webhooks: Vec::new(),
        storages: Arc::new(persistence.storages.clone()),
        lifecycle: execution.lifecycle,
        default_backoff: execution.default_backoff,
        sub_defaults: Policy::default(),
        monitor: None,
        health: Health::default(),
        pause: Pause::default(),
        metrics: OperatorMetrics::default(),
        lead: Lead::permanent(),
        earlier: Precedence::default(),
        settings: Arc::new(WorkerSettings::of(settings)),
        worker_limit: queueing.worker_limit,
        exit_timeout: queueing.exit_timeout,
        is_scanning_disabled: scanning.disabled,
        scope,
    }
}

/// Returns the peerings of an operator, unless it ignores its peers.
fn peerings(name: &str, settings: &Settings, shared: &Shared, client: &Client, pause: &Pause) -> Option<Peerings> {
    let mut peering = settings.peering.clone();
    if peering.standalone {
        return None;
    }
    if matches!(shared.scope, Scope::Cluster) && peering.clusterwide == Some(false) {
        warn!(
            target: "kopfd::peering",
            "Operator '{name}' serves all namespaces, and so uses the cluster-wide peering, though settings.peering.clusterwide is false."
        );
        peering.clusterwide = Some(true);
    }
    Some(Peerings::new(PeeringContext {
        operator: Arc::from(name),
        identity: Arc::clone(&shared.peering.identity),
        settings: peering,
        client: client.clone(),
        clock: shared.clock.clone(),
        pause: pause.clone(),
        metrics: shared.endpoints.metrics.operator(name),
        process: shared.peering.peers.clone(),
        seed: shared.seed,
    }))
}

/// Returns the client settings of an operator.
pub fn connection(settings: &Settings) -> ConnectionSettings {
    let networking = cluster::Networking {
        request_timeout: settings.networking.request_timeout,
        connect_timeout: settings.networking.connect_timeout,
        error_backoffs: settings.networking.error_backoffs.clone(),
        enforce_retry_after: settings.networking.enforce_retry_after,
        trust_env: settings.networking.trust_env,
        requests: settings.networking.requests,
    };
    let watching = cluster::Watching {
        server_timeout: settings.watching.server_timeout,
        client_timeout: settings.watching.client_timeout,
        connect_timeout: settings.watching.connect_timeout,
        reconnect_backoff: settings.watching.reconnect_backoff,
        inactivity_timeout: Some(settings.watching.inactivity_timeout),
    };
    ConnectionSettings { networking, watching }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::Rate;
    use crate::manifest::settings;

    #[test]
    fn the_client_behaves_as_the_settings_say() {
        let mut settings = Settings::default();
        let seconds = Duration::from_secs;
        settings.networking = settings::Networking {
            request_timeout: Some(seconds(1)),
            connect_timeout: Some(seconds(2)),
            error_backoffs: vec![seconds(3), seconds(4)],
            enforce_retry_after: !settings.networking.enforce_retry_after,
            trust_env: !settings.networking.trust_env,
            requests: Some(Rate { per_second: 1, burst: 2 }),
        };
        settings.watching = settings::Watching {
            server_timeout: Some(seconds(5)),
            client_timeout: Some(seconds(6)),
            connect_timeout: Some(seconds(7)),
            reconnect_backoff: seconds(8),
            inactivity_timeout: seconds(9),
        };
        let ConnectionSettings { networking, watching } = connection(&settings);
        let of_requests = (networking.request_timeout, networking.connect_timeout, networking.error_backoffs);
        assert_eq!(of_requests, (Some(seconds(1)), Some(seconds(2)), vec![seconds(3), seconds(4)]));
        assert_eq!(networking.requests, settings.networking.requests);
        let flags = (networking.enforce_retry_after, networking.trust_env);
        assert_eq!(flags, (settings.networking.enforce_retry_after, settings.networking.trust_env));
        let of_streams = (watching.server_timeout, watching.client_timeout, watching.connect_timeout);
        assert_eq!(of_streams, (Some(seconds(5)), Some(seconds(6)), Some(seconds(7))));
        assert_eq!((watching.reconnect_backoff, watching.inactivity_timeout), (seconds(8), Some(seconds(9))));
    }
}
