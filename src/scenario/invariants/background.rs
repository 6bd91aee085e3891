//! The rules of timers and daemons: an object has at most one task of a handler, with one call at a time; a task that
//! was asked to stop begins no call; all have ended before the finalizer of a deleted object goes; and at the end,
//! exactly those of matching objects run. `firings` has the rules of the times of calls.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use crate::handling::filter::{Answers, View};
use crate::handling::spawning::Stage;
use crate::handling::timer::Schedule;
use crate::handling::{SpawningHandlers, select};
use crate::manifest::operator::Delay;
use crate::object::Body;

use super::super::timeline::Subject;
use super::firings::Firings;
use super::stored::{Facts, is_same};

/// An event of a timer or daemon.
#[derive(Debug, Clone, Copy)]
pub(crate) enum TaskEvent<'a> {
    /// It was started.
    Started {
        /// When a timer is called; `None` for a daemon.
        schedule: Option<&'a Schedule>,
        /// The delay before its first call.
        initial_delay: Option<Delay>,
    },
    /// Its initial delay was computed, and begins.
    Delayed(Duration),
    /// It is called.
    Called {
        /// The attempts made before.
        retry: u64,
    },
    /// A call has returned.
    Returned,
    /// An attempt was judged.
    Judged {
        /// The delay of the next attempt; `None` if it was the last one.
        retry_in: Option<Duration>,
    },
    /// The changes of an attempt were sent or given up.
    Concluded,
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
    /// When the object has changed last for timers with an idle time; `None` before its first state.
    changed_at: Option<Timestamp>,
    /// The last seen essence, if no handled one is stored.
    essence: Option<Value>,
    /// The last decision which tasks match: the version of the object, and the values of the expressions.
    decided: Option<(String, Answers)>,
}

