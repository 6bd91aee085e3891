//! What must be so whatever happens: no handler is lost, none is called again after its end was stored, every attempt is stored, one call
//! at a time for an object.
//!
//! What an operator calls is compared with what the server has, so that the engine's own view decides nothing. That the objects of two
//! runs come to the same end is compared elsewhere.

mod progress;
mod stored;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Notify;

use crate::apiserver::Api;
use crate::apiserver::storage::store::Change;
use crate::handling::{Handler, On, Outcome, Reason};
use crate::kit::Clock;
use crate::manifest::Operator;
use crate::object::Body;
use crate::script::Returned;

use super::timeline::Subject;
use progress::{Attempt, Called, Context, Progress, Tallies};
use stored::Storage;

/// The violations of a run that are told. An operator that does everything twice does it without an end.
const MOST_VIOLATIONS: usize = 10;

/// The ends of handlers that were stored, by object and handler.
pub type Ends = BTreeMap<(Subject, String), usize>;

/// How often an essence was stored as handled, by object.
pub type Causes = BTreeMap<Subject, usize>;

/// Which operator something is about, in which process life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process {
    /// The number of the life. What earlier ones had begun is over.
    pub life: u32,
    /// The number of the operator in the scenario.
    pub operator: usize,
}

/// Watches over the invariants of one run, over all lives of its operators.
pub struct Invariants {
    api: Api,
    clock: Clock,
    /// What each operator stores, and where.
    operators: Vec<Storage>,
    state: Mutex<State>,
    /// There are so many violations that more of them say nothing.
    exhausted: Notify,
}

#[derive(Default)]
struct State {
    /// The life that calls belong to; what earlier ones had begun is over.
    life: u32,
    /// Everything up to this revision of the server is taken into account.
    revision: u64,
    /// What each operator does with each object, by the number of the operator and the unique id.
    objects: BTreeMap<(usize, String), Progress>,
    tallies: Tallies,
    /// Objects that were written themselves, with a write of their status that may follow.
    half_written: BTreeSet<Subject>,
    lost_statuses: BTreeSet<Subject>,
    violations: Vec<String>,
}

/// A request of an operator that was to change an object.
pub struct Write<'a> {
    /// Whose request it is.
    pub process: Process,
    /// The object, before or after it.
    pub object: &'a Value,
    /// The subresource, if it was not the object itself.
    pub subresource: Option<&'a str>,
    /// Whether the engine has sent it, not a script.
    pub is_of_engine: bool,
    /// The version that it has led to, if the server has carried it out.
    pub version: Option<u64>,
}

/// How a run has ended.
pub struct Verdict {
    /// The ends of handlers that were stored.
    pub ends: Ends,
    /// How often a change was handled to its end. Changes that follow each other may be handled as one.
    pub causes: Causes,
    /// What was violated.
    pub violations: Vec<String>,
    /// The objects whose status may be lost: a patch of an object with a status is two requests, and the operators have died after the
    /// first, or the second has failed for good. It is so in kopf, too.
    pub lost_statuses: BTreeSet<Subject>,
}

impl Invariants {
    /// Returns a watch over these operators.
    pub fn new(api: Api, clock: Clock, operators: &[Operator]) -> Self {
        Self { api, clock, operators: operators.iter().map(Storage::of).collect(), state: Mutex::default(), exhausted: Notify::new() }
    }

    /// Waits until so much is violated that the run need not go on.
    pub async fn exhausted(&self) {
        self.exhausted.notified().await;
    }

    /// Notes that the operators live again.
    pub fn begun(&self, life: u32) {
        self.with(Process { life, operator: 0 }, None, |_| {});
    }

    /// Notes that an object was taken up: everything that was to be written before is.
    pub fn taken_up(&self, process: Process, body: &Body) {
        self.of(process, body, |progress, context| progress.taken_up(context, body));
        self.state.lock().half_written.remove(&Subject::of(body));
    }

    /// Notes a call.
    pub fn called(&self, process: Process, body: &Body, handler: &Handler, reason: Option<Reason>, retry: u64) {
        self.of(process, body, |progress, context| progress.called(context, &Called { handler, reason, retry }));
    }

    /// Notes that a call has come back.
    pub fn returned(&self, process: Process, body: &Body, returned: &Returned) {
        self.of(process, body, |progress, context| progress.returned(context, returned));
    }

    /// Notes what an attempt means.
    pub fn concluded(&self, process: Process, body: &Body, handler: &Handler, retry: u64, outcome: &Outcome) {
        let is_resuming = matches!(handler.on, On::Resume { .. });
        let attempt = Attempt { id: handler.id.clone(), retries: retry + 1, is_final: outcome.is_final, is_resuming, is_excused: false };
        self.of(process, body, |progress, context| progress.concluded(context, attempt));
    }

    /// Notes that a cycle has ended.
    pub fn cycled(&self, process: Process, body: &Body, error: Option<&str>) {
        self.of(process, body, |progress, context| progress.cycled(context, error));
        let mut state = self.state.lock();
        let subject = Subject::of(body);
        if error.is_some() && state.half_written.remove(&subject) {
            state.lost_statuses.insert(subject);
        }
    }

