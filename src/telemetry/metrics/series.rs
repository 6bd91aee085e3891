//! The series of requests with the same verb, resource and outcome.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;

/// Series that are kept: finding them by their labels again and again would take longer than to count.
#[derive(Debug)]
pub(super) struct RequestSeries {
    /// The requests.
    pub count: Counter,
    /// Their durations.
    pub seconds: Histogram,
    /// The conflicts, if the requests have failed by them.
    pub conflicts: Option<Counter>,
}