#[derive(Debug)]
struct RunningTask {
    is_called: bool,
    stage: Option<Stage>,
    firings: Firings,
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
            changed_at: None,
            essence: None,
            decided: None,
        })
    }

    /// Notes that the operator run has ended, with all its tasks. Returns the calls that they have missed until then.
    pub(super) fn run_ended(&mut self, now: Timestamp) -> Vec<String> {
        let missed = self.objects.values().flat_map(|tasks| tasks.overdue(now)).collect();
        self.objects.clear();
        missed
    }

    /// Notes that the operator has received an object.
    pub(super) fn object_seen(&mut self, key: Key, body: &Body) {
        self.of(key, body);
    }

    /// Notes that the tasks of an object follow a state of it.
    pub(super) fn observed(&mut self, key: Key, body: &Body, facts: &Facts, now: Timestamp) {
        let tasks = self.of(key, body);
        let has_changed = match &facts.handled {
            Some(handled) => {
                tasks.essence = None;
                !is_same(handled, &facts.essence)
            }
            None => tasks.essence.replace(facts.essence.clone()).is_none_or(|seen| seen != facts.essence),
        };
        if has_changed || tasks.changed_at.is_none() {
            tasks.changed_at = Some(now);
        }
    }

    /// Notes that it was decided which tasks match a state of an object.
    pub(super) fn decided(&mut self, key: Key, body: &Body, answers: &Answers) {
        let version = body.resource_version().unwrap_or_default().to_owned();
        self.of(key, body).decided = Some((version, answers.clone()));
    }

    /// Notes that the operator has forgotten an object: a later state is its first one.
    pub(super) fn forgotten(&mut self, key: &Key) {
        if let Some(tasks) = self.objects.get_mut(key) {
            (tasks.changed_at, tasks.essence, tasks.decided) = (None, None, None);
        }
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
    pub(super) fn task(
        &mut self,
        key: Key,
        body: &Body,
        id: &str,
        event: TaskEvent<'_>,
        now: Timestamp,
    ) -> Vec<String> {
        let tasks = self.of(key, body);
        let subject = tasks.subject.clone();
        if let TaskEvent::Started { schedule, initial_delay } = event {
            let violation = tasks.started(id, body);
            let firings = Firings::new(schedule.cloned(), initial_delay, now);
            tasks.running.insert(id.to_owned(), RunningTask { is_called: false, stage: None, firings });
            return violation.into_iter().collect();
        }
        let changed_at = tasks.changed_at.unwrap_or(now);
        let Some(task) = tasks.running.get_mut(id) else {
            return match event {
                TaskEvent::Called { .. } => vec![format!("`{id}` was called for {subject} without a task")],
                TaskEvent::Ended { .. } => vec![format!("`{id}` has ended for {subject} without a start")],
                _ => Vec::new(),
            };
        };
        match event {
            TaskEvent::Delayed(delay) => {
                task.firings.begin(delay, now);
                Vec::new()
            }
            TaskEvent::Called { retry } => task.called(id, &subject, retry, now, changed_at),
            TaskEvent::Returned => {
                task.is_called = false;
                Vec::new()
            }
            TaskEvent::Judged { retry_in } if task.stage.is_none() => {
                let violation = task.firings.judged(retry_in, now, changed_at);
                violation.map(|why| format!("`{id}` was judged for {subject} at {now}, {why}")).into_iter().collect()
            }
            TaskEvent::Concluded => {
                task.firings.concluded(now);
                Vec::new()
            }
            TaskEvent::Stopping(stage) => {
                let missed = task.overdue(id, &subject, now, changed_at);
                task.stage = task.stage.max(Some(stage));
                missed.into_iter().collect()
            }
            TaskEvent::Ended { is_requested } => {
                let violation = if is_requested { None } else { task.firings.ended() };
                tasks.running.remove(id);
                tasks.ended.extend((!is_requested).then(|| id.to_owned()));
                violation.map(|why| format!("`{id}` {why}, for {subject}")).into_iter().collect()
            }
            // An attempt may still end after the task was asked to stop.
            TaskEvent::Judged { .. } | TaskEvent::Started { .. } => Vec::new(),
        }
    }

    /// Notes that the operator has removed its finalizer from an object that is being deleted.
    pub(super) fn released(&self, key: &Key) -> Vec<String> {
        let Some(tasks) = self.objects.get(key) else { return Vec::new() };
        let held = tasks.running.iter().filter(|(_, task)| task.stage != Some(Stage::Abandoned));
        held.map(|(id, _)| format!("{} lost its finalizer, though `{id}` was still running", tasks.subject)).collect()
    }

    /// Checks the tasks at the end: exactly those of matching handlers run. `find` returns the object as stored and its
    /// handlers.
    pub(super) fn verify(
        &self,
        now: Timestamp,
        mut find: impl FnMut(&Key) -> Option<(Body, SpawningHandlers)>,
    ) -> Vec<String> {
        let mut violations: Vec<String> = self.objects.values().flat_map(|tasks| tasks.overdue(now)).collect();
        for (key, tasks) in self.objects.iter().filter(|(_, tasks)| !tasks.has_failed) {
            let subject = &tasks.subject;
            let running: BTreeSet<&str> =
                tasks.running.iter().filter(|(_, task)| task.stage.is_none()).map(|(id, _)| id.as_str()).collect();
            let Some((body, handlers)) = find(key) else {
                violations
                    .extend(running.iter().map(|id| format!("`{id}` is running for {subject}, which is deleted")));
                continue;
            };
            // Expressions are evaluated by the operator only. Its values count if they are about this state of the
            // object.
            let is_current = |(version, _): &&(String, Answers)| Some(version.as_str()) == body.resource_version();
            let answers =
                tasks.decided.as_ref().filter(is_current).map(|(_, answers)| answers.clone()).unwrap_or_default();
            let view = View { body: &body, change: None };
            let declared = handlers.iter().map(|handler| handler.id.as_str()).filter(|id| !tasks.ended.contains(*id));
            for id in declared.chain(running.iter().copied()).collect::<BTreeSet<_>>() {
                let of_id = handlers.without(|handler| handler.id != id);
                let matching = select::spawning(&of_id, &BTreeSet::new(), view, &answers);
                let matches =
                    if body.is_deleting() { Ok(false) } else { matching.map(|matching| !matching.is_empty()) };
                match (matches, running.contains(id)) {
                    (Ok(true), false) => {
                        violations.push(format!("`{id}` is not running for {subject}, though it matches"));
                    }
                    (Ok(false), true) => {
                        violations.push(format!("`{id}` is running for {subject}, though it does not match"));
                    }
                    // Without the value of its expression, nothing is known about this handler.
                    (Err(_), _) | (Ok(true), true) | (Ok(false), false) => {}
                }
            }
        }
        violations
    }
}

impl ObjectTasks {
    /// Returns the mistake in a start, if there is one.
    fn started(&self, id: &str, body: &Body) -> Option<String> {
        let subject = &self.subject;
        if self.running.contains_key(id) {
            Some(format!("`{id}` was started twice for {subject}"))
        } else if self.is_gone || body.is_deleting() {
            Some(format!("`{id}` was started for {subject}, which is deleted"))
        } else if self.ended.contains(id) {
            Some(format!("`{id}` was started again for {subject}, though it had ended on its own"))
        } else {
            None
        }
    }

    /// Returns the calls that should have been made before this time.
    fn overdue(&self, now: Timestamp) -> Vec<String> {
        let changed_at = self.changed_at.unwrap_or(now);
        self.running.iter().filter_map(|(id, task)| task.overdue(id, &self.subject, now, changed_at)).collect()
    }
}

