//! Counts the calls of the API that a handler has made within the last minute, over all its calls and objects.

use parking_lot::Mutex;
use tokio::time::Instant;

/// The calls are counted by seconds.
const SECONDS: u64 = 60;

/// The recent calls of one binding, which the calls on all threads share.
#[derive(Debug)]
pub(crate) struct CallRate {
    origin: Instant,
    window: Mutex<Window>,
}

impl Default for CallRate {
    fn default() -> Self {
        Self { origin: Instant::now(), window: Mutex::default() }
    }
}

impl CallRate {
    /// Counts a call, unless as many as the limit were made within the last minute. Returns whether it was counted.
    pub(crate) fn count(&self, limit: u64) -> bool {
        self.window.lock().count(self.origin.elapsed().as_secs(), limit)
    }
}

/// The numbers of calls in each of the last seconds.
#[derive(Debug)]
struct Window {
    counts: [u64; SECONDS as usize],
    sum: u64,
    /// The second that was counted last.
    newest: u64,
}

impl Default for Window {
    fn default() -> Self {
        Self { counts: [0; SECONDS as usize], sum: 0, newest: 0 }
    }
}

impl Window {
    fn count(&mut self, second: u64, limit: u64) -> bool {
        // Each second takes the place of the one a minute before.
        let elapsed = second.saturating_sub(self.newest).min(SECONDS);
        for passed in 1..=elapsed {
            let outdated = &mut self.counts[((self.newest + passed) % SECONDS) as usize];
            self.sum -= std::mem::take(outdated);
        }
        self.newest = self.newest.max(second);
        if self.sum >= limit {
            return false;
        }
        self.counts[(self.newest % SECONDS) as usize] += 1;
        self.sum += 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_minute_has_more_calls_than_the_limit() {
        let mut window = Window::default();
        let mut count = |second: u64, calls: u64| (0..calls).filter(|_| window.count(second, 10)).count();
        assert_eq!(count(0, 4), 4);
        assert_eq!(count(30, 20), 6);
        assert_eq!(count(59, 1), 0, "the calls of the first second count until it is a minute ago");
        assert_eq!(count(60, 20), 4);
        assert_eq!(count(89, 1), 0);
        assert_eq!(count(90, 20), 6);
        assert_eq!(count(10_000, 20), 10, "a long pause ends all counts");
        assert_eq!(count(9_999, 1), 0, "time that goes back ends none");
    }

    #[test]
    fn refused_calls_do_not_count() {
        let mut window = Window::default();
        assert!(window.count(7, 1));
        assert!((8..67).all(|second| !window.count(second, 1)));
        assert!(window.count(67, 1));
    }
}
