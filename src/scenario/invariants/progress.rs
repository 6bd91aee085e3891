//! What one operator does with one object, and what it must not do.
//!
//! ```text
//! taken up ──► called ──► returned ──► concluded ──► written ──► answered ──► cycled
//!                              (the attempt waits to be stored)   (it must be stored by now, or the cycle has failed)
//! ```
//!
//! An attempt may be repeated where kopf repeats it: the operator has died, or its cycle has failed, before the attempt was stored; or the
//! operator could not know that it was, since its write was not acknowledged, or the write's event did not come within the consistency
//! time. Such repetitions are counted; any other one is a violation.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use crate::apiserver::kinds::registry::Registry;
use crate::handling::progress::seconds_between;
use crate::handling::{Handler, On, Reason, Record};
use crate::object::Body;
use crate::script::Returned;

use super::super::timeline::Subject;
use super::stored::{Facts, Storage, is_same};
use super::{Ends, Process};

/// Times are compared with this tolerance, in seconds.
const TOLERANCE: f64 = 0.001;

/// What something happens in.
pub struct Context<'a> {
    /// Who does it.
    pub process: Process,
    /// What the operator stores, and where.
    pub storage: &'a Storage,
    /// The kinds of the server.
    pub registry: &'a Registry,
    /// The time.
    pub now: Timestamp,
    /// The object as the server has it; none if it is gone.
    pub current: Option<&'a Body>,
    /// The counts of ends.
    pub tallies: &'a mut Tallies,
    /// What is violated.
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

/// A call.
pub struct Called<'a> {
    /// The handler.
    pub handler: &'a Handler,
    /// Why; none for handlers of raw events.
    pub reason: Option<Reason>,
    /// The attempts made before.
    pub retry: u64,
}

/// An attempt that was made.
#[derive(Debug, Clone)]
pub struct Attempt {
    /// The handler's id.
    pub id: String,
    /// The number of attempts with this one.
    pub retries: u64,
    /// Whether no attempt follows.
    pub is_final: bool,
    /// Whether the handler is one of resuming, whose calls depend on the lives of the operator.
    pub is_resuming: bool,
    /// Whether the operator cannot know of its own last write, so that the attempt may be one too many.
    pub is_excused: bool,
}

impl Attempt {
    fn is_stored_as(&self, record: Option<&Record>) -> bool {
        record.is_some_and(|record| record.is_finished() || (!self.is_final && record.retries >= self.retries))
    }
}

/// The state in which an object was taken up.
#[derive(Debug)]
struct Taken {
    version: Option<u64>,
    facts: Option<Facts>,
}

/// The engine's last write of an object in this life.
#[derive(Debug, Clone, Copy)]
struct Written {
    version: u64,
    at: Timestamp,
    is_acknowledged: bool,
}

/// What one operator does with one object.
pub struct Progress {
    subject: Subject,
    running: usize,
    /// The functions and ids of handlers that were called in this cycle, and whether it was for the raw event.
    called: BTreeSet<(String, String, bool)>,
    /// Attempts that the next write of the object stores.
    pending: Vec<Attempt>,
    /// Handlers whose ends stand on the object.
    recorded: BTreeSet<String>,
    /// Those of them whose records were purged, though their cause has not ended by that.
    purged: BTreeSet<String>,
    /// Handlers of a deletion that have come to their ends, where the removal of the finalizer has met a conflict: it is sent again in the
    /// next cycle, from the memory of the operator.
    carried: BTreeSet<String>,
    /// Handlers of resuming that have come to their ends in this life.
    resumed: BTreeSet<String>,
    taken: Option<Taken>,
    written: Option<Written>,
    has_failed: bool,
    /// How often the essence was another one, its first one included.
    essences: usize,
    /// How often an essence was stored as handled.
    causes: usize,
    /// How many causes may have been handled again.
    repeated_causes: usize,
}

