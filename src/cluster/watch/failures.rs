//! The failures of a watcher: the pauses after them, and their log lines.

use std::time::Duration;

use tokio::time::sleep;
use tracing::{debug, error, info, warn};

use crate::kit::Backoff;

use super::super::error::Error;
use super::requests::{LOG, Requests};

/// Pauses in seconds after failures if the settings have none: watches are retried even if requests are not.
pub(super) const FAILURE_PAUSES: [u64; 4] = [1, 2, 5, 10];

/// The failures since requests have succeeded.
pub(super) struct Failures {
    pauses: Backoff,
    last_failure: LastFailure,
    /// Whether the version was lost since the last valid line.
    was_lost: bool,
}

/// The current problem.
#[derive(Debug, Default, PartialEq, Eq)]
enum LastFailure {
    /// Nothing.
    #[default]
    None,
    /// A request or a stream, with this status if the server gave one.
    Failed(Option<u16>),
}

impl Failures {
    /// Returns none, with these pauses after further ones.
    pub(super) fn none(pauses: Vec<Duration>) -> Self {
        let pauses = if pauses.is_empty() {
            Backoff::new(FAILURE_PAUSES.map(Duration::from_secs))
        } else {
            Backoff::new(pauses)
        };
        Self { pauses, last_failure: LastFailure::None, was_lost: false }
    }

    /// Lets the pauses be short again, since a stream works.
    pub(super) fn reset(&mut self) {
        self.pauses.reset();
    }

    /// Notes that a valid line was received.
    pub(super) fn received(&mut self) {
        self.was_lost = false;
    }

    /// Waits after the version was lost, longer if nothing was received since it was lost before.
    pub(super) async fn wait_after_loss(&mut self, requests: &Requests) {
        debug!(target: LOG, path = requests.path, "The watch has lost its place. Listing again.");
        let pause = requests.settings().watching.reconnect_backoff;
        let again = if self.was_lost { self.pauses.next_or_last().unwrap_or_default() } else { Duration::ZERO };
        self.was_lost = true;
        sleep(pause.max(again)).await;
    }

    /// Reports a failure, and returns how long to wait. The pauses grow until a stream works again.
    pub(super) fn failed(&mut self, error: &Error, requests: &Requests) -> Duration {
        let pause = self.pauses.next_or_last().unwrap_or_default();
        let asked = error.retry_after().unwrap_or_default();
        let pause = if requests.settings().networking.enforce_retry_after && !asked.is_zero() {
            asked
        } else {
            pause.max(asked)
        };
        let is_refused = error.status().is_some_and(|status| status < 429);
        if is_refused && self.last_failure == LastFailure::Failed(error.status()) {
            debug!(target: LOG, resource = %requests.resource, path = requests.path, error = error.chain(), ?pause, "The resource still cannot be watched.");
        } else if error.status() == Some(429) && !asked.is_zero() {
            // Nothing has failed: servers are busy, or prepare the storage of a resource whose definition has changed.
            warn!(target: LOG, resource = %requests.resource, path = requests.path, error = error.chain(), ?pause, "The API server asks to watch the resource later.");
        } else {
            error!(target: LOG, resource = %requests.resource, path = requests.path, error = error.chain(), ?pause, "The resource cannot be watched. Trying again.");
        }
        self.last_failure = LastFailure::Failed(error.status());
        pause
    }

    /// Reports that requests succeed again.
    pub(super) fn recovered(&mut self, requests: &Requests) {
        if std::mem::take(&mut self.last_failure) != LastFailure::None {
            info!(target: LOG, resource = %requests.resource, path = requests.path, "The resource is watched again.");
        }
    }
}
