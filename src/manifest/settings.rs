//! The settings tree of an operator: kopf's names and defaults.

use crate::handling::Lifecycle;
use crate::persistence::Storages;

use super::admission::AdmissionServer;

/// All settings of one operator.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Settings {
    /// The process as a whole.
    pub process: Process,
    /// Events of Kubernetes.
    pub posting: Posting,
    /// Other operators beside this one.
    pub peering: Peering,
    /// Watch streams.
    pub watching: Watching,
    /// Queues and workers of objects.
    pub queueing: Queueing,
    /// The discovery of kinds.
    pub scanning: Scanning,
    /// Admission webhooks.
    pub admission: Admission,
    /// Calls of handlers.
    pub execution: Execution,
    /// Daemons and timers.
    pub background: Background,
    /// Calls of the API.
    pub networking: Networking,
    /// What is kept on objects.
    pub persistence: Persistence,
}

/// The process as a whole.
#[derive(Debug, Clone, PartialEq)]
pub struct Process {
    /// The seconds after which an exiting process is killed.
    pub ultimate_exiting_timeout: Option<f64>,
}

/// Events of Kubernetes.
#[derive(Debug, Clone, PartialEq)]
pub struct Posting {
    /// Whether any are posted.
    pub enabled: bool,
    /// Whether messages of object loggers are posted.
    pub loggers: bool,
    /// The least level that is posted: 10 for debug, 20 for info, 30 for warning, 40 for error.
    pub level: i64,
    /// The reporting component; none means the operator's name.
    pub reporting_component: Option<String>,
    /// The reporting instance.
    pub reporting_instance: String,
    /// The beginning of the names of events.
    pub event_name_prefix: String,
}

/// Other operators beside this one.
#[derive(Debug, Clone, PartialEq)]
pub struct Peering {
    /// The name of the peering object.
    pub name: String,
    /// Whether the keep-alives are not logged.
    pub stealth: bool,
    /// The priority among peers.
    pub priority: i64,
    /// The seconds that a keep-alive is valid.
    pub lifetime: i64,
    /// Whether the peering object must be there.
    pub mandatory: bool,
    /// Whether peers are ignored.
    pub standalone: bool,
    /// Whether the peering object is cluster-wide; none means as the operator's scope.
    pub clusterwide: Option<bool>,
}

/// Watch streams.
#[derive(Debug, Clone, PartialEq)]
pub struct Watching {
    /// The seconds after which the server is asked to end a stream.
    pub server_timeout: Option<f64>,
    /// The seconds after which a stream is ended by us.
    pub client_timeout: Option<f64>,
    /// The seconds to connect.
    pub connect_timeout: Option<f64>,
    /// The seconds between streams.
    pub reconnect_backoff: f64,
    /// The seconds of silence after which a stream is taken for dead.
    pub inactivity_timeout: f64,
}

/// Queues and workers of objects.
#[derive(Debug, Clone, PartialEq)]
pub struct Queueing {
    /// The most workers at once.
    pub worker_limit: Option<usize>,
    /// The seconds that a worker waits for more events.
    pub idle_timeout: f64,
    /// The seconds that workers have at the exit.
    pub exit_timeout: f64,
    /// The seconds to wait after the first, second, … failure of a cycle.
    pub error_delays: Vec<f64>,
}

/// The discovery of kinds.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Scanning {
    /// Whether new kinds and namespaces are not watched for.
    pub disabled: bool,
}

/// Admission webhooks.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Admission {
    /// The server of the webhooks.
    pub server: Option<AdmissionServer>,
    /// The name of the configurations that are kept up to date.
    pub managed: Option<String>,
}

/// Calls of handlers.
#[derive(Debug, Clone, PartialEq)]
pub struct Execution {
    /// The seconds between attempts, unless a handler says otherwise.
    pub default_backoff: f64,
    /// Which handlers are run in one cycle.
    pub lifecycle: Lifecycle,
}

/// Daemons and timers.
#[derive(Debug, Clone, PartialEq)]
pub struct Background {
    /// The seconds between looks at a daemon that does not stop.
    pub cancellation_polling: f64,
    /// The seconds in which daemons may exit at once.
    pub instant_exit_timeout: Option<f64>,
    /// The turns of the scheduler in which daemons may exit at once.
    pub instant_exit_zero_time_cycles: Option<u64>,
}

/// Calls of the API.
#[derive(Debug, Clone, PartialEq)]
pub struct Networking {
    /// The seconds of one call.
    pub request_timeout: Option<f64>,
    /// The seconds to connect.
    pub connect_timeout: Option<f64>,
    /// The seconds to wait after the first, second, … failure of a call.
    pub error_backoffs: Vec<f64>,
    /// Whether `Retry-After` is obeyed even where it shortens the wait.
    pub enforce_retry_after: bool,
    /// Whether proxies of the environment are used.
    pub trust_env: bool,
}

/// What is kept on objects.
#[derive(Debug, Clone, PartialEq)]
pub struct Persistence {
    /// The finalizer, and where progress and essences are kept.
    pub storages: Storages,
    /// The seconds that handlers of changes wait for the own patch to come back.
    pub consistency_timeout: f64,
}

impl Default for Process {
    fn default() -> Self {
        Self { ultimate_exiting_timeout: Some(600.0) }
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
        }
    }
}

impl Default for Peering {
    fn default() -> Self {
        Self {
            name: "default".to_owned(),
            stealth: false,
            priority: 0,
            lifetime: 60,
            mandatory: false,
            standalone: false,
            clusterwide: None,
        }
    }
}

impl Default for Watching {
    fn default() -> Self {
        Self { server_timeout: None, client_timeout: None, connect_timeout: None, reconnect_backoff: 0.1, inactivity_timeout: 70.0 }
    }
}

impl Default for Queueing {
    fn default() -> Self {
        let fibonacci = [1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610];
        Self { worker_limit: None, idle_timeout: 5.0, exit_timeout: 2.0, error_delays: fibonacci.map(f64::from).to_vec() }
    }
}

impl Default for Execution {
    fn default() -> Self {
        Self { default_backoff: 60.0, lifecycle: Lifecycle::default() }
    }
}

impl Default for Background {
    fn default() -> Self {
        Self { cancellation_polling: 60.0, instant_exit_timeout: None, instant_exit_zero_time_cycles: Some(10) }
    }
}

impl Default for Networking {
    fn default() -> Self {
        Self {
            request_timeout: Some(300.0),
            connect_timeout: None,
            error_backoffs: [1, 1, 2, 3, 5, 8, 13, 21].map(f64::from).to_vec(),
            enforce_retry_after: false,
            trust_env: false,
        }
    }
}

impl Default for Persistence {
    fn default() -> Self {
        Self { storages: Storages::default(), consistency_timeout: 5.0 }
    }
}
