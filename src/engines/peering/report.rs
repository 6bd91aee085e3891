//! Counts the peers of an operator for its metrics.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::handling::peering::Relations;
use crate::object::Resource;
use crate::telemetry::OperatorMetrics;

/// A peering resource, cluster-wide or in one namespace.
pub(super) type Key = (Arc<Resource>, Option<String>);

/// The numbers of valid peers by peering object.
pub(super) type Counts = Arc<Mutex<BTreeMap<Key, Relations>>>;

/// Reports the peers of one peering object.
pub(super) struct Report {
    counts: Counts,
    metrics: OperatorMetrics,
    key: Key,
}

impl Report {
    /// Returns the report of a peering object without peers.
    pub(super) fn new(counts: Counts, metrics: OperatorMetrics, key: Key) -> Self {
        Self { counts, metrics, key }
    }

    /// Replaces the numbers of peers.
    pub(super) fn set(&self, relations: Relations) {
        self.counts.lock().insert(self.key.clone(), relations);
        self.publish();
    }

    fn publish(&self) {
        let counts = self.counts.lock();
        let sum = |of: fn(&Relations) -> usize| counts.values().map(of).sum();
        self.metrics.peers(sum(|peers| peers.higher), sum(|peers| peers.same), sum(|peers| peers.lower));
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        self.counts.lock().remove(&self.key);
        self.publish();
    }
}