impl Progress {
    /// Returns what is known of an object of which nothing is known.
    pub fn new(subject: Subject) -> Self {
        Self {
            subject,
            running: 0,
            called: BTreeSet::new(),
            pending: Vec::new(),
            recorded: BTreeSet::new(),
            purged: BTreeSet::new(),
            carried: BTreeSet::new(),
            resumed: BTreeSet::new(),
            taken: None,
            written: None,
            has_failed: false,
            essences: 0,
            causes: 0,
            repeated_causes: 0,
        }
    }

    /// Returns the object.
    pub fn subject(&self) -> &Subject {
        &self.subject
    }

    /// Returns how often an essence was stored as handled.
    pub fn causes(&self) -> usize {
        self.causes
    }

    /// Tells whether the last cycle has failed.
    pub fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Notes that a cycle begins.
    pub fn taken_up(&mut self, context: &mut Context<'_>, body: &Body) {
        // A cycle that was cancelled has not told of its end.
        self.give_up(context.process.operator, context.tallies);
        self.called.clear();
        let version = body.resource_version().and_then(|version| version.parse().ok());
        self.taken = Some(Taken { version, facts: context.facts(body) });
    }

    /// Notes a call.
    pub fn called(&mut self, context: &mut Context<'_>, call: &Called<'_>) {
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
        let mut faults: Vec<String> = self.stale().into_iter().collect();
        faults.extend(Self::already_recorded(context, id, call.retry));
        faults.extend(self.already_handled(context, call.handler, reason));
        if matches!(call.handler.on, On::Resume { .. }) && self.resumed.contains(id) {
            faults.push("it was resumed in this life already".to_owned());
        }
        if self.carried.contains(id) {
            faults.push("it has come to its end in this life already".to_owned());
        }
        if faults.is_empty() {
            return;
        }
        if self.may_be_outdated(context) {
            context.tallies.of(context.process.operator, subject, id).repeated += 1;
            self.repeated_causes += 1;
            return;
        }
        context
            .violations
            .extend(faults.into_iter().map(|fault| format!("`{id}#{}` was called for {subject}, though {fault}", call.retry)));
    }

    /// Notes that a call has come back.
    pub fn returned(&mut self, context: &mut Context<'_>, returned: &Returned) {
        self.running = self.running.saturating_sub(1);
        if returned.is_cancelled {
            return;
        }
        for attempted in &returned.attempts {
            if let Some(fault) = Self::already_recorded(context, &attempted.id, attempted.retry) {
                let (id, subject) = (&attempted.id, &self.subject);
                if self.may_be_outdated(context) {
                    context.tallies.of(context.process.operator, subject, id).repeated += 1;
                } else {
                    context.violations.push(format!("`{id}#{}` was called for {subject}, though {fault}", attempted.retry));
                }
            }
            let (id, is_final) = (attempted.id.clone(), attempted.outcome.is_final);
            self.concluded(context, Attempt { id, retries: attempted.retry + 1, is_final, is_resuming: false, is_excused: false });
        }
    }

    /// Notes what an attempt means.
    pub fn concluded(&mut self, context: &mut Context<'_>, attempt: Attempt) {
        let tally = context.tallies.of(context.process.operator, &self.subject, &attempt.id);
        if attempt.is_final && !attempt.is_resuming {
            tally.concluded += 1;
        }
        // Two functions may share an id, and with it a record: what the last of them came to counts.
        let is_other = |other: &Attempt| other.id != attempt.id;
        if self.pending.iter().any(|other| !is_other(other) && other.is_final) {
            tally.repeated += 1;
        }
        self.pending.retain(is_other);
        let is_excused = self.may_be_outdated(context);
        self.pending.push(Attempt { is_excused, ..attempt });
    }

