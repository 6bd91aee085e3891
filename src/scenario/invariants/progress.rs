//! The progress of one operator with one object, and the rules that it must follow.
//!
//! ```text
//! seen ──► called ──► returned ──► judged ──► written ──► answered ──► cycle ended
//!                           (not stored yet)                     (stored, or the cycle has failed)
//! ```
//!
//! An attempt may be repeated where kopf repeats it: the operator crashed, or its cycle failed, before the attempt was
//! stored; or the operator could not know that it was, since the write was not acknowledged, or its event did not
//! arrive within the consistency time. Such repetitions are counted; any other is a violation.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;

use crate::apiserver::kinds::registry::Registry;
use crate::handling::progress::time_between;
use crate::handling::{Handler, On, Reason, Record};
use crate::object::Body;
use crate::script::Returned;

use super::super::timeline::Subject;
use super::stored::{Facts, Storage, is_same};
use super::tally::Tallies;

/// Tolerance when times are compared.
const TOLERANCE: Duration = Duration::from_millis(1);

/// An operator in one run of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Process {
    /// Number of the operator run. Work of earlier runs is abandoned.
    pub run: u32,
    /// Number of the operator in the scenario.
    pub operator: usize,
}

/// The surroundings of an event.
pub(super) struct Context<'a> {
    pub process: Process,
    pub storage: &'a Storage,
    /// The kinds of the server.
    pub registry: &'a Registry,
    pub now: Timestamp,
    /// The object on the server; `None` if it is deleted.
    pub current: Option<&'a Body>,
    pub tallies: &'a mut Tallies,
    pub violations: &'a mut Vec<String>,
}

impl Context<'_> {
    fn facts(&self, body: &Body) -> Option<Facts> {
        self.storage.facts(body, self.registry)
    }

    fn current_record(&self, id: &str) -> Option<Record> {
        self.storage.record(self.current?, id)
    }
}

/// A call of a handler.
pub(super) struct Called<'a> {
    pub handler: &'a Handler,
    /// `None` for handlers of raw events.
    pub reason: Option<Reason>,
    /// Number of earlier attempts.
    pub retry: u64,
}

/// An attempt that was made.
#[derive(Debug, Clone)]
pub(super) struct Attempt {
    /// Id of the handler.
    pub id: String,
    /// Number of attempts including this one.
    pub retries: u64,
    /// Whether no attempt follows.
    pub is_final: bool,
    /// Whether it is a resume handler, whose calls depend on the operator runs.
    pub is_resuming: bool,
    /// Whether the operator cannot know of its own last write, so that the attempt may be a repetition.
    pub is_excused: bool,
}

impl Attempt {
    fn is_stored_as(&self, record: Option<&Record>) -> bool {
        record.is_some_and(|record| record.is_finished() || (!self.is_final && record.retries >= self.retries))
    }
}

/// The state of the object that the current cycle handles.
#[derive(Debug)]
struct SeenState {
    version: Option<u64>,
    facts: Option<Facts>,
}

/// The engine's last write of the object in this operator run.
#[derive(Debug, Clone, Copy)]
struct Written {
    version: u64,
    at: Timestamp,
    is_acknowledged: bool,
}

/// The progress of one operator with one object.
pub(super) struct Progress {
    subject: Subject,
    running: usize,
    /// Functions and ids of the handlers called in this cycle, and whether for the raw event.
    called: BTreeSet<(String, String, bool)>,
    /// Attempts that the next write must store.
    pending: Vec<Attempt>,
    /// Completed handlers whose end is stored on the object.
    recorded: BTreeSet<String>,
    /// Recorded handlers whose records were purged before the cause ended.
    purged: BTreeSet<String>,
    /// Completed deletion handlers whose removal of the finalizer met a conflict: the operator keeps it in memory and
    /// sends it again in the next cycle.
    kept_in_memory: BTreeSet<String>,
    /// Resume handlers that completed in this operator run.
    resumed: BTreeSet<String>,
    seen_state: Option<SeenState>,
    written: Option<Written>,
    has_failed: bool,
    /// How often the essence changed, including its first value.
    essences: usize,
    /// How often an essence was stored as handled.
    causes: usize,
    /// How many causes may have been handled twice.
    repeated_causes: usize,
}

