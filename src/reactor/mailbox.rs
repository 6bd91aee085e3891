//! The mailbox of one object: a queue of events for the object's worker.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::cluster::Confirmation;
use crate::engines::leading::PERMANENT;
use crate::engines::readiness::Blocker;
use crate::object::EventKind;
use crate::telemetry::KindMetrics;

/// Limit of queued events of one object. An object that changes faster than its handlers run would fill the memory;
/// beyond this limit, intermediate states are skipped, as they are after a reconnection.
const CAPACITY: usize = 128;

/// How long a further request of a patch waits for the event of the earlier one. With that, the API server has the
/// newest state.
const PATIENCE: Duration = Duration::from_millis(200);

/// An event of one object, as received.
#[derive(Debug, Clone)]
pub struct Event {
    /// The kind of the event.
    pub event_kind: EventKind,
    /// The object as JSON text. The worker parses it.
    pub raw: Arc<str>,
    /// Blocks the readiness of the indexes until the object is indexed, or the last copy of the event is dropped.
    pub blocker: Option<Arc<Blocker>>,
    /// The term of the leadership in which it was received; `None` if this replica did not lead, and the event is only
    /// indexed.
    pub term: Option<u64>,
}

impl Event {
    /// Returns an event that blocks nothing, of an operator without an election.
    pub fn new(event_kind: EventKind, raw: impl Into<Arc<str>>) -> Self {
        Self { event_kind, raw: raw.into(), blocker: None, term: Some(PERMANENT) }
    }

    /// Ends the blocking of the readiness.
    pub fn unblock(&self) {
        if let Some(blocker) = &self.blocker {
            blocker.release();
        }
    }
}

/// Queues the events of one object. Queued events interrupt the worker's sleep.
#[derive(Debug, Default)]
pub struct Mailbox {
    state: Mutex<State>,
    arrived: Notify,
    metrics: Option<Arc<KindMetrics>>,
}

#[derive(Debug, Default)]
struct State {
    events: VecDeque<(Event, Instant)>,
    is_closed: bool,
    /// Whether nothing is waited for, since the operator is paused.
    is_halted: bool,
    /// Whether pauses end.
    is_urgent: bool,
}

impl Mailbox {
    /// Returns a mailbox whose events are counted.
    pub fn measured(metrics: Option<Arc<KindMetrics>>) -> Self {
        Self { metrics, state: Mutex::default(), arrived: Notify::default() }
    }

    /// Appends an event. Returns false if it replaced a queued one.
    pub fn put(&self, event: Event) -> bool {
        let mut state = self.state.lock();
        let is_full = state.events.len() >= CAPACITY;
        if is_full {
            state.events.pop_back();
        }
        state.events.push_back((event, Instant::now()));
        drop(state);
        if let Some(metrics) = self.metrics.as_ref().filter(|_| !is_full) {
            metrics.queued();
        }
        self.arrived.notify_one();
        !is_full
    }

    /// Puts a taken event back, unless a newer one is queued, which has the newer state.
    pub fn put_back(&self, event: Event) {
        let mut state = self.state.lock();
        if state.events.is_empty() {
            state.events.push_back((event, Instant::now()));
            self.metrics.iter().for_each(|metrics| metrics.queued());
        }
    }

    /// Drops the queued events.
    pub fn discard(&self) {
        let dropped = std::mem::take(&mut self.state.lock().events);
        self.metrics.iter().for_each(|metrics| metrics.unqueued(dropped.len()));
    }

    /// Closes the mailbox: queued events are still processed, no new ones are added.
    pub fn close(&self) {
        self.state.lock().is_closed = true;
        self.arrived.notify_one();
    }

    /// Ends all waits, since the operator is paused; or allows them again. Queued events are still processed.
    pub fn halt(&self, is_halted: bool) {
        self.state.lock().is_halted = is_halted;
        self.arrived.notify_one();
    }

    /// Tells whether nothing is waited for, since the operator is paused.
    pub fn is_halted(&self) -> bool {
        self.state.lock().is_halted
    }

    fn has_ended_waits(&self) -> bool {
        let state = self.state.lock();
        state.is_closed || state.is_halted
    }

    /// Ends a pause of the object, since the event that is queued already has another meaning.
    pub fn hurry(&self) {
        self.state.lock().is_urgent = true;
        self.arrived.notify_one();
    }

    /// Tells whether the mailbox is closed.
    pub fn is_closed(&self) -> bool {
        self.state.lock().is_closed
    }

    /// Returns the event that is taken next, which stays queued.
    pub fn first(&self) -> Option<Event> {
        self.state.lock().events.front().map(|(event, _)| event.clone())
    }

    /// Tells whether the last queued event is a touch: then another one has no further effect.
    pub fn ends_with_touch(&self) -> bool {
        self.state.lock().events.back().is_some_and(|(event, _)| event.event_kind == EventKind::Touched)
    }

    /// Tells whether no events are queued.
    pub fn is_empty(&self) -> bool {
        self.state.lock().events.is_empty()
    }

