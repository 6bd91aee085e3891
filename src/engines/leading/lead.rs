//! Whether this replica leads, for everything that handles or writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::watch;

use crate::cluster::Fence;
use crate::kit::Clock;

/// The term of operators without an election, which never ends.
pub const PERMANENT: u64 = 0;

/// How often the end of a term is looked for while a request is in flight: the timers of the runtime stand still while
/// the machine is suspended.
const LOOK: Duration = Duration::from_millis(500);

/// Tells whether this replica leads, and in which term. Cheap to clone.
///
/// A term ends when its time has run out, also if no task has noticed that yet: this is asked of the clock each time.
#[derive(Debug, Clone)]
pub struct Lead(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// `None` without an election.
    clock: Option<Clock>,
    /// The current term, until the election ends it.
    term: watch::Sender<Option<u64>>,
    /// The end of the current term in nanoseconds of the uptime.
    until: AtomicU64,
    /// The number of the last term.
    begun: watch::Sender<u64>,
    /// The number of activities that belong to the current term.
    duties: watch::Sender<usize>,
    /// Whether no new writes are begun, since the Lease is about to be released.
    is_closing: AtomicBool,
    /// When a write has ended without an answer last, in nanoseconds of the uptime; 0 for never.
    unanswered_at: AtomicU64,
}

impl Lead {
    /// Returns the lead of a process without an election.
    pub fn permanent() -> Self {
        Self::new(None, Some(PERMANENT), u64::MAX)
    }

    /// Returns the lead of a replica that stands by.
    pub fn elected(clock: Clock) -> Self {
        Self::new(Some(clock), None, 0)
    }

    fn new(clock: Option<Clock>, term: Option<u64>, until: u64) -> Self {
        Self(Arc::new(Inner {
            clock,
            term: watch::Sender::new(term),
            until: AtomicU64::new(until),
            begun: watch::Sender::new(PERMANENT),
            duties: watch::Sender::new(0),
            is_closing: AtomicBool::new(false),
            unanswered_at: AtomicU64::new(0),
        }))
    }

    /// Tells whether there is an election.
    pub fn is_elected(&self) -> bool {
        self.0.clock.is_some()
    }

    /// Returns the current term; `None` if this replica does not lead.
    pub fn term(&self) -> Option<u64> {
        let term = *self.0.term.borrow();
        term.filter(|_| !self.time_left().is_zero())
    }

    /// Tells whether a term is the current one.
    pub fn holds(&self, term: Option<u64>) -> bool {
        term.is_some() && (!self.is_elected() || self.term() == term)
    }

    /// Waits until a term has ended, and the election has noticed that. Many cycles wait here for a long time, so it
    /// costs nothing.
    ///
    /// *Cancel safety*: the wait may be dropped and begun again.
    pub async fn ended(&self, term: u64) {
        // The sender is not dropped before this.
        let _ = self.0.term.subscribe().wait_for(|current| *current != Some(term)).await;
    }

    /// Waits for a term.
    ///
    /// *Cancel safety*: the wait may be dropped and begun again.
    pub async fn led(&self) -> u64 {
        let mut begun = self.0.begun.subscribe();
        loop {
            begun.borrow_and_update();
            if let Some(term) = self.term() {
                return term;
            }
            // The sender is not dropped before this.
            let _ = begun.changed().await;
        }
    }

    /// Follows the begins of terms, by their numbers.
    pub fn begins(&self) -> watch::Receiver<u64> {
        self.0.begun.subscribe()
    }

    /// Begins a duty in a term, unless the term has ended. Without an election, there is nothing to count.
    pub fn enter(&self, term: Option<u64>) -> Option<Duty> {
        if !self.is_elected() {
            return term.map(|_| Duty(None));
        }
        self.0.duties.send_modify(|count| *count += 1);
        let duty = Duty(Some(Arc::clone(&self.0)));
        // Asked after the count: waits for the end of all duties include this one.
        self.holds(term).then_some(duty)
    }

    /// Lets no new writes begin, and those in flight end: the Lease is about to be released.
    pub fn close(&self) {
        self.0.is_closing.store(true, Ordering::SeqCst);
    }

    /// Begins a term that ends at a time of the uptime.
    pub(super) fn begin(&self, until: Duration) -> u64 {
        let term = *self.0.begun.borrow() + 1;
        self.0.until.store(nanoseconds(until), Ordering::SeqCst);
        self.0.term.send_replace(Some(term));
        self.0.begun.send_replace(term);
        term
    }

    /// Extends the term to a time of the uptime. Returns false if it has ended before: it cannot be revived.
    pub(super) fn extend(&self, until: Duration) -> bool {
        if self.term().is_none() {
            return false;
        }
        self.0.until.store(nanoseconds(until), Ordering::SeqCst);
        true
    }

