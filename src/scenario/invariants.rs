//! The invariants that hold under any disturbance: no handler is lost, none is called again after its end was stored,
//! every attempt is stored, and an object has one call at a time.
//!
//! The calls of an operator are compared with the state of the server, independently of the engine's own state.
//! `compare` compares the final objects of two runs.

mod background;
mod firings;
mod pausing;
mod progress;
mod schedules;
mod stored;
mod tally;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Notify;

use crate::apiserver::ApiServer;
use crate::apiserver::storage::store::Change;
use crate::handling::schedule::CronSchedule;
use crate::handling::{Answers, Handler, On, Outcome, Reason};
use crate::kit::Clock;
use crate::manifest::Operator;
use crate::object::Body;
use crate::script::Returned;

use super::timeline::Subject;
use background::BackgroundChecks;
use pausing::PauseChecks;
use progress::{Attempt, Called, Context, Progress};
use schedules::{DeclaredSchedules, Known, ScheduleChecks};
use stored::Storage;
use tally::Tallies;

pub(super) use background::TaskEvent;
pub(super) use progress::Process;
pub(super) use stored::resource as resource_of;
pub(super) use tally::{Completions, HandledCauses};

/// Reported violations of a run. A defect may violate an invariant without end.
const MAX_VIOLATIONS: usize = 10;

/// Checks the invariants of one scenario run over all operator runs.
pub(super) struct Invariants {
    api: ApiServer,
    clock: Clock,
    /// The declarations of each operator in its newest revision.
    declared: Mutex<Arc<Vec<Declared>>>,
    state: Mutex<State>,
    /// Notified when the limit of violations is reached.
    limit_reached: Notify,
}

/// The declarations of an operator that invariants depend on.
struct Declared {
    storage: Storage,
    schedules: DeclaredSchedules,
}

#[derive(Default)]
struct State {
    /// The current operator run.
    run: u32,
    /// Whether it was killed. Its tasks are being dropped.
    is_killed: bool,
    /// All changes up to this revision of the server are processed.
    revision: u64,
    /// The progress of each operator with each object, by operator number and uid.
    objects: BTreeMap<(usize, String), Progress>,
    tallies: Tallies,
    background: BackgroundChecks,
    schedules: ScheduleChecks,
    pauses: PauseChecks,
    /// Objects whose main patch was sent, while the patch of the status may still follow.
    half_written: BTreeSet<Subject>,
    lost_statuses: BTreeSet<Subject>,
    violations: Vec<String>,
}

/// A write request of an operator.
pub(super) struct Write<'a> {
    pub process: Process,
    /// The object before the write.
    pub before: Option<&'a Value>,
    /// The object before or after the write.
    pub object: &'a Value,
    /// `None` for the object itself.
    pub subresource: Option<&'a str>,
    /// Whether the engine has sent it, not a script.
    pub is_of_engine: bool,
    /// The resulting resource version, if the server has carried it out.
    pub version: Option<u64>,
}

/// The findings of a run.
pub(super) struct InvariantReport {
    /// Stored completions of handlers.
    pub completions: Completions,
    /// Handled changes. Consecutive changes may be handled as one.
    pub causes: HandledCauses,
    pub violations: Vec<String>,
    /// Objects whose status may be lost: patching an object and its status takes two requests, and the operators
    /// crashed after the first, or the second failed permanently. kopf behaves the same.
    pub lost_statuses: BTreeSet<Subject>,
}

impl Invariants {
    /// Creates the checker for these operators.
    pub(super) fn new(api: ApiServer, clock: Clock, operators: &[Operator]) -> Self {
        let declared = operators
            .iter()
            .map(|operator| Declared { storage: Storage::of(operator), schedules: DeclaredSchedules::of(operator) });
        let declared = Mutex::new(Arc::new(declared.collect()));
        Self { api, clock, declared, state: Mutex::default(), limit_reached: Notify::new() }
    }

    /// Notes that the files of the same operators have changed.
    pub(super) fn files_changed(&self, operators: &[Operator]) {
        let earlier = self.declared();
        let declared = operators.iter().zip(earlier.iter()).map(|(operator, earlier)| Declared {
            storage: Storage::of(operator).after(&earlier.storage),
            schedules: DeclaredSchedules::of(operator),
        });
        *self.declared.lock() = Arc::new(declared.collect());
    }

    fn declared(&self) -> Arc<Vec<Declared>> {
        Arc::clone(&self.declared.lock())
    }

    /// Waits until there are so many violations that the run can end.
    pub(super) async fn limit_reached(&self) {
        self.limit_reached.notified().await;
    }

    /// Notes the start of an operator run.
    pub(super) fn run_started(&self, run: u32) {
        self.with(Process { run, operator: 0 }, None, |_| {});
    }

