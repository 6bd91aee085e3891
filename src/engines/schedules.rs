//! Schedules: functions of the operator that are called by cron expressions. One task for each.
//!
//! `handling::schedule` decides which tick is run, and `store` remembers it over restarts.

mod context;
pub mod store;
mod task;

use std::time::Duration;

use tokio::time::Instant;

use crate::kit::{Stop, Tasks};
use crate::manifest::operator::Schedule;

pub use context::ScheduleContext;
use task::Task;

/// Time limit for the tasks after a stop, beyond the time that a running call has: the call ends, and its tick is stored.
const END_TIMEOUT: Duration = Duration::from_secs(2);

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
