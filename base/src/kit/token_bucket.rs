//! A token bucket: allows bursts, and a rate on average. It does not wait; the caller does.

use std::time::Duration;

/// The rate of a bucket, and how many tokens it holds at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// The tokens that are added in each second.
    pub per_second: u32,
    /// The tokens of a full bucket.
    pub burst: u32,
}

/// The tokens of a bucket at some time. A new bucket is full.
#[derive(Debug, Clone, Default)]
pub struct TokenBucket {
    /// The tokens that are missing in a full bucket.
    missing: f64,
    /// When they were counted.
    at: Duration,
}

impl TokenBucket {
    /// Takes a token. The times are those since some common instant, and the rate may be another one each time. A time
    /// before the last one adds nothing.
    ///
    /// # Errors
    /// The time until the next token, if there is none; nothing is taken then.
    pub fn take(&mut self, rate: Rate, now: Duration) -> Result<(), Duration> {
        self.take_at(f64::from(rate.per_second.max(1)), rate.burst, now)
    }

    /// Takes a token, like [`Self::take`], at a rate that may be a fraction, such as a token in ten seconds.
    ///
    /// # Errors
    /// The time until the next token, if there is none. At a rate of zero, or below, there is none after the burst: the
    /// time is the longest one.
    pub fn take_at(&mut self, per_second: f64, burst: u32, now: Duration) -> Result<(), Duration> {
        let (per_second, burst) = (per_second.max(0.0), f64::from(burst.max(1)));
        let added = now.saturating_sub(self.at).as_secs_f64() * per_second;
        self.missing = (self.missing - added).clamp(0.0, burst);
        self.at = now;
        let lacking = self.missing + 1.0 - burst;
        // Less than the rounding errors of many additions counts as nothing.
        if lacking > 1e-6 {
            // A wait of zero would not end.
            let wait = Duration::try_from_secs_f64(lacking / per_second).unwrap_or(Duration::MAX);
            return Err(wait.max(Duration::from_micros(1)));
        }
        self.missing += 1.0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate { per_second: 10, burst: 3 };

    fn milliseconds(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn a_burst_is_allowed_at_once_and_then_the_rate() {
        let mut bucket = TokenBucket::default();
        let at = |bucket: &mut TokenBucket, time| bucket.take(RATE, milliseconds(time));
        assert_eq!([(); 4].map(|()| at(&mut bucket, 0)), [Ok(()), Ok(()), Ok(()), Err(milliseconds(100))]);
        assert_eq!(at(&mut bucket, 40), Err(milliseconds(60)), "a refused call takes nothing");
        assert_eq!([at(&mut bucket, 100), at(&mut bucket, 100)], [Ok(()), Err(milliseconds(100))]);
        // Tokens are not saved beyond the burst.
        assert_eq!([(); 4].map(|()| at(&mut bucket, 60_000)), [Ok(()), Ok(()), Ok(()), Err(milliseconds(100))]);
    }

    #[test]
    fn callers_that_wait_as_told_get_the_rate_on_average() {
        let mut bucket = TokenBucket::default();
        let (mut now, mut taken) = (Duration::ZERO, 0);
        while now <= Duration::from_secs(10) {
            match bucket.take(RATE, now) {
                Ok(()) => taken += 1,
                Err(wait) => now += wait,
            }
        }
        assert!((102..=104).contains(&taken), "{taken}");
    }

    #[test]
    fn a_changed_rate_applies_to_the_next_token() {
        let mut bucket = TokenBucket::default();
        for _ in 0..3 {
            bucket.take(RATE, Duration::ZERO).unwrap();
        }
        let slow = Rate { per_second: 1, burst: 1 };
        assert_eq!(bucket.take(slow, Duration::ZERO), Err(Duration::from_secs(1)));
        let quick = Rate { per_second: 10, burst: 100 };
        assert_eq!(bucket.take(quick, Duration::ZERO), Ok(()));
    }

    #[test]
    fn time_that_goes_back_adds_nothing() {
        let mut bucket = TokenBucket::default();
        let one = Rate { per_second: 1, burst: 1 };
        bucket.take(one, Duration::from_secs(9)).unwrap();
        assert_eq!(bucket.take(one, Duration::from_secs(2)), Err(Duration::from_secs(1)));
        assert_eq!(bucket.take(one, Duration::from_secs(3)), Ok(()), "a clock that was set back goes on from there");
    }

    #[test]
    fn a_rate_may_be_a_fraction_or_zero() {
        let mut bucket = TokenBucket::default();
        let mut at = |per_second, seconds| bucket.take_at(per_second, 1, Duration::from_secs(seconds));
        assert_eq!([at(0.1, 0), at(0.1, 4), at(0.1, 10)], [Ok(()), Err(Duration::from_secs(6)), Ok(())]);
        assert_eq!([at(0.0, 1_000), at(-1.0, 2_000)], [Err(Duration::MAX); 2]);
        assert_eq!(at(0.5, 2_002), Ok(()));
    }
}
