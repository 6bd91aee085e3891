//! Which replica of an operator leads: the actions of a replica on the observed Lease, by the rules of client-go.
//!
//! ```text
//!              nobody holds the Lease, or its holder has not renewed it for its duration
//!   standby ──────────────────────────────────────────────────────────────────────────► leader ──┐ renews in each retry period
//!      ▲                                                                                  │ ▲─────┘
//!      └── no renewal has succeeded for the renew deadline, or another replica holds it ──┘
//! ```
//!
//! The times in a Lease are those of the clock of its holder, and are never compared with other clocks: a Lease has run
//! out when it was not seen to change for its duration, by a monotonic clock of this process.

use std::time::Duration;

use jiff::Timestamp;

/// The renew deadline must leave room for more than one attempt: client-go's factor.
const ATTEMPTS_FACTOR: f64 = 1.2;

/// The times of an election.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// How long the others wait for a leader that does not renew its Lease.
    pub lease_duration: Duration,
    /// How long a leader without a successful renewal leads.
    pub renew_deadline: Duration,
    /// The pause between attempts.
    pub retry_period: Duration,
}

impl Default for Timing {
    /// The defaults of client-go's users.
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { lease_duration: seconds(15), renew_deadline: seconds(10), retry_period: seconds(2) }
    }
}

/// The reason why the times of an election cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TimingError {
    /// A Lease stores whole seconds.
    #[error("the lease duration must be a whole number of seconds, and at least one")]
    Fraction,
    /// There would be no attempts.
    #[error("the retry period must be longer than zero")]
    NoPause,
    /// Two replicas could lead at the same time.
    #[error("the lease duration ({}s) must be longer than the renew deadline ({}s)", .lease.as_secs_f64(), .renew.as_secs_f64())]
    Lease {
        /// The lease duration.
        lease: Duration,
        /// The renew deadline.
        renew: Duration,
    },
    /// One failed attempt would end the leadership.
    #[error(
        "the renew deadline ({}s) must be longer than {ATTEMPTS_FACTOR} times the retry period ({}s)",
        .renew.as_secs_f64(),
        .retry.as_secs_f64()
    )]
    Renewal {
        /// The renew deadline.
        renew: Duration,
        /// The retry period.
        retry: Duration,
    },
}

impl Timing {
    /// Checks that a leader stops before others may lead, and that it has more than one attempt.
    ///
    /// # Errors
    /// The first rule that the times break.
    pub fn check(&self) -> Result<(), TimingError> {
        let Self { lease_duration, renew_deadline, retry_period } = *self;
        if lease_duration.is_zero() || lease_duration.subsec_nanos() > 0 {
            return Err(TimingError::Fraction);
        }
        if retry_period.is_zero() {
            return Err(TimingError::NoPause);
        }
        if lease_duration <= renew_deadline {
            return Err(TimingError::Lease { lease: lease_duration, renew: renew_deadline });
        }
        if renew_deadline <= retry_period.mul_f64(ATTEMPTS_FACTOR) {
            return Err(TimingError::Renewal { renew: renew_deadline, retry: retry_period });
        }
        Ok(())
    }
}

/// The contents of a Lease.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LeaseRecord {
    /// The identity of the holder; empty if it was released.
    pub holder: String,
    /// How long the holder may be silent.
    pub duration: Duration,
    /// When the holder got it, by the holder's clock.
    pub acquired_at: Option<Timestamp>,
    /// When the holder renewed it last, by the holder's clock.
    pub renewed_at: Option<Timestamp>,
    /// How often the holder has changed.
    pub transitions: i64,
}

/// The Lease as a replica has seen it last.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Observed {
    record: LeaseRecord,
    /// Since when it was not seen to change, by the monotonic clock.
    since: Duration,
    /// Whether it was gone at the last observation.
    is_gone: bool,
}

/// A replica that wants to lead.
#[derive(Debug, Clone)]
pub struct Candidate {
    identity: String,
    timing: Timing,
    observed: Option<Observed>,
}

/// The next action of a replica.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Creates the Lease.
    Create,
    /// Replaces the contents of the Lease.
    Take,
    /// Waits for this time, or until the Lease changes: another replica leads.
    Wait(Duration),
}

