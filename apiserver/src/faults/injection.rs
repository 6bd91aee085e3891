//! The faults of a server, its record of requests, and its downtime.
//!
//! Which faults there are is decided in [`crate::faults`]; what they do to a request happens in [`crate::server`].

use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::faults::Faults;
use crate::faults::requests::Requests;

/// The connection has broken: there is no answer, or no more of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("connection reset by peer")]
pub struct Broken;

/// What a server knows of requests and their faults.
#[derive(Debug)]
pub struct Injection {
    faults: Mutex<Faults>,
    requests: Mutex<Requests>,
    down_until: Mutex<Option<Instant>>,
    /// Ticks with every restart, for open connections.
    restarts: watch::Sender<u64>,
}

impl Injection {
    /// Returns the state of a server without faults, whose randomness depends on the seed, and which keeps so many requests on record.
    pub fn new(seed: u64, requests: usize) -> Self {
        Self {
            faults: Mutex::new(Faults::seeded(seed)),
            requests: Mutex::new(Requests::keeping(requests)),
            down_until: Mutex::new(None),
            restarts: watch::Sender::new(0),
        }
    }

    /// Returns the faults. The guard must not be held for longer than a moment.
    pub fn faults(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock()
    }

    /// Returns the record of requests. The guard must not be held for longer than a moment.
    pub fn requests(&self) -> MutexGuard<'_, Requests> {
        self.requests.lock()
    }

    /// Tells whether nothing can go wrong, and nothing is recorded.
    pub fn is_idle(&self) -> bool {
        self.faults().is_empty() && !self.requests().is_kept()
    }

    /// Returns what ticks when all connections are to be broken.
    pub fn restarts(&self) -> watch::Receiver<u64> {
        self.restarts.subscribe()
    }

    /// Breaks all connections, and takes no new ones for a while.
    pub fn go_down(&self, time: Duration) {
        *self.down_until.lock() = Some(Instant::now() + time);
        self.restarts.send_modify(|count| *count += 1);
    }

    /// Tells whether the server is down.
    pub fn is_down(&self) -> bool {
        self.down_until.lock().is_some_and(|until| Instant::now() < until)
    }
}
