//! The declarations of an operator that its observer follows.

use std::sync::Arc;
use std::time::Duration;

use crate::engines::health::Health;
use crate::engines::leading::Lead;
use crate::engines::pause::Pause;
use crate::handling::{Handler, Lifecycle, Policy};
use crate::object::Selector;
use crate::object::namespace::Pattern;
use crate::persistence::Storages;
use crate::telemetry::OperatorMetrics;

use super::super::activity::ActivityMonitor;
use super::super::precedence::Precedence;
use super::super::worker::WorkerSettings;

/// Which namespaces an operator serves.
#[derive(Debug, Clone)]
pub enum Scope {
    /// All namespaces, with one watch for each kind.
    Cluster,
    /// The namespaces that match one of the patterns.
    Namespaces(Vec<Pattern>),
}

/// The declarations of an operator that its observer follows.
pub struct Declared {
    /// The operator's name.
    pub name: Arc<str>,
    /// The digest of its files.
    pub revision: Arc<str>,
    /// The handlers.
    pub handlers: Vec<Arc<Handler>>,
    /// The kinds of its webhooks.
    pub webhooks: Vec<Selector>,
    /// The storages of the operator's state.
    pub storages: Arc<Storages>,
    /// Which handlers run in one cycle.
    pub lifecycle: Lifecycle,
    /// The seconds between attempts after arbitrary errors.
    pub default_backoff: Duration,
    /// The default error policy of sub-handlers.
    pub sub_defaults: Policy,
    /// The settings of workers.
    pub settings: Arc<WorkerSettings>,
    /// The maximum number of workers of a kind.
    pub worker_limit: Option<usize>,
    /// The time limit of workers at the exit.
    pub exit_timeout: Duration,
    /// Whether the detection of new kinds and namespaces is disabled.
    pub is_scanning_disabled: bool,
    /// Which namespaces are served.
    pub scope: Scope,
    /// The operators of the process that come before this one.
    pub earlier: Precedence,
    /// The monitor of the activity, if there is one.
    pub monitor: Option<Arc<ActivityMonitor>>,
    /// The health of the operators of the process.
    pub health: Health,
    /// The pause of the operator.
    pub pause: Pause,
    /// The metrics of the operator.
    pub metrics: OperatorMetrics,
    /// Whether this replica leads: only then, objects are handled.
    pub lead: Lead,
}
