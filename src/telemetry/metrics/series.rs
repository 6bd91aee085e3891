//! Series that are kept: finding them by their labels again and again would take longer than to count.

use std::collections::HashMap;

use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;

/// Series of several metrics, by the labels that they have in common. A series is made when it is first counted.
#[derive(Debug)]
pub(super) struct Kept<S>(Mutex<HashMap<String, S>>);

impl<S> Default for Kept<S> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<S: Default> Kept<S> {
    /// Counts with the series of a key.
    pub(super) fn count(&self, key: &str, count: impl FnOnce(&mut S)) {
        let mut kept = self.0.lock();
        match kept.get_mut(key) {
            Some(series) => count(series),
            None => count(kept.entry(key.to_owned()).or_default()),
        }
    }
}

/// The series of the requests with the same verb, resource and outcome.
#[derive(Debug, Default)]
pub(super) struct RequestSeries {
    /// The requests.
    pub count: Option<Counter>,
    /// Their durations.
    pub seconds: Option<Histogram>,
    /// The conflicts, if the requests have failed by them.
    pub conflicts: Option<Counter>,
}

/// The series of a handler.
#[derive(Debug, Default)]
pub(super) struct HandlerSeries {
    /// The attempts by their outcomes.
    pub attempts: [Option<Counter>; 3],
    /// The repeated attempts.
    pub retries: Option<Counter>,
    /// The durations of the calls.
    pub seconds: Option<Histogram>,
}

/// The series of a webhook.
#[derive(Debug, Default)]
pub(super) struct ReviewSeries {
    /// The reviews by their outcomes.
    pub reviews: [Option<Counter>; 4],
    /// Their durations.
    pub seconds: Option<Histogram>,
}
