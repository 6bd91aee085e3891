//! Waiting for what a cluster does in its own time.

use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long a case waits for what usually takes a second. Two busy cores and a debug build need the difference.
pub const PATIENCE: Duration = Duration::from_mins(1);

const PAUSE: Duration = Duration::from_millis(150);

/// Asks again and again until there is an answer, and gives up with a panic that tells what was waited for.
pub fn eventually<T>(what: &str, within: Duration, mut probe: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(answer) = probe() {
            return answer;
        }
        assert!(started.elapsed() < within, "waited {} s in vain: {what}", within.as_secs());
        sleep(PAUSE);
    }
}
