//! `shared`: data and locks of the whole operator, in memory, for all calls on all script threads.
//!
//! From its first access to the data until its next wait, a call has the data for itself: other calls wait for their
//! turn.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::plain::Plain;

/// Limit of the bytes of all values of one operator, with their keys.
const MAX_BYTES: usize = 256 << 20;

/// The memory of an entry besides its key and its value.
const BYTES_PER_ENTRY: usize = 64;

/// The shared data and locks of one operator.
#[derive(Debug)]
pub struct SharedData {
    values: Mutex<Values>,
    pub(crate) turn: Arc<Semaphore>,
    locks: Mutex<Locks>,
}

/// The values by their keys, and the bytes that they take, approximately.
#[derive(Debug, Default)]
struct Values {
    by_key: BTreeMap<String, Plain>,
    bytes: usize,
}

/// The values would take more bytes than allowed.
pub(crate) struct TooLarge;

impl Values {
    /// Sets a value, or removes it if there is none.
    ///
    /// # Errors
    /// If all values together would grow beyond `limit` bytes. Then nothing is changed.
    fn set(&mut self, key: &str, value: Option<Plain>, limit: usize) -> Result<(), TooLarge> {
        let size = |value: &Plain| key.len() + BYTES_PER_ENTRY + value.size();
        let removed = self.by_key.get(key).map_or(0, size);
        let added = value.as_ref().map_or(0, size);
        let bytes = self.bytes - removed + added;
        if added > removed && bytes > limit {
            return Err(TooLarge);
        }
        self.bytes = bytes;
        match value {
            Some(value) => drop(self.by_key.insert(key.to_owned(), value)),
            None => drop(self.by_key.remove(key)),
        }
        Ok(())
    }
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
    pub(crate) fn get(&self, key: &str) -> Option<Plain> {
        self.values.lock().by_key.get(key).cloned()
    }

    /// Sets a value, or removes it if there is none.
    pub(crate) fn set(&self, key: &str, value: Option<Plain>) -> Result<(), TooLarge> {
        self.values.lock().set(key, value, MAX_BYTES)
    }

    /// Returns the number of a call that wants locks.
    pub(crate) fn next_call(&self) -> u64 {
        let mut locks = self.locks.lock();
        locks.calls += 1;
        locks.calls
    }

    /// Registers a call that wants a lock.
    pub(crate) fn request(self: &Arc<Self>, key: &str, call: u64) -> (LockGuard, Arc<Semaphore>) {
        let mut locks = self.locks.lock();
        let fresh = || KeyLock { permits: Arc::new(Semaphore::new(1)), holder: None, users: 0 };
        let lock = locks.by_key.entry(key.to_owned()).or_insert_with(fresh);
        lock.users += 1;
        let permits = Arc::clone(&lock.permits);
        (LockGuard { data: Arc::clone(self), key: key.to_owned(), call, permit: None }, permits)
    }

    /// Tells whether the holder of a lock waits, perhaps for others, for a lock of this call.
    pub(crate) fn is_deadlocked(&self, key: &str, calls: &[u64]) -> bool {
        let locks = self.locks.lock();
        let mut next = Some(key);
        let mut seen: Vec<u64> = Vec::new();
        while let Some(holder) = next.and_then(|key| locks.by_key.get(key)?.holder.as_ref()) {
            if calls.contains(&holder.call) {
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
    pub(crate) fn describe(&self, key: &str) -> String {
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
pub(crate) struct LockGuard {
    data: Arc<SharedData>,
    key: String,
    call: u64,
    /// `None` while the call waits for it.
    permit: Option<OwnedSemaphorePermit>,
}

impl LockGuard {
    /// Returns the key.
    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    pub(crate) fn wait(&self) {
        self.data.locks.lock().waiting.insert(self.call, self.key.clone());
    }

    pub(crate) fn take(&mut self, permit: OwnedSemaphorePermit, title: String) {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn text(bytes: usize) -> Plain {
        json!("x".repeat(bytes)).into()
    }

    #[test]
    fn values_grow_up_to_the_limit_of_all_of_them() {
        let mut values = Values::default();
        assert!(values.set("a", Some(text(400)), 1_000).is_ok());
        assert!(values.set("b", Some(text(2_000)), 1_000).is_err());
        assert!(values.set("b", Some(text(300)), 1_000).is_ok());
        assert!(values.set("a", Some(text(900)), 1_000).is_err());
        assert_eq!(values.by_key.get("a"), Some(&text(400)));
        // A value that becomes smaller or goes gives room.
        assert!(values.set("a", Some(text(100)), 1_000).is_ok());
        assert!(values.set("b", None, 1_000).is_ok());
        assert!(values.set("c", Some(text(600)), 1_000).is_ok());
        assert!(values.set("a", None, 1_000).is_ok());
        assert!(values.set("c", None, 1_000).is_ok());
        assert_eq!(values.bytes, 0);
    }

    #[test]
    fn many_keys_count_although_their_values_are_small() {
        let mut values = Values::default();
        let fitting =
            (0..10_000).take_while(|key| values.set(&key.to_string(), Some(json!(1).into()), 10_000).is_ok()).count();
        assert!((50..150).contains(&fitting), "{fitting}");
    }
}