impl Progress {
    /// Creates the progress of an object that was never handled.
    pub(super) fn new(subject: Subject) -> Self {
        Self {
            subject,
            running: 0,
            called: BTreeSet::new(),
            pending: Vec::new(),
            recorded: BTreeSet::new(),
            purged: BTreeSet::new(),
            kept_in_memory: BTreeSet::new(),
            resumed: BTreeSet::new(),
            seen_state: None,
            written: None,
            has_failed: false,
            essences: 0,
            causes: 0,
            repeated_causes: 0,
        }
    }

    pub(super) fn subject(&self) -> &Subject {
        &self.subject
    }

    /// Returns how often an essence was stored as handled.
    pub(super) fn causes(&self) -> usize {
        self.causes
    }

    /// Tells whether the last cycle failed.
    pub(super) fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Notes the start of a cycle.
    pub(super) fn object_seen(&mut self, context: &mut Context<'_>, body: &Body) {
        // A cancelled cycle reports no end.
        self.excuse_unstored(context.process.operator, context.tallies);
        self.called.clear();
        let version = body.resource_version().and_then(|version| version.parse().ok());
        self.seen_state = Some(SeenState { version, facts: context.facts(body) });
    }

    /// Notes a call, and checks that it is allowed.
    pub(super) fn called(&mut self, context: &mut Context<'_>, call: &Called<'_>) {
        let id = &call.handler.id;
        self.running += 1;
        let is_first = self.called.insert((call.handler.function.clone(), id.clone(), call.reason.is_none()));
        let subject = &self.subject;
        if self.running > 1 {
            context.violations.push(format!("{} calls for {subject} at the same time", self.running));
        }
        if !is_first {
            context.violations.push(format!("`{id}` was called twice for {subject} in one cycle"));
        }
        let Some(reason) = call.reason else { return };
        let mut violations: Vec<String> = self.stale().into_iter().collect();
        violations.extend(Self::already_recorded(context, id, call.retry));
        violations.extend(self.already_handled(context, call.handler, reason));
        if matches!(call.handler.on, On::Resume { .. }) && self.resumed.contains(id) {
            violations.push("it was already resumed in this run".to_owned());
        }
        if self.kept_in_memory.contains(id) {
            violations.push("it has already completed in this run".to_owned());
        }
        if violations.is_empty() {
            return;
        }
        if self.may_be_outdated(context) {
            context.tallies.of(context.process.operator, subject, id).repeated += 1;
            self.repeated_causes += 1;
            return;
        }
        context.violations.extend(
            violations
                .into_iter()
                .map(|violation| format!("`{id}#{}` was called for {subject}, though {violation}", call.retry)),
        );
    }

    /// Notes that a call has returned.
    pub(super) fn returned(&mut self, context: &mut Context<'_>, returned: &Returned) {
        self.running = self.running.saturating_sub(1);
        if returned.is_cancelled {
            return;
        }
        for attempted in &returned.attempts {
            if let Some(violation) = Self::already_recorded(context, &attempted.id, attempted.retry) {
                let (id, subject) = (&attempted.id, &self.subject);
                if self.may_be_outdated(context) {
                    context.tallies.of(context.process.operator, subject, id).repeated += 1;
                } else {
                    context
                        .violations
                        .push(format!("`{id}#{}` was called for {subject}, though {violation}", attempted.retry));
                }
            }
            let (id, is_final) = (attempted.id.clone(), attempted.outcome.is_final);
            self.attempt_judged(
                context,
                Attempt { id, retries: attempted.retry + 1, is_final, is_resuming: false, is_excused: false },
            );
        }
    }

    /// Notes a judged attempt.
    pub(super) fn attempt_judged(&mut self, context: &mut Context<'_>, attempt: Attempt) {
        let tally = context.tallies.of(context.process.operator, &self.subject, &attempt.id);
        if attempt.is_final && !attempt.is_resuming {
            tally.completed += 1;
        }
        // Two functions may share an id and thereby a record: the last outcome counts.
        let is_other = |other: &Attempt| other.id != attempt.id;
        if self.pending.iter().any(|other| !is_other(other) && other.is_final) {
            tally.repeated += 1;
        }
        self.pending.retain(is_other);
        let is_excused = self.may_be_outdated(context);
        self.pending.push(Attempt { is_excused, ..attempt });
    }