impl Candidate {
    /// Returns a replica that has not seen the Lease.
    pub fn new(identity: impl Into<String>, timing: Timing) -> Self {
        Self { identity: identity.into(), timing, observed: None }
    }

    /// Returns the identity.
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// Returns the times.
    pub fn timing(&self) -> Timing {
        self.timing
    }

    /// Returns the last observed contents of the Lease, if there was one.
    pub fn record(&self) -> Option<&LeaseRecord> {
        self.observed.as_ref().map(|observed| &observed.record)
    }

    /// Returns the holder; `None` if no holder of the Lease is known.
    pub fn holder(&self) -> Option<&str> {
        self.record().map(|record| record.holder.as_str()).filter(|holder| !holder.is_empty())
    }

    /// Tells whether another replica was seen to hold the Lease.
    pub fn is_held_by_another(&self) -> bool {
        self.holder().is_some_and(|holder| holder != self.identity)
    }

    /// Records the Lease as it is at a monotonic time; `None` if there is none.
    ///
    /// A deleted Lease still counts until its time has run out: its holder may not know yet.
    pub fn observe(&mut self, found: Option<LeaseRecord>, now: Duration) {
        match (found, &mut self.observed) {
            (None, None) => {}
            (None, Some(observed)) => observed.is_gone = true,
            (Some(record), Some(observed)) if record == observed.record => observed.is_gone = false,
            (Some(record), observed) => *observed = Some(Observed { record, since: now, is_gone: false }),
        }
    }

    /// Decides what to do at a monotonic time, while this replica does not lead.
    pub fn decide(&self, now: Duration) -> Step {
        let Some(observed) = &self.observed else { return Step::Create };
        let left = (observed.since + observed.record.duration).saturating_sub(now);
        match (self.is_held_by_another() && !left.is_zero(), observed.is_gone) {
            (true, _) => Step::Wait(left),
            (false, true) => Step::Create,
            (false, false) => Step::Take,
        }
    }

    /// Returns the contents of the Lease when this replica takes it at a time of its clock. A replica that still holds
    /// it keeps its history.
    pub fn claim(&self, now: Timestamp) -> LeaseRecord {
        let before = self.observed.as_ref().filter(|observed| !observed.is_gone).map(|observed| &observed.record);
        let (acquired_at, transitions) = match before {
            None => (Some(now), 0),
            Some(before) if before.holder == self.identity => (before.acquired_at, before.transitions),
            Some(before) => (Some(now), before.transitions.saturating_add(1)),
        };
        let holder = self.identity.clone();
        LeaseRecord { holder, duration: self.timing.lease_duration, acquired_at, renewed_at: Some(now), transitions }
    }

