//! Waits for asynchronous effects in a cluster.

use std::thread::sleep;
use std::time::{Duration, Instant};

/// Time limit of waits that usually take a second. Two busy cores and a debug build need the margin.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(1);

/// The pauses between the first probes: most effects come soon.
const PAUSES: [Duration; 3] = [Duration::from_millis(25), Duration::from_millis(50), Duration::from_millis(100)];

/// The pause between all further ones.
const LAST_PAUSE: Duration = Duration::from_millis(150);

/// Repeats a probe until it returns a value, and panics with a description at the limit.
pub(crate) fn eventually<T>(what: &str, within: Duration, mut probe: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    let mut pauses = PAUSES.into_iter();
    loop {
        if let Some(answer) = probe() {
            return answer;
        }
        assert!(started.elapsed() < within, "waited {} s in vain: {what}", within.as_secs());
        sleep(pauses.next().unwrap_or(LAST_PAUSE));
    }
}
