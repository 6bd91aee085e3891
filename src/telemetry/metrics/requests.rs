//! The metrics of requests to the API server, and of logins.

use std::time::Duration;

use super::request_series::RequestSeries;
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
        let mut requests = self.requests.lock();
        let series = requests.entry(key).or_insert_with(|| self.series_of(verb, resource, code));
        series.count.inc();
        series.seconds.observe(duration.as_secs_f64());
        if let Some(conflicts) = &series.conflicts {
            conflicts.inc();
        }
    }

    fn series_of(&self, verb: &str, resource: &str, code: &str) -> RequestSeries {
        let families = &self.metrics.0;
        let seconds = labels(table::REQUEST_SECONDS, [&self.operator, verb, resource]);
        let conflicts = (code == "409").then(|| labels(table::CONFLICTS, [&*self.operator, resource]));
        RequestSeries {
            count: families.requests.get_or_create_owned(&labels(table::REQUESTS, [&self.operator, verb, resource, code])),
            seconds: families.request_seconds.get_or_create_owned(&seconds),
            conflicts: conflicts.map(|labels| families.conflicts.get_or_create_owned(&labels)),
        }
    }

    /// Counts the repetition of a request.
    pub fn repetition(&self, verb: &str, resource: &str) {
        self.metrics.0.request_retries.get_or_create(&labels(table::REQUEST_RETRIES, [&self.operator, verb, resource])).inc();
    }

    /// Counts time waited because the server asked for it.
    pub fn throttled(&self, wait: Duration) {
        self.metrics.0.throttled.get_or_create(&labels(table::THROTTLED, [&*self.operator])).inc_by(wait.as_secs_f64());
    }

    /// Counts time that a request waited for the budget of requests.
    pub fn waited_for_budget(&self, wait: Duration) {
        self.metrics.0.budget_wait.get_or_create(&labels(table::BUDGET_WAIT, [&*self.operator])).inc_by(wait.as_secs_f64());
    }
}