    /// Notes that a write has come to the server.
    pub fn wrote(&self, write: &Write<'_>) {
        let subject = Subject::of(write.object);
        self.with(write.process, write.version.filter(|_| write.is_of_engine), |_| {});
        if write.is_of_engine && write.version.is_some() {
            let mut state = self.state.lock();
            match write.subresource {
                None => drop(state.half_written.insert(subject)),
                Some("status") => drop(state.half_written.remove(&subject)),
                Some(_) => {}
            }
        }
    }

    /// Notes that the operator has got the answer to a write of its engine, or a failure in place of it.
    pub fn answered(&self, write: &Write<'_>, is_acknowledged: bool) {
        if write.is_of_engine {
            let body = Body::from(write.object.clone());
            self.of(write.process, &body, |progress, context| progress.answered(context, write.version, is_acknowledged));
        }
    }

    /// Notes that nothing is left to be written.
    pub fn settled(&self) {
        self.state.lock().half_written.clear();
    }

    /// Returns the objects whose last cycles have failed in this life, and that are there.
    pub fn failed_objects(&self) -> Vec<Subject> {
        let state = self.state.lock();
        let failed = state.objects.iter().filter(|(_, progress)| progress.has_failed());
        let failed = failed.filter(|((_, uid), _)| self.api.with(|inner| inner.store.by_uid(uid).is_some()));
        failed.map(|(_, progress)| progress.subject().clone()).collect()
    }

    /// Returns how the run has ended.
    pub fn verdict(&self) -> Verdict {
        let life = self.state.lock().life;
        self.with(Process { life, operator: 0 }, None, |state| {
            let State { objects, tallies, violations, .. } = &mut *state;
            for ((operator, _), progress) in objects.iter() {
                progress.judge(*operator, tallies, violations);
            }
            state.tallies.judge(&mut state.violations);
            let mut causes = Causes::new();
            for progress in state.objects.values() {
                *causes.entry(progress.subject().clone()).or_default() += progress.causes();
            }
            let (violations, lost_statuses) = (state.violations.clone(), state.lost_statuses.clone());
            Verdict { ends: state.tallies.ends(), causes, violations, lost_statuses }
        })
    }

    /// Does something about one object of one operator.
    fn of(&self, process: Process, body: &Body, act: impl FnOnce(&mut Progress, &mut Context<'_>)) {
        let Some(uid) = body.uid() else { return };
        let registry = self.api.registry();
        let current = self.api.with(|inner| inner.store.by_uid(uid)).map(|(_, _, stored)| Body::from((*stored.value).clone()));
        self.with(process, None, |state| {
            let State { objects, tallies, violations, .. } = state;
            let progress = objects.entry((process.operator, uid.to_owned())).or_insert_with(|| Progress::new(Subject::of(body)));
            let storage = &self.operators[process.operator];
            let mut context =
                Context { process, storage, registry: &registry, now: self.clock.now(), current: current.as_ref(), tallies, violations };
            act(progress, &mut context);
        });
    }

    /// Does something after everything that the server has stored meanwhile is taken into account. One version may be known as written by
    /// an engine.
    fn with<T>(&self, process: Process, own: Option<u64>, act: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.lock();
        let changes = self.api.with(|inner| inner.store.all_changes_after(state.revision));
        for change in changes {
            state.revision = change.revision;
            self.note(&mut state, &change, own.filter(|own| *own == change.revision).map(|_| process.operator));
        }
        if process.life > state.life {
            state.life = process.life;
            let State { objects, tallies, half_written, lost_statuses, .. } = &mut *state;
            for ((operator, _), progress) in objects.iter_mut() {
                progress.life_ended(*operator, tallies);
            }
            lost_statuses.append(half_written);
        }
        let result = act(&mut state);
        if state.violations.len() >= MOST_VIOLATIONS {
            state.violations.truncate(MOST_VIOLATIONS);
            self.exhausted.notify_one();
        }
        result
    }

    /// Takes a change of an object into account, for all operators.
    fn note(&self, state: &mut State, change: &Change, writer: Option<usize>) {
        let registry = self.api.registry();
        let body = |stored: Option<std::sync::Arc<crate::apiserver::storage::store::Stored>>| {
            stored.map(|stored| Body::from((*stored.value).clone()))
        };
        let (before, after) = (body(change.before()), body(change.after()));
        let Some(object) = after.as_ref().or(before.as_ref()) else { return };
        let Some(uid) = object.uid() else { return };
        for (operator, storage) in self.operators.iter().enumerate() {
            if !storage.serves(object, &registry) {
                continue;
            }
            let State { objects, tallies, violations, life, .. } = state;
            let progress = objects.entry((operator, uid.to_owned())).or_insert_with(|| Progress::new(Subject::of(object)));
            let process = Process { life: *life, operator };
            let now = self.clock.now();
            let mut context = Context { process, storage, registry: &registry, now, current: after.as_ref(), tallies, violations };
            progress.changed(&mut context, before.as_ref(), after.as_ref(), writer == Some(operator));
        }
    }
}
