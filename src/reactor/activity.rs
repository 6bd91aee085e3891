//! The activity of operators: whether they are ready, when they have settled, and their failures.

mod sink;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::{Notify, watch};

use crate::handling::Handler;
use crate::object::Body;
use crate::script::Indexes;

use super::pending::{PendingHandlers, named};
use crate::engines::pause::Pause;

/// Quiet time after which the operators count as settled: events of their own patches may still arrive.
const QUIET_PERIOD: Duration = Duration::from_millis(300);

/// Characters of a value that are shown.
const MAX_SHOWN: usize = 80;

/// A handler that has failed permanently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The handler's id.
    pub handler: String,
    /// The kind, the namespace and the name of the object.
    pub object: String,
}

/// The activity of the monitored operators.
#[derive(Default)]
pub struct ActivityMonitor {
    /// Observers that have begun to watch.
    observers: AtomicUsize,
    /// Pending discovery scans.
    pending_scans: AtomicUsize,
    /// Operators whose webhooks are not known to the API server yet.
    unready_webhooks: AtomicUsize,
    /// Objects that have a worker.
    workers: AtomicUsize,
    /// Running calls of timers and schedules. Daemons are not counted: they run as long as their objects exist.
    timer_calls: AtomicUsize,
    /// Schedules with pending reads or writes of their state, by operator and id.
    unsynced: Mutex<BTreeSet<(String, String)>>,
    /// Watches that have not completed their first list.
    unlisted: AtomicUsize,
    /// Handlers that have failed permanently.
    failures: Mutex<Vec<Failure>>,
    /// Handlers that are running or will be retried.
    pub pending: PendingHandlers,
    /// Objects whose last cycle has failed, by unique id.
    broken: Mutex<BTreeMap<String, Broken>>,
    /// Reasons why kinds of the operators are not served, by operator.
    unserved: Mutex<BTreeMap<String, Vec<String>>>,
    /// The indexes of the operators, by operator.
    indexes: Mutex<BTreeMap<String, Arc<Indexes>>>,
    /// The requests of each watch to pass its known objects on once more.
    revisits: Mutex<Vec<Weak<Revisits>>>,
    /// The pauses of the operators.
    pauses: Mutex<Vec<Pause>>,
    changed: Notify,
}

/// The requests that a watch passes its known objects on once more.
#[derive(Debug)]
pub struct Revisits {
    requested: watch::Receiver<u64>,
    answered: AtomicU64,
    /// Whether the operator is paused: the list after the pause answers all requests.
    is_suspended: AtomicBool,
}

impl Revisits {
    /// Returns the requests of a watch.
    pub fn new(requested: watch::Receiver<u64>) -> Arc<Self> {
        Arc::new(Self { requested, answered: AtomicU64::new(0), is_suspended: AtomicBool::new(false) })
    }

    /// Records that requests were answered.
    pub fn answer(&self, request: u64) {
        self.answered.fetch_max(request, Ordering::SeqCst);
    }

    /// Records whether the watch is closed by a pause.
    pub fn suspend(&self, is_suspended: bool) {
        self.is_suspended.store(is_suspended, Ordering::SeqCst);
    }

    fn is_answered(&self) -> bool {
        self.is_suspended.load(Ordering::SeqCst) || self.answered.load(Ordering::SeqCst) >= *self.requested.borrow()
    }
}

/// An object whose last cycle has failed. Only its next change is processed again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// Its kind, its namespace and its name.
    pub object: String,
    /// The error.
    pub error: String,
}

impl std::fmt::Display for Broken {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Further lines, such as the stack trace, are in the log.
        let error = self.error.lines().next().unwrap_or_default();
        write!(formatter, "the last cycle of {} has failed: {error}", self.object)
    }
}

impl std::fmt::Debug for ActivityMonitor {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { observers, pending_scans, workers, unlisted, failures, unserved, .. } = self;
        let mut all = formatter.debug_struct("ActivityMonitor");
        all.field("observers", observers)
            .field("pending_scans", pending_scans)
            .field("workers", workers)
            .field("unlisted", unlisted);
        all.field("failures", failures).field("unserved", unserved).finish_non_exhaustive()
    }
}

/// Keeps an operator from being ready until it is dropped.
pub struct UnreadyWebhooks(Arc<ActivityMonitor>);

impl Drop for UnreadyWebhooks {
    fn drop(&mut self) {
        self.0.unready_webhooks.fetch_sub(1, Ordering::SeqCst);
        self.0.changed.notify_waiters();
    }
}

impl ActivityMonitor {
    /// Records that webhooks of an operator are not known to the API server yet, until the guard is dropped.
    pub fn webhooks_unready(self: &Arc<Self>) -> UnreadyWebhooks {
        self.unready_webhooks.fetch_add(1, Ordering::SeqCst);
        UnreadyWebhooks(Arc::clone(self))
    }

