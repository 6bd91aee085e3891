//! The daemons and timers of one object, and the state of the object that they read.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use super::running::RunningTask;
use crate::engines::effects::ObjectEvent;
use crate::handling::{Change, Handler};
use crate::manifest::fingerprint::Fingerprint;
use crate::object::{Body, Resource};
use crate::script::{LiveBody, ObjectMemo};

/// The state of one object from its first event to its deletion.
#[derive(Debug)]
pub(super) struct ObjectTasks {
    /// The object's memo.
    pub memo: ObjectMemo,
    /// When the object has changed last, as far as timers with an idle time are concerned.
    changed_at: watch::Sender<Instant>,
    state: Mutex<State>,
}

/// The ids of the tasks of an object.
#[derive(Debug, Default)]
pub(super) struct TaskIds {
    /// The running tasks, including stopping tasks.
    pub running: BTreeSet<String>,
    /// The running tasks that start anew after their end: their declaration or code has changed, or a pause has stopped
    /// them.
    pub outdated: BTreeSet<String>,
    /// The tasks that ended on their own.
    pub ended: BTreeSet<String>,
}

/// The end of a task.
#[derive(Debug)]
pub(super) struct TaskEnd {
    /// Whether it was the last one of an object that is gone.
    pub is_last_of_gone: bool,
    /// The handler that starts again.
    pub replacement: Option<Replacement>,
}

/// A handler that starts after the end of its outdated task.
#[derive(Debug)]
pub(super) struct Replacement {
    /// The kind of the object.
    pub resource: Arc<Resource>,
    /// Its newest state.
    pub body: Body,
    /// The handler.
    pub handler: Arc<Handler>,
}

#[derive(Debug, Default)]
struct State {
    /// The newest state, while there are tasks.
    latest: Option<(Arc<Resource>, Arc<LiveBody>)>,
    /// A hash of the last seen essence, if no handled one is stored.
    essence: Option<u64>,
    running: BTreeMap<String, Arc<RunningTask>>,
    /// The handlers whose tasks ended on their own. They are not started again, unless their declaration or code
    /// changes.
    ended: BTreeMap<String, Fingerprint>,
    /// The handlers whose outdated tasks are stopping, and that start again after that.
    replaced: BTreeMap<String, Arc<Handler>>,
    /// Whether the object is deleted, or no longer watched.
    is_gone: bool,
}

impl ObjectTasks {
    /// Returns an object at its first event.
    pub(super) fn new(memo: ObjectMemo) -> Arc<Self> {
        Arc::new(Self { memo, changed_at: watch::Sender::new(Instant::now()), state: Mutex::default() })
    }

    /// Records an event: the newest state, and whether the object has changed.
    pub(super) fn observe(&self, event: &ObjectEvent<'_>) {
        let mut state = self.state.lock();
        if let Some((resource, live)) = &mut state.latest {
            *resource = Arc::clone(&event.object.resource);
            live.set(event.object.body.clone());
        }
        let has_changed = state.has_changed(event.change);
        drop(state);
        if has_changed {
            self.changed_at.send_replace(Instant::now());
        }
    }

    /// Follows the times of the object's changes.
    pub(super) fn changes(&self) -> watch::Receiver<Instant> {
        self.changed_at.subscribe()
    }

    /// Returns the kind with its newest properties.
    ///
    /// # Panics
    /// If the object has no tasks.
    pub(super) fn resource(&self) -> Arc<Resource> {
        let state = self.state.lock();
        let (resource, _) = state.latest.as_ref().expect("an object with tasks has a newest state");
        Arc::clone(resource)
    }

    /// Adds a task, which `start` makes with the newest state of the object, unless the object is gone.
    pub(super) fn begin<T>(
        &self,
        (resource, body): (&Arc<Resource>, &Body),
        start: impl FnOnce(&Arc<LiveBody>) -> Option<(Arc<RunningTask>, T)>,
    ) -> Option<(Arc<RunningTask>, Arc<LiveBody>, T)> {
        let mut state = self.state.lock();
        if state.is_gone {
            return None;
        }
        let live = state.latest.as_ref().map_or_else(|| LiveBody::new(body.clone()), |(_, live)| Arc::clone(live));
        let (task, started) = start(&live)?;
        state.latest.get_or_insert_with(|| (Arc::clone(resource), Arc::clone(&live)));
        state.running.insert(task.handler.id.clone(), Arc::clone(&task));
        Some((task, live, started))
    }

