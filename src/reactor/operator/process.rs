//! The dependencies of an operator that its process provides, and the reasons why it may not run.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::super::activity::ActivityMonitor;
use super::super::admission::{Admission, AdmissionError};
use super::super::built_in_credentials::BuiltInCredentials;
use super::super::hooks::{HookReach, HooksError};
use super::super::observer::Scope;
use super::super::precedence::Precedence;
use crate::cluster;
use crate::cluster::config::{self, BuiltIn, CredentialSources};
use crate::cluster::transport::Login;
use crate::engines::activities::ActivityError;
use crate::engines::endpoints::Endpoints;
use crate::engines::events::EventStream;
use crate::engines::leading::LeadingOptions;
use crate::engines::peering::{Conflict, ProcessPeering};
use crate::kit::Clock;
use crate::persistence::{Keys, MissingKey};
use crate::script::host::{Fibers, Threads};
use crate::script::{Credentials, Outside, Problem};

/// The shared state of the operators of one process.
#[derive(Debug, Clone)]
pub struct Shared {
    /// The clock.
    pub clock: Clock,
    /// Which namespaces are served.
    pub scope: Scope,
    /// The operators in their order: of two that would overwrite each other's records on a kind, the first one serves
    /// it.
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
    /// The listener for the hooks of the operators.
    pub hooks: HookReach,
    /// The data of the process in the peering records of its operators.
    pub peering: ProcessPeering,
    /// The options of the election among the replicas of each operator; with `None`, this process handles.
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

/// The connection of an operator to the API server, and its access to the world outside of the cluster.
pub struct Access {
    /// The login of operators without login functions.
    pub login: Box<dyn Login>,
    /// The server of operators with login functions.
    pub server: ServerChoice,
    /// The credentials of the built-in logins, for login functions.
    pub credentials: Arc<dyn Credentials>,
    /// The access of scripts to the world outside of the cluster; with `None`, that of the process.
    pub outside: Option<Outside>,
}

impl Access {
    /// Returns the access by the built-in logins of this process, with the kubeconfig and the context of the options,
    /// and to its machine.
    pub fn of_process(options: config::Options, server: ServerChoice) -> Self {
        let login = Box::new(BuiltIn::new(options.clone(), CredentialSources::of_process()));
        Self { login, server, credentials: Arc::new(BuiltInCredentials::of_process(options)), outside: None }
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

/// The reason why an operator cannot run.
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
    /// The hooks cannot be served.
    #[error("cannot serve the hooks of operator {operator}")]
    Hooks {
        /// The operator.
        operator: String,
        /// The cause.
        #[source]
        source: HooksError,
    },
    /// The kinds of the cluster cannot be discovered.
    #[error("failed to discover the kinds of the cluster")]
    Discovery(#[source] cluster::Error),
    /// A cleanup handler has failed.
    #[error(transparent)]
    Cleanup(ActivityError),
}