    /// Notes that the engine received an object: all earlier writes of it are finished.
    pub(super) fn object_seen(&self, process: Process, body: &Body) {
        self.update(process, body, |progress, context| progress.object_seen(context, body));
        self.check_pause(process, |checks, now| checks.object_seen(process.operator, body, now));
        self.state.lock().half_written.remove(&Subject::of(body));
        self.check_tasks(process, body, |checks, key| {
            checks.object_seen(key, body);
            Vec::new()
        });
    }

    /// Notes that the engine received the end of an object.
    pub(super) fn object_deleted(&self, process: Process, body: &Body) {
        self.check_tasks(process, body, |checks, key| {
            checks.object_deleted(key, body);
            Vec::new()
        });
    }

    /// Notes that the operators are killed, with all their tasks.
    pub(super) fn run_killed(&self) {
        let (run, now) = (self.state.lock().run, self.clock.now());
        self.with(Process { run, operator: 0 }, None, |state| {
            let missed = state.background.run_ended(now);
            state.violations.extend(missed);
            state.is_killed = true;
        });
    }

    /// Records that an operator pauses or resumes.
    pub(super) fn paused(&self, process: Process, is_paused: bool) {
        self.check_pause(process, |checks, now| {
            checks.paused(process.operator, is_paused, now);
            None
        });
        let now = self.clock.now();
        self.with(process, None, |state| state.schedules.paused(process.operator, is_paused, now));
    }

    /// Updates the checks of pauses. Those of earlier runs are ignored.
    fn check_pause(&self, process: Process, check: impl FnOnce(&mut PauseChecks, Timestamp) -> Option<String>) {
        let now = self.clock.now();
        self.with(process, None, |state| {
            if process.run == state.run {
                let violation = check(&mut state.pauses, now);
                state.violations.extend(violation);
            }
        });
    }

    /// Notes an event of a timer or daemon.
    pub(super) fn task(&self, process: Process, body: &Body, handler: &Handler, event: TaskEvent<'_>) {
        let now = self.clock.now();
        if let TaskEvent::Called { .. } = event {
            self.check_pause(process, |checks, now| checks.task_called(process.operator, handler, now));
        }
        self.check_tasks(process, body, |checks, key| checks.task(key, body, &handler.id, event, now));
    }

    /// Notes that the timers and daemons of an object follow a state of it.
    pub(super) fn background_observed(&self, process: Process, body: &Body) {
        let Some(facts) = self.declared()[process.operator].storage.facts(body, &self.api.registry()) else { return };
        let now = self.clock.now();
        self.check_tasks(process, body, |checks, key| {
            checks.observed(key, body, &facts, now);
            Vec::new()
        });
    }

    /// Notes that it was decided which timers and daemons match a state of an object.
    pub(super) fn background_decided(&self, process: Process, body: &Body, answers: &Answers) {
        self.check_tasks(process, body, |checks, key| {
            checks.decided(key, body, answers);
            Vec::new()
        });
    }

    /// Notes that an operator has forgotten an object.
    pub(super) fn object_forgotten(&self, process: Process, uid: &str) {
        self.with(process, None, |state| {
            if process.run == state.run {
                state.background.forgotten(&(process.operator, uid.to_owned()));
            }
        });
    }

    /// Notes the start of a schedule.
    pub(super) fn schedule_started(&self, process: Process, handler: &Handler) {
        self.check_schedule(process, handler, |checks, key, rules, known| {
            checks.started(key, rules, known);
            None
        });
    }

    /// Notes the start of a call of a schedule.
    pub(super) fn schedule_called(&self, process: Process, handler: &Handler, tick: Timestamp, retry: u64) {
        self.check_pause(process, |checks, now| checks.task_called(process.operator, handler, now));
        self.check_schedule(process, handler, |checks, key, _, known| checks.called(&key, tick, retry, known));
    }

    /// Notes the end of a call of a schedule.
    pub(super) fn schedule_ended(&self, process: Process, handler: &Handler) {
        self.check_schedule(process, handler, |checks, key, _, known| {
            checks.ended(&key, known.now);
            None
        });
    }

    /// Updates the checks of a schedule. Those of earlier runs are ignored.
    fn check_schedule(
        &self,
        process: Process,
        handler: &Handler,
        check: impl FnOnce(&mut ScheduleChecks, (usize, String), &CronSchedule, Known) -> Option<String>,
    ) {
        let declared = self.declared();
        let declared = &declared[process.operator].schedules;
        let Some(rules) = declared.rules.get(&handler.id) else { return };
        let known = Known { now: self.clock.now(), done_until: declared.done_until(&self.api, &handler.id) };
        self.with(process, None, |state| {
            if process.run == state.run {
                let violation = check(&mut state.schedules, (process.operator, handler.id.clone()), rules, known);
                state.violations.extend(violation);
            }
        });
    }

