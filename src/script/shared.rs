//! `shared`: data and locks of the whole operator, in memory, for all calls on all script threads.
//!
//! From its first access to the data until its next wait, a call has the data for itself: other calls wait for their turn.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::plain::Plain;

pub(super) mod methods;

/// The shared data and locks of one operator.
#[derive(Debug)]
pub struct SharedData {
    values: Mutex<BTreeMap<String, Plain>>,
    turn: Arc<Semaphore>,
    locks: Mutex<Locks>,
}

#[derive(Debug, Default)]
struct Locks {
    by_key: HashMap<String, KeyLock>,
    /// The calls that wait for a lock, and its key.
    waiting: HashMap<u64, String>,
    calls: u64,
}

/// The lock of one key, as long as a call has it or waits for it.
#[derive(Debug)]
struct KeyLock {
    permits: Arc<Semaphore>,
    holder: Option<Holder>,
    /// The number of calls that have it or wait for it.
    users: usize,
}

/// The call that has a lock.
#[derive(Debug, Clone)]
struct Holder {
    call: u64,
    title: String,
}

impl Default for SharedData {
    fn default() -> Self {
        Self { values: Mutex::default(), turn: Arc::new(Semaphore::new(1)), locks: Mutex::default() }
    }
}

impl SharedData {
    fn get(&self, key: &str) -> Option<Plain> {
        self.values.lock().get(key).cloned()
    }

    /// Sets a value, or removes it if there is none.
    fn set(&self, key: &str, value: Option<Plain>) {
        let mut values = self.values.lock();
        match value {
            Some(value) => drop(values.insert(key.to_owned(), value)),
            None => drop(values.remove(key)),
        }
    }

    /// Returns the number of a call that wants locks.
    fn next_call(&self) -> u64 {
        let mut locks = self.locks.lock();
        locks.calls += 1;
        locks.calls
    }

    /// Registers a call that wants a lock.
    fn request(self: &Arc<Self>, key: &str, call: u64) -> (LockGuard, Arc<Semaphore>) {
        let mut locks = self.locks.lock();
        let fresh = || KeyLock { permits: Arc::new(Semaphore::new(1)), holder: None, users: 0 };
        let lock = locks.by_key.entry(key.to_owned()).or_insert_with(fresh);
        lock.users += 1;
        let permits = Arc::clone(&lock.permits);
        (LockGuard { data: Arc::clone(self), key: key.to_owned(), call, permit: None }, permits)
    }

    /// Tells whether the holder of a lock waits, perhaps for others, for a lock of this call.
    fn is_deadlocked(&self, key: &str, call: u64) -> bool {
        let locks = self.locks.lock();
        let mut next = Some(key);
        let mut seen: Vec<u64> = Vec::new();
        while let Some(holder) = next.and_then(|key| locks.by_key.get(key)?.holder.as_ref()) {
            if holder.call == call {
                return true;
            }
            if seen.contains(&holder.call) {
                return false;
            }
            seen.push(holder.call);
            next = locks.waiting.get(&holder.call).map(String::as_str);
        }
        false
    }

    /// Returns who has a lock, and the lock that this call waits for, if it does.
    fn describe(&self, key: &str) -> String {
        let locks = self.locks.lock();
        let mut text = format!("the lock `{key}`");
        let mut next = Some(key);
        let mut seen: Vec<&str> = Vec::new();
        while let Some(holder) = next.and_then(|key| locks.by_key.get(key)?.holder.as_ref()) {
            let _ = write!(text, ", held by {}", holder.title);
            seen.extend(next);
            next = locks.waiting.get(&holder.call).map(String::as_str);
            if let Some(key) = next {
                let _ = write!(text, ", which waits for the lock `{key}`");
            }
            if next.is_some_and(|key| seen.contains(&key)) {
                break;
            }
        }
        text
    }
}

/// A lock of one call, or its wait for the lock.
pub(super) struct LockGuard {
    data: Arc<SharedData>,
    key: String,
    call: u64,
    /// `None` while the call waits for it.
    permit: Option<OwnedSemaphorePermit>,
}

impl LockGuard {
    /// Returns the key.
    pub(super) fn key(&self) -> &str {
        &self.key
    }

    fn wait(&self) {
        self.data.locks.lock().waiting.insert(self.call, self.key.clone());
    }

    fn take(&mut self, permit: OwnedSemaphorePermit, title: String) {
        let mut locks = self.data.locks.lock();
        locks.waiting.remove(&self.call);
        let call = self.call;
        if let Some(lock) = locks.by_key.get_mut(&self.key) {
            lock.holder = Some(Holder { call, title });
        }
        self.permit = Some(permit);
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        let mut locks = self.data.locks.lock();
        locks.waiting.remove(&self.call);
        if let Some(lock) = locks.by_key.get_mut(&self.key) {
            if self.permit.is_some() {
                lock.holder = None;
            }
            lock.users = lock.users.saturating_sub(1);
            if lock.users == 0 {
                locks.by_key.remove(&self.key);
            }
        }
        // Only afterwards, so that the next holder is not overwritten.
        self.permit = None;
    }
}

/// `shared` as an argument of a script.
#[derive(Debug, Clone)]
pub(super) struct SharedHandle(Arc<SharedData>);

impl SharedHandle {
    /// Returns the handle of the operator's shared data.
    pub(super) fn new(data: &Arc<SharedData>) -> Self {
        Self(Arc::clone(data))
    }
}

/// A lock as a value of a script.
#[derive(Debug, Clone)]
pub(super) struct LockHandle(Arc<str>);