    /// Notes that the object was changed, by whomever.
    pub fn changed(&mut self, context: &mut Context<'_>, before: Option<&Body>, after: Option<&Body>, is_own: bool) {
        let (old, new) = (before.and_then(|body| context.facts(body)), after.and_then(|body| context.facts(body)));
        if let Some(new) = &new {
            self.essences += usize::from(old.as_ref().is_none_or(|old| !is_same(&old.essence, &new.essence)));
        }
        let is_handled = matches!((&old, &new), (Some(old), Some(new)) if new.handled.is_some() && !new.is_handled_as(old));
        let is_released = old.as_ref().is_some_and(|old| old.is_held) && !new.as_ref().is_some_and(|new| new.is_held);
        if is_handled {
            self.causes += 1;
            if let Some(new) = new.as_ref().filter(|_| is_own) {
                self.judge_essence(context, new);
            }
        }
        if is_handled || is_released {
            return self.cause_ended(context);
        }
        let Some(after) = after else { return };
        let recorded = |id: &str| context.storage.record(after, id);
        let (stored, left): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.pending).into_iter().partition(|attempt| attempt.is_stored_as(recorded(&attempt.id).as_ref()));
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
    pub fn answered(&mut self, context: &Context<'_>, version: Option<u64>, is_acknowledged: bool) {
        if let Some(version) = version {
            self.written = Some(Written { version, at: context.now, is_acknowledged });
        }
    }

    /// Notes that a cycle has ended.
    pub fn cycled(&mut self, context: &mut Context<'_>, error: Option<&str>) {
        self.has_failed = error.is_some();
        if error.is_some() {
            // What was sent before the failure is not waited for.
            self.written = self.written.map(|written| Written { is_acknowledged: false, ..written });
        }
        let reason = self.taken.as_ref().and_then(|taken| taken.facts.as_ref()).map(|facts| facts.reason);
        if error.is_none() && reason == Some(Reason::Noop) {
            // Nothing is stored of a resuming that ends at once.
            for attempt in self.pending.extract_if(.., |attempt| attempt.is_final) {
                context.tallies.of(context.process.operator, &self.subject, &attempt.id).repeated += 1;
                self.resumed.extend(attempt.is_resuming.then_some(attempt.id));
            }
        }
        if error.is_some() || context.current.is_none() {
            return self.give_up(context.process.operator, context.tallies);
        }
        if reason == Some(Reason::Delete) {
            self.carried.extend(self.pending.extract_if(.., |attempt| attempt.is_final).map(|attempt| attempt.id));
            self.carried.append(&mut self.purged);
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
            context.violations.push(format!("the record of `{id}` for {subject} was purged before its cause had ended"));
        }
    }

    /// Notes that the operator is no more: what was not stored is repeated.
    pub fn life_ended(&mut self, operator: usize, tallies: &mut Tallies) {
        self.purged.append(&mut self.carried);
        self.give_up(operator, tallies);
        self.running = 0;
        self.called.clear();
        self.resumed.clear();
        (self.taken, self.written, self.has_failed) = (None, None, false);
    }

    /// Tells of causes that were handled though nothing had changed. Ends that still stand on the object are accounted for.
    pub fn judge(&self, operator: usize, tallies: &mut Tallies, violations: &mut Vec<String>) {
        let Self { subject, essences, causes, repeated_causes, .. } = self;
        for id in
            self.recorded.union(&self.carried).chain(self.pending.iter().filter(|attempt| attempt.is_final).map(|attempt| &attempt.id))
        {
            tallies.of(operator, subject, id).repeated += 1;
        }
        if *causes > essences + repeated_causes {
            violations.push(format!("{subject} has had {essences} essences, and {causes} were stored as handled"));
        }
    }

    /// What was not stored will be repeated, or its object is gone.
    fn give_up(&mut self, operator: usize, tallies: &mut Tallies) {
        for attempt in self.pending.drain(..) {
            tallies.of(operator, &self.subject, &attempt.id).repeated += 1;
        }
        for id in std::mem::take(&mut self.purged) {
            self.recorded.remove(&id);
            tallies.of(operator, &self.subject, &id).repeated += 1;
        }
    }

