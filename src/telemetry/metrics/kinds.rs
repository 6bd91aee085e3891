//! The metrics of one kind: its events, watches, queues and workers.

use std::time::Duration;

use jiff::Timestamp;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

use crate::object::EventKind;

use super::{OperatorMetrics, Seconds, labels, table, unix_seconds};

impl OperatorMetrics {
    /// Returns the metrics of a kind.
    pub fn kind(&self, resource: &str) -> KindMetrics {
        let families = &self.metrics.0;
        let events = |event_type: &str| {
            families
                .watch_events
                .get_or_create_owned(&labels(table::WATCH_EVENTS, [&self.operator, resource, event_type]))
        };
        let both = |description| labels(description, [&*self.operator, resource]);
        KindMetrics {
            events: ["listed", "added", "modified", "deleted"].map(events),
            last_event: families.last_event.get_or_create_owned(&both(table::LAST_EVENT)),
            states: ["listing", "watching", "failing", "paused"].map(|state| {
                families.watches.get_or_create_owned(&labels(table::WATCHES, [&self.operator, resource, state]))
            }),
            failures: families.watch_failures.get_or_create_owned(&both(table::WATCH_FAILURES)),
            queued: families.queued.get_or_create_owned(&both(table::QUEUED)),
            queue_wait: families.queue_wait.get_or_create_owned(&both(table::QUEUE_WAIT)),
            workers: families.workers.get_or_create_owned(&both(table::WORKERS)),
        }
    }
}

/// The metrics of one kind. Cheap to clone.
#[derive(Debug, Clone)]
pub struct KindMetrics {
    events: [Counter; 4],
    last_event: Seconds,
    states: [Gauge; 4],
    failures: Counter,
    queued: Gauge,
    queue_wait: Histogram,
    workers: Gauge,
}

/// The state of a watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchState {
    /// It has not listed its objects yet.
    Listing,
    /// It receives events.
    Watching,
    /// Its last request failed.
    Failing,
    /// The operator is paused.
    Paused,
}

/// One watch among those of its kind, until it is dropped.
#[derive(Debug)]
pub struct WatchGauge {
    metrics: KindMetrics,
    state: WatchState,
}

impl KindMetrics {
    /// Counts a received object.
    pub fn event(&self, kind: EventKind, at: Timestamp) {
        use EventKind::{Added, Deleted, Listed, Modified, Revisited, Touched};
        let index = match kind {
            Listed => 0,
            Added => 1,
            Modified => 2,
            Deleted => 3,
            // No watch has sent it.
            Revisited | Touched => return,
        };
        self.events[index].inc();
        self.last_event.set(unix_seconds(at));
    }

    /// Counts a failed request of a watch.
    pub fn watch_failed(&self) {
        self.failures.inc();
    }

    /// Returns the gauge of a new watch.
    pub fn watch(&self) -> WatchGauge {
        self.states[WatchState::Listing as usize].inc();
        WatchGauge { metrics: self.clone(), state: WatchState::Listing }
    }

    /// Counts events that are queued.
    pub fn queued(&self) {
        self.queued.inc();
    }

    /// Counts events that leave their queue.
    pub fn unqueued(&self, events: usize) {
        self.queued.dec_by(events as i64);
    }

    /// Observes how long an event was queued.
    pub fn waited(&self, duration: Duration) {
        self.queue_wait.observe(duration.as_secs_f64());
    }

    /// Returns the number of queued events.
    pub fn queued_events(&self) -> usize {
        usize::try_from(self.queued.get()).unwrap_or_default()
    }

    /// Returns the number of watches in a state.
    pub fn watches(&self, state: WatchState) -> usize {
        usize::try_from(self.states[state as usize].get()).unwrap_or_default()
    }

    /// Counts a worker that begins.
    pub fn worker_began(&self) {
        self.workers.inc();
    }

    /// Counts a worker that ends.
    pub fn worker_ended(&self) {
        self.workers.dec();
    }
}

impl WatchGauge {
    /// Sets the state of the watch.
    pub fn set(&mut self, state: WatchState) {
        if state != self.state {
            self.metrics.states[self.state as usize].dec();
            self.metrics.states[state as usize].inc();
            self.state = state;
        }
    }
}

impl Drop for WatchGauge {
    fn drop(&mut self) {
        self.metrics.states[self.state as usize].dec();
    }
}

#[cfg(test)]
mod tests {
    use super::super::Metrics;
    use super::*;

    #[test]
    fn a_watch_is_counted_in_one_state_until_it_ends() {
        let metrics = Metrics::default();
        let kind = metrics.operator("demo").kind("pods");
        let states = || kind.states.clone().map(|state| state.get());
        let (mut one, other) = (kind.watch(), kind.watch());
        one.set(WatchState::Watching);
        assert_eq!(states(), [1, 1, 0, 0]);
        one.set(WatchState::Failing);
        drop(other);
        assert_eq!(states(), [0, 0, 1, 0]);
        one.set(WatchState::Paused);
        assert_eq!(states(), [0, 0, 0, 1]);
        drop(one);
        assert_eq!(states(), [0, 0, 0, 0]);
    }
}