    /// Notes a change of the object by any client.
    pub(super) fn changed(
        &mut self,
        context: &mut Context<'_>,
        before: Option<&Body>,
        after: Option<&Body>,
        is_own: bool,
    ) {
        let (old, new) = (before.and_then(|body| context.facts(body)), after.and_then(|body| context.facts(body)));
        if self.essences == 0 && old.is_some() {
            // The kind was not served when the object was created.
            self.essences = 1;
        }
        if let Some(new) = &new {
            self.essences += usize::from(old.as_ref().is_none_or(|old| !is_same(&old.essence, &new.essence)));
        }
        let is_handled =
            matches!((&old, &new), (Some(old), Some(new)) if new.handled.is_some() && !new.is_handled_as(old));
        let is_released = old.as_ref().is_some_and(|old| old.is_held) && !new.as_ref().is_some_and(|new| new.is_held);
        if is_handled {
            self.causes += 1;
            if let Some(new) = new.as_ref().filter(|_| is_own) {
                self.verify_essence(context, new);
            }
        }
        if is_handled || is_released {
            return self.cause_ended(context);
        }
        let Some(after) = after else { return };
        let recorded = |id: &str| context.storage.record(after, id);
        let (stored, left): (Vec<_>, Vec<_>) = std::mem::take(&mut self.pending)
            .into_iter()
            .partition(|attempt| attempt.is_stored_as(recorded(&attempt.id).as_ref()));
        self.pending = left;
        for attempt in stored.into_iter().filter(|attempt| attempt.is_final) {
            self.resumed.extend(attempt.is_resuming.then(|| attempt.id.clone()));
            if !attempt.is_resuming {
                self.recorded.insert(attempt.id);
            }
        }
        if let (Some(before), Some(old), true) = (before, &old, is_own) {
            self.note_purges(context, (before, old), after);
        }
    }

    /// Notes the answer to a write.
    pub(super) fn answered(&mut self, context: &Context<'_>, version: Option<u64>, is_acknowledged: bool) {
        if let Some(version) = version {
            self.written = Some(Written { version, at: context.now, is_acknowledged });
        }
    }

    /// Notes the end of a cycle, and checks that its attempts are stored.
    pub(super) fn cycle_ended(&mut self, context: &mut Context<'_>, error: Option<&str>) {
        self.has_failed = error.is_some();
        if error.is_some() {
            // The engine does not wait for events of requests before the failure.
            self.written = self.written.map(|written| Written { is_acknowledged: false, ..written });
        }
        let reason =
            self.seen_state.as_ref().and_then(|seen_state| seen_state.facts.as_ref()).map(|facts| facts.reason);
        if error.is_none() && reason == Some(Reason::Noop) {
            // A resume handler that completes at once is not stored.
            for attempt in self.pending.extract_if(.., |attempt| attempt.is_final) {
                context.tallies.of(context.process.operator, &self.subject, &attempt.id).repeated += 1;
                self.resumed.extend(attempt.is_resuming.then_some(attempt.id));
            }
        }
        if error.is_some() || context.current.is_none() {
            return self.excuse_unstored(context.process.operator, context.tallies);
        }
        if reason == Some(Reason::Delete) {
            self.kept_in_memory
                .extend(self.pending.extract_if(.., |attempt| attempt.is_final).map(|attempt| attempt.id));
            self.kept_in_memory.append(&mut self.purged);
        }
        let subject = &self.subject;
        for attempt in self.pending.extract_if(.., |attempt| attempt.is_excused) {
            context.tallies.of(context.process.operator, subject, &attempt.id).repeated += 1;
        }
        for Attempt { id, retries, is_final, .. } in self.pending.drain(..) {
            let what = if is_final { "the end of" } else { "an attempt of" };
            context.violations.push(format!("{what} `{id}#{}` for {subject} was not stored", retries - 1));
        }
        for id in std::mem::take(&mut self.purged) {
            context
                .violations
                .push(format!("the record of `{id}` for {subject} was purged before its cause had ended"));
        }
    }

    /// Notes the end of the operator run: attempts that were not stored are repeated.
    pub(super) fn run_ended(&mut self, operator: usize, tallies: &mut Tallies) {
        self.purged.append(&mut self.kept_in_memory);
        self.excuse_unstored(operator, tallies);
        self.running = 0;
        self.called.clear();
        self.resumed.clear();
        (self.seen_state, self.written, self.has_failed) = (None, None, false);
    }

    /// Reports causes that were handled without a change. Completions that are still recorded on the object are
    /// accounted for.
    pub(super) fn verify(&self, operator: usize, tallies: &mut Tallies, violations: &mut Vec<String>) {
        let Self { subject, essences, causes, repeated_causes, .. } = self;
        for id in self
            .recorded
            .union(&self.kept_in_memory)
            .chain(self.pending.iter().filter(|attempt| attempt.is_final).map(|attempt| &attempt.id))
        {
            tallies.of(operator, subject, id).repeated += 1;
        }
        if *causes > essences + repeated_causes {
            violations.push(format!("{subject} had {essences} essences, but {causes} were stored as handled"));
        }
    }

