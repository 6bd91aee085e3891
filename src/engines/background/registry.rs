//! All running tasks of an operator.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::running::RunningTask;
use crate::handling::spawning::StopReason;

/// All running tasks, including those of deleted objects, in the order of their starts.
#[derive(Debug, Default)]
pub(super) struct Registry {
    tasks: Mutex<Registered>,
    /// The number of tasks that have ended.
    ends: Arc<AtomicU64>,
}

#[derive(Debug, Default)]
struct Registered {
    started: u64,
    running: BTreeMap<u64, Arc<RunningTask>>,
    /// The reason why no task may run.
    halt: Option<StopReason>,
}

impl Registry {
    /// Adds a task, and returns its number; `None` if no task may run.
    pub(super) fn add(&self, task: &Arc<RunningTask>) -> Option<u64> {
        let mut registered = self.tasks.lock();
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
        self.tasks.lock().halt
    }

    /// Sets why no task may run.
    pub(super) fn set_halt(&self, halt: Option<StopReason>) {
        self.tasks.lock().halt = halt;
    }

    /// Removes a task.
    pub(super) fn remove(&self, number: u64) {
        self.tasks.lock().running.remove(&number);
        self.ends.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of tasks that have ended.
    pub(super) fn ends(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.ends)
    }

    /// Returns the running tasks.
    pub(super) fn all(&self) -> Vec<Arc<RunningTask>> {
        self.tasks.lock().running.values().cloned().collect()
    }
}
