//! Writes the records of a peering object: the own one regularly, and those of invalid peers, which are removed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tracing::{debug, warn};

use super::object::PeeringObject;
use crate::handling::peering::{HEAD_START, keep_alive_period};
use crate::kit::{Backoff, Stop};
use crate::telemetry::OperatorMetrics;

/// The pauses in seconds after failed keep-alives: the record must be written again before it expires.
const FAILURE_PAUSES: [u64; 4] = [1, 2, 3, 5];

/// How long a keep-alive that is on its way is awaited when the operator stops: else it might arrive after the removal.
const LAST_KEEP_ALIVE: Duration = Duration::from_secs(2);

/// Requested writes besides the regular keep-alives.
#[derive(Debug, Default)]
pub(super) struct Orders {
    state: Mutex<Ordered>,
    arrived: Notify,
}

#[derive(Debug, Default)]
struct Ordered {
    /// Whether another replica writes the record.
    is_idle: bool,
    is_keep_alive_due: bool,
    dead: BTreeSet<String>,
}

impl Orders {
    /// Requests a keep-alive at once.
    pub(super) fn keep_alive(&self) {
        self.state.lock().is_keep_alive_due = true;
        self.arrived.notify_one();
    }

    /// Requests the removal of records.
    pub(super) fn remove(&self, identities: Vec<String>) {
        self.state.lock().dead.extend(identities);
        self.arrived.notify_one();
    }

    /// Starts or stops the regular keep-alives. While they are stopped, another replica writes them.
    pub(super) fn write_regularly(&self, is_meant: bool) {
        self.state.lock().is_idle = !is_meant;
        self.arrived.notify_one();
    }

    /// Tells whether another replica writes the record.
    pub(super) fn is_idle(&self) -> bool {
        self.state.lock().is_idle
    }

    /// Returns whether a keep-alive is due, and which records are to be removed.
    fn take(&self) -> (bool, BTreeSet<String>) {
        let mut state = self.state.lock();
        (std::mem::take(&mut state.is_keep_alive_due), std::mem::take(&mut state.dead))
    }
}

/// The keep-alives that were written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Written {
    /// How many requests have ended.
    pub attempts: u64,
    /// Whether the object does not exist, by the last answer.
    pub is_absent: bool,
}

/// The writer of one peering object.
pub(super) struct KeepAlive {
    object: Arc<PeeringObject>,
    orders: Arc<Orders>,
    written: watch::Sender<Written>,
    metrics: OperatorMetrics,
    random: StdRng,
    failures: Backoff,
    is_failing: bool,
}

impl KeepAlive {
    /// Returns a writer that has written nothing.
    pub(super) fn new(
        object: Arc<PeeringObject>,
        orders: Arc<Orders>,
        written: watch::Sender<Written>,
        metrics: OperatorMetrics,
        seed: Option<u64>,
    ) -> Self {
        let random = StdRng::seed_from_u64(seed.unwrap_or_else(|| rand::rng().random()));
        let failures = Backoff::new(FAILURE_PAUSES.map(Duration::from_secs));
        Self { object, orders, written, metrics, random, failures, is_failing: false }
    }

    /// Writes until the stop is requested.
    pub(super) async fn run(mut self, stop: &Stop) {
        while !stop.is_requested() {
            if self.orders.is_idle() {
                tokio::select! {
                    biased;
                    () = stop.requested() => return,
                    () = self.orders.arrived.notified() => continue,
                }
            }
            let next_at = Instant::now() + self.keep_alive(stop).await;
            self.carry_out_orders(next_at, stop).await;
        }
    }

    /// Writes a keep-alive. Returns the time until the next one.
    async fn keep_alive(&mut self, stop: &Stop) -> Duration {
        let period = keep_alive_period(self.object.peer.keep_alive_lifetime(), self.random.random_range(HEAD_START));
        let object = Arc::clone(&self.object);
        let mut touched = std::pin::pin!(tokio::time::timeout(period, object.touch()));
        let ended = tokio::select! {
            biased;
            ended = &mut touched => ended,
            () = stop.requested() => match tokio::time::timeout(LAST_KEEP_ALIVE, touched).await {
                Ok(ended) => ended,
                Err(late) => Err(late),
            },
        };
        let failure = match ended {
            Ok(Ok(is_found)) => {
                self.succeed(!is_found);
                return period;
            }
            Ok(Err(error)) => error.chain(),
            Err(_) => "the API server does not answer in time".to_owned(),
        };
        self.fail(&failure).min(period)
    }

    fn succeed(&mut self, is_absent: bool) {
        self.failures.reset();
        if std::mem::take(&mut self.is_failing) {
            tracing::info!(target: "kopfd::peering", "Keep-alives in {} succeed again.", self.object.title());
        }
        self.written.send_modify(|written| *written = Written { attempts: written.attempts + 1, is_absent });
    }

    fn fail(&mut self, failure: &str) -> Duration {
        let pause = self.failures.next_or_last().unwrap_or_default();
        let title = self.object.title();
        if std::mem::replace(&mut self.is_failing, true) {
            debug!(target: "kopfd::peering", ?pause, "A keep-alive in {title} has failed again: {failure}");
        } else {
            warn!(target: "kopfd::peering", ?pause, "A keep-alive in {title} has failed, and is repeated: {failure}");
        }
        self.metrics.keep_alive_failed();
        self.written.send_modify(|written| written.attempts += 1);
        pause
    }

    /// Carries out orders until the next keep-alive is due.
    async fn carry_out_orders(&self, next_at: Instant, stop: &Stop) {
        loop {
            tokio::select! {
                biased;
                () = stop.requested() => return,
                () = self.orders.arrived.notified() => {}
                () = tokio::time::sleep_until(next_at) => return,
            }
            if self.orders.is_idle() {
                return;
            }
            let (is_keep_alive_due, dead) = self.orders.take();
            if !dead.is_empty() {
                tokio::select! {
                    biased;
                    () = stop.requested() => return,
                    () = tokio::time::sleep_until(next_at) => return,
                    () = self.remove(dead.into_iter().collect()) => {}
                }
            }
            if is_keep_alive_due {
                return;
            }
        }
    }

    /// The next decision removes them again, if that fails.
    async fn remove(&self, dead: Vec<String>) {
        if let Err(error) = self.object.remove(&dead).await {
            let title = self.object.title();
            debug!(target: "kopfd::peering", error = error.chain(), "Cannot remove expired records from {title}.");
        }
    }
}
