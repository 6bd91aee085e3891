//! Schedules: functions of the operator that are called by cron expressions. One task for each.
//!
//! `handling::schedule` decides which tick is run, and `store` remembers it over restarts.

pub mod store;
mod task;

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::effects::Scripts;
use super::events::EventStream;
use super::readiness::Readiness;
use crate::kit::{Clock, Stop, Tasks};
use crate::manifest::operator::Schedule;
use crate::telemetry::OperatorMetrics;

use store::ScheduleStore;
use task::Task;

/// Time limit for the tasks after a stop, beyond the time that a running call has: the call ends, and its tick is stored.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// The dependencies of the schedules of one operator.
#[derive(Clone)]
pub struct ScheduleContext {
    /// The scripts.
    pub scripts: Arc<dyn Scripts>,
    /// The clock.
    pub clock: Clock,
    /// The events of the operator.
    pub events: EventStream,
    /// The indexes, which scripts may read: no function is called before they are filled.
    pub readiness: Arc<Readiness>,
    /// The metrics of the operator.
    pub metrics: OperatorMetrics,
    /// Where done ticks are remembered.
    pub store: ScheduleStore,
    /// The operator's settings, as scripts see them.
    pub settings: Arc<Value>,
    /// The pause between attempts after arbitrary errors.
    pub default_backoff: Duration,
    /// The pauses after the first, second, … failure of the store in a row.
    pub error_delays: Arc<[Duration]>,
    /// How long a running call may continue when the operator stops.
    pub exit_timeout: Duration,
}

/// The running schedules of one operator.
pub struct Schedules {
    tasks: Tasks<()>,
    timeout: Duration,
}

impl Schedules {
    /// Starts the schedules. They end when the stop is requested.
    pub fn start(schedules: Vec<Schedule>, context: &ScheduleContext, stop: &Stop) -> Self {
        let mut tasks = Tasks::default();
        let origin = Instant::now();
        for schedule in schedules {
            let name = schedule.handler.title();
            tasks.spawn(name, Task::new(schedule, context.clone(), stop.clone(), origin).run());
        }
        Self { tasks, timeout: context.exit_timeout.saturating_mul(2).saturating_add(END_TIMEOUT) }
    }

    /// Waits for the end of the schedules, after the stop was requested.
    pub async fn finish(mut self) {
        for name in self.tasks.finish(self.timeout).await {
            tracing::warn!(target: "kopfd::schedules", "{name} has not ended in time, and is abandoned.");
        }
    }
}