    /// Counts unstored completions as repetitions: they will be repeated, or the object is deleted.
    fn excuse_unstored(&mut self, operator: usize, tallies: &mut Tallies) {
        for attempt in self.pending.drain(..) {
            tallies.of(operator, &self.subject, &attempt.id).repeated += 1;
        }
        for id in std::mem::take(&mut self.purged) {
            self.recorded.remove(&id);
            tallies.of(operator, &self.subject, &id).repeated += 1;
        }
    }

    /// The end of the cause stores all completions.
    fn cause_ended(&mut self, context: &mut Context<'_>) {
        self.purged.clear();
        let mut ended = std::mem::take(&mut self.recorded);
        ended.append(&mut self.kept_in_memory);
        for attempt in self.pending.drain(..) {
            if !attempt.is_final && context.current.is_some() {
                let (id, subject) = (&attempt.id, &self.subject);
                context
                    .violations
                    .push(format!("the cause of `{id}` for {subject} was ended, though a retry is pending"));
            } else if attempt.is_resuming {
                self.resumed.insert(attempt.id);
            } else if attempt.is_final {
                ended.insert(attempt.id);
            }
        }
        for id in ended {
            context.tallies.of(context.process.operator, &self.subject, &id).stored += 1;
        }
    }

    /// The essence stored as handled must be that of the state which the cycle handled.
    fn verify_essence(&self, context: &mut Context<'_>, new: &Facts) {
        let seen_state = self.seen_state.as_ref().and_then(|seen_state| seen_state.facts.as_ref());
        if seen_state.is_some_and(|seen_state| !new.has_handled(&seen_state.essence)) {
            context.violations.push(format!("the essence stored for {} is not the one that was handled", self.subject));
        }
    }

    /// Records may be purged only when their cause ends or is superseded.
    fn note_purges(&mut self, context: &mut Context<'_>, (before, old): (&Body, &Facts), after: &Body) {
        let record = |body: &Body, id: &str| context.storage.record(body, id);
        let is_superseded = self
            .recorded
            .iter()
            .filter_map(|id| record(before, id))
            .any(|record| record.purpose.is_some_and(|purpose| purpose != old.reason));
        let gone: Vec<String> = self
            .recorded
            .iter()
            .filter(|id| record(before, id).is_some() && record(after, id).is_none())
            .cloned()
            .collect();
        // A cause without changes ends by this only. The end of a deletion follows with the finalizer.
        if is_superseded || old.reason == Reason::Noop {
            for id in gone {
                context.tallies.of(context.process.operator, &self.subject, &id).repeated += 1;
            }
        } else {
            self.purged.extend(gone);
        }
    }

    /// Reports a call about a state older than the operator's own last write.
    fn stale(&self) -> Option<String> {
        let (seen, written) = (self.seen_state.as_ref()?.version?, self.written?);
        (seen < written.version)
            .then(|| format!("it is about version {seen}, and the operator has written version {}", written.version))
    }

    /// Tells whether the operator cannot know of its own last write.
    fn may_be_outdated(&self, context: &Context<'_>) -> bool {
        let seen = self.seen_state.as_ref().and_then(|seen_state| seen_state.version);
        let Some((seen, written)) = seen.zip(self.written) else { return false };
        let waited = time_between(written.at, context.now);
        seen < written.version
            && (!written.is_acknowledged || waited + TOLERANCE >= context.storage.consistency_timeout)
    }

    fn already_recorded(context: &Context<'_>, id: &str, retry: u64) -> Option<String> {
        let record = context.current_record(id)?;
        if record.is_finished() {
            return Some("its end is stored on the object".to_owned());
        }
        (record.retries > retry).then(|| format!("{} attempts are stored on the object", record.retries))
    }

    fn already_handled(&self, context: &Context<'_>, handler: &Handler, reason: Reason) -> Option<String> {
        let is_change = matches!(reason, Reason::Create | Reason::Update) && !matches!(handler.on, On::Resume { .. });
        let seen_state = self.seen_state.as_ref()?.facts.as_ref().filter(|_| is_change)?;
        let current = context.facts(context.current?)?;
        let is_handled = current.has_handled(&seen_state.essence) || !current.is_handled_as(seen_state);
        is_handled.then(|| "its change is stored as handled".to_owned())
    }
}
