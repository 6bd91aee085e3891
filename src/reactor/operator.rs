//! One operator, from its checked manifest to its last worker.

use std::sync::Arc;
use std::time::Duration;

use crate::cluster::{self, Client, ObjectClient, ResourceResolver};
use crate::handling::{Handler, Policy};
use crate::kit::{Clock, Stop, Tasks};
use crate::manifest::{Operator, settings};
use crate::script::host::{self, Threads};
use crate::script::{Host, Problem, Program};

use super::activity::ActivityMonitor;
use super::change_log::ChangeLog;
use super::live_effects::LiveEffects;
use super::observer::{Declared, Observer, Scope};
use super::precedence::Precedence;
use super::script_api::ScriptApi;
use super::worker::WorkerSettings;
use crate::engines::background::BackgroundOptions;
use crate::engines::events::{EventSink, EventStream, LogSink};
use crate::engines::posting::{self, LogPoster};

/// Time limit of the end of the posting of Events, which does not wait for the API server.
const POSTING_TIMEOUT: Duration = Duration::from_secs(1);

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
    /// The seed of randomness, in simulations.
    pub seed: Option<u64>,
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
    /// The kinds of the cluster cannot be discovered.
    #[error("failed to discover the kinds of the cluster")]
    Discovery(#[source] cluster::Error),
}

/// Serves an operator until the stop is requested.
///
/// # Errors
/// If its scripts cannot be installed, or the discovery fails at the start.
pub async fn serve(operator: Operator, client: Client, shared: Shared, stop: Stop) -> Result<(), ServeError> {
    let kinds = Arc::new(ResourceResolver::new(client.clone()));
    let log = shared.has_change_log.then(|| Arc::new(ChangeLog::new(operator.settings.persistence.storages.prefix())));
    let (poster, posted) = posting::queue(operator.settings.posting.clone());
    let api = ScriptApi::new(ObjectClient::new(client.clone(), &operator.name), Arc::clone(&kinds), poster.clone()).logged_by(log.clone());
    let background = BackgroundOptions::of(&operator.timers, &operator.daemons, &operator.settings);
    let handlers = operator.indexes.iter().chain(operator.object_handlers()).cloned().collect();
    let Operator { name, declaration, settings, defaults, .. } = operator;
    let failed = |problems| ServeError::Scripts { operator: name.clone(), problems };
    let program = Program::load(declaration).map_err(failed)?;
    let options = host::Options {
        threads: shared.script_threads,
        clock: shared.clock.clone(),
        seed: shared.seed,
        api: Some(Arc::new(api)),
        ..host::Options::default()
    };
    let host = Host::start(options).map_err(ServeError::Threads)?;
    let scripts = host.install(Arc::new(program)).await.map_err(failed)?;
    if let Some(monitor) = &shared.monitor {
        monitor.indexes_installed(&name, scripts.indexes());
    }
    let mut events = event_stream(shared.monitor.clone(), shared.events, log);
    if poster.posts_logs() {
        events = events.with(Arc::new(LogPoster(poster)));
    }
    let effects = LiveEffects::new(host, scripts, client.clone(), shared.clock.clone()).with_events(events).with_seed(shared.seed);
    let effects = effects.with_background(background);
    let earlier = shared.precedence.before(&name);
    let declared =
        Declared { earlier, sub_defaults: defaults, monitor: shared.monitor, ..declare(&name, handlers, &settings, shared.scope) };
    let mut posting = Tasks::default();
    posting.spawn("posting of Events", posted.run(client.clone(), shared.clock, name, stop.clone()));
    let served = Observer::new(declared, effects, client, kinds).run(stop).await;
    posting.finish(POSTING_TIMEOUT).await;
    served.map_err(ServeError::Discovery)
}

/// Returns the event stream of an operator: first the monitor, then the other sinks, and the log last.
fn event_stream(monitor: Option<Arc<ActivityMonitor>>, followers: EventStream, log: Option<Arc<ChangeLog>>) -> EventStream {
    let sinks = monitor.map(|monitor| monitor as Arc<dyn EventSink>).into_iter();
    let sinks = sinks.chain([Arc::new(followers) as Arc<dyn EventSink>]).chain(log.map(|log| log as Arc<dyn EventSink>));
    sinks.chain([Arc::new(LogSink) as Arc<dyn EventSink>]).fold(EventStream::default(), EventStream::with)
}

fn declare(name: &str, handlers: Vec<Handler>, settings: &settings::Settings, scope: Scope) -> Declared {
    let settings::Settings { queueing, persistence, execution, scanning, .. } = settings;
    Declared {
        name: Arc::from(name),
        handlers: handlers.into_iter().map(Arc::new).collect(),
        storages: Arc::new(persistence.storages.clone()),
        lifecycle: execution.lifecycle,
        default_backoff: execution.default_backoff,
        sub_defaults: Policy::default(),
        monitor: None,
        earlier: Precedence::default(),
        settings: Arc::new(WorkerSettings {
            consistency_timeout: persistence.consistency_timeout,
            idle_timeout: queueing.idle_timeout,
            error_delays: queueing.error_delays.clone(),
        }),
        worker_limit: queueing.worker_limit,
        exit_timeout: queueing.exit_timeout,
        is_scanning_disabled: scanning.disabled,
        scope,
    }
}

/// Returns the client settings of an operator.
pub fn connection(settings: &settings::Settings) -> (cluster::Networking, cluster::Watching) {
    let networking = cluster::Networking {
        request_timeout: settings.networking.request_timeout,
        connect_timeout: settings.networking.connect_timeout,
        error_backoffs: settings.networking.error_backoffs.clone(),
        enforce_retry_after: settings.networking.enforce_retry_after,
        trust_env: settings.networking.trust_env,
    };
    let watching = cluster::Watching {
        server_timeout: settings.watching.server_timeout,
        client_timeout: settings.watching.client_timeout,
        connect_timeout: settings.watching.connect_timeout,
        reconnect_backoff: settings.watching.reconnect_backoff,
        inactivity_timeout: Some(settings.watching.inactivity_timeout),
    };
    (networking, watching)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_client_behaves_as_the_settings_say() {
        let mut settings = settings::Settings::default();
        let seconds = Duration::from_secs;
        settings.networking = settings::Networking {
            request_timeout: Some(seconds(1)),
            connect_timeout: Some(seconds(2)),
            error_backoffs: vec![seconds(3), seconds(4)],
            enforce_retry_after: !settings.networking.enforce_retry_after,
            trust_env: !settings.networking.trust_env,
        };
        settings.watching = settings::Watching {
            server_timeout: Some(seconds(5)),
            client_timeout: Some(seconds(6)),
            connect_timeout: Some(seconds(7)),
            reconnect_backoff: seconds(8),
            inactivity_timeout: seconds(9),
        };
        let (networking, watching) = connection(&settings);
        let of_requests = (networking.request_timeout, networking.connect_timeout, networking.error_backoffs);
        assert_eq!(of_requests, (Some(seconds(1)), Some(seconds(2)), vec![seconds(3), seconds(4)]));
        let flags = (networking.enforce_retry_after, networking.trust_env);
        assert_eq!(flags, (settings.networking.enforce_retry_after, settings.networking.trust_env));
        let of_streams = (watching.server_timeout, watching.client_timeout, watching.connect_timeout);
        assert_eq!(of_streams, (Some(seconds(5)), Some(seconds(6)), Some(seconds(7))));
        assert_eq!((watching.reconnect_backoff, watching.inactivity_timeout), (seconds(8), Some(seconds(9))));
    }
}
