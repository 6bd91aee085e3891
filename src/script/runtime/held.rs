//! The parts of the operator's shared state that a call holds: some of them until its next wait, locks until its end.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;

use crate::handling::index::Entries;
use crate::script::values::index::SharedIndex;
use crate::script::values::plain::Plain;
use crate::script::values::shared::LockGuard;

/// The state of one call.
#[derive(Default)]
pub(crate) struct Held {
    /// The entries of the indexes read since the last wait.
    snapshots: RefCell<Vec<(Arc<SharedIndex>, Entries<Plain>)>>,
    /// The turn at the shared data, from the first access since the last wait.
    turn: RefCell<Option<OwnedSemaphorePermit>>,
    locks: RefCell<Vec<LockGuard>>,
    /// The number of running functions of `shared.update`.
    updates: Cell<usize>,
    /// The number of the call, once it wants a lock.
    call: Cell<Option<u64>>,
}

impl Held {
    /// Returns the entries of an index: those of the first read since the last wait.
    pub(crate) fn snapshot(&self, index: &Arc<SharedIndex>) -> Entries<Plain> {
        let mut snapshots = self.snapshots.borrow_mut();
        if let Some((_, entries)) = snapshots.iter().find(|(known, _)| Arc::ptr_eq(known, index)) {
            return entries.clone();
        }
        let entries = index.entries();
        snapshots.push((Arc::clone(index), entries.clone()));
        entries
    }

    /// Tells whether the call has its turn at the shared data.
    pub(crate) fn has_turn(&self) -> bool {
        self.turn.borrow().is_some()
    }

    /// Keeps the turn at the shared data until the next wait.
    pub(crate) fn keep_turn(&self, turn: OwnedSemaphorePermit) {
        *self.turn.borrow_mut() = Some(turn);
    }

    /// Returns the number that identifies the call in the wait for locks; `next` gives one to a call without a number.
    pub(crate) fn call(&self, next: impl FnOnce() -> u64) -> u64 {
        let call = self.call.get().unwrap_or_else(next);
        self.call.set(Some(call));
        call
    }

    /// Returns the number that identifies the call in the wait for locks, if it has one.
    pub(crate) fn known_call(&self) -> Option<u64> {
        self.call.get()
    }

    /// Tells whether the call has a lock.
    pub(crate) fn has_lock(&self, key: &str) -> bool {
        self.locks.borrow().iter().any(|lock| lock.key() == key)
    }

    /// Keeps a lock until the call releases it or ends.
    pub(crate) fn keep_lock(&self, lock: LockGuard) {
        self.locks.borrow_mut().push(lock);
    }

    /// Releases a lock; returns whether the call had it.
    pub(crate) fn release_lock(&self, key: &str) -> bool {
        let mut locks = self.locks.borrow_mut();
        let count = locks.len();
        locks.retain(|lock| lock.key() != key);
        locks.len() < count
    }

    /// Marks the call as running a function of `shared.update`, which must not wait, while the guard exists.
    pub(crate) fn updating(&self) -> Updating<'_> {
        self.updates.set(self.updates.get() + 1);
        Updating(self)
    }

    /// Tells whether the call runs a function of `shared.update`.
    pub(crate) fn is_updating(&self) -> bool {
        self.updates.get() > 0
    }

    /// Releases the parts that are not kept during a wait.
    pub(crate) fn release_for_wait(&self) {
        self.snapshots.take();
        self.turn.take();
    }

    /// Releases everything at the end of the call.
    pub(crate) fn release(&self) {
        self.release_for_wait();
        self.locks.take();
    }
}

/// Marks a call as running a function of `shared.update`.
pub(crate) struct Updating<'a>(&'a Held);

impl Drop for Updating<'_> {
    fn drop(&mut self) {
        self.0.updates.set(self.0.updates.get().saturating_sub(1));
    }
}
