//! The metrics of one operator: those of its handlers, and those that its scripts define.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::request_series::RequestSeries;
use super::{Change, Metrics, SeriesLabels, labels, table};

/// The metrics of one operator. Cheap to clone.
#[derive(Debug, Clone)]
pub struct OperatorMetrics {
    pub(super) metrics: Metrics,
    pub(super) operator: Arc<str>,
    /// By verb, resource and outcome.
    pub(super) requests: Arc<Mutex<HashMap<String, RequestSeries>>>,
}

impl Metrics {
    /// Returns the metrics of an operator.
    pub fn operator(&self, name: &str) -> OperatorMetrics {
        OperatorMetrics { metrics: self.clone(), operator: Arc::from(name), requests: Arc::default() }
    }
}

impl Default for OperatorMetrics {
    fn default() -> Self {
        Metrics::default().operator("")
    }
}

/// The outcome of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptOutcome {
    /// No further attempt is needed, or its error is ignored.
    Succeeded,
    /// It will be repeated.
    Retried,
    /// It has failed for good.
    Failed,
}

impl OperatorMetrics {
    /// Changes a series of a metric of scripts.
    ///
    /// # Errors
    /// If the name, a label or the value is not allowed, or the metric has another type.
    pub fn record(&self, name: &str, labels: SeriesLabels, change: Change) -> Result<(), String> {
        self.metrics.0.custom.record(&self.operator, name, labels, change)
    }

    /// Sets the text that describes a metric of scripts.
    ///
    /// # Errors
    /// If the name is not allowed, or too many metrics are described.
    pub fn describe(&self, name: &str, help: &str) -> Result<(), String> {
        self.metrics.0.custom.describe(name, help)
    }

    /// Counts an attempt of a handler.
    pub fn attempt(&self, handler: &str, retry: u64, outcome: AttemptOutcome) {
        let families = &self.metrics.0;
        let outcome = match outcome {
            AttemptOutcome::Succeeded => "succeeded",
            AttemptOutcome::Retried => "retried",
            AttemptOutcome::Failed => "failed",
        };
        families.handler_calls.get_or_create(&labels(table::HANDLER_CALLS, [&self.operator, handler, outcome])).inc();
        if retry > 0 {
            families.handler_retries.get_or_create(&labels(table::HANDLER_RETRIES, [&self.operator, handler])).inc();
        }
    }

    /// Returns the counted attempts of a handler: succeeded, retried, and failed ones.
    pub fn attempts(&self, handler: &str) -> [u64; 3] {
        ["succeeded", "retried", "failed"].map(|outcome| {
            let counter = self.metrics.0.handler_calls.get(&labels(table::HANDLER_CALLS, [&self.operator, handler, outcome]));
            counter.map(|counter| counter.get()).unwrap_or_default()
        })
    }

    /// Observes the duration of a call.
    pub fn call(&self, handler: &str, duration: Duration) {
        let family = &self.metrics.0.handler_seconds;
        family.get_or_create(&labels(table::HANDLER_SECONDS, [&self.operator, handler])).observe(duration.as_secs_f64());
    }

    /// Sets how many objects wait for the next attempt of a handler.
    pub fn waiting(&self, handler: &str, objects: usize) {
        self.metrics.0.waiting.get_or_create(&labels(table::WAITING, [&*self.operator, handler])).set(objects as i64);
    }

    /// Counts a cycle.
    pub fn cycle(&self, is_failed: bool) {
        let outcome = if is_failed { "failed" } else { "succeeded" };
        self.metrics.0.cycles.get_or_create(&labels(table::CYCLES, [&*self.operator, outcome])).inc();
    }

    /// Counts an object that is slowed down because of a handler.
    pub fn looped(&self, handler: &str) {
        self.metrics.0.loops.get_or_create(&labels(table::LOOPS, [&*self.operator, handler])).inc();
    }

    /// Sets how many objects are slowed down.
    pub fn slowed(&self, objects: usize) {
        self.metrics.0.slowed.get_or_create(&labels(table::SLOWED, [&*self.operator])).set(objects as i64);
    }
}
