//! Throttling: an object whose cycles fail is left alone for growing times.

use jiff::Timestamp;

use crate::handling::Moment;

/// Where one object stands between failure and success.
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

    /// Returns until when the object is left alone.
    pub fn active_until(&self) -> Option<Timestamp> {
        self.active_until
    }

    /// Notes a failure. Returns the seconds to leave the object alone: the last delay repeats; without delays, nothing is throttled.
    pub fn fail(&mut self, delays: &[f64], now: Timestamp) -> Option<f64> {
        let delay = *delays.get(self.failures).or(delays.last())?;
        self.failures = (self.failures + 1).min(delays.len());
        self.active_until = Some(Moment::after(now, delay).at);
        Some(delay)
    }

    /// Notes that the time is over.
    pub fn lift(&mut self) {
        self.active_until = None;
    }

    /// Notes a success: the next failure is a first one again.
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
        let delays: Vec<_> = (0..3).map(|_| throttle.fail(&[1.0, 2.0], now)).collect();
        assert_eq!(delays, [Some(1.0), Some(2.0), Some(2.0)]);
        assert!(Throttle::default().fail(&[1e300], now).is_some());
        throttle.lift();
        throttle.succeed();
        assert!(throttle.is_idle());
        assert_eq!(throttle.fail(&[], now), None);
    }
}
