//! All running tasks of an operator.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::running::RunningTask;
use crate::handling::spawning::StopReason;

/// All running tasks, including those of deleted objects, in the order of their starts.
#[derive(Debug, Default)]
pub(super) struct Registry(Mutex<Registered>);

#[derive(Debug, Default)]
struct Registered {
    started: u64,
    running: BTreeMap<u64, Arc<RunningTask>>,
    /// Why no task may run.
    halt: Option<StopReason>,
}

impl Registry {
    /// Adds a task, and returns its number; `None` if no task may run.
    pub(super) fn add(&self, task: &Arc<RunningTask>) -> Option<u64> {
        let mut registered = self.0.lock();
        if registered.halt.is_some() {
            return None;
        }
        registered.started += 1;
        let number = registered.started;
        registered.running.insert(number, Arc::clone(task));
        Some(number)
    }

    /// Returns why no task may run, if none may.
    pub(super) fn halt(&self) -> Option<StopReason> {
        self.0.lock().halt
    }

    /// Sets why no task may run.
    pub(super) fn set_halt(&self, halt: Option<StopReason>) {
        self.0.lock().halt = halt;
    }

    /// Removes a task.
    pub(super) fn remove(&self, number: u64) {
        self.0.lock().running.remove(&number);
    }

    /// Returns the running tasks.
    pub(super) fn all(&self) -> Vec<Arc<RunningTask>> {
        self.0.lock().running.values().cloned().collect()
    }
}
