//! The metrics of replicas of which one leads.

use super::{OperatorMetrics, labels, table};

impl OperatorMetrics {
    /// Sets whether this replica leads.
    pub fn leading(&self, is_leader: bool) {
        self.metrics.0.leader.get_or_create(&labels(table::LEADER, [&*self.operator])).set(is_leader.into());
    }

    /// Counts a change of the leadership of this replica: gained, lost, released.
    pub fn leadership(&self, change: &str) {
        self.metrics.0.leader_changes.get_or_create(&labels(table::LEADER_CHANGES, [&*self.operator, change])).inc();
    }
}
