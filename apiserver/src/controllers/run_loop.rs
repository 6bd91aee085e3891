//! The controllers at work: what writes leave to be done is done at once, or at the server's pace.

use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::FutureExt as _;
use jiff::Timestamp;
use tokio::time::Instant;

use crate::api::Api;
use crate::controllers;
use crate::rules::Decision;
use crate::storage::resource::{Key, Resource};
use crate::storage::work_item::Chore;
use crate::verbs::admission_chain;
use kopfd_base::kit::Stop;

/// How often the controllers look up when there is nothing to do.
const IDLE: Duration = Duration::from_hours(1);

impl Api {
    /// Does what writes have left to be done, whatever the pace: garbage collection, namespaces, definitions. If there are webhooks, which may have to be
    /// waited for, all of it is left to [`Self::attend`].
    pub fn settle(&self) {
        while !admission_chain::is_guarded(self) {
            let Some(taken) = self.take() else { return };
            if controllers::attend(self, &taken.chore).now_or_never().is_none() {
                // Somebody has just added a webhook.
                return self.leave(taken.chore.clone());
            }
        }
    }

    /// Tells whether the controllers have nothing to do.
    pub fn is_settled(&self) -> bool {
        let is_at_work = || self.at_work().load(Ordering::Relaxed) > 0;
        // Who is at work may leave more to be done, so that this is asked at the end, too.
        !is_at_work() && self.with(|state| !state.store.has_chores()) && self.later().lock().is_empty() && !is_at_work()
    }

    /// Takes the oldest chore that a write has left.
    fn take(&self) -> Option<Taken> {
        self.with(|state| state.store.take_chore().map(|chore| Taken::new(self, chore)))
    }

    /// Does what writes leave to be done, until the stop. Without it, nothing is done after the answers.
    pub async fn attend(&self, stop: Stop) {
        let mut activity = self.activity().subscribe();
        loop {
            while let Some(taken) = self.take() {
                match self.delay(&taken.chore) {
                    Duration::ZERO => controllers::attend(self, &taken.chore).await,
                    delay => self.leave_for_later(taken.chore.clone(), delay),
                }
            }
            for taken in self.take_what_is_due() {
                controllers::attend(self, &taken.chore).await;
            }
            if self.with(|state| state.store.has_chores()) {
                continue;
            }
            self.expire();
            let next_at = self.later().lock().iter().map(|(at, _)| *at).min().unwrap_or_else(|| Instant::now() + IDLE);
            let next_at = self.next_expiry().map_or(next_at, |expiry| expiry.min(next_at));
            tokio::select! {
                biased;
                () = stop.requested() => return,
                changed = activity.changed() => if changed.is_err() { return },
                () = tokio::time::sleep_until(next_at) => {}
            }
        }
    }

    /// Leaves a chore for the controllers, to be done after a while.
    pub fn leave_for_later(&self, chore: Chore, delay: Duration) {
        let mut later = self.later().lock();
        if !later.iter().any(|(_, other)| *other == chore) {
            later.push((Instant::now() + delay, chore));
        }
        drop(later);
        self.activity().send_modify(|count| *count += 1);
    }

    fn take_what_is_due(&self) -> Vec<Taken> {
        let now = Instant::now();
        self.later().lock().extract_if(.., |(at, _)| *at <= now).map(|(_, chore)| Taken::new(self, chore)).collect()
    }

    fn delay(&self, chore: &Chore) -> Duration {
        let is_leaving = |name: &str| {
            let namespaces = Resource { group: String::new(), plural: "namespaces".to_owned() };
            let found = self.read(&namespaces, &(String::new(), name.to_owned()));
            found.is_some_and(|found| found.value["metadata"]["deletionTimestamp"].is_string())
        };
        self.pace().delay(chore, matches!(chore, Chore::Namespace(name) if is_leaving(name)))
    }

    /// Leaves a chore for the controllers.
    pub fn leave(&self, chore: Chore) {
        self.with(|state| state.store.leave_chore(chore));
    }

    /// Notes that an event was written, and is to go some time.
    pub fn expire_later(&self, key: &Key) {
        let Some(kept) = self.pace().events else { return };
        if let Some(stored) = self.read(&events(), key) {
            let at = self.now().checked_add(kept).unwrap_or(Timestamp::MAX);
            self.expiring().lock().insert((at, key.clone(), stored.revision));
        }
    }

    /// Removes the events whose time has come, but for those that were written again.
    fn expire(&self) {
        let now = self.now();
        let mut due = Vec::new();
        let mut expiring = self.expiring().lock();
        while expiring.first().is_some_and(|(at, ..)| *at <= now) {
            due.extend(expiring.pop_first());
        }
        drop(expiring);
        let registry = self.registry();
        let Some(served) = registry.stored(&events()) else { return };
        for (_, key, revision) in due {
            if let Some(stored) = self.read(&served.resource, &key).filter(|stored| stored.revision == revision) {
                // If somebody writes it right now, it stays.
                drop(self.commit(served, Some(&stored), Decision::Remove((*stored.value).clone())));
            }
        }
    }

    fn next_expiry(&self) -> Option<Instant> {
        let at = self.expiring().lock().first().map(|(at, ..)| *at)?;
        Some(Instant::now() + Duration::try_from(at.duration_since(self.now())).unwrap_or_default())
    }
}

/// A chore that somebody is at. However that ends, nobody is at it then any more.
struct Taken {
    api: Api,
    chore: Chore,
}

impl Taken {
    fn new(api: &Api, chore: Chore) -> Self {
        api.at_work().fetch_add(1, Ordering::Relaxed);
        Self { api: api.clone(), chore }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.api.at_work().fetch_sub(1, Ordering::Relaxed);
    }
}

fn events() -> Resource {
    Resource { group: String::new(), plural: "events".to_owned() }
}