    /// Updates the tasks of an object. Tasks of earlier runs are ignored.
    fn check_tasks(
        &self,
        process: Process,
        body: &Body,
        check: impl FnOnce(&mut BackgroundChecks, (usize, String)) -> Vec<String>,
    ) {
        let Some(uid) = body.uid() else { return };
        let key = (process.operator, uid.to_owned());
        self.with(process, None, |state| {
            if process.run == state.run && !state.is_killed {
                let violation = check(&mut state.background, key);
                state.violations.extend(violation);
            }
        });
    }

    pub(super) fn called(&self, process: Process, body: &Body, handler: &Handler, reason: Option<Reason>, retry: u64) {
        self.update(process, body, |progress, context| progress.called(context, &Called { handler, reason, retry }));
    }

    /// Notes that a call has returned.
    pub(super) fn returned(&self, process: Process, body: &Body, returned: &Returned) {
        self.update(process, body, |progress, context| progress.returned(context, returned));
    }

    /// Notes a judged attempt.
    pub(super) fn attempt_judged(
        &self,
        process: Process,
        body: &Body,
        handler: &Handler,
        retry: u64,
        outcome: &Outcome,
    ) {
        let is_resuming = matches!(handler.on, On::Resume { .. });
        let attempt = Attempt {
            id: handler.id.clone(),
            retries: retry + 1,
            is_final: outcome.is_final,
            is_resuming,
            is_excused: false,
        };
        self.update(process, body, |progress, context| progress.attempt_judged(context, attempt));
    }

    /// Notes the end of a cycle.
    pub(super) fn cycle_ended(&self, process: Process, body: &Body, error: Option<&str>) {
        self.update(process, body, |progress, context| progress.cycle_ended(context, error));
        self.check_pause(process, |checks, now| {
            checks.cycle_ended(process.operator, body, now);
            None
        });
        self.check_tasks(process, body, |checks, key| {
            checks.cycle_ended(key, body, error.is_some());
            Vec::new()
        });
        let mut state = self.state.lock();
        let subject = Subject::of(body);
        if error.is_some() && state.half_written.remove(&subject) {
            state.lost_statuses.insert(subject);
        }
    }

    /// Notes a write that reached the server.
    pub(super) fn written(&self, write: &Write<'_>) {
        let subject = Subject::of(write.object);
        self.with(write.process, write.version.filter(|_| write.is_of_engine), |state| {
            if let Some(key) = self.released(write) {
                state.violations.extend(state.background.released(&key));
            }
        });
        if write.is_of_engine && write.version.is_some() {
            let mut state = self.state.lock();
            match write.subresource {
                None => drop(state.half_written.insert(subject)),
                Some("status") => drop(state.half_written.remove(&subject)),
                Some(_) => {}
            }
        }
    }

    /// Returns the operator and the object if the write has removed the operator's finalizer from an object that is
    /// being deleted.
    fn released(&self, write: &Write<'_>) -> Option<(usize, String)> {
        let before = Body::from(write.before.filter(|_| write.is_of_engine && write.version.is_some())?.clone());
        let declared = self.declared();
        let (storage, uid) = (&declared[write.process.operator].storage, before.uid()?);
        let after = self.api.by_uid(uid).map(|(_, _, stored)| Body::from((*stored.value).clone()));
        let is_released = storage.holds(&before) && !after.is_some_and(|after| storage.holds(&after));
        // As in kopf, an object that has ceased to match all timers and daemons does not wait for their end.
        let waits = before.is_deleting() && storage.is_matched(&before, &self.api.registry());
        (is_released && waits).then(|| (write.process.operator, uid.to_owned()))
    }

    /// Notes that the engine received the answer to its write, or an error.
    pub(super) fn answered(&self, write: &Write<'_>, is_acknowledged: bool) {
        if write.is_of_engine && self.is_of_cycle(write) {
            let body = Body::from(write.object.clone());
            self.update(write.process, &body, |progress, context| {
                progress.answered(context, write.version, is_acknowledged);
            });
        }
    }

    /// Tells whether a cycle has sent a write. Where there are timers and daemons, only cycles write the operator's own
    /// state.
    fn is_of_cycle(&self, write: &Write<'_>) -> bool {
        let declared = self.declared();
        let storage = &declared[write.process.operator].storage;
        let after = Body::from(write.object.clone());
        storage.spawning(&after, &self.api.registry()).is_empty()
            || write
                .before
                .is_none_or(|before| storage.own_state(&Body::from(before.clone())) != storage.own_state(&after))
    }

    /// Notes that no write is outstanding.
    pub(super) fn settled(&self) {
        self.state.lock().half_written.clear();
    }

