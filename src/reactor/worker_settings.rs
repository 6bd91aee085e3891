//! The settings of workers.

use std::time::Duration;

use crate::manifest::{Settings, settings};

/// The operator's settings of workers.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkerSettings {
    /// The time limit of the wait for the event of an own patch.
    pub consistency_timeout: Duration,
    /// The time without events after which a worker ends that waits for the event of its own patch.
    pub idle_timeout: Duration,
    /// The pauses of an object after the first, second, … error in a row.
    pub error_delays: Vec<Duration>,
    /// When objects that keep triggering themselves are slowed down.
    pub breaker: Option<settings::Breaker>,
}

impl WorkerSettings {
    /// Returns those of an operator.
    pub fn of(settings: &Settings) -> Self {
        Self {
            consistency_timeout: settings.persistence.consistency_timeout,
            idle_timeout: settings.queueing.idle_timeout,
            error_delays: settings.queueing.error_delays.clone(),
            breaker: settings.queueing.breaker.clone(),
        }
    }
}

impl Default for WorkerSettings {
    fn default() -> Self {
        let fibonacci = [1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610];
        let timeout = Duration::from_secs(5);
        let error_delays = fibonacci.map(Duration::from_secs).to_vec();
        Self {
            consistency_timeout: timeout,
            idle_timeout: timeout,
            error_delays,
            breaker: Some(settings::Breaker::default()),
        }
    }
}