    /// Waits for an event; returns `None` after the timeout, or if the mailbox is closed and empty. Without a timeout
    /// it does not wait: timers are rounded up to the next millisecond.
    ///
    /// *Cancel safety*: an event is either returned or stays queued.
    pub async fn take(&self, timeout: Duration) -> Option<Event> {
        let deadline = deadline(timeout);
        loop {
            {
                let mut state = self.state.lock();
                if let Some((event, since)) = state.events.pop_front() {
                    state.is_urgent = false;
                    if let Some(metrics) = &self.metrics {
                        metrics.unqueued(1);
                        metrics.waited(since.elapsed());
                    }
                    return Some(event);
                }
                if state.is_closed || state.is_halted || timeout.is_zero() {
                    return None;
                }
            }
            if tokio::time::timeout_at(deadline, self.arrived.notified()).await.is_err() && self.is_empty() {
                return None;
            }
        }
    }

    /// Sleeps until an event is queued or the mailbox is closed. Returns whether it slept in full.
    ///
    /// *Cancel safety*: the sleep may be dropped.
    pub async fn sleep(&self, duration: Duration) -> bool {
        if duration.is_zero() {
            return true;
        }
        let deadline = deadline(duration);
        while self.is_empty() && !self.has_ended_waits() {
            if tokio::time::timeout_at(deadline, self.arrived.notified()).await.is_err() {
                return true;
            }
        }
        false
    }

    /// Sleeps until an urgent event is queued, or the mailbox is closed. Other events do not end it. Returns whether it
    /// slept in full.
    ///
    /// *Cancel safety*: the sleep may be dropped.
    pub async fn pause(&self, duration: Duration, is_urgent: impl Fn(&Event) -> bool) -> bool {
        let deadline = deadline(duration);
        let mut checked = 0;
        loop {
            let newer: Vec<Event> = {
                let state = self.state.lock();
                if state.is_closed || state.is_halted || state.is_urgent {
                    return false;
                }
                // A full queue replaces its last event.
                let first = checked.min(state.events.len().saturating_sub(1));
                checked = state.events.len();
                state.events.iter().skip(first).map(|(event, _)| event.clone()).collect()
            };
            if newer.iter().any(&is_urgent) {
                return false;
            }
            if tokio::time::timeout_at(deadline, self.arrived.notified()).await.is_err() {
                return true;
            }
        }
    }

    /// Sleeps regardless of events, until the mailbox is closed.
    ///
    /// *Cancel safety*: the sleep may be dropped.
    pub async fn rest(&self, duration: Duration) {
        let deadline = deadline(duration);
        while !self.has_ended_waits() {
            if tokio::time::timeout_at(deadline, self.arrived.notified()).await.is_err() {
                return;
            }
        }
    }
}

impl Confirmation for Mailbox {
    fn awaited(&self) -> BoxFuture<'_, ()> {
        self.sleep(PATIENCE).map(drop).boxed()
    }
}

impl Drop for Mailbox {
    fn drop(&mut self) {
        if let Some(metrics) = &self.metrics {
            metrics.unqueued(self.state.get_mut().events.len());
        }
    }
}

