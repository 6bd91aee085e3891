//! Waits for asynchronous effects in a cluster.

use std::thread::sleep;
use std::time::{Duration, Instant};

/// Time limit of waits that usually take a second. Two busy cores and a debug build need the margin.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(1);

const PAUSE: Duration = Duration::from_millis(150);

/// Repeats a probe until it returns a value, and panics with a description at the limit.
pub(crate) fn eventually<T>(what: &str, within: Duration, mut probe: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(answer) = probe() {
            return answer;
        }
        assert!(started.elapsed() < within, "waited {} s in vain: {what}", within.as_secs());
        sleep(PAUSE);
    }
}