    /// Returns the existing objects whose last cycle failed in the current operator run.
    pub(super) fn failed_objects(&self) -> Vec<Subject> {
        let state = self.state.lock();
        let failed = state.objects.iter().filter(|(_, progress)| progress.has_failed());
        let failed = failed.filter(|((_, uid), _)| self.api.by_uid(uid).is_some());
        failed.map(|(_, progress)| progress.subject().clone()).collect()
    }

    /// Returns the result of the run.
    pub(super) fn verdict(&self) -> InvariantReport {
        let run = self.state.lock().run;
        let declared = self.declared();
        self.with(Process { run, operator: 0 }, None, |state| {
            let State { objects, tallies, violations, .. } = &mut *state;
            for ((operator, _), progress) in objects.iter() {
                progress.verify(*operator, tallies, violations);
            }
            state.tallies.verify(&mut state.violations);
            let of_tasks = state.background.verify(self.clock.now(), |(operator, uid)| {
                let (_, _, stored) = self.api.by_uid(uid)?;
                let body = Body::from((*stored.value).clone());
                let handlers = declared[*operator].storage.spawning(&body, &self.api.registry());
                Some((body, handlers))
            });
            state.violations.extend(of_tasks);
            let known = |(operator, id): &(usize, String)| Known {
                now: self.clock.now(),
                done_until: declared[*operator].schedules.done_until(&self.api, id),
            };
            state.violations.extend(state.schedules.verify(known));
            let mut causes = HandledCauses::new();
            for progress in state.objects.values() {
                *causes.entry(progress.subject().clone()).or_default() += progress.causes();
            }
            let (violations, lost_statuses) = (state.violations.clone(), state.lost_statuses.clone());
            InvariantReport { completions: state.tallies.completions(), causes, violations, lost_statuses }
        })
    }

    /// Updates the progress of one operator with one object.
    fn update(&self, process: Process, body: &Body, act: impl FnOnce(&mut Progress, &mut Context<'_>)) {
        let Some(uid) = body.uid() else { return };
        let (registry, declared) = (self.api.registry(), self.declared());
        let current = self.api.by_uid(uid).map(|(_, _, stored)| Body::from((*stored.value).clone()));
        self.with(process, None, |state| {
            let State { objects, tallies, violations, .. } = state;
            let progress =
                objects.entry((process.operator, uid.to_owned())).or_insert_with(|| Progress::new(Subject::of(body)));
            let storage = &declared[process.operator].storage;
            let mut context = Context {
                process,
                storage,
                registry: &registry,
                now: self.clock.now(),
                current: current.as_ref(),
                tallies,
                violations,
            };
            act(progress, &mut context);
        });
    }

    /// Processes the changes that the server has stored meanwhile, then acts on the state. `own` is a version that an
    /// engine has just written.
    fn with<T>(&self, process: Process, own: Option<u64>, act: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.lock();
        let changes = self.api.all_changes_after(state.revision);
        for change in changes {
            state.revision = change.revision;
            self.process_change(
                &mut state,
                &change,
                own.filter(|own| *own == change.revision).map(|_| process.operator),
            );
        }
        if process.run > state.run {
            (state.run, state.is_killed) = (process.run, false);
            let State {
                objects, tallies, background, schedules, pauses, half_written, lost_statuses, violations, ..
            } = &mut *state;
            violations.extend(background.run_ended(self.clock.now()));
            pauses.run_ended();
            schedules.run_ended();
            for ((operator, _), progress) in objects.iter_mut() {
                progress.run_ended(*operator, tallies);
            }
            lost_statuses.append(half_written);
        }
        let result = act(&mut state);
        if state.violations.len() >= MAX_VIOLATIONS {
            state.violations.truncate(MAX_VIOLATIONS);
            self.limit_reached.notify_one();
        }
        result
    }

    /// Processes a change of an object for all operators.
    fn process_change(&self, state: &mut State, change: &Change, writer: Option<usize>) {
        let registry = self.api.registry();
        let body = |stored: Option<Arc<crate::apiserver::storage::store::Stored>>| {
            stored.map(|stored| Body::from((*stored.value).clone()))
        };
        let (before, after) = (body(change.before()), body(change.after()));
        let Some(object) = after.as_ref().or(before.as_ref()) else { return };
        let Some(uid) = object.uid() else { return };
        for (operator, Declared { storage, .. }) in self.declared().iter().enumerate() {
            if !storage.serves(object, &registry) {
                continue;
            }
            let State { objects, tallies, violations, run, .. } = state;
            let progress =
                objects.entry((operator, uid.to_owned())).or_insert_with(|| Progress::new(Subject::of(object)));
            let process = Process { run: *run, operator };
            let now = self.clock.now();
            let mut context =
                Context { process, storage, registry: &registry, now, current: after.as_ref(), tallies, violations };
            progress.changed(&mut context, before.as_ref(), after.as_ref(), writer == Some(operator));
        }
    }
}
