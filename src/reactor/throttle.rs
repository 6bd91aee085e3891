//! Throttling: an object whose cycles fail is paused for growing times.

use std::time::Duration;

use jiff::Timestamp;

use crate::handling::Moment;

/// The throttling state of one object.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Throttle {
    failures: usize,
    active_until: Option<Timestamp>,
}

impl Throttle {
    /// Tells whether nothing has failed since the last success.
    pub fn is_idle(&self) -> bool {
        self.failures == 0 && self.active_until.is_none()
    }

    /// Returns the end of the pause.
    pub fn active_until(&self) -> Option<Timestamp> {
        self.active_until
    }

    /// Records a failure. Returns the pause, which is at least the one that the server has asked for: the last delay
    /// repeats; without any, nothing is throttled.
    pub fn fail(&mut self, delays: &[Duration], asked: Option<Duration>, now: Timestamp) -> Option<Duration> {
        let delay = delays.get(self.failures).or(delays.last()).copied().max(asked)?;
        self.failures = (self.failures + 1).min(delays.len());
        self.active_until = Some(Moment::after(now, delay).at);
        Some(delay)
    }

    /// Records the end of the pause.
    pub fn lift(&mut self) {
        self.active_until = None;
    }

    /// Records a success: the next failure counts as the first again.
    pub fn succeed(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_until_a_success_and_the_last_one_repeats() {
        let now = Timestamp::UNIX_EPOCH;
        let mut throttle = Throttle::default();
        let [one, two] = [1, 2].map(Duration::from_secs);
        let delays: Vec<_> = (0..3).map(|_| throttle.fail(&[one, two], None, now)).collect();
        assert_eq!(delays, [Some(one), Some(two), Some(two)]);
        assert!(Throttle::default().fail(&[Duration::MAX], None, now).is_some());
        throttle.lift();
        throttle.succeed();
        assert!(throttle.is_idle());
        assert_eq!(throttle.fail(&[], None, now), None);
    }

    #[test]
    fn a_pause_that_the_server_asks_for_is_kept() {
        let now = Timestamp::UNIX_EPOCH;
        let mut throttle = Throttle::default();
        let [one, five] = [1, 5].map(Duration::from_secs);
        let pauses = [
            throttle.fail(&[one], Some(five), now),
            throttle.fail(&[five], Some(one), now),
            throttle.fail(&[], Some(one), now),
        ];
        assert_eq!(pauses, [Some(five), Some(five), Some(one)]);
        assert_eq!(throttle.active_until(), Some(Moment::after(now, one).at));
    }

    #[test]
    fn it_is_idle_only_after_the_time_is_over_and_a_cycle_has_succeeded() {
        let failed = || {
            let mut throttle = Throttle::default();
            throttle.fail(&[Duration::from_secs(1)], None, Timestamp::UNIX_EPOCH);
            throttle
        };
        let (mut lifted, mut succeeded) = (failed(), failed());
        lifted.lift();
        succeeded.succeed();
        assert!(!failed().is_idle() && !lifted.is_idle() && !succeeded.is_idle());
        assert!(Throttle::default().is_idle());
    }
}
