//! The metrics of one operator: those of its handlers, and those that its scripts define.

use std::sync::Arc;
use std::time::Duration;

use super::series::{HandlerSeries, Kept, RequestSeries, ReviewSeries};
use super::{Change, Metrics, SeriesLabels, labels, table};

/// The metrics of one operator. Cheap to clone.
#[derive(Debug, Clone)]
pub struct OperatorMetrics {
    pub(super) metrics: Metrics,
    pub(super) operator: Arc<str>,
    pub(super) kept: Arc<KeptSeries>,
}

/// The series of an operator that are counted most often.
#[derive(Debug, Default)]
pub(super) struct KeptSeries {
    /// By verb, resource and outcome.
    pub requests: Kept<RequestSeries>,
    /// By handler.
    pub handlers: Kept<HandlerSeries>,
    /// By webhook.
    pub reviews: Kept<ReviewSeries>,
}

impl Metrics {
    /// Returns the metrics of an operator.
    pub fn operator(&self, name: &str) -> OperatorMetrics {
        OperatorMetrics { metrics: self.clone(), operator: Arc::from(name), kept: Arc::default() }
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

/// The labels of the outcomes of attempts.
const ATTEMPT_OUTCOMES: [&str; 3] = ["succeeded", "retried", "failed"];

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
        let (index, outcome) = (outcome as usize, ATTEMPT_OUTCOMES[outcome as usize]);
        self.kept.handlers.count(handler, |series| {
            let labels_of_calls = || labels(table::HANDLER_CALLS, [&self.operator, handler, outcome]);
            series.attempts[index]
                .get_or_insert_with(|| families.handler_calls.get_or_create_owned(&labels_of_calls()))
                .inc();
            if retry > 0 {
                let labels = || labels(table::HANDLER_RETRIES, [&*self.operator, handler]);
                series.retries.get_or_insert_with(|| families.handler_retries.get_or_create_owned(&labels())).inc();
            }
        });
    }

    /// Returns the counted attempts of a handler: succeeded, retried, and failed ones.
    pub fn attempts(&self, handler: &str) -> [u64; 3] {
        ATTEMPT_OUTCOMES.map(|outcome| {
            let counter =
                self.metrics.0.handler_calls.get(&labels(table::HANDLER_CALLS, [&self.operator, handler, outcome]));
            counter.map(|counter| counter.get()).unwrap_or_default()
        })
    }

    /// Observes the duration of a call.
    pub fn call(&self, handler: &str, duration: Duration) {
        let family = &self.metrics.0.handler_seconds;
        let labels = || labels(table::HANDLER_SECONDS, [&*self.operator, handler]);
        self.kept.handlers.count(handler, |series| {
            series.seconds.get_or_insert_with(|| family.get_or_create_owned(&labels())).observe(duration.as_secs_f64());
        });
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
