//! The rules of timers and daemons: an object has at most one task of a handler, with one call at a time; a task that was asked to stop
//! begins no call; all have ended before the finalizer of a deleted object goes; and at the end, exactly those of matching objects run.

use std::collections::{BTreeMap, BTreeSet};

use crate::handling::filter::{Answers, View};
use crate::handling::spawning::Stage;
use crate::handling::{SpawningHandlers, select};
use crate::object::Body;

use super::super::timeline::Subject;

/// An event of a timer or daemon.
#[derive(Debug, Clone, Copy)]
pub(crate) enum TaskEvent {
    /// It was started.
    Started,
    /// Its stop has reached a stage.
    Stopping(Stage),
    /// It has ended.
    Ended {
        /// Whether it was asked to.
        is_requested: bool,
    },
}

/// The tasks of one operator run, by operator number and uid.
#[derive(Debug, Default)]
pub(super) struct BackgroundChecks {
    objects: BTreeMap<(usize, String), ObjectTasks>,
}

/// The tasks of one operator for one object.
#[derive(Debug)]
struct ObjectTasks {
    subject: Subject,
    running: BTreeMap<String, RunningTask>,
    /// Handlers whose tasks ended on their own.
    ended: BTreeSet<String>,
    /// Whether the operator has seen the end of the object.
    is_gone: bool,
    has_failed: bool,
}

#[derive(Debug, Default)]
struct RunningTask {
    is_called: bool,
    stage: Option<Stage>,
}

/// Identifies the tasks of one operator for one object.
type Key = (usize, String);

impl BackgroundChecks {
    fn of(&mut self, key: Key, body: &Body) -> &mut ObjectTasks {
        self.objects.entry(key).or_insert_with(|| ObjectTasks {
            subject: Subject::of(body),
            running: BTreeMap::new(),
            ended: BTreeSet::new(),
            is_gone: false,
            has_failed: false,
        })
    }

    /// Notes that the operator run has ended, with all its tasks.
    pub(super) fn run_ended(&mut self) {
        self.objects.clear();
    }

    /// Notes that the operator has received an object.
    pub(super) fn object_seen(&mut self, key: Key, body: &Body) {
        self.of(key, body);
    }

    /// Notes that the operator has received the end of an object.
    pub(super) fn object_deleted(&mut self, key: Key, body: &Body) {
        self.of(key, body).is_gone = true;
    }

    /// Notes the end of a cycle.
    pub(super) fn cycle_ended(&mut self, key: Key, body: &Body, has_failed: bool) {
        self.of(key, body).has_failed = has_failed;
    }

    /// Notes an event of a task.
    pub(super) fn task(&mut self, key: Key, body: &Body, id: &str, event: TaskEvent) -> Option<String> {
        let tasks = self.of(key, body);
        let subject = &tasks.subject;
        match event {
            TaskEvent::Started => {
                let violation = if tasks.running.contains_key(id) {
                    Some(format!("`{id}` was started twice for {subject}"))
                } else if tasks.is_gone || body.is_deleting() {
                    Some(format!("`{id}` was started for {subject}, which is deleted"))
                } else if tasks.ended.contains(id) {
                    Some(format!("`{id}` was started again for {subject}, though it had ended on its own"))
                } else {
                    None
                };
                tasks.running.insert(id.to_owned(), RunningTask::default());
                violation
            }
            TaskEvent::Stopping(stage) => {
                if let Some(task) = tasks.running.get_mut(id) {
                    task.stage = task.stage.max(Some(stage));
                }
                None
            }
            TaskEvent::Ended { is_requested } => {
                tasks.ended.extend((!is_requested).then(|| id.to_owned()));
                let is_known = tasks.running.remove(id).is_some();
                (!is_known).then(|| format!("`{id}` has ended for {subject} without a start"))
            }
        }
    }

    /// Notes the start of a call.
    pub(super) fn called(&mut self, key: Key, body: &Body, id: &str) -> Option<String> {
        let tasks = self.of(key, body);
        let subject = &tasks.subject;
        let Some(task) = tasks.running.get_mut(id) else { return Some(format!("`{id}` was called for {subject} without a task")) };
        if let Some(stage) = task.stage {
            return Some(format!("`{id}` was called for {subject}, though its stop was at the stage {stage:?}"));
        }
        std::mem::replace(&mut task.is_called, true).then(|| format!("two calls of `{id}` for {subject} at the same time"))
    }

    /// Notes the end of a call.
    pub(super) fn returned(&mut self, key: Key, body: &Body, id: &str) {
        if let Some(task) = self.of(key, body).running.get_mut(id) {
            task.is_called = false;
        }
    }

    /// Notes that the operator has removed its finalizer from an object that is being deleted.
    pub(super) fn released(&self, key: &Key) -> Vec<String> {
        let Some(tasks) = self.objects.get(key) else { return Vec::new() };
        let held = tasks.running.iter().filter(|(_, task)| task.stage != Some(Stage::Abandoned));
        held.map(|(id, _)| format!("{} lost its finalizer, though `{id}` was still running", tasks.subject)).collect()
    }

