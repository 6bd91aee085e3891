//! Receives the states of a peering object from its watch.

use serde_json::Value;
use tokio::sync::watch;

use crate::cluster::{self, Seen as SeenObject, Sink};

/// The failures of the first list in a row, other than refusals, after which the operator goes on without knowing its
/// peers. With the default pauses, they take about ten seconds.
const MAX_LIST_FAILURES: usize = 5;

/// The last known state of a peering object.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Seen {
    /// It was not listed yet.
    Unknown,
    /// It cannot be listed.
    Unavailable,
    /// It does not exist.
    Absent,
    /// It has, or had last, this status.
    Present(Option<Value>),
}

/// Passes the newest state of one peering object on.
pub(super) struct StatusSink {
    name: String,
    statuses: watch::Sender<Seen>,
    is_in_list: bool,
    failures: usize,
}

impl StatusSink {
    /// Returns the sink for the object with this name; others are ignored.
    pub(super) fn new(name: String, statuses: watch::Sender<Seen>) -> Self {
        Self { name, statuses, is_in_list: false, failures: 0 }
    }
}

impl Sink for StatusSink {
    fn listing_began(&mut self) {
        self.is_in_list = false;
    }

    async fn seen(&mut self, seen: SeenObject<'_>) {
        if seen.head.name() != self.name {
            return;
        }
        // An object that cannot be parsed is as good as one without records.
        let status = seen.body().ok().and_then(|body| body.get("status").cloned());
        self.is_in_list = true;
        self.statuses.send_replace(Seen::Present(status));
    }

    async fn listed(&mut self) {
        self.failures = 0;
        if !self.is_in_list {
            self.statuses.send_replace(Seen::Absent);
        }
    }

    fn request_failed(&mut self, error: &cluster::Error) {
        self.failures += 1;
        let is_refused = error.status().is_some_and(|status| status < 429);
        if is_refused || self.failures >= MAX_LIST_FAILURES {
            self.statuses.send_if_modified(|seen| {
                let is_first = *seen == Seen::Unknown;
                if is_first {
                    *seen = Seen::Unavailable;
                }
                is_first
            });
        }
    }
}