    /// Follows the pause of an operator: while it is paused only for a moment, it is not quiet.
    pub fn follows_pause(&self, pause: Pause) {
        self.pauses.lock().push(pause);
    }

    /// Records that an operator has discovered the kinds of the cluster and has started its watches.
    pub fn observer_began(&self) {
        self.observers.fetch_add(1, Ordering::SeqCst);
        self.changed.notify_waiters();
    }

    /// Replaces an operator's number of pending discovery scans. Returns the new number.
    pub fn pending_scans(&self, before: usize, now: usize) -> usize {
        if before != now {
            self.pending_scans.fetch_add(now, Ordering::SeqCst);
            self.pending_scans.fetch_sub(before, Ordering::SeqCst);
            self.changed.notify_waiters();
        }
        now
    }

    /// Tells whether this many operators watch and have completed their first lists.
    pub fn is_ready(&self, operators: usize) -> bool {
        let unready = [&self.unlisted, &self.unready_webhooks];
        self.observers.load(Ordering::SeqCst) >= operators
            && unready.iter().all(|count| count.load(Ordering::SeqCst) == 0)
    }

    /// Waits until the activity changes.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Records the start of a worker.
    pub fn worker_began(&self) {
        self.workers.fetch_add(1, Ordering::SeqCst);
    }

    /// Records the end of a worker.
    pub fn worker_ended(&self) {
        self.workers.fetch_sub(1, Ordering::SeqCst);
        self.changed.notify_waiters();
    }

    /// Records the start of a watch.
    pub fn watch_began(&self) {
        self.unlisted.fetch_add(1, Ordering::SeqCst);
    }

    /// Follows the requests of a watch until they are dropped.
    pub fn revisits_began(&self, revisits: &Arc<Revisits>) {
        let mut all = self.revisits.lock();
        all.retain(|revisits| revisits.strong_count() > 0);
        all.push(Arc::downgrade(revisits));
    }

    /// Records that a watch has passed its known objects on.
    pub fn revisited(&self) {
        self.changed.notify_waiters();
    }

    /// Records the first complete list of a watch.
    pub fn listed(&self) {
        self.unlisted.fetch_sub(1, Ordering::SeqCst);
        self.changed.notify_waiters();
    }

    /// Records a permanent failure of a handler.
    fn failed(&self, handler: &Handler, body: &Body) {
        self.failures.lock().push(Failure { handler: handler.id.clone(), object: named(body) });
    }

    /// Returns the handlers that have failed permanently.
    pub fn failures(&self) -> Vec<Failure> {
        self.failures.lock().clone()
    }

    /// Records why kinds of an operator are not served.
    pub fn not_served(&self, operator: &str, reasons: impl IntoIterator<Item = String>) {
        self.unserved.lock().insert(operator.to_owned(), reasons.into_iter().collect());
    }

    /// Returns the reasons why kinds are not served.
    pub fn unserved(&self) -> Vec<String> {
        self.unserved.lock().values().flatten().cloned().collect()
    }

    /// Records the indexes of an operator.
    pub fn indexes_installed(&self, operator: &str, indexes: &Arc<Indexes>) {
        self.indexes.lock().insert(operator.to_owned(), Arc::clone(indexes));
    }

    /// Returns the indexes of the operators, by operator.
    pub fn indexes(&self) -> BTreeMap<String, Arc<Indexes>> {
        self.indexes.lock().clone()
    }

    /// Waits until this many operators watch.
    pub async fn ready(&self, operators: usize) {
        while !self.is_ready(operators) {
            // The timeout covers a change between the check and the wait.
            let _ = tokio::time::timeout(QUIET_PERIOD, self.changed()).await;
        }
    }

    /// Records the end of a cycle.
    fn cycled(&self, uid: &str, body: &Body, error: Option<&str>) {
        let mut broken = self.broken.lock();
        let Some(error) = error else {
            broken.remove(uid);
            return;
        };
        let object = named(body);
        broken.insert(uid.to_owned(), Broken { object, error: error.to_owned() });
    }

    /// Forgets an object that is deleted or no longer served.
    fn forget(&self, operator: &str, uid: &str) {
        self.pending.gone(operator, uid);
        self.broken.lock().remove(uid);
    }

    /// Returns the objects whose last cycle has failed: no retry is scheduled for them, and they are not handled
    /// completely.
    pub fn broken(&self) -> Vec<Broken> {
        self.broken.lock().values().cloned().collect()
    }

    /// Records the end of a call of a timer or schedule.
    fn timer_returned(&self) {
        self.timer_calls.fetch_sub(1, Ordering::SeqCst);
        self.changed.notify_waiters();
    }