    /// Returns the contents of the released Lease: another replica can take it at once.
    pub fn release(&self, now: Timestamp) -> LeaseRecord {
        let transitions = self.record().map(|record| record.transitions).unwrap_or_default();
        let duration = Duration::from_secs(1);
        LeaseRecord { holder: String::new(), duration, acquired_at: Some(now), renewed_at: Some(now), transitions }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn at(second: u64) -> Timestamp {
        format!("2020-01-01T00:00:{second:02}Z").parse().unwrap()
    }

    fn candidate() -> Candidate {
        Candidate::new("me", Timing::default())
    }

    fn held(holder: &str, renewed: u64) -> LeaseRecord {
        LeaseRecord {
            holder: holder.to_owned(),
            duration: seconds(15),
            acquired_at: Some(at(0)),
            renewed_at: Some(at(renewed)),
            transitions: 3,
        }
    }

    #[test]
    fn the_defaults_are_those_of_client_go_and_pass_the_check() {
        assert_eq!(Timing::default().check(), Ok(()));
    }

    #[test]
    fn a_leader_must_stop_before_others_may_lead_and_have_more_than_one_attempt() {
        let timing = |lease, renew, retry| Timing { lease_duration: lease, renew_deadline: renew, retry_period: retry };
        let text = |timing: Timing| timing.check().unwrap_err().to_string();
        let equal = text(timing(seconds(10), seconds(10), seconds(2)));
        assert_eq!(equal, "the lease duration (10s) must be longer than the renew deadline (10s)");
        let tight = text(timing(seconds(15), seconds(12), seconds(10)));
        assert_eq!(tight, "the renew deadline (12s) must be longer than 1.2 times the retry period (10s)");
        assert_eq!(timing(seconds(15), Duration::from_millis(12_001), seconds(10)).check(), Ok(()));
        assert_eq!(
            timing(Duration::from_millis(1500), seconds(1), Duration::from_millis(100)).check(),
            Err(TimingError::Fraction)
        );
        assert_eq!(timing(seconds(0), seconds(1), seconds(1)).check(), Err(TimingError::Fraction));
        assert_eq!(timing(seconds(2), seconds(1), seconds(0)).check(), Err(TimingError::NoPause));
    }

    #[test]
    fn without_a_lease_it_is_created_with_no_transitions() {
        let candidate = candidate();
        assert_eq!(candidate.decide(seconds(0)), Step::Create);
        let expected = LeaseRecord { holder: "me".to_owned(), acquired_at: Some(at(7)), ..held("me", 7) };
        assert_eq!(candidate.claim(at(7)), LeaseRecord { transitions: 0, ..expected });
    }

    #[test]
    fn a_held_lease_is_awaited_from_the_moment_when_it_was_seen_to_change_whatever_the_clock_of_its_holder_says() {
        let mut candidate = candidate();
        // The holder's clock is far in the past.
        candidate.observe(Some(held("other", 0)), seconds(100));
        assert_eq!(candidate.decide(seconds(100)), Step::Wait(seconds(15)));
        candidate.observe(Some(held("other", 0)), seconds(110));
        assert_eq!(candidate.decide(seconds(110)), Step::Wait(seconds(5)));
        candidate.observe(Some(held("other", 2)), seconds(112));
        assert_eq!(candidate.decide(seconds(112)), Step::Wait(seconds(15)));
        assert_eq!(candidate.decide(seconds(127)), Step::Take);
        let taken = candidate.claim(at(30));
        assert_eq!((taken.holder.as_str(), taken.transitions, taken.acquired_at), ("me", 4, Some(at(30))));
    }

    #[test]
    fn the_duration_is_that_of_the_holder() {
        let mut candidate = candidate();
        candidate.observe(Some(LeaseRecord { duration: seconds(60), ..held("other", 0) }), seconds(0));
        assert_eq!(candidate.decide(seconds(59)), Step::Wait(seconds(1)));
        assert_eq!(candidate.decide(seconds(60)), Step::Take);
    }

    #[test]
    fn a_released_lease_is_taken_at_once() {
        let mut candidate = candidate();
        candidate.observe(Some(held("other", 0)), seconds(0));
        let released = Candidate { identity: "other".to_owned(), ..candidate.clone() }.release(at(5));
        let expected = (String::new(), seconds(1), Some(at(5)), 3);
        assert_eq!((released.holder.clone(), released.duration, released.renewed_at, released.transitions), expected);
        candidate.observe(Some(released), seconds(1));
        assert_eq!(candidate.holder(), None);
        assert_eq!(candidate.decide(seconds(1)), Step::Take);
        assert_eq!(candidate.claim(at(6)).transitions, 4);
    }

    #[test]
    fn a_lease_that_is_still_its_own_is_taken_at_once_and_keeps_its_history() {
        let mut candidate = candidate();
        candidate.observe(Some(held("me", 1)), seconds(0));
        assert_eq!(candidate.decide(seconds(0)), Step::Take);
        let claimed = candidate.claim(at(9));
        assert_eq!((claimed.acquired_at, claimed.renewed_at, claimed.transitions), (Some(at(0)), Some(at(9)), 3));
    }

    #[test]
    fn a_lease_that_was_deleted_under_its_holder_is_created_only_when_its_time_has_run_out() {
        let mut candidate = candidate();
        candidate.observe(Some(held("other", 0)), seconds(0));
        candidate.observe(None, seconds(3));
        assert_eq!(candidate.decide(seconds(3)), Step::Wait(seconds(12)));
        assert_eq!(candidate.decide(seconds(15)), Step::Create);
        candidate.observe(Some(held("other", 0)), seconds(4));
        assert_eq!(candidate.decide(seconds(4)), Step::Wait(seconds(11)));
    }
}
