//! The settings tree of an operator: kopf's names and defaults.

use std::time::Duration;

use crate::handling::Lifecycle;
use crate::handling::breaker::Threshold;
use crate::kit::Rate;
use crate::persistence::Storages;
use crate::script::host::MEMORY;

use super::admission::AdmissionServer;
use super::canary::Canary;
use super::hook_server::HookServer;

/// All settings of one operator.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Settings {
    /// The process as a whole.
    pub process: Process,
    /// Kubernetes Events.
    pub posting: Posting,
    /// Peering with other operators.
    pub peering: Peering,
    /// Watch streams.
    pub watching: Watching,
    /// Queues and workers of objects.
    pub queueing: Queueing,
    /// The discovery of kinds.
    pub scanning: Scanning,
    /// Admission webhooks.
    pub admission: Admission,
    /// Hooks. Beyond kopf.
    pub hooks: Hooks,
    /// Calls of handlers.
    pub execution: Execution,
    /// Daemons and timers.
    pub background: Background,
    /// Scripts.
    pub scripts: Scripts,
    /// Calls of the API.
    pub networking: Networking,
    /// State stored on objects.
    pub persistence: Persistence,
    /// Reloads.
    pub reload: Reload,
}

/// The process as a whole.
#[derive(Debug, Clone, PartialEq)]
pub struct Process {
    /// The time after which an exiting process is killed.
    pub ultimate_exiting_timeout: Option<Duration>,
}

/// Kubernetes Events.
#[derive(Debug, Clone, PartialEq)]
pub struct Posting {
    /// Whether Events are posted.
    pub enabled: bool,
    /// Whether messages of object loggers are posted.
    pub loggers: bool,
    /// The minimum level: 10 for debug, 20 for info, 30 for warning, 40 for error.
    pub level: i64,
    /// The reporting component; `None` means the operator's name.
    pub reporting_component: Option<String>,
    /// The reporting instance.
    pub reporting_instance: String,
    /// The prefix of the names of Events.
    pub event_name_prefix: String,
    /// Whether repetitions are counted on one Event. Beyond kopf.
    pub aggregated: bool,
}

/// Peering with other operators.
#[derive(Debug, Clone, PartialEq)]
pub struct Peering {
    /// The name of the peering object.
    pub name: String,
    /// Whether the keep-alives are not logged.
    pub stealth: bool,
    /// The priority among peers.
    pub priority: i64,
    /// How long a keep-alive is valid: whole seconds.
    pub lifetime: Duration,
    /// Whether the peering object must exist.
    pub mandatory: bool,
    /// Whether peers are ignored.
    pub standalone: bool,
    /// Whether the peering object is cluster-wide; `None` means as the operator's scope.
    pub clusterwide: Option<bool>,
}

/// Watch streams.
#[derive(Debug, Clone, PartialEq)]
pub struct Watching {
    /// The time after which the server is asked to end a stream.
    pub server_timeout: Option<Duration>,
    /// The time after which the client ends a stream.
    pub client_timeout: Option<Duration>,
    /// The time to connect.
    pub connect_timeout: Option<Duration>,
    /// The pause between streams.
    pub reconnect_backoff: Duration,
    /// The time without any data after which a stream counts as broken.
    pub inactivity_timeout: Duration,
}

/// Queues and workers of objects.
#[derive(Debug, Clone, PartialEq)]
pub struct Queueing {
    /// The most workers at once.
    pub worker_limit: Option<usize>,
    /// How long a worker waits for more events.
    pub idle_timeout: Duration,
    /// The time that workers have to finish at the exit.
    pub exit_timeout: Duration,
    /// The pauses after the first, second, … failure of a cycle.
    pub error_delays: Vec<Duration>,
    /// When objects that keep triggering themselves are slowed down; `None`: never. Beyond kopf.
    pub breaker: Option<Breaker>,
}

/// When objects that keep triggering themselves are slowed down, and how that is shown.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Breaker {
    /// When an object counts as looping, and how far it is slowed down.
    pub threshold: Threshold,
    /// The type of the condition in the status of such objects; `None`: there is none.
    pub condition: Option<String>,
}

/// The discovery of kinds.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Scanning {
    /// Whether the detection of new kinds and namespaces is disabled.
    pub disabled: bool,
}

/// Admission webhooks.
#[derive(Debug, Clone, PartialEq)]
pub struct Admission {
    /// The server of the webhooks.
    pub server: Option<AdmissionServer>,
    /// The name of the webhook configurations to manage.
    pub managed: Option<String>,
    /// Whether filters become match conditions of managed configurations. Beyond kopf.
    pub derived_conditions: bool,
}