impl RunningTask {
    /// Notes the start of a call. Returns the mistake in it, if there is one.
    fn called(
        &mut self,
        id: &str,
        subject: &Subject,
        retry: u64,
        now: Timestamp,
        changed_at: Timestamp,
    ) -> Vec<String> {
        if let Some(stage) = self.stage {
            return vec![format!("`{id}` was called for {subject}, though its stop was at the stage {stage:?}")];
        }
        let is_second = std::mem::replace(&mut self.is_called, true);
        let second = is_second.then(|| format!("two calls of `{id}` for {subject} at the same time"));
        let misplaced = self.firings.called(retry, now, changed_at);
        second
            .into_iter()
            .chain(misplaced.map(|why| format!("`{id}` was called for {subject} at {now}, {why}")))
            .collect()
    }

    /// Returns the action that was due before this time, unless it was asked to stop.
    fn overdue(&self, id: &str, subject: &Subject, now: Timestamp, changed_at: Timestamp) -> Option<String> {
        let overdue = self.firings.overdue(now, changed_at).filter(|_| self.stage.is_none())?;
        Some(format!("`{id}` {overdue}, for {subject} at {now}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handling::timer::Rhythm;
    use crate::handling::{Candidate, Filters, Handler, On, Predicate, Question, Reason};
    use serde_json::{Value, json};
    use std::sync::Arc;

    const STARTED: TaskEvent<'_> = TaskEvent::Started { schedule: None, initial_delay: None };

    fn body(metadata: Value) -> Body {
        let mut body = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "resourceVersion": "1"}});
        body["metadata"].as_object_mut().unwrap().extend(metadata.as_object().unwrap().clone());
        Body::from(body)
    }

    fn key() -> Key {
        (0, "u".to_owned())
    }

    fn at(milliseconds: i64) -> Timestamp {
        Timestamp::from_millisecond(milliseconds).unwrap()
    }

    #[test]
    fn a_second_task_or_a_task_of_a_deleted_object_is_a_violation() {
        let (mut checks, alive) = (BackgroundChecks::default(), body(json!({})));
        let mut task = |body: &Body, event| checks.task(key(), body, "t", event, at(0));
        assert_eq!(task(&alive, STARTED), [""; 0]);
        assert_eq!(task(&alive, STARTED), ["`t` was started twice for Pod x"]);
        assert_eq!(task(&alive, TaskEvent::Ended { is_requested: true }), [""; 0]);
        let deleting = body(json!({"deletionTimestamp": "2020-01-01T00:00:00Z"}));
        assert_eq!(task(&deleting, STARTED), ["`t` was started for Pod x, which is deleted"]);
        assert_eq!(
            task(&alive, TaskEvent::Ended { is_requested: false }),
            ["`t` has ended, though it has further calls, for Pod x"]
        );
        assert_eq!(task(&alive, STARTED), ["`t` was started again for Pod x, though it had ended on its own"]);
        assert_eq!(task(&alive, TaskEvent::Ended { is_requested: true }), [""; 0]);
        assert_eq!(task(&alive, TaskEvent::Ended { is_requested: true }), ["`t` has ended for Pod x without a start"]);
    }

    #[test]
    fn calls_need_a_task_that_was_not_asked_to_stop_and_no_other_call() {
        let (mut checks, body) = (BackgroundChecks::default(), body(json!({})));
        let called =
            |checks: &mut BackgroundChecks| checks.task(key(), &body, "t", TaskEvent::Called { retry: 0 }, at(0));
        assert_eq!(called(&mut checks), ["`t` was called for Pod x without a task"]);
        checks.task(key(), &body, "t", STARTED, at(0));
        assert_eq!(called(&mut checks), [""; 0]);
        assert_eq!(called(&mut checks)[0], "two calls of `t` for Pod x at the same time");
        checks.task(key(), &body, "t", TaskEvent::Returned, at(0));
        checks.task(key(), &body, "t", TaskEvent::Judged { retry_in: Some(Duration::ZERO) }, at(0));
        checks.task(key(), &body, "t", TaskEvent::Concluded, at(0));
        assert_eq!(checks.task(key(), &body, "t", TaskEvent::Called { retry: 1 }, at(0)), [""; 0]);
        checks.task(key(), &body, "t", TaskEvent::Stopping(Stage::Asked), at(0));
        assert_eq!(called(&mut checks), ["`t` was called for Pod x, though its stop was at the stage Asked"]);
        assert_eq!(checks.released(&key()), ["Pod x lost its finalizer, though `t` was still running"]);
        checks.task(key(), &body, "t", TaskEvent::Stopping(Stage::Abandoned), at(0));
        assert!(checks.released(&key()).is_empty());
    }