    /// Checks the tasks at the end: exactly those of matching handlers run. `find` returns the object as stored and its handlers.
    pub(super) fn verify(&self, mut find: impl FnMut(&Key) -> Option<(Body, SpawningHandlers)>) -> Vec<String> {
        let mut violations = Vec::new();
        for (key, tasks) in self.objects.iter().filter(|(_, tasks)| !tasks.has_failed) {
            let subject = &tasks.subject;
            let running: BTreeSet<&str> =
                tasks.running.iter().filter(|(_, task)| task.stage.is_none()).map(|(id, _)| id.as_str()).collect();
            let Some((body, handlers)) = find(key) else {
                violations.extend(running.iter().map(|id| format!("`{id}` is running for {subject}, which is deleted")));
                continue;
            };
            // Expressions are evaluated by the operator only.
            let Ok(matching) = select::spawning(&handlers, &tasks.ended, View { body: &body, change: None }, &Answers::default()) else {
                continue;
            };
            let wanted: BTreeSet<&str> =
                if body.is_deleting() { BTreeSet::new() } else { matching.iter().map(|handler| handler.id.as_str()).collect() };
            violations.extend(wanted.difference(&running).map(|id| format!("`{id}` is not running for {subject}, though it matches")));
            violations.extend(running.difference(&wanted).map(|id| format!("`{id}` is running for {subject}, though it does not match")));
        }
        violations
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handling::{Handler, On};
    use serde_json::{Value, json};
    use std::sync::Arc;

    fn body(metadata: Value) -> Body {
        let mut body = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}});
        body["metadata"].as_object_mut().unwrap().extend(metadata.as_object().unwrap().clone());
        Body::from(body)
    }

    fn key() -> Key {
        (0, "u".to_owned())
    }

    #[test]
    fn a_second_task_or_a_task_of_a_deleted_object_is_a_violation() {
        let (mut checks, alive) = (BackgroundChecks::default(), body(json!({})));
        let mut task = |body: &Body, event| checks.task(key(), body, "t", event);
        assert_eq!(task(&alive, TaskEvent::Started), None);
        assert_eq!(task(&alive, TaskEvent::Started).as_deref(), Some("`t` was started twice for Pod x"));
        assert_eq!(task(&alive, TaskEvent::Ended { is_requested: true }), None);
        let deleting = body(json!({"deletionTimestamp": "2020-01-01T00:00:00Z"}));
        assert_eq!(task(&deleting, TaskEvent::Started).as_deref(), Some("`t` was started for Pod x, which is deleted"));
        assert_eq!(task(&alive, TaskEvent::Ended { is_requested: false }), None);
        assert_eq!(task(&alive, TaskEvent::Started).as_deref(), Some("`t` was started again for Pod x, though it had ended on its own"));
    }

    #[test]
    fn calls_need_a_task_that_was_not_asked_to_stop_and_no_other_call() {
        let (mut checks, body) = (BackgroundChecks::default(), body(json!({})));
        assert_eq!(checks.called(key(), &body, "t").as_deref(), Some("`t` was called for Pod x without a task"));
        checks.task(key(), &body, "t", TaskEvent::Started);
        assert_eq!(checks.called(key(), &body, "t"), None);
        assert_eq!(checks.called(key(), &body, "t").as_deref(), Some("two calls of `t` for Pod x at the same time"));
        checks.returned(key(), &body, "t");
        assert_eq!(checks.called(key(), &body, "t"), None);
        checks.task(key(), &body, "t", TaskEvent::Stopping(Stage::Asked));
        assert_eq!(checks.called(key(), &body, "t").as_deref(), Some("`t` was called for Pod x, though its stop was at the stage Asked"));
        assert_eq!(checks.released(&key()), ["Pod x lost its finalizer, though `t` was still running"]);
        checks.task(key(), &body, "t", TaskEvent::Stopping(Stage::Abandoned));
        assert!(checks.released(&key()).is_empty());
    }

    #[test]
    fn at_the_end_exactly_the_tasks_of_matching_objects_run() {
        let (mut checks, body) = (BackgroundChecks::default(), body(json!({})));
        let handlers = || SpawningHandlers::of([Arc::new(Handler::simple("t", On::Timer))]);
        let verify = |checks: &BackgroundChecks, found: Option<Body>| checks.verify(|_| Some((found.clone()?, handlers())));
        checks.object_seen(key(), &body);
        assert_eq!(verify(&checks, Some(body.clone())), ["`t` is not running for Pod x, though it matches"]);
        checks.task(key(), &body, "t", TaskEvent::Started);
        assert!(verify(&checks, Some(body.clone())).is_empty());
        assert_eq!(verify(&checks, None), ["`t` is running for Pod x, which is deleted"]);
        checks.run_ended();
        assert!(verify(&checks, Some(body)).is_empty());
    }
}
