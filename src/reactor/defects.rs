//! Defects that tests inject into the engine, to show that they are detected. They exist only in test builds, and
//! affect one thread.

use std::cell::Cell;

use serde_json::Value;

use crate::engines::background::defects as firing;
pub(crate) use crate::engines::background::defects::FiringDefect;
use crate::manifest::Schedule;
use crate::object::{Body, Patch};

thread_local! {
    static DEFECT: Cell<Option<Defect>> = const { Cell::new(None) };
}

/// A defect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Defect {
    /// Patches are sent without the successes of handlers.
    ForgetsSuccesses,
    /// Patches are sent without the handled essence, so that its cause begins again.
    ForgetsEssences,
    /// Handlers are called twice.
    CallsTwice,
    /// The memory does not record that an object was handled by this operator run.
    ForgetsHandling,
    /// The cycle does not wait for own patches.
    WaitsForNothing,
    /// Deleted objects stay in the indexes.
    KeepsEntries,
    /// Timers and daemons are not started.
    StartsNoTasks,
    /// Timers and daemons are not stopped when their object is deleted.
    KeepsTasks,
    /// Timers are called at wrong times.
    Fires(FiringDefect),
    /// Schedules do not catch up missed ticks.
    SkipsMissedTicks,
    /// Watches go on during pauses.
    IgnoresPauses,
}

/// Runs a function with a defect in the engine.
pub(crate) fn with<T>(defect: Defect, run: impl FnOnce() -> T) -> T {
    DEFECT.set(Some(defect));
    firing::set(if let Defect::Fires(defect) = defect { Some(defect) } else { None });
    let result = run();
    DEFECT.set(None);
    firing::set(None);
    result
}

/// Tells whether the engine has a defect.
pub(crate) fn is_on(defect: Defect) -> bool {
    DEFECT.get() == Some(defect)
}

/// Tells whether timers and daemons do not follow an event because of a defect.
pub(crate) fn ignores_tasks(body: &Body) -> bool {
    is_on(Defect::StartsNoTasks) || (is_on(Defect::KeepsTasks) && body.is_deleting())
}

/// Returns schedules with the defect applied.
pub(crate) fn spoiled_schedules(mut schedules: Vec<Schedule>) -> Vec<Schedule> {
    if is_on(Defect::SkipsMissedTicks) {
        for one in &mut schedules {
            one.schedule.catches_up = false;
        }
    }
    schedules
}

/// Returns a patch with the defect applied.
pub(crate) fn spoiled(patch: &Patch) -> Patch {
    let mut patch = patch.clone();
    let annotations = patch
        .merge
        .get_mut("metadata")
        .and_then(|metadata| metadata.get_mut("annotations"))
        .and_then(Value::as_object_mut);
    if let Some(annotations) = annotations {
        let is_success = |value: &Value| value.as_str().is_some_and(|text| text.contains(r#""success":true"#));
        annotations.retain(|key, value| {
            let is_forgotten_success = is_on(Defect::ForgetsSuccesses) && is_success(value);
            let is_forgotten_essence = is_on(Defect::ForgetsEssences) && key.ends_with("/last-handled-configuration");
            !is_forgotten_success && !is_forgotten_essence
        });
    }
    patch
}
