//! When a script that computes lets others of its thread run, and how often the clock is checked.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// The operations between two checks of the clock and the stop signals, as long as operations are quick.
const OPERATIONS_PER_LOOK: u64 = 32;

/// If the operations between two checks took longer than this, the clock is checked after each operation.
const SLOW_OPERATIONS: Duration = Duration::from_micros(250);

/// The time after which the script yields to others of its thread.
const SLICE: Duration = Duration::from_millis(4);

/// The operations after which the script yields in virtual time, where the same seed must give the same order: about a
/// millisecond.
const OPERATIONS_PER_SLICE: u64 = 8_192;

/// When a script that computes yields to others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slices {
    /// After some time.
    Time,
    /// After a number of operations, so that the order of calls does not depend on the machine.
    Operations,
}

/// How long the script has been running since its last wait, and how fast.
#[derive(Debug, Clone, Copy)]
struct TimeSlice {
    /// When the slice began, and its first operation.
    began: Instant,
    first: u64,
    /// When the clock was checked.
    looked: Instant,
    /// The operations until the next check.
    interval: u64,
}

impl TimeSlice {
    fn new(first: u64) -> Self {
        let now = Instant::now();
        Self { began: now, first, looked: now, interval: 1 }
    }
}

/// The pace of one fiber: its present slice, and its next check of the clock, by the number of operations.
pub(super) struct Pace {
    slices: Slices,
    time_slice: Cell<TimeSlice>,
    /// The number of operations at the next check of the clock.
    next_look: Cell<u64>,
}

impl Pace {
    /// Returns the pace of a fiber that begins.
    pub(super) fn new(slices: Slices) -> Self {
        Self { slices, time_slice: Cell::new(TimeSlice::new(0)), next_look: Cell::new(0) }
    }

    /// Returns the pace of another fiber of the call, which begins.
    pub(super) fn of_child(&self) -> Self {
        Self::new(self.slices)
    }

    /// Begins a slice.
    pub(super) fn begin(&self, operations: u64) {
        self.time_slice.set(TimeSlice::new(operations));
        self.next_look.set(operations);
    }

    /// Tells whether the clock must be checked.
    pub(super) fn is_look_due(&self, operations: u64) -> bool {
        operations >= self.next_look.get()
    }

    /// Sets the next check of the clock, and returns whether the slice is over.
    pub(super) fn is_over(&self, operations: u64) -> bool {
        let TimeSlice { began, first, looked, interval } = self.time_slice.get();
        if self.slices == Slices::Operations {
            self.next_look.set(operations + OPERATIONS_PER_LOOK);
            // A wait of another fiber may have refilled the count.
            return operations.saturating_sub(first) >= OPERATIONS_PER_SLICE;
        }
        let now = Instant::now();
        let is_slow = now.duration_since(looked) > SLOW_OPERATIONS;
        let interval = if is_slow { 1 } else { (interval * 2).min(OPERATIONS_PER_LOOK) };
        self.next_look.set(operations + interval);
        self.time_slice.set(TimeSlice { began, first, looked: now, interval });
        now.duration_since(began) >= SLICE
    }
}
