//! An account of what an operator does, for people who follow it step by step, and the knowledge of when it has nothing left to do.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::sync::Notify;
use tracing::info;

use crate::handling::{Handler, Outcome, Reason};
use crate::object::{Body, Patch, Sighting, path};
use crate::script::Returned;

/// How long nothing may happen before everything counts as settled: events of own patches are on their way.
const CALM: Duration = Duration::from_millis(300);

/// The longest value that is shown in full.
const SHOWN: usize = 80;

/// Something that an operator meets or does, for those who keep an account of their own.
pub enum Happening<'a> {
    /// An object is taken up.
    Sighted {
        /// The object.
        body: &'a Body,
        /// How it came.
        sighting: Sighting,
    },
    /// A handler is called.
    Called {
        /// The object, as the handler sees it.
        body: &'a Body,
        /// The handler.
        handler: &'a Handler,
        /// Why; none for handlers of raw events.
        reason: Option<Reason>,
        /// The attempts made before.
        retry: u64,
    },
    /// A call has come back.
    Returned {
        /// The object.
        body: &'a Body,
        /// The handler.
        handler: &'a Handler,
        /// Why; none for handlers of raw events.
        reason: Option<Reason>,
        /// The attempts made before.
        retry: u64,
        /// What it has brought.
        returned: &'a Returned,
    },
    /// It is known what an attempt means, also one that was not made because a limit is reached.
    Concluded {
        /// The object.
        body: &'a Body,
        /// The handler.
        handler: &'a Handler,
        /// The attempts made before.
        retry: u64,
        /// What it means.
        outcome: &'a Outcome,
    },
}

/// Somebody who keeps an account of an operator.
pub trait Follower: Send + Sync {
    /// Hears of something at the moment it happens.
    fn happened(&self, happening: Happening<'_>);
}

/// What is known of the operators that are followed.
#[derive(Default)]
pub struct Account {
    /// Who tells it; the log if nobody else does.
    follower: Option<Arc<dyn Follower>>,
    /// Observers that have begun to watch.
    observers: AtomicUsize,
    /// Looks at the kinds of the cluster that are to come.
    looks: AtomicUsize,
    /// Objects that have a worker.
    workers: AtomicUsize,
    /// Watches that have not listed everything yet.
    unlisted: AtomicUsize,
    /// Handlers that have failed for good.
    failures: AtomicUsize,
    /// Objects whose last cycles have failed, by their unique ids.
    broken: Mutex<BTreeMap<String, Broken>>,
    changed: Notify,
}

/// An object whose last cycle has failed. Only its next change is processed again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// Its kind, its namespace and its name.
    pub object: String,
    /// Why.
    pub error: String,
}

impl std::fmt::Display for Broken {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // What follows in further lines, such as the place in a script, stands in the log.
        let error = self.error.lines().next().unwrap_or_default();
        write!(formatter, "the last cycle of {} has failed: {error}", self.object)
    }
}

impl std::fmt::Debug for Account {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { observers, looks, workers, unlisted, failures, .. } = self;
        let mut all = formatter.debug_struct("Account");
        all.field("observers", observers).field("looks", looks).field("workers", workers).field("unlisted", unlisted);
        all.field("failures", failures).finish_non_exhaustive()
    }
}

impl Account {
    /// Returns an account that somebody else tells, instead of the log.
    pub fn told_by(follower: Arc<dyn Follower>) -> Self {
        Self { follower: Some(follower), ..Self::default() }
    }

    /// Returns who tells it, if it is not the log.
    pub fn follower(&self) -> Option<&Arc<dyn Follower>> {
        self.follower.as_ref()
    }

    /// Notes that an operator knows the kinds of the cluster, and has begun to watch them.
    pub fn observer_began(&self) {
        self.observers.fetch_add(1, Ordering::SeqCst);
        self.changed.notify_waiters();
    }

    /// Notes how many looks at the kinds of the cluster an operator has before it, that had another number of them. Returns the new number.
    pub fn looks(&self, before: usize, now: usize) -> usize {
        if before != now {
            self.looks.fetch_add(now, Ordering::SeqCst);
            self.looks.fetch_sub(before, Ordering::SeqCst);
            self.changed.notify_waiters();
        }
        now
    }

