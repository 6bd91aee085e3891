//! The faults of a server, its record of requests, and its downtime.
//!
//! [`crate::faults`] decides about faults; [`crate::server`] applies them to requests.

use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::faults::Faults;
use crate::faults::requests::RequestLog;

/// The connection has broken: the answer is missing or incomplete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("connection reset by peer")]
pub struct Broken;

/// The faults and recorded requests of a server.
#[derive(Debug)]
pub struct Injection {
    faults: Mutex<Faults>,
    requests: Mutex<RequestLog>,
    down_until: Mutex<Option<Instant>>,
    /// Changes with every restart, for open connections.
    restarts: watch::Sender<u64>,
}

impl Injection {
    /// Returns the state of a server without faults, with a seed of randomness and a limit of recorded requests.
    pub fn new(seed: u64, requests: usize) -> Self {
        Self {
            faults: Mutex::new(Faults::seeded(seed)),
            requests: Mutex::new(RequestLog::with_limit(requests)),
            down_until: Mutex::new(None),
            restarts: watch::Sender::new(0),
        }
    }

    /// Returns the faults. The guard must not be held for longer than a moment.
    pub fn faults(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock()
    }

    /// Returns the record of requests. The guard must not be held for longer than a moment.
    pub fn requests(&self) -> MutexGuard<'_, RequestLog> {
        self.requests.lock()
    }

    /// Tells whether there are no rules, and nothing is recorded.
    pub fn is_idle(&self) -> bool {
        self.faults().is_empty() && !self.requests().is_enabled()
    }

    /// Returns a channel that changes when all connections must be broken.
    pub fn restarts(&self) -> watch::Receiver<u64> {
        self.restarts.subscribe()
    }

    /// Breaks all connections, and refuses new ones for a while.
    pub fn go_down(&self, time: Duration) {
        *self.down_until.lock() = Some(Instant::now() + time);
        self.restarts.send_modify(|count| *count += 1);
    }

    /// Tells whether the server is down.
    pub fn is_down(&self) -> bool {
        self.down_until.lock().is_some_and(|until| Instant::now() < until)
    }
}
