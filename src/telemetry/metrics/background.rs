//! The metrics of timers, daemons and schedules. Their handles are made once, so that counting allocates nothing.

use std::time::Duration;

use jiff::Timestamp;
use prometheus_client::metrics::histogram::Histogram;

use super::{OperatorMetrics, Seconds, labels, table};

/// The metrics of one schedule.
#[derive(Debug, Clone)]
pub struct ScheduleMetrics {
    lateness: Histogram,
    last_success: Seconds,
}

impl OperatorMetrics {
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

impl ScheduleMetrics {
    /// Observes how late the first attempt for a tick is.
    pub fn late(&self, lateness: Duration) {
        self.lateness.observe(lateness.as_secs_f64());
    }

    /// Records the end of a successful run.
    pub fn succeeded(&self, at: Timestamp) {
        self.last_success.set(at.as_duration().as_secs_f64());
    }
}