    /// Tells whether so many operators watch, and have listed everything once.
    pub fn is_ready(&self, operators: usize) -> bool {
        self.observers.load(Ordering::SeqCst) >= operators && self.unlisted.load(Ordering::SeqCst) == 0
    }

    /// Waits until something has changed in what is to be done.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Notes that an object has got a worker.
    pub fn worker_began(&self) {
        self.workers.fetch_add(1, Ordering::SeqCst);
    }

    /// Notes that a worker has ended.
    pub fn worker_ended(&self) {
        self.workers.fetch_sub(1, Ordering::SeqCst);
        self.changed.notify_waiters();
    }

    /// Notes that a watch has begun.
    pub fn watch_began(&self) {
        self.unlisted.fetch_add(1, Ordering::SeqCst);
    }

    /// Notes that a watch has listed everything for the first time.
    pub fn listed(&self) {
        self.unlisted.fetch_sub(1, Ordering::SeqCst);
        self.changed.notify_waiters();
    }

    /// Notes that a handler has failed for good.
    pub fn failed(&self) {
        self.failures.fetch_add(1, Ordering::SeqCst);
    }

    /// Returns how many handlers have failed for good.
    pub fn failures(&self) -> usize {
        self.failures.load(Ordering::SeqCst)
    }

    /// Notes how a cycle of an object has ended.
    pub fn cycled(&self, uid: &str, body: &Body, error: Option<&str>) {
        let mut broken = self.broken.lock();
        let Some(error) = error else {
            broken.remove(uid);
            return;
        };
        let metadata = |key: &str| body.pointer(&format!("/metadata/{key}")).and_then(Value::as_str).unwrap_or_default();
        let separator = if metadata("namespace").is_empty() { "" } else { "/" };
        let kind = body.get("kind").and_then(Value::as_str).unwrap_or("object");
        let object = format!("{kind} {}{separator}{}", metadata("namespace"), metadata("name"));
        broken.insert(uid.to_owned(), Broken { object, error: error.to_owned() });
    }

    /// Returns the objects whose last cycles have failed: nothing is due for them, and nothing has been brought to its end.
    pub fn broken(&self) -> Vec<Broken> {
        self.broken.lock().values().cloned().collect()
    }

    /// Waits until nothing is left to do, retries included.
    pub async fn settled(&self) {
        loop {
            let changed = self.changed.notified();
            if self.is_calm() {
                tokio::time::sleep(CALM).await;
                if self.is_calm() {
                    return;
                }
            } else {
                // The time is only for what might happen between the look and the wait.
                let _ = tokio::time::timeout(CALM, changed).await;
            }
        }
    }

    /// Tells whether nothing is being done or waited for at this moment.
    pub fn is_calm(&self) -> bool {
        [&self.workers, &self.unlisted, &self.looks].iter().all(|count| count.load(Ordering::SeqCst) == 0)
    }
}

/// Tells that an object has come.
pub fn tell_sighting(sighting: Sighting, body: &Body) {
    let what = match sighting {
        Sighting::Listed => "was there",
        Sighting::Added => "was added",
        Sighting::Modified => "has changed",
        Sighting::Deleted => "is gone",
    };
    let kind = body.get("kind").and_then(Value::as_str).unwrap_or("object");
    info!(target: "kopfd::objects", "┌ The {kind} {what}, at version {}.", body.resource_version().unwrap_or("unknown"));
}

/// Tells what is written to an object, as a small difference.
pub fn tell_patch(body: &Body, patch: &Patch, prefix: &str) {
    for line in differences(body, patch, prefix) {
        info!(target: "kopfd::objects", "│ {line}");
    }
}

