//! What is remembered of each object between its events. It may vanish at any moment; the object is the truth.

use std::collections::HashMap;

use parking_lot::Mutex;

use crate::handling::cause;
use crate::object::Transform;

use super::throttle::Throttle;

/// The memories of all objects of one kind, by their unique ids.
#[derive(Debug, Default)]
pub struct Memories {
    entries: Mutex<HashMap<Box<str>, Entry>>,
}

/// What is remembered of one object. Most objects need no more than the flags.
#[derive(Debug, Default)]
struct Entry {
    flags: cause::Memory,
    retry_state: Option<Box<RetryState>>,
}

/// What remains of failed cycles of an object; most objects have none.
#[derive(Debug, Default, Clone)]
pub struct RetryState {
    /// Functions that could not be applied yet.
    pub remaining: Vec<Transform>,
    /// The throttling after errors.
    pub throttle: Throttle,
    /// Whether the object could not be read when it was seen last, which was reported then.
    pub is_unreadable: bool,
}

impl RetryState {
    fn is_needed(&self) -> bool {
        !self.remaining.is_empty() || !self.throttle.is_idle() || self.is_unreadable
    }
}

impl Memories {
    /// Notes that an object was seen. Only the first sight decides how it was noticed.
    pub fn notice(&self, uid: &str, by_listing: bool) {
        let mut entries = self.entries.lock();
        if !entries.contains_key(uid) {
            let flags = cause::Memory { noticed_by_listing: by_listing, fully_handled_once: false };
            entries.insert(uid.into(), Entry { flags, retry_state: None });
        }
    }

    /// Returns what the causes depend on.
    pub fn flags(&self, uid: &str) -> cause::Memory {
        self.entries.lock().get(uid).map(|entry| entry.flags).unwrap_or_default()
    }

    /// Notes that a handling cycle has come to its end.
    pub fn mark_handled(&self, uid: &str) {
        #[cfg(test)]
        if super::defects::is_on(super::defects::Defect::ForgetsHandling) {
            return;
        }
        if let Some(entry) = self.entries.lock().get_mut(uid) {
            entry.flags.fully_handled_once = true;
        }
    }

    /// Returns what remains of failed cycles. It stays remembered in case the worker fails.
    pub fn retry_state(&self, uid: &str) -> RetryState {
        self.entries.lock().get(uid).and_then(|entry| entry.retry_state.as_deref().cloned()).unwrap_or_default()
    }

    /// Replaces it after a cycle.
    pub fn keep_retry_state(&self, uid: &str, retry_state: RetryState) {
        if let Some(entry) = self.entries.lock().get_mut(uid) {
            entry.retry_state = retry_state.is_needed().then(|| Box::new(retry_state));
        }
    }

    /// Forgets a deleted object; if it comes again, it is a new one.
    pub fn forget(&self, uid: &str) {
        self.entries.lock().remove(uid);
    }

    /// Returns the number of objects that are remembered.
    pub fn len(&self) -> usize {
        self.entries.lock().len()
    }

    /// Tells whether nothing is remembered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
