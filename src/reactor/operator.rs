//! One operator, from its checked manifest to its last worker.

mod database_secrets;
mod declared;
mod led;
mod process;
mod running;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::FusedFuture as _;
use parking_lot::Mutex;

use crate::cluster::transport::Login;
use crate::cluster::{Client, ObjectClient, ResourceResolver};
use crate::kit::{Stop, Tasks};
use crate::manifest::operator::Moment;
use crate::manifest::{Operator, Settings};
use crate::outside;
use crate::script::{Host, host};

use super::activity::ActivityMonitor;
use super::admission::{Reach, Reviewed, Unready, WatchedKinds};
use super::change_log::ChangeLog;
use super::live_effects::{HostScripts, LiveEffects};
use super::observer::{Declared, Observer, Scope};
use super::reload::{self, Loaded, Reloads};
use super::rights;
use super::script_api::ScriptApi;
use super::script_metrics::ScriptMeasures;
use super::status::{Functions, LiveStatus};
use super::touching::Touches;
use crate::engines::activities::login::{ActivityLogin, Server};
use crate::engines::activities::probes::Probes;
use crate::engines::activities::{Activities, ActivityError};
use crate::engines::admission::reviewer::{ReviewRevision, Reviewer, ReviewerParts};
use crate::engines::background::BackgroundOptions;
use crate::engines::effects::{Indexing as _, Scripts};
use crate::engines::events::{EventSink, EventStream, LogSink};
use crate::engines::hooks::secrets::Secrets;
use crate::engines::hooks::{Answerer, AnswererParts, HookRevision};
use crate::engines::leading::{Campaign, Election, HANDOVER_TIMEOUT, Lead, LeadingView};
use crate::engines::metrics::MetricsSink;
use crate::engines::pause::Pause;
use crate::engines::peering::Terms;
use crate::engines::posting::{self, LogPoster, Poster, Queue};
use crate::engines::schedules::store::ScheduleStore;
use crate::engines::schedules::{ScheduleContext, Schedules};
use crate::engines::status::StatusSource;
use database_secrets::DatabaseSecrets;
pub use declared::connection;
use declared::{declare, measure_indexes, peerings};
use led::LedOperator;
pub use process::{Access, ExitTimeouts, ServeError, ServerChoice, Shared};
use running::RunningOperator;

/// Time limit of the end of the posting of Events: for the queued ones, and for a request that is not answered.
const POSTING_TIMEOUT: Duration = Duration::from_secs(3);

/// How long the leader posts its queued Events before another replica takes over.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(200);

/// Serves an operator until the stop is requested: first its startup, then the login and the watches, and its cleanup
/// last. A request to reload it before it watches is answered with [`reload::ReloadError::Starting`].
///
/// # Errors
/// If its scripts cannot be installed, a startup or cleanup handler fails, or the login or the discovery fails at the
/// start. An operator with login functions also ends if a later login fails.
pub async fn serve(
    mut operator: Operator,
    access: Access,
    shared: Shared,
    mut reloads: Reloads,
    stop: Stop,
) -> Result<(), ServeError> {
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
    touches: Touches,
}

