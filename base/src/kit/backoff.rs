//! Delays that grow with repeated failures.

use std::time::Duration;

/// Iterates over a list of delays; the caller chooses what follows the last one.
#[derive(Debug, Clone)]
pub struct Backoff {
    delays: std::sync::Arc<[Duration]>,
    next: usize,
}

impl Backoff {
    /// Returns a back-off at the beginning of its delays.
    pub fn new(delays: impl Into<std::sync::Arc<[Duration]>>) -> Self {
        Self { delays: delays.into(), next: 0 }
    }

    /// Returns the next delay, or `None` when they are used up.
    pub fn next_or_end(&mut self) -> Option<Duration> {
        let delay = self.delays.get(self.next).copied();
        self.next += usize::from(delay.is_some());
        delay
    }

    /// Returns the next delay, and repeats the last one; `None` if there are no delays.
    pub fn next_or_last(&mut self) -> Option<Duration> {
        self.next_or_end().or_else(|| self.delays.last().copied())
    }

    /// Starts over: the next failure counts as the first.
    pub fn reset(&mut self) {
        self.next = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_delay_repeats_until_a_success() {
        let mut backoff = Backoff::new([1, 2].map(Duration::from_secs));
        let mut seconds = || backoff.next_or_last().unwrap().as_secs();
        assert_eq!([seconds(), seconds(), seconds()], [1, 2, 2]);
        backoff.reset();
        assert_eq!(backoff.next_or_end(), Some(Duration::from_secs(1)));
    }
}
