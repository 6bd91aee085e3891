//! Random numbers that depend on a seed alone.

use std::time::Duration;

/// SplitMix64: the same numbers on every machine and with every version, so that a seed reproduces a failure.
#[derive(Debug)]
pub(super) struct Rng(pub(super) u64);

impl Rng {
    /// Returns a duration in whole milliseconds.
    pub(super) fn duration_below(&mut self, bound: Duration) -> Duration {
        Duration::from_millis(self.below(bound.as_millis() as u64))
    }

    /// Returns a number below a bound.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound.max(1)
    }

    /// Tells whether something of a probability in percent happens.
    pub(super) fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}