/// Hooks.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Hooks {
    /// Their own listener; `None` means that of the probes.
    pub server: Option<HookServer>,
}

/// Calls of handlers.
#[derive(Debug, Clone, PartialEq)]
pub struct Execution {
    /// The default pause between attempts.
    pub default_backoff: Duration,
    /// Which handlers run in one cycle.
    pub lifecycle: Lifecycle,
}

/// Scripts.
#[derive(Debug, Clone, PartialEq)]
pub struct Scripts {
    /// Bytes that the running scripts of the process may hold before new calls wait.
    pub memory: u64,
}

/// Daemons and timers.
#[derive(Debug, Clone, PartialEq)]
pub struct Background {
    /// The interval of checks on a stopping daemon.
    pub cancellation_polling: Duration,
    /// The time in which daemons may exit at once.
    pub instant_exit_timeout: Option<Duration>,
    /// The turns of the scheduler in which daemons may exit at once.
    pub instant_exit_zero_time_cycles: Option<u64>,
}

/// Calls of the API.
#[derive(Debug, Clone, PartialEq)]
pub struct Networking {
    /// The limit of one request.
    pub request_timeout: Option<Duration>,
    /// The time to connect.
    pub connect_timeout: Option<Duration>,
    /// The pauses after the first, second, … failure of a request.
    pub error_backoffs: Vec<Duration>,
    /// Whether `Retry-After` is obeyed even where it shortens the wait.
    pub enforce_retry_after: bool,
    /// Whether proxies of the environment are used.
    pub trust_env: bool,
    /// The budget of all requests; `None`: unlimited. Beyond kopf.
    pub requests: Option<Rate>,
}

/// State stored on objects.
#[derive(Debug, Clone, PartialEq)]
pub struct Persistence {
    /// The finalizer, and the storages of progress and essences.
    pub storages: Storages,
    /// How long handlers of changes wait for the event of the operator's own patch.
    pub consistency_timeout: Duration,
}

/// Reloads.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Reload {
    /// The trials of new revisions; `None` means that they take effect at once.
    pub canary: Option<Canary>,
}

impl Default for Process {
    fn default() -> Self {
        Self { ultimate_exiting_timeout: Some(Duration::from_mins(10)) }
    }
}

impl Default for Posting {
    fn default() -> Self {
        Self {
            enabled: true,
            loggers: false,
            level: 20,
            reporting_component: None,
            reporting_instance: "dev".to_owned(),
            event_name_prefix: "kopf-event-".to_owned(),
            aggregated: false,
        }
    }
}

impl Default for Peering {
    fn default() -> Self {
        Self {
            name: "default".to_owned(),
            stealth: false,
            priority: 0,
            lifetime: Duration::from_mins(1),
            mandatory: false,
            standalone: false,
            clusterwide: None,
        }
    }
}

impl Default for Watching {
    fn default() -> Self {
        Self {
            server_timeout: None,
            client_timeout: None,
            connect_timeout: None,
            reconnect_backoff: Duration::from_millis(100),
            inactivity_timeout: Duration::from_secs(70),
        }
    }
}

impl Default for Queueing {
    fn default() -> Self {
        let fibonacci = [1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610];
        Self {
            worker_limit: None,
            idle_timeout: Duration::from_secs(5),
            exit_timeout: Duration::from_secs(2),
            error_delays: fibonacci.map(Duration::from_secs).to_vec(),
            breaker: Some(Breaker::default()),
        }
    }
}

impl Default for Admission {
    fn default() -> Self {
        Self { server: None, managed: None, derived_conditions: true }
    }
}

impl Default for Execution {
    fn default() -> Self {
        Self { default_backoff: Duration::from_mins(1), lifecycle: Lifecycle::default() }
    }
}

impl Default for Scripts {
    fn default() -> Self {
        Self { memory: MEMORY }
    }
}

impl Default for Background {
    fn default() -> Self {
        Self {
            cancellation_polling: Duration::from_mins(1),
            instant_exit_timeout: None,
            instant_exit_zero_time_cycles: Some(10),
        }
    }
}

impl Default for Networking {
    fn default() -> Self {
        Self {
            request_timeout: Some(Duration::from_mins(5)),
            connect_timeout: None,
            error_backoffs: [1, 1, 2, 3, 5, 8, 13, 21].map(Duration::from_secs).to_vec(),
            enforce_retry_after: false,
            trust_env: false,
            requests: None,
        }
    }
}

impl Default for Persistence {
    fn default() -> Self {
        Self { storages: Storages::default(), consistency_timeout: Duration::from_secs(5) }
    }
}
