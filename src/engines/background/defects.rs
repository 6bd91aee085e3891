//! Defects of firing times that tests inject, to show that they are detected. They affect one thread.

use std::cell::Cell;
use std::time::Duration;

use crate::handling::timer::{Phase, Step};

thread_local! {
    static DEFECT: Cell<Option<FiringDefect>> = const { Cell::new(None) };
    static IS_SECOND: Cell<bool> = const { Cell::new(true) };
}

/// A defect of firing times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FiringDefect {
    /// Running timers are never called.
    Never,
    /// Timers are called a second time at once.
    Twice,
    /// Timers are called before their object is idle.
    Restlessly,
}

/// Sets or removes the defect.
pub(crate) fn set(defect: Option<FiringDefect>) {
    DEFECT.set(defect);
}

/// Tells whether timers have a defect.
pub(crate) fn is_on(defect: FiringDefect) -> bool {
    DEFECT.get() == Some(defect)
}

/// Returns the phase and the action of a timer with the defect applied.
pub(super) fn spoiled((phase, step): (Phase, Step)) -> (Phase, Step) {
    match step {
        Step::Call if is_on(FiringDefect::Never) => (phase, Step::Sleep(Duration::from_hours(1))),
        Step::Sleep(_) if phase == Phase::Quiet && is_on(FiringDefect::Restlessly) => (phase, Step::Call),
        _ => (phase, step),
    }
}

/// Tells whether a timer is called again at once: after every other call.
pub(super) fn fires_again() -> bool {
    is_on(FiringDefect::Twice) && IS_SECOND.replace(!IS_SECOND.get())
}