    /// Everything that has come to its end is stored by that.
    fn cause_ended(&mut self, context: &mut Context<'_>) {
        self.purged.clear();
        let mut ended = std::mem::take(&mut self.recorded);
        ended.append(&mut self.carried);
        for attempt in self.pending.drain(..) {
            if !attempt.is_final && context.current.is_some() {
                let (id, subject) = (&attempt.id, &self.subject);
                context.violations.push(format!("the cause of `{id}` for {subject} was ended, though it is to be called again"));
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

    /// The essence that is stored as handled must be that of the object as it was taken up.
    fn judge_essence(&self, context: &mut Context<'_>, new: &Facts) {
        let taken = self.taken.as_ref().and_then(|taken| taken.facts.as_ref());
        if taken.is_some_and(|taken| !new.has_handled(&taken.essence)) {
            context.violations.push(format!("another essence of {} was stored than was handled", self.subject));
        }
    }

    /// Records go only with their cause: when it has ended, or when another one has superseded it.
    fn note_purges(&mut self, context: &mut Context<'_>, (before, old): (&Body, &Facts), after: &Body) {
        let record = |body: &Body, id: &str| context.storage.record(body, id);
        let is_superseded = self
            .recorded
            .iter()
            .filter_map(|id| record(before, id))
            .any(|record| record.purpose.is_some_and(|purpose| purpose != old.reason));
        let gone: Vec<String> =
            self.recorded.iter().filter(|id| record(before, id).is_some() && record(after, id).is_none()).cloned().collect();
        // A cause without changes has no end but this. That of a deletion follows with the finalizer.
        if is_superseded || old.reason == Reason::Noop {
            for id in gone {
                context.tallies.of(context.process.operator, &self.subject, &id).repeated += 1;
            }
        } else {
            self.purged.extend(gone);
        }
    }

    /// Tells that a call is about a state before the operator's own last write.
    fn stale(&self) -> Option<String> {
        let (seen, written) = (self.taken.as_ref()?.version?, self.written?);
        (seen < written.version).then(|| format!("it is about version {seen}, and the operator has written version {}", written.version))
    }

    /// Tells whether the operator cannot know of its own last write.
    fn may_be_outdated(&self, context: &Context<'_>) -> bool {
        let seen = self.taken.as_ref().and_then(|taken| taken.version);
        let Some((seen, written)) = seen.zip(self.written) else { return false };
        let waited = seconds_between(written.at, context.now);
        seen < written.version && (!written.is_acknowledged || waited >= context.storage.consistency_timeout - TOLERANCE)
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
        let taken = self.taken.as_ref()?.facts.as_ref().filter(|_| is_change)?;
        let current = context.facts(context.current?)?;
        let is_handled = current.has_handled(&taken.essence) || !current.is_handled_as(taken);
        is_handled.then(|| "its change is stored as handled".to_owned())
    }
}

/// How often one handler of one object has come to its end, and how often that was stored.
#[derive(Debug, Default, Clone, Copy)]
pub struct Tally {
    /// How often it has come to its end.
    concluded: usize,
    /// How often that was stored.
    stored: usize,
    /// How often it may have been repeated.
    repeated: usize,
}

/// The counts of all handlers of all objects, by the number of the operator.
#[derive(Debug, Default)]
pub struct Tallies(BTreeMap<(usize, Subject, String), Tally>);

impl Tallies {
    fn of(&mut self, operator: usize, subject: &Subject, id: &str) -> &mut Tally {
        self.0.entry((operator, subject.clone(), id.to_owned())).or_default()
    }

    /// Returns the ends that were stored.
    pub fn ends(&self) -> Ends {
        let mut ends = Ends::new();
        for ((_, subject, id), tally) in self.0.iter().filter(|(_, tally)| tally.stored > 0) {
            *ends.entry((subject.clone(), id.clone())).or_default() += tally.stored;
        }
        ends
    }

    /// Tells of ends that are more than were stored, without a reason.
    pub fn judge(&self, violations: &mut Vec<String>) {
        for ((_, subject, id), Tally { concluded, stored, repeated }) in &self.0 {
            if *concluded > stored + repeated {
                violations.push(format!(
                    "`{id}` has come to its end {concluded} times for {subject}: {stored} were stored, and {repeated} repetitions have a reason"
                ));
            }
        }
    }
}
