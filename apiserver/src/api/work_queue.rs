//! The work queue of the controllers: immediate work, delayed work, and expiring events.

use std::sync::atomic::Ordering;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::Api;
use crate::storage::resource::{Key, Resource};
use crate::storage::work_item::WorkItem;

impl Api {
    /// Queues work for the controllers.
    pub(crate) fn enqueue(&self, item: WorkItem) {
        self.with(|state| state.store.enqueue(item));
    }

    /// Queues work for the controllers, with a delay.
    pub(crate) fn enqueue_after(&self, item: WorkItem, delay: Duration) {
        let mut later = self.0.later.lock();
        if !later.iter().any(|(_, other)| *other == item) {
            later.push((Instant::now() + delay, item));
        }
        drop(later);
        self.notify_controllers();
    }

    /// Takes the oldest queued work.
    pub(crate) fn dequeue(&self) -> Option<InProgress> {
        self.with(|state| state.store.next_work_item().map(|item| InProgress::new(self, item)))
    }

    /// Takes the delayed work that is due.
    pub(crate) fn dequeue_due(&self) -> Vec<InProgress> {
        let now = Instant::now();
        self.0.later.lock().extract_if(.., |(at, _)| *at <= now).map(|(_, item)| InProgress::new(self, item)).collect()
    }

    /// Tells whether immediate work is queued.
    pub(crate) fn has_work(&self) -> bool {
        self.with(|state| state.store.has_work())
    }

    /// Tells whether no work is queued, delayed, or in progress.
    pub(crate) fn is_settled(&self) -> bool {
        let is_busy = || self.0.busy.load(Ordering::Relaxed) > 0;
        // Work in progress may queue more, so this is checked at the end, too.
        !is_busy() && !self.has_work() && self.0.later.lock().is_empty() && !is_busy()
    }

    /// Returns when the next delayed work is due, or the next event expires.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let work = self.0.later.lock().iter().map(|(at, _)| *at).min();
        work.into_iter().chain(self.next_expiry()).min()
    }

    /// Schedules the expiry of a written event.
    pub(crate) fn expire_later(&self, key: &Key) {
        let Some(kept) = self.latency().events else { return };
        if let Some(stored) = self.read(&events(), key) {
            let at = self.now().checked_add(kept).unwrap_or(Timestamp::MAX);
            self.0.expiring.lock().insert((at, key.clone(), stored.revision));
        }
    }

    /// Takes the expired events, with their revisions.
    pub(crate) fn take_expired(&self) -> Vec<(Key, u64)> {
        let now = self.now();
        let mut expired = Vec::new();
        let mut expiring = self.0.expiring.lock();
        while expiring.first().is_some_and(|(at, ..)| *at <= now) {
            expired.extend(expiring.pop_first().map(|(_, key, revision)| (key, revision)));
        }
        expired
    }

    fn next_expiry(&self) -> Option<Instant> {
        let at = self.0.expiring.lock().first().map(|(at, ..)| *at)?;
        Some(Instant::now() + Duration::try_from(at.duration_since(self.now())).unwrap_or_default())
    }
}

/// Work in progress; dropping it clears the busy count.
pub(crate) struct InProgress {
    api: Api,
    /// The work item.
    pub item: WorkItem,
}

impl InProgress {
    fn new(api: &Api, item: WorkItem) -> Self {
        api.0.busy.fetch_add(1, Ordering::Relaxed);
        Self { api: api.clone(), item }
    }
}

impl Drop for InProgress {
    fn drop(&mut self) {
        self.api.0.busy.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns the resource of events.
pub(crate) fn events() -> Resource {
    Resource { group: String::new(), plural: "events".to_owned() }
}
