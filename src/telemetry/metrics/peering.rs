//! Metrics of peers, and of the pause of an operator.

use super::{OperatorMetrics, labels, table};

impl OperatorMetrics {
    /// Sets whether the operator is paused.
    pub fn paused(&self, is_paused: bool) {
        self.metrics.0.paused.get_or_create(&labels(table::PAUSED, [&*self.operator])).set(i64::from(is_paused));
    }

    /// Sets the numbers of live peers by their priority.
    pub fn peers(&self, higher: usize, same: usize, lower: usize) {
        for (relation, peers) in [("higher", higher), ("same", same), ("lower", lower)] {
            self.metrics.0.peers.get_or_create(&labels(table::PEERS, [&*self.operator, relation])).set(peers as i64);
        }
    }

    /// Counts a keep-alive that could not be written.
    pub fn keep_alive_failed(&self) {
        self.metrics.0.keep_alive_failures.get_or_create(&labels(table::KEEP_ALIVE_FAILURES, [&*self.operator])).inc();
    }
}
