//! When the groups of the API server are scanned again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;
use tracing::warn;

use crate::cluster;

/// Times of discovery scans after a definition of a group has changed: the server needs a moment to serve a new kind.
const SCAN_DELAYS: [Duration; 3] = [Duration::from_millis(50), Duration::from_secs(1), Duration::from_secs(4)];

/// Delay before a group that could not be read is scanned again.
const RESCAN_DELAY: Duration = Duration::from_secs(30);

/// A group; `None` stands for all.
type Group = Option<String>;

/// The scheduled scans, by their times.
#[derive(Default)]
pub(super) struct Scans(BTreeMap<Instant, BTreeSet<Group>>);

impl Scans {
    /// Returns how many times of scans there are.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Schedules the scans after a change of a group's definitions, or a possible one.
    pub(super) fn changed(&mut self, group: &Group) {
        let now = Instant::now();
        for delay in SCAN_DELAYS {
            self.at(now + delay, group.clone());
        }
    }

    /// Schedules a scan of a group that another scan has skipped.
    pub(super) fn skipped(&mut self, group: String) {
        self.at(Instant::now() + RESCAN_DELAY, Some(group));
    }

    /// Reports that a scan has failed, and schedules it again.
    pub(super) fn failed(&mut self, group: Group, error: &cluster::Error) {
        warn!(target: "kopfd::reactor", group, error = error.chain(), "Cannot look at the kinds of the cluster. Will look again.");
        let delay = RESCAN_DELAY.max(error.retry_after().unwrap_or_default());
        self.at(Instant::now() + delay, group);
    }

    fn at(&mut self, moment: Instant, group: Group) {
        self.0.entry(moment).or_default().insert(group);
    }

    /// Waits until a scan is due; without any, forever.
    ///
    /// *Cancel safety*: the wait may be dropped and begun again.
    pub(super) async fn due(&self) {
        match self.0.keys().next() {
            Some(moment) => tokio::time::sleep_until(*moment).await,
            None => std::future::pending().await,
        }
    }

    /// Takes the groups of the next scan.
    pub(super) fn take_next(&mut self) -> BTreeSet<Group> {
        self.0.pop_first().map(|(_, groups)| groups).unwrap_or_default()
    }
}