/// Returns the end of a wait; a wait beyond the range of the timer ends in 30 years.
fn deadline(wait: Duration) -> tokio::time::Instant {
    let now = tokio::time::Instant::now();
    now.checked_add(wait).unwrap_or_else(|| now + Duration::from_hours(24 * 365 * 30))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(text: &str) -> Event {
        Event::new(EventKind::Modified, text)
    }

    #[tokio::test(start_paused = true)]
    async fn taking_without_a_timeout_does_not_wait() {
        let begun_at = tokio::time::Instant::now();
        let mailbox = Mailbox::default();
        assert!(mailbox.take(Duration::ZERO).await.is_none());
        mailbox.put(event("a"));
        assert!(mailbox.take(Duration::ZERO).await.is_some());
        assert_eq!(begun_at.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_sleep_ends_when_an_event_arrives() {
        let mailbox = Arc::new(Mailbox::default());
        assert!(mailbox.sleep(Duration::from_secs(5)).await);
        let sender = Arc::clone(&mailbox);
        let send = async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            sender.put(event("a"));
        };
        let (slept_in_full, ()) = tokio::join!(mailbox.sleep(Duration::from_secs(5)), send);
        assert!(!slept_in_full);
        assert!(!mailbox.sleep(Duration::from_secs(5)).await, "the event still waits");
        assert_eq!(&*mailbox.take(Duration::ZERO).await.unwrap().raw, "a");
    }

    #[tokio::test(start_paused = true)]
    async fn the_event_of_a_request_is_awaited_up_to_a_limit_and_stays_queued() {
        let began = tokio::time::Instant::now();
        let mailbox = Arc::new(Mailbox::default());
        mailbox.awaited().await;
        assert_eq!(began.elapsed(), PATIENCE);
        let sender = Arc::clone(&mailbox);
        let send = async move {
            tokio::time::sleep(Duration::from_millis(5)).await;
            sender.put(event("own"));
        };
        tokio::join!(mailbox.awaited(), send);
        mailbox.awaited().await;
        assert_eq!(began.elapsed(), PATIENCE + Duration::from_millis(5));
        assert_eq!(&*mailbox.take(Duration::ZERO).await.unwrap().raw, "own");
        mailbox.close();
        mailbox.awaited().await;
        assert_eq!(began.elapsed(), PATIENCE + Duration::from_millis(5), "an operator that stops waits for nothing");
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_is_ended_by_urgent_events_only() {
        let mailbox = Arc::new(Mailbox::default());
        let pause = |mailbox: Arc<Mailbox>| async move {
            let began = tokio::time::Instant::now();
            mailbox.pause(Duration::from_mins(1), |event| &*event.raw == "urgent").await;
            began.elapsed().as_secs()
        };
        mailbox.put(event("own"));
        assert_eq!(pause(Arc::clone(&mailbox)).await, 60);
        let later = |after: u64, action: fn(&Mailbox)| {
            let mailbox = Arc::clone(&mailbox);
            async move {
                tokio::time::sleep(Duration::from_secs(after)).await;
                mailbox.put(event("own"));
                tokio::time::sleep(Duration::from_secs(after)).await;
                action(&mailbox);
            }
        };
        let interrupt = |mailbox: &Mailbox| assert!(mailbox.put(event("urgent")));
        assert_eq!(tokio::join!(pause(Arc::clone(&mailbox)), later(2, interrupt)).0, 4);
        assert_eq!(pause(Arc::clone(&mailbox)).await, 0, "it is still queued");
        for _ in 0..3 {
            mailbox.take(Duration::ZERO).await.unwrap();
        }
        assert_eq!(tokio::join!(pause(Arc::clone(&mailbox)), later(3, Mailbox::hurry)).0, 6);
        mailbox.take(Duration::ZERO).await.unwrap();
        assert_eq!(tokio::join!(pause(Arc::clone(&mailbox)), later(1, Mailbox::close)).0, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn an_urgent_event_that_replaces_the_last_one_of_a_full_queue_ends_the_pause() {
        let mailbox = Arc::new(Mailbox::default());
        (0..CAPACITY).for_each(|_| assert!(mailbox.put(event("own"))));
        let sender = Arc::clone(&mailbox);
        let send = async move {
            tokio::time::sleep(Duration::from_secs(5)).await;
            sender.put(event("urgent"));
        };
        let began = tokio::time::Instant::now();
        tokio::join!(mailbox.pause(Duration::from_mins(1), |event| &*event.raw == "urgent"), send);
        assert_eq!(began.elapsed().as_secs(), 5);
    }

    #[tokio::test(start_paused = true)]
    async fn an_endless_wait_is_no_overflow() {
        let mailbox = Mailbox::default();
        mailbox.close();
        assert!(mailbox.take(Duration::MAX).await.is_none());
        mailbox.rest(Duration::MAX).await;
        assert!(!mailbox.sleep(Duration::MAX).await);
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_that_is_put_back_is_replaced_by_a_newer_one() {
        let mailbox = Mailbox::default();
        mailbox.put_back(event("old"));
        assert_eq!(&*mailbox.take(Duration::ZERO).await.unwrap().raw, "old");
        mailbox.put(event("new"));
        let began = tokio::time::Instant::now();
        mailbox.rest(Duration::from_secs(3)).await;
        assert_eq!(began.elapsed(), Duration::from_secs(3), "a rest is not interrupted by events");
        mailbox.put_back(event("old"));
        assert_eq!(&*mailbox.take(Duration::ZERO).await.unwrap().raw, "new");
        assert!(mailbox.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_mailbox_keeps_the_newest_state() {
        let mailbox = Mailbox::default();
        for number in 0..CAPACITY {
            assert!(mailbox.put(event(&number.to_string())));
        }
        assert!(!mailbox.put(event("newest")));
        mailbox.close();
        let mut last = None;
        while let Some(event) = mailbox.take(Duration::from_secs(1)).await {
            last = Some(event.raw);
        }
        assert_eq!(last.as_deref(), Some("newest"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_is_not_ended_by_the_arrival_of_an_event_that_was_taken_before() {
        let mailbox = Arc::new(Mailbox::default());
        mailbox.put(event("first"));
        assert!(mailbox.take(Duration::ZERO).await.is_some());
        let sender = Arc::clone(&mailbox);
        let send = async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            sender.put(event("second"));
        };
        let (taken, ()) = tokio::join!(mailbox.take(Duration::from_secs(5)), send);
        assert_eq!(taken.as_ref().map(|event| &*event.raw), Some("second"));
    }

    #[tokio::test(start_paused = true)]
    async fn waits_beyond_the_timer_end_in_some_decades() {
        let left = deadline(Duration::MAX) - tokio::time::Instant::now();
        let years = left.as_secs() / 86_400 / 365;
        assert_eq!(years, 30);
    }
}