/// Returns the lines of the difference that a patch makes.
pub fn differences(body: &Body, patch: &Patch, prefix: &str) -> Vec<String> {
    let mut leaves = Vec::new();
    collect(&patch.merge, &mut Vec::new(), &mut leaves);
    let is_own = |keys: &[String]| keys.len() == 3 && keys[1] == "annotations" && keys[2].starts_with(prefix);
    let mut lines: Vec<String> =
        leaves.iter().filter(|(keys, _)| !is_own(keys)).filter_map(|(keys, new)| difference(body, keys, new)).collect();
    let (purged, kept): (Vec<_>, Vec<_>) = leaves.iter().filter(|(keys, _)| is_own(keys)).partition(|(_, value)| value.is_null());
    if !kept.is_empty() || !purged.is_empty() {
        let names = |leaves: &[&(Vec<String>, Value)]| -> String {
            let names: Vec<&str> = leaves.iter().filter_map(|(keys, _)| keys[2].split_once('/').map(|(_, name)| name)).collect();
            names.join(", ")
        };
        let kept = if kept.is_empty() { String::new() } else { format!(" kept {}", names(&kept)) };
        let purged = if purged.is_empty() { String::new() } else { format!(" purged {}", names(&purged)) };
        lines.push(format!("= annotations:{kept}{}{purged}", if kept.is_empty() || purged.is_empty() { "" } else { ";" }));
    }
    lines.extend(patch.transforms.iter().map(|transform| match transform {
        crate::object::Transform::AddFinalizer(name) => format!("+ metadata.finalizers: {name}"),
        crate::object::Transform::RemoveFinalizer(name) => format!("- metadata.finalizers: {name}"),
        crate::object::Transform::Function(_) => "~ a function over the whole object".to_owned(),
    }));
    lines
}

fn collect(map: &Map<String, Value>, keys: &mut Vec<String>, leaves: &mut Vec<(Vec<String>, Value)>) {
    for (key, value) in map {
        keys.push(key.clone());
        match value {
            Value::Object(child) if !child.is_empty() => collect(child, keys, leaves),
            _ => leaves.push((keys.clone(), value.clone())),
        }
        keys.pop();
    }
}

fn difference(body: &Body, keys: &[String], new: &Value) -> Option<String> {
    let old = path::resolve(body, keys).filter(|old| !old.is_null());
    let place = keys.join(".");
    match (old, new) {
        (None, Value::Null) => None,
        (None, new) => Some(format!("+ {place}: {}", shown(new))),
        (Some(old), Value::Null) => Some(format!("- {place}: {}", shown(old))),
        (Some(old), new) if old == new => None,
        (Some(old), new) => Some(format!("~ {place}: {} -> {}", shown(old), shown(new))),
    }
}

/// Returns a value in one line, cut if it is long.
pub fn shown(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= SHOWN { text } else { format!("{}…", text.chars().take(SHOWN).collect::<String>()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_patch_is_told_by_what_it_changes() {
        let body = Body::from(json!({"metadata": {"annotations": {"kopf.zalando.org/f": "{}"}}, "status": {"old": 1, "same": 2}}));
        let mut patch = Patch::default();
        patch.set(&["status", "old"], json!(3)).unwrap();
        patch.set(&["status", "same"], json!(2)).unwrap();
        patch.set(&["status", "new", "deep"], json!("x")).unwrap();
        patch.set(&["metadata", "annotations", "kopf.zalando.org/f"], Value::Null).unwrap();
        patch.set(&["metadata", "annotations", "kopf.zalando.org/last-handled-configuration"], json!("{}")).unwrap();
        let lines = differences(&body, &patch, "kopf.zalando.org/");
        let expected = ["+ status.new.deep: \"x\"", "~ status.old: 1 -> 3", "= annotations: kept last-handled-configuration; purged f"];
        assert_eq!(lines, expected);
    }

    #[test]
    fn an_object_is_broken_from_a_failed_cycle_to_the_next_good_one() {
        let account = Account::default();
        let body = Body::from(json!({"kind": "Backup", "metadata": {"namespace": "default", "name": "x"}}));
        account.cycled("1", &body, Some("no such function\n  --> a.rhai:1:1"));
        account.cycled("2", &body, None);
        let told: Vec<String> = account.broken().iter().map(ToString::to_string).collect();
        assert_eq!(told, ["the last cycle of Backup default/x has failed: no such function"]);
        account.cycled("1", &body, None);
        assert!(account.broken().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn everything_is_settled_when_no_worker_and_no_list_is_left() {
        let account = Account::default();
        account.watch_began();
        account.worker_began();
        let work = async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            account.listed();
            tokio::time::sleep(Duration::from_mins(1)).await;
            account.worker_ended();
        };
        let began = tokio::time::Instant::now();
        tokio::join!(work, account.settled());
        assert!(began.elapsed() >= Duration::from_secs(65));
    }
}