    /// Ends the term.
    pub(super) fn end(&self) {
        self.0.until.store(0, Ordering::SeqCst);
        self.0.term.send_replace(None);
    }

    /// Waits until all duties have ended.
    pub(super) async fn idle(&self) {
        let mut duties = self.0.duties.subscribe();
        // The sender is not dropped before this.
        let _ = duties.wait_for(|count| *count == 0).await;
    }

    /// Tells whether a write has ended without an answer within this time: it may still be on its way.
    pub(super) fn has_unanswered(&self, within: Duration) -> bool {
        let at = Duration::from_nanos(self.0.unanswered_at.load(Ordering::SeqCst));
        let now = self.0.clock.as_ref().map(Clock::uptime).unwrap_or_default();
        !at.is_zero() && now.saturating_sub(at) < within
    }

    fn time_left(&self) -> Duration {
        let Some(clock) = &self.0.clock else { return Duration::MAX };
        Duration::from_nanos(self.0.until.load(Ordering::SeqCst)).saturating_sub(clock.uptime())
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Fence for Lead {
    fn is_open(&self) -> bool {
        self.term().is_some() && !self.0.is_closing.load(Ordering::SeqCst)
    }

    fn closed(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let Some(term) = self.term() else { return };
            let mut ended = std::pin::pin!(self.ended(term));
            while self.holds(Some(term)) {
                let look = tokio::time::sleep(self.time_left().min(LOOK));
                tokio::select! {
                    biased;
                    () = &mut ended => return,
                    () = look => {}
                }
            }
        })
    }

    fn note_unanswered(&self) {
        let now = self.0.clock.as_ref().map(Clock::uptime).unwrap_or_default();
        self.0.unanswered_at.store(nanoseconds(now).max(1), Ordering::SeqCst);
    }
}

/// A duty in a term: work that belongs to it, until this is dropped.
#[derive(Debug)]
pub struct Duty(Option<Arc<Inner>>);

impl Drop for Duty {
    fn drop(&mut self) {
        self.0.iter().for_each(|inner| inner.duties.send_modify(|count| *count -= 1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn lead() -> Lead {
        Lead::elected(Clock::starting_at("2020-01-01T00:00:00Z".parse().unwrap()))
    }

    #[tokio::test(start_paused = true)]
    async fn without_an_election_the_only_term_never_ends() {
        let lead = Lead::permanent();
        assert_eq!((lead.term(), lead.led().await), (Some(PERMANENT), PERMANENT));
        assert!(lead.is_open() && lead.enter(lead.term()).is_some());
        assert!(tokio::time::timeout(Duration::from_hours(1), lead.closed()).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_term_ends_when_its_time_has_run_out_and_cannot_be_revived() {
        let lead = lead();
        assert!(!lead.is_open());
        let term = lead.begin(seconds(10));
        assert!(lead.holds(Some(term)));
        tokio::time::sleep(seconds(4)).await;
        assert!(lead.extend(seconds(14)));
        lead.closed().await;
        assert_eq!(lead.0.clock.as_ref().unwrap().uptime(), seconds(14));
        assert!(!lead.holds(Some(term)) && lead.enter(Some(term)).is_none());
        assert!(!lead.extend(seconds(99)));
        lead.end();
        let next = lead.begin(seconds(20));
        assert!(next > term && lead.holds(Some(next)) && !lead.holds(Some(term)));
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_of_a_term_is_told_at_once_and_everything_that_is_handled_can_be_awaited() {
        let lead = lead();
        let term = lead.begin(seconds(10));
        let duty = lead.enter(Some(term));
        assert!(duty.is_some());
        let ended = async {
            lead.ended(term).await;
            assert!(tokio::time::timeout(seconds(1), lead.idle()).await.is_err());
            drop(duty);
            lead.idle().await;
        };
        let end = async {
            tokio::time::sleep(seconds(3)).await;
            lead.end();
        };
        tokio::join!(ended, end);
        assert_eq!(lead.0.clock.as_ref().unwrap().uptime(), seconds(4));
    }

    #[tokio::test(start_paused = true)]
    async fn before_a_release_no_write_begins_and_those_in_flight_end() {
        let lead = lead();
        let term = lead.begin(seconds(10));
        lead.close();
        assert!(!lead.is_open() && lead.holds(Some(term)));
        assert!(tokio::time::timeout(seconds(1), lead.closed()).await.is_err());
        lead.end();
        lead.closed().await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_term_can_be_awaited() {
        let lead = lead();
        let begin = async {
            tokio::time::sleep(seconds(1)).await;
            lead.begin(seconds(5))
        };
        let (awaited, begun) = tokio::join!(lead.led(), begin);
        assert_eq!(awaited, begun);
    }
}