    /// Records whether a schedule has pending reads or writes of its state.
    fn schedule_synced(&self, operator: &str, handler: &Handler, is_synced: bool) {
        let key = (operator.to_owned(), handler.id.clone());
        let mut unsynced = self.unsynced.lock();
        if is_synced {
            unsynced.remove(&key);
        } else {
            unsynced.insert(key);
        }
        drop(unsynced);
        self.changed.notify_waiters();
    }

    /// Waits until nothing is pending, including retries.
    pub async fn settled(&self) {
        loop {
            let changed = self.changed.notified();
            if self.is_quiet() {
                tokio::time::sleep(QUIET_PERIOD).await;
                if self.is_quiet() {
                    return;
                }
            } else {
                // The timeout covers a change between the check and the wait.
                let _ = tokio::time::timeout(QUIET_PERIOD, changed).await;
            }
        }
    }

    /// Tells whether nothing is running or pending.
    pub fn is_quiet(&self) -> bool {
        let counts = [&self.workers, &self.timer_calls, &self.unlisted, &self.pending_scans, &self.unready_webhooks];
        let is_idle = counts.iter().all(|count| count.load(Ordering::SeqCst) == 0) && self.unsynced.lock().is_empty();
        let is_waiting = self.pauses.lock().iter().any(Pause::is_brief);
        is_idle
            && !is_waiting
            && self.revisits.lock().iter().filter_map(Weak::upgrade).all(|revisits| revisits.is_answered())
    }
}

/// Returns a value in one line, cut if it is long.
pub(crate) fn shown(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= MAX_SHOWN {
        text
    } else {
        format!("{}…", text.chars().take(MAX_SHOWN).collect::<String>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engines::EngineEvent;
    use serde_json::json;

    #[test]
    fn an_object_is_broken_from_a_failed_cycle_to_the_next_good_one() {
        let monitor = ActivityMonitor::default();
        let body = Body::from(json!({"kind": "Backup", "metadata": {"namespace": "default", "name": "x"}}));
        monitor.cycled("1", &body, Some("no such function\n  --> a.rhai:1:1"));
        monitor.cycled("2", &body, None);
        let messages: Vec<String> = monitor.broken().iter().map(ToString::to_string).collect();
        assert_eq!(messages, ["the last cycle of Backup default/x has failed: no such function"]);
        monitor.cycled("1", &body, None);
        assert!(monitor.broken().is_empty());
        monitor.cycled("1", &body, Some("no such function"));
        monitor.note("tested", &EngineEvent::ObjectForgotten { uid: "1" });
        assert!(monitor.broken().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn the_operator_is_settled_without_workers_and_pending_lists() {
        let monitor = ActivityMonitor::default();
        monitor.watch_began();
        monitor.worker_began();
        let work = async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            monitor.listed();
            tokio::time::sleep(Duration::from_mins(1)).await;
            monitor.worker_ended();
        };
        let began = tokio::time::Instant::now();
        tokio::join!(work, monitor.settled());
        assert!(began.elapsed() >= Duration::from_secs(65));
    }

    #[test]
    fn operators_are_ready_once_they_watch_and_have_listed_everything() {
        let monitor = ActivityMonitor::default();
        assert!(!monitor.is_ready(1), "no operator watches yet");
        monitor.watch_began();
        monitor.observer_began();
        assert!(!monitor.is_ready(1), "a list is missing");
        monitor.listed();
        assert!(monitor.is_ready(1) && !monitor.is_ready(2));
    }

    #[tokio::test(start_paused = true)]
    async fn readiness_is_waited_for() {
        let monitor = ActivityMonitor::default();
        let start = async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            monitor.observer_began();
        };
        let began = tokio::time::Instant::now();
        let ready = async {
            tokio::time::timeout(Duration::from_mins(1), monitor.ready(1)).await.unwrap();
            began.elapsed()
        };
        let ((), waited) = tokio::join!(start, ready);
        assert!(waited >= Duration::from_secs(5));
    }

    #[test]
    fn looks_to_come_are_counted_over_all_operators() {
        let monitor = ActivityMonitor::default();
        assert_eq!((monitor.pending_scans(0, 3), monitor.pending_scans(0, 1)), (3, 1));
        assert!(!monitor.is_quiet());
        assert_eq!((monitor.pending_scans(3, 0), monitor.pending_scans(1, 1)), (0, 1));
        assert!(!monitor.is_quiet(), "the other operator has one before it");
        monitor.pending_scans(1, 0);
        assert!(monitor.is_quiet());
    }

    #[test]
    fn values_of_more_than_eighty_characters_are_cut() {
        let text = |count| shown(&Value::String("é".repeat(count)));
        // The quotes count, too.
        assert_eq!(text(78).chars().count(), 80);
        assert!(text(78).ends_with("é\""));
        assert_eq!((text(79).chars().count(), text(79).chars().last()), (81, Some('…')));
    }
}
