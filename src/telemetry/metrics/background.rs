//! The metrics of timers, daemons and schedules. Their handles are made once, so that counting allocates nothing.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

use super::{OperatorMetrics, Seconds, labels, table, unix_seconds};

/// The metrics of one timer or daemon.
#[derive(Debug, Clone)]
pub struct TaskMetrics {
    /// `None` for a daemon.
    lateness: Option<Histogram>,
    states: [Gauge; 4],
}

/// The state of a timer's or daemon's task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TaskState {
    /// It waits for its next call.
    Waiting,
    /// Its function runs.
    Calling,
    /// It was asked to stop.
    Stopping,
    /// It has not stopped, and nothing waits for it.
    Abandoned,
}

/// One task among those of its timer or daemon, until it is dropped.
#[derive(Debug)]
pub struct TaskGauge {
    metrics: Arc<TaskMetrics>,
    state: Mutex<TaskState>,
}

/// The metrics of one schedule.
#[derive(Debug, Clone)]
pub struct ScheduleMetrics {
    lateness: Histogram,
    last_success: Seconds,
}

impl OperatorMetrics {
    /// Returns the metrics of a timer.
    pub fn timer(&self, handler: &str) -> TaskMetrics {
        let lateness = self.metrics.0.lateness.get_or_create_owned(&labels(table::LATENESS, [&self.operator, handler]));
        TaskMetrics { lateness: Some(lateness), states: self.task_states(handler, "timer") }
    }

    /// Returns the metrics of a daemon.
    pub fn daemon(&self, handler: &str) -> TaskMetrics {
        TaskMetrics { lateness: None, states: self.task_states(handler, "daemon") }
    }

    fn task_states(&self, handler: &str, kind: &str) -> [Gauge; 4] {
        ["waiting", "calling", "stopping", "abandoned"].map(|state| {
            let labels = labels(table::TASKS, [&*self.operator, handler, kind, state]);
            self.metrics.0.tasks.get_or_create_owned(&labels)
        })
    }

    /// Returns the metrics of a schedule.
    pub fn schedule(&self, handler: &str) -> ScheduleMetrics {
        let families = &self.metrics.0;
        let both = |description| labels(description, [&*self.operator, handler]);
        ScheduleMetrics {
            lateness: families.lateness.get_or_create_owned(&both(table::LATENESS)),
            last_success: families.last_success.get_or_create_owned(&both(table::LAST_SUCCESS)),
        }
    }
}

impl TaskMetrics {
    /// Returns the gauge of a new task.
    pub fn task(self: &Arc<Self>) -> TaskGauge {
        self.states[TaskState::Waiting as usize].inc();
        TaskGauge { metrics: Arc::clone(self), state: Mutex::new(TaskState::Waiting) }
    }

    /// Observes how late an attempt of a timer is.
    pub fn late(&self, lateness: Duration) {
        if let Some(histogram) = &self.lateness {
            histogram.observe(lateness.as_secs_f64());
        }
    }
}

impl TaskGauge {
    /// Records a stage of the stop. A stopping task does not return to other states.
    pub fn stopping(&self, is_abandoned: bool) {
        self.change(|_| if is_abandoned { TaskState::Abandoned } else { TaskState::Stopping });
    }

    /// Records the beginning or the end of a call. A task that is stopping stays so.
    pub fn calling(&self, is_calling: bool) {
        self.change(|state| match state {
            TaskState::Waiting | TaskState::Calling if is_calling => TaskState::Calling,
            TaskState::Waiting | TaskState::Calling => TaskState::Waiting,
            TaskState::Stopping | TaskState::Abandoned => state,
        });
    }

    fn change(&self, next: impl FnOnce(TaskState) -> TaskState) {
        let mut state = self.state.lock();
        self.metrics.states[*state as usize].dec();
        *state = next(*state);
        self.metrics.states[*state as usize].inc();
    }
}

impl Drop for TaskGauge {
    fn drop(&mut self) {
        self.metrics.states[*self.state.lock() as usize].dec();
    }
}

impl ScheduleMetrics {
    /// Observes how late the first attempt for a tick is.
    pub fn late(&self, lateness: Duration) {
        self.lateness.observe(lateness.as_secs_f64());
    }

    /// Records the end of a successful run.
    pub fn succeeded(&self, at: Timestamp) {
        self.last_success.set(unix_seconds(at));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_counted_in_one_state_until_it_ends() {
        let metrics = Arc::new(super::super::Metrics::default().operator("demo").daemon("watch"));
        let states = || metrics.states.clone().map(|state| state.get());
        let (one, other) = (metrics.task(), metrics.task());
        one.calling(true);
        assert_eq!(states(), [1, 1, 0, 0]);
        one.calling(false);
        other.calling(true);
        other.stopping(false);
        other.calling(false);
        assert_eq!(states(), [1, 0, 1, 0], "a task that is stopping does not wait again");
        other.stopping(true);
        assert_eq!(states(), [1, 0, 0, 1]);
        drop((one, other));
        assert_eq!(states(), [0, 0, 0, 0]);
    }
}