/// Installs the scripts of an operator. The client logs in with its first request.
async fn start(operator: &Operator, access: Access, shared: &Shared, stop: &Stop) -> Result<Started, ServeError> {
    let Operator { name, settings, .. } = operator;
    let Access { login, server, credentials, outside: given_outside } = access;
    let own = Arc::new(OnceLock::new());
    let has_login = operator.activities.iter().any(|activity| activity.moment == Moment::Login);
    let login: Box<dyn Login> = match (has_login, server) {
        (false, _) => login,
        (true, ServerChoice::Declared) => {
            Box::new(ActivityLogin::new(Server::Declared, Arc::clone(&own), stop.clone()))
        }
        (true, ServerChoice::Default) => {
            Box::new(ActivityLogin::new(Server::Fixed(login), Arc::clone(&own), stop.clone()))
        }
    };
    let client = Client::new(login, connection(settings), shared.clock.clone());
    let metrics = shared.endpoints.metrics.operator(name);
    client.measure(metrics.clone());
    let kinds = Arc::new(ResourceResolver::new(client.clone()));
    let log = shared.has_change_log.then(|| Arc::new(ChangeLog::new(settings.persistence.storages.prefix())));
    let (poster, posted) = posting::queue(settings.posting.clone());
    let lead = shared.leading.as_ref().map_or_else(Lead::permanent, |_| Lead::elected(shared.clock.clone()));
    let touches = Touches::default();
    let api_with = |client, poster| {
        let api = ScriptApi::new(ObjectClient::new(client, name), Arc::clone(&kinds), poster);
        api.logged_by(log.clone()).touching(touches.clone())
    };
    let mut api = api_with(client.clone(), poster.clone());
    let mut led_poster = poster.clone();
    if lead.is_elected() {
        led_poster = poster.fenced(Arc::new(lead.clone()));
        api = api_with(client.fenced(Arc::new(lead.clone())), led_poster.clone()).beside(api);
    }
    let failed = |problems| ServeError::Scripts { operator: name.clone(), problems };
    let program = operator.program().inspect_err(|_| metrics.load_failed()).map_err(failed)?;
    let revision = operator.revision(&program);
    let server_client = client.clone();
    let secrets = Arc::new(DatabaseSecrets::new(client.clone(), name));
    let options = host::Options {
        threads: shared.script_threads,
        fibers: shared.fibers.clone(),
        clock: shared.clock.clone(),
        seed: shared.seed,
        api: Some(Arc::new(api)),
        credentials: Some(credentials),
        outside: given_outside
            .unwrap_or_else(|| outside::of_process(move || server_client.server(), Some(secrets)))
            .measured_by(Arc::new(ScriptMeasures(metrics.clone()))),
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
    let counting =
        EventStream::default().with(Arc::clone(&counted) as Arc<dyn EventSink>).with(Arc::new(LogPoster(led_poster)));
    let events =
        event_stream(name, shared.monitor.as_ref(), counting.with(Arc::new(shared.events.clone())), log.clone());
    let calls = Arc::clone(&scripts) as Arc<dyn Scripts>;
    let activities =
        Activities::new(calls, operator.activities.clone(), settings, shared.clock.clone(), events.clone());
    let activities = Arc::new(activities);
    own.set(Arc::downgrade(&activities)).expect("the activities are given once");
    Ok(Started { revision, scripts, client, kinds, activities, events, log, poster, posted, counted, lead, touches })
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
    let Operator { name, defaults, schedules, hooks, webhooks, conversions, .. } = operator;
    let Started { revision, scripts, client, kinds, activities, events, log, poster, posted, counted, lead, touches } =
        started;
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
        let lease = at_home.map(|options| options.lease_name(&name));
        let check = rights::check(checked, client.clone(), shared.scope.clone(), lease);
        // It goes on if the operator fails: a missing right may be the reason.
        let stop = stop.child();
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
    shared.monitor.iter().for_each(|monitor| monitor.follows_pause(pause.clone()));
    let calls = Arc::clone(&scripts) as Arc<dyn Scripts>;
    let writer = if lead.is_elected() { client.fenced(Arc::new(lead.clone())) } else { client.clone() };
    let effects = LiveEffects::new(scripts, writer.clone(), shared.clock.clone())
        .with_events(events.clone())
        .with_seed(shared.seed);
    let effects = effects.with_health(health.clone(), format!("operator '{name}' has not filled its indexes yet"));
    let effects = effects.with_background(background);
    let (review_calls, hooks_stop) = (Arc::clone(&calls), Stop::new());
    let has_hooks = !hooks.is_empty();
    let first = HookRevision::new(Arc::clone(&calls), hooks);
    let parts = AnswererParts {
        operator: name.as_str().into(),
        secrets: Secrets::new(client.clone(), &name),
        clock: shared.clock.clone(),
        pause: pause.clone(),
        lead: lead.clone(),
        readiness: effects.readiness().map(Arc::clone).unwrap_or_default(),
        events: events.clone(),
        metrics: metrics.clone(),
        ending: own_stop.clone(),
        stop: hooks_stop.clone(),
    };
    let answerer = Arc::new(Answerer::new(parts, first));
    let opened = shared.hooks.open(Arc::clone(&answerer), &settings, &endpoints.hooks, has_hooks).await;
    let hooks_place = opened.map_err(|source| ServeError::Hooks { operator: name.clone(), source })?;
    let (clock, review_events) = (shared.clock.clone(), events.clone());
    let terms = Terms::default();
    let election = shared.leading.as_ref().map(|options| {
        effects.background().iter().for_each(|background| background.limit_exit(HANDOVER_TIMEOUT));
        let (operator, view) = (name.clone(), LeadingView::default());
        let led = Arc::new(LedOperator { effects: Arc::clone(&effects), terms: terms.clone() });
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
    let has_hook_listener = shared.hooks.has_listener(&settings);
    let peering = (shared.peering.overrides.clone(), matches!(shared.scope, Scope::Cluster));
    let peerings = peerings(&name, &settings, (&shared, &terms), &client, &pause);
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
    touches.follow(watched.clone());
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
        answerer,
        has_hook_listener,
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
    hooks_stop.request("the operator ends");
    hooks_place.close().await;
    running.end_trial();
    running.schedules.finish().await;
    if let Some(election) = election {
        running.poster.flush(FLUSH_TIMEOUT).await;
        election.end().await;
    }
    served.and(reviewed.map_err(|source| ServeError::Admission { operator: name, source }))
}

/// Returns the event stream of an operator: first the monitor, then the other sinks, and the log last.
fn event_stream(
    name: &str,
    monitor: Option<&Arc<ActivityMonitor>>,
    followers: EventStream,
    log: Option<Arc<ChangeLog>>,
) -> EventStream {
    let sinks = monitor.map(|monitor| monitor.sink_of(name)).into_iter();
    let sinks =
        sinks.chain([Arc::new(followers) as Arc<dyn EventSink>]).chain(log.map(|log| log as Arc<dyn EventSink>));
    sinks.chain([Arc::new(LogSink) as Arc<dyn EventSink>]).fold(EventStream::default(), EventStream::with)
}
