//! The dependencies of schedules that their operator provides.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::store::ScheduleStore;
use crate::engines::effects::Scripts;
use crate::engines::events::EventStream;
use crate::engines::leading::Lead;
use crate::engines::pause::Pause;
use crate::engines::readiness::Readiness;
use crate::kit::Clock;
use crate::telemetry::OperatorMetrics;

/// The dependencies of the schedules of one operator.
#[derive(Clone)]
pub struct ScheduleContext {
    /// The scripts.
    pub scripts: Arc<dyn Scripts>,
    /// The clock.
    pub clock: Clock,
    /// The pause of the operator: no function is called during it.
    pub pause: Pause,
    /// The events of the operator.
    pub events: EventStream,
    /// The indexes, which scripts may read: no function is called before they are filled.
    pub readiness: Arc<Readiness>,
    /// The metrics of the operator.
    pub metrics: OperatorMetrics,
    /// The ConfigMap that records done ticks.
    pub store: ScheduleStore,
    /// The operator's settings, as scripts see them.
    pub settings: Arc<Value>,
    /// The pause between attempts after arbitrary errors.
    pub default_backoff: Duration,
    /// The pauses after the first, second, … failure of the store in a row.
    pub error_delays: Arc<[Duration]>,
    /// How long a running call may continue when the operator stops.
    pub exit_timeout: Duration,
    /// Whether this replica leads: only then, functions are called.
    pub lead: Lead,
}
