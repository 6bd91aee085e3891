//! The metrics of requests to the API server, and of logins.

use std::time::Duration;

use super::{OperatorMetrics, labels, table};

impl OperatorMetrics {
    /// Counts a login.
    pub fn login(&self, is_failed: bool) {
        let outcome = if is_failed { "failed" } else { "succeeded" };
        self.metrics.0.logins.get_or_create(&labels(table::LOGINS, [&*self.operator, outcome])).inc();
    }

    /// Counts a request to the API server, and observes its duration. The code is the HTTP status, or a word.
    pub fn request(&self, verb: &str, resource: &str, code: &str, duration: Duration) {
        let key = [verb, " ", resource, " ", code].concat();
        let families = &self.metrics.0;
        let of_requests = || labels(table::REQUESTS, [&self.operator, verb, resource, code]);
        let of_seconds = || labels(table::REQUEST_SECONDS, [&self.operator, verb, resource]);
        let of_conflicts = || labels(table::CONFLICTS, [&*self.operator, resource]);
        self.kept.requests.count(&key, |series| {
            series.count.get_or_insert_with(|| families.requests.get_or_create_owned(&of_requests())).inc();
            series
                .seconds
                .get_or_insert_with(|| families.request_seconds.get_or_create_owned(&of_seconds()))
                .observe(duration.as_secs_f64());
            if code == "409" {
                series.conflicts.get_or_insert_with(|| families.conflicts.get_or_create_owned(&of_conflicts())).inc();
            }
        });
    }

    /// Counts the repetition of a request.
    pub fn repetition(&self, verb: &str, resource: &str) {
        self.metrics
            .0
            .request_retries
            .get_or_create(&labels(table::REQUEST_RETRIES, [&self.operator, verb, resource]))
            .inc();
    }

    /// Counts time waited because the server asked for it.
    pub fn throttled(&self, wait: Duration) {
        self.metrics.0.throttled.get_or_create(&labels(table::THROTTLED, [&*self.operator])).inc_by(wait.as_secs_f64());
    }

    /// Counts time that a request waited for the budget of requests.
    pub fn waited_for_budget(&self, wait: Duration) {
        self.metrics
            .0
            .budget_wait
            .get_or_create(&labels(table::BUDGET_WAIT, [&*self.operator]))
            .inc_by(wait.as_secs_f64());
    }
}
