//! The memory of each object between its events. It may vanish at any moment; the object in the cluster is the truth.

use std::collections::HashMap;

use parking_lot::Mutex;

use crate::handling::cause;
use crate::object::Transform;

use super::throttle::Throttle;

/// The memories of all objects of one kind, by unique id.
#[derive(Debug, Default)]
pub struct Memories {
    entries: Mutex<HashMap<Box<str>, Entry>>,
}

/// The memory of one object. Most objects need only the flags.
#[derive(Debug, Default)]
struct Entry {
    flags: cause::Memory,
    retry_state: Option<Box<RetryState>>,
}

/// The retry state after failed cycles of an object; most objects have none.
#[derive(Debug, Default, Clone)]
pub struct RetryState {
    /// Functions that could not be applied yet.
    pub remaining: Vec<Transform>,
    /// The throttling after errors.
    pub throttle: Throttle,
    /// Whether the last state of the object could not be parsed, which was reported.
    pub is_unreadable: bool,
}

impl RetryState {
    fn is_needed(&self) -> bool {
        !self.remaining.is_empty() || !self.throttle.is_idle() || self.is_unreadable
    }
}

impl Memories {
    /// Records an event of an object. Only the first one decides whether the object was first seen in a list.
    pub fn notice(&self, uid: &str, by_listing: bool) {
        let mut entries = self.entries.lock();
        if !entries.contains_key(uid) {
            let flags = cause::Memory { noticed_by_listing: by_listing, fully_handled_once: false };
            entries.insert(uid.into(), Entry { flags, retry_state: None });
        }
    }

    /// Tells whether an object was noticed, and is not forgotten.
    pub fn knows(&self, uid: &str) -> bool {
        self.entries.lock().contains_key(uid)
    }

    /// Returns the flags for the detection of causes.
    pub fn flags(&self, uid: &str) -> cause::Memory {
        self.entries.lock().get(uid).map(|entry| entry.flags).unwrap_or_default()
    }

    /// Records the end of a handling cycle.
    pub fn mark_handled(&self, uid: &str) {
        #[cfg(test)]
        if super::defects::is_on(super::defects::Defect::ForgetsHandling) {
            return;
        }
        if let Some(entry) = self.entries.lock().get_mut(uid) {
            entry.flags.fully_handled_once = true;
        }
    }

    /// Returns the retry state. It stays stored in case the worker fails.
    pub fn retry_state(&self, uid: &str) -> RetryState {
        self.entries.lock().get(uid).and_then(|entry| entry.retry_state.as_deref().cloned()).unwrap_or_default()
    }

    /// Replaces the retry state after a cycle.
    pub fn keep_retry_state(&self, uid: &str, retry_state: RetryState) {
        if let Some(entry) = self.entries.lock().get_mut(uid) {
            entry.retry_state = retry_state.is_needed().then(|| Box::new(retry_state));
        }
    }

    /// Forgets a deleted object; if it is created again, it is a new one.
    pub fn forget(&self, uid: &str) {
        self.entries.lock().remove(uid);
    }

    /// Returns the number of objects.
    pub fn len(&self) -> usize {
        self.entries.lock().len()
    }

    /// Tells whether there are no objects.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;
    use std::time::Duration;

    /// Whether what remains of a cycle is kept.
    fn is_kept(retry_state: RetryState) -> bool {
        let memories = Memories::default();
        memories.notice("u", true);
        memories.keep_retry_state("u", retry_state);
        let entries = memories.entries.lock();
        entries["u"].retry_state.is_some()
    }

    #[test]
    fn what_remains_of_a_failed_cycle_is_kept_and_nothing_else_takes_memory() {
        let mut throttle = Throttle::default();
        throttle.fail(&[Duration::from_secs(1)], Timestamp::UNIX_EPOCH);
        assert!(is_kept(RetryState { throttle, ..RetryState::default() }));
        assert!(is_kept(RetryState { remaining: vec![Transform::AddFinalizer("f".to_owned())], ..RetryState::default() }));
        assert!(is_kept(RetryState { is_unreadable: true, ..RetryState::default() }));
        assert!(!is_kept(RetryState::default()));
    }

    #[test]
    fn only_the_first_sight_decides_how_an_object_was_noticed() {
        let memories = Memories::default();
        memories.notice("u", true);
        memories.notice("u", false);
        memories.notice("v", false);
        memories.notice("v", true);
        assert!(memories.flags("u").noticed_by_listing && !memories.flags("v").noticed_by_listing);
        assert_eq!(memories.len(), 2);
        memories.forget("u");
        memories.forget("v");
        assert!(memories.is_empty() && memories.flags("u") == cause::Memory::default());
    }
}