    #[test]
    fn a_missed_call_is_found_at_a_stop_at_the_end_of_the_run_and_at_the_end_of_all() {
        let missed = "`t` was not called, though it was due at 1970-01-01T00:00:00Z, for Pod x at 1970-01-01T00:00:01Z";
        let started = || {
            let mut checks = BackgroundChecks::default();
            checks.task(key(), &body(json!({})), "t", STARTED, at(0));
            checks
        };
        assert_eq!(started().task(key(), &body(json!({})), "t", TaskEvent::Stopping(Stage::Asked), at(1000)), [missed]);
        assert_eq!(started().run_ended(at(1000)), [missed]);
        assert_eq!(started().verify(at(1000), |_| None)[0], missed);
        let mut stopped = started();
        stopped.task(key(), &body(json!({})), "t", TaskEvent::Stopping(Stage::Asked), at(0));
        assert_eq!(stopped.run_ended(at(1000)), [""; 0]);
    }

    #[test]
    fn a_change_of_the_essence_delays_a_timer_with_an_idle_time() {
        let facts =
            |handled: Option<Value>, essence: Value| Facts { handled, essence, reason: Reason::Noop, is_held: false };
        let schedule = Schedule { rhythm: Rhythm::Once, idle: Some(Duration::from_secs(1)) };
        let body = body(json!({}));
        let called = |states: &[(i64, Facts)], began: i64| {
            let mut checks = BackgroundChecks::default();
            checks.observed(key(), &body, &facts(None, json!(1)), at(0));
            checks.task(
                key(),
                &body,
                "t",
                TaskEvent::Started { schedule: Some(&schedule), initial_delay: None },
                at(0),
            );
            for (now, facts) in states {
                checks.observed(key(), &body, facts, at(*now));
            }
            checks.task(key(), &body, "t", TaskEvent::Called { retry: 0 }, at(began)).len()
        };
        assert_eq!(called(&[(500, facts(None, json!(1)))], 1000), 0, "nothing has changed");
        assert_eq!(
            (called(&[(500, facts(None, json!(2)))], 1000), called(&[(500, facts(None, json!(2)))], 1500)),
            (1, 0)
        );
        assert_eq!(called(&[(500, facts(Some(json!(1)), json!(1)))], 1000), 0, "it was handled");
        assert_eq!(called(&[(500, facts(Some(json!(1)), json!(2)))], 1500), 0);
    }

    #[test]
    fn at_the_end_exactly_the_tasks_of_matching_objects_run() {
        let (mut checks, body) = (BackgroundChecks::default(), body(json!({})));
        let handlers = || SpawningHandlers::of([Arc::new(Handler::simple("t", On::Timer))]);
        let verify = |checks: &BackgroundChecks, found: Option<Body>| {
            checks.verify(at(0), |_| Some((found.clone()?, handlers())))
        };
        checks.object_seen(key(), &body);
        assert_eq!(verify(&checks, Some(body.clone())), ["`t` is not running for Pod x, though it matches"]);
        checks.task(key(), &body, "t", STARTED, at(0));
        assert!(verify(&checks, Some(body.clone())).is_empty());
        assert_eq!(verify(&checks, None), ["`t` is running for Pod x, which is deleted"]);
        checks.task(key(), &body, "unknown", STARTED, at(0));
        assert_eq!(verify(&checks, Some(body.clone())), ["`unknown` is running for Pod x, though it does not match"]);
        assert!(checks.run_ended(at(0)).is_empty());
        assert!(verify(&checks, Some(body)).is_empty());
    }

    #[test]
    fn an_expression_counts_as_the_operator_has_evaluated_it_for_the_last_state() {
        let mut checks = BackgroundChecks::default();
        let asking = Handler {
            filters: Filters { when: Some(Predicate(7)), ..Filters::default() },
            ..Handler::simple("asking", On::Timer)
        };
        let handlers = SpawningHandlers::of([asking, Handler::simple("plain", On::Timer)].map(Arc::new));
        let verify =
            |checks: &BackgroundChecks, body: Body| checks.verify(at(0), |_| Some((body.clone(), handlers.clone())));
        let one = body(json!({}));
        checks.object_seen(key(), &one);
        let plain = "`plain` is not running for Pod x, though it matches";
        assert_eq!(verify(&checks, one.clone()), [plain], "an unknown expression concerns its own handler only");
        let mut answers = Answers::default();
        answers.keep(Question { predicate: Predicate(7), candidate: Candidate::Whole }, true);
        checks.decided(key(), &one, &answers);
        assert_eq!(verify(&checks, one.clone()), ["`asking` is not running for Pod x, though it matches", plain]);
        assert_eq!(verify(&checks, body(json!({"resourceVersion": "2"}))), [plain]);
    }
}
