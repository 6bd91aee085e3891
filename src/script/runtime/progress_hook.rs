//! The interpreter's hook at every operation: checks whether the script may continue.

use rhai::Dynamic;

use super::budget::{Budget, Ending, Tick};
use super::{fiber, rounds};

/// Counts an operation of the script that runs on this thread; returns why it must end, if it must.
///
/// Yields to other scripts from time to time.
pub(crate) fn on_progress(_: u64) -> Option<Dynamic> {
    obey(fiber::with_budget(Budget::tick)?).map(Dynamic::from)
}

/// Lets a long native function yield to other scripts; returns whether it may continue. The caller must hold nothing
/// that others need.
pub(crate) fn pause() -> bool {
    fiber::with_budget(Budget::pause).and_then(obey).is_none()
}

fn obey(tick: Tick) -> Option<Ending> {
    match tick {
        Tick::GoOn => None,
        Tick::End(ending) => Some(ending),
        Tick::GiveWay => {
            if fiber::is_fiber() {
                fiber::with_budget(|budget| budget.set_preempted(true));
                fiber::wait(rounds::next());
                fiber::with_budget(|budget| {
                    budget.set_preempted(false);
                    budget.begin_slice();
                });
            }
            None
        }
    }
}