    /// Removes a task.
    pub(super) fn end(&self, task: &RunningTask, is_requested: bool) -> TaskEnd {
        let id = &task.handler.id;
        let mut state = self.state.lock();
        state.running.remove(id);
        if !is_requested {
            state.ended.insert(id.clone(), Arc::clone(&task.fingerprint));
        }
        let handler = state.replaced.remove(id).filter(|_| !state.is_gone);
        let replacement = handler.zip(state.latest.as_ref()).map(|(handler, (resource, live))| Replacement {
            resource: Arc::clone(resource),
            body: live.get(),
            handler,
        });
        if state.running.is_empty() {
            state.latest = None;
        }
        TaskEnd { is_last_of_gone: state.is_gone && state.running.is_empty(), replacement }
    }

    /// Replaces the handlers that start after the end of their outdated tasks.
    pub(super) fn replace(&self, handlers: Vec<Arc<Handler>>) {
        let mut state = self.state.lock();
        let running = handlers.into_iter().filter(|handler| state.running.contains_key(&handler.id));
        state.replaced = running.map(|handler| (handler.id.clone(), handler)).collect();
    }

    /// Returns the ids of the tasks. `is_current` returns whether a declaration is that of the newest revision.
    ///
    /// A function that has ended does not need the finalizer: the event of its own last patch may be the object's last
    /// one. Only the deletion of the object waits for the patch.
    pub(super) fn ids(&self, is_deleting: bool, is_current: impl Fn(&Fingerprint) -> bool) -> TaskIds {
        let mut state = self.state.lock();
        state.ended.retain(|_, fingerprint| is_current(fingerprint));
        let mut ids = TaskIds { ended: state.ended.keys().cloned().collect(), ..TaskIds::default() };
        for (id, task) in &state.running {
            let (is_outdated, has_ended) =
                (!is_current(&task.fingerprint) || task.is_pausing(), !is_deleting && task.is_concluding());
            if is_outdated {
                ids.outdated.insert(id.clone());
            }
            if has_ended && !is_outdated { &mut ids.ended } else { &mut ids.running }.insert(id.clone());
        }
        ids
    }

    /// Returns a running task.
    pub(super) fn task(&self, id: &str) -> Option<Arc<RunningTask>> {
        self.state.lock().running.get(id).cloned()
    }

    /// Tells whether there are running tasks.
    pub(super) fn has_tasks(&self) -> bool {
        !self.state.lock().running.is_empty()
    }

    /// Marks the object as gone, and returns its tasks.
    pub(super) fn leave(&self) -> Vec<Arc<RunningTask>> {
        let mut state = self.state.lock();
        state.is_gone = true;
        state.replaced.clear();
        state.running.values().cloned().collect()
    }
}

impl State {
    /// Tells whether an object has changed, by its last handled essence. Without a stored one every event would differ
    /// from it; the last seen one is compared.
    fn has_changed(&mut self, change: &Change) -> bool {
        if change.old.is_some() {
            self.essence = None;
            return !change.diff.is_empty();
        }
        let mut hasher = DefaultHasher::new();
        change.new.as_ref().map(ToString::to_string).hash(&mut hasher);
        let essence = hasher.finish();
        self.essence.replace(essence) != Some(essence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn changes(sides: &[(Option<Value>, Value)]) -> Vec<bool> {
        let mut state = State::default();
        sides.iter().map(|(old, new)| state.has_changed(&Change::between(old.clone(), Some(new.clone())))).collect()
    }

    #[test]
    fn a_change_is_a_difference_from_the_last_handled_essence_or_else_from_the_last_seen_one() {
        let (one, two) = (json!({"spec": {"x": 1}}), json!({"spec": {"x": 2}}));
        let handled = |new: &Value| (Some(one.clone()), new.clone());
        assert_eq!(changes(&[handled(&one), handled(&two), handled(&two), handled(&one)]), [false, true, true, false]);
        let unstored = |new: &Value| (None, new.clone());
        assert_eq!(
            changes(&[unstored(&one), unstored(&one), unstored(&two), unstored(&two)]),
            [true, false, true, false]
        );
    }
}
