//! One cycle: one event of one object, from the cause to the patch, and the sleep until the next attempt.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use crate::cluster::transformed;
use crate::handling::conclude::{Circumstances, conclude, pass_over, uninteresting};
use crate::handling::echo::ignores_echoes;
use crate::handling::finalizer::{self, Adjustment, adjust, is_demanded_by_deletion};
use crate::handling::message::{float, seconds};
use crate::handling::plan::{self, Obstacle};
use crate::handling::progress::time_between;
use crate::handling::sequence::{OwnPatch, Presence, Situation, Step, next};
use crate::handling::{
    Answers, Cause, Change, Handler, Handlers, Lifecycle, Message, Outcome, Plan, Policy, Reason, Record, attempt,
    cause, filter, select,
};
use crate::kit::Stop;
use crate::object::{Body, EventKind, Patch, Resource, Transform, secret};
use crate::persistence::{Storages, Stored, essence, write};
use crate::script::{Call, Object, ObjectMemo, Returned, Subhandling, Subject};

use super::echo::Echo;
use super::mailbox::Mailbox;
use crate::engines::effects::{Effects, ObjectEvent};
use crate::engines::error::Error;
use crate::engines::events::{EngineEvent, EventStream};
use crate::engines::patching::{self, diff_item};
use crate::engines::settling::settled;

/// Maximum sleep, after which the object is touched, so that no watch is silent for too long.
const SLEEP_CAP: Duration = Duration::from_mins(10);

/// Kopf's message at the end of a cycle.
const FINISHED: &str = "Handling cycle is finished, waiting for new changes.";

/// One kind served by one operator.
#[derive(Debug, Clone)]
pub struct Served {
    /// The kind.
    pub resource: Arc<Resource>,
    /// The handlers declared for the kind.
    pub handlers: Handlers,
    /// The fields that are part of its essences because of its handlers.
    pub extra_fields: Vec<Vec<String>>,
    /// The storages of the operator's state.
    pub storages: Arc<Storages>,
    /// Which handlers run in one cycle.
    pub lifecycle: Lifecycle,
    /// The pause between attempts after arbitrary errors.
    pub default_backoff: Duration,
    /// The default error policy of sub-handlers.
    pub sub_defaults: Policy,
    /// Whether events of own patches at the end of a cause can be skipped.
    pub ignores_echoes: bool,
}

impl Served {
    /// Returns the kind with the handlers that are declared for it.
    pub fn new(
        resource: Arc<Resource>,
        handlers: &[Arc<Handler>],
        storages: Arc<Storages>,
        lifecycle: Lifecycle,
        default_backoff: Duration,
    ) -> Self {
        let handlers: Vec<Arc<Handler>> =
            handlers.iter().filter(|handler| handler.concerns(&resource)).cloned().collect();
        let extra_fields = essence::extra_fields(handlers.iter().map(AsRef::as_ref));
        let ignores_echoes =
            essence::is_in_annotations(&storages.diffbase) && handlers.iter().all(|handler| ignores_echoes(handler));
        Self {
            resource,
            handlers: Handlers::of(&handlers),
            extra_fields,
            storages,
            lifecycle,
            default_backoff,
            sub_defaults: Policy::default(),
            ignores_echoes,
        }
    }

    /// Returns the kind with defaults for sub-handlers.
    pub fn with_sub_defaults(self, sub_defaults: Policy) -> Self {
        Self { sub_defaults, ..self }
    }
}

/// The input of one cycle.
pub struct Cycle<'a, W: Effects> {
    /// Its effects.
    pub effects: &'a W,
    /// The kind.
    pub served: &'a Served,
    /// The kind of the event.
    pub event_kind: EventKind,
    /// The object.
    pub body: Body,
    /// The memory of the object.
    pub memory: cause::Memory,
    /// The end of the wait for the event of the operator's last patch.
    pub consistent_at: Option<Timestamp>,
    /// The mailbox of newer events, which interrupt sleeps.
    pub mailbox: &'a Mailbox,
    /// Ends running calls.
    pub stop: Stop,
    /// The object's memo.
    pub memo: ObjectMemo,
    /// The span of its log lines.
    pub span: tracing::Span,
    /// Whether a newer event is queued: changes are handled with that.
    pub is_outdated: bool,
    /// Whether the handlers and the fields are noted for the breaker.
    pub is_noted: bool,
    /// A condition of the status to be written together with other changes.
    pub condition: Option<Transform>,
}

/// The result of a cycle.
#[derive(Debug)]
pub struct Ended {
    /// Whether the cause was handled completely. This is valid even if the patch fails.
    pub handled: bool,
    /// The result of the patch, or the error of the cycle.
    pub result: Result<Sent, Error>,
    /// Recognises the events of the own patch of a finished cause, if they can be skipped.
    pub echo: Option<Echo>,
    /// Results of the handlers, for the breaker.
    pub notes: Notes,
}

/// Results of the handlers of a cycle, for the breaker.
#[derive(Debug, Default)]
pub struct Notes {
    /// The ids of the called handlers.
    pub handlers: Vec<String>,
    /// The paths of the fields that they have changed.
    pub fields: Vec<String>,
    /// The versions that requests of scripts to the object have resulted in.
    pub versions: Vec<String>,
    /// Whether handlers of raw events have made changes.
    pub have_events_written: bool,
    /// Whether handlers of changes were called.
    pub has_called: bool,
    /// Whether one of them has finished, or one of their sub-handlers.
    pub has_advanced: bool,
    /// Whether the cause waits for the event of a patch.
    pub is_postponed: bool,
    /// The time until the next attempt.
    pub delay: Option<Duration>,
}

/// The result of the patches of a cycle.
#[derive(Debug, Default)]
pub struct Sent {
    /// The version that the next cycle waits for.
    pub version: Option<String>,
    /// The functions that could not be applied.
    pub remaining: Vec<Transform>,
    /// The resulting versions of the requests.
    pub versions: Vec<String>,
}

/// The state of a cycle.
#[derive(Default)]
struct State {
    done: Option<Step>,
    patch: Patch,
    began_with_patch: bool,
    own_patch: OwnPatch,
    change: Arc<Change>,
    cause: Option<Cause>,
    is_finalizer_demanded: bool,
    delays: Vec<Duration>,
    has_slept: bool,
    handled: bool,
    sent: Sent,
    notes: Notes,
}

impl State {
    fn delay(&self) -> Option<Duration> {
        self.delays.iter().copied().min()
    }
}

impl<W: Effects> Cycle<'_, W> {
    /// Runs the cycle to its end, including sleeps. It begins with the functions that an earlier cycle could not apply.
    pub async fn run(self, remaining: Vec<Transform>) -> Ended {
        let patch = Patch { transforms: self.still_needed(remaining).await, ..Patch::default() };
        let own_patch = OwnPatch::at_begin(self.is_outdated, self.consistent_at.is_some());
        let mut state = State { began_with_patch: !patch.is_empty(), patch, own_patch, ..State::default() };
        loop {
            let step = next(&self.situation(&state));
            if step >= Step::Patch && state.done < Some(Step::Patch) {
                self.effects.events().emit(&EngineEvent::CycleDecided { delays: &state.delays });
            }
            if step == Step::End {
                self.log_end(&state);
                return self.end(state);
            }
            let handled = state.handled;
            match self.carry_out(step, state).await {
                Ok(after) => state = State { done: Some(step), ..after },
                Err(error) => return Ended { handled, echo: None, result: Err(error), notes: Notes::default() },
            }
        }
    }

    fn end(&self, state: State) -> Ended {
        let (is_postponed, delay, echo) = (self.situation(&state).is_postponed(), state.delay(), self.echo(&state));
        Ended {
            handled: state.handled,
            echo,
            result: Ok(state.sent),
            notes: Notes { is_postponed, delay, ..state.notes },
        }
    }

    /// Returns how to recognise the events of the own patch, if the cause is handled completely and the patch changes
    /// nothing that handlers are called for.
    fn echo(&self, state: &State) -> Option<Echo> {
        let reason = state.cause.as_ref()?.reason;
        let is_settled =
            state.handled && reason != Reason::Delete && state.delays.is_empty() && state.sent.remaining.is_empty();
        if !is_settled || !self.served.ignores_echoes || !state.patch.transforms.is_empty() {
            return None;
        }
        Echo::of(&self.body, &state.patch, &state.sent.versions)
    }

    fn situation(&self, state: &State) -> Situation {
        let finalizer = &self.served.storages.finalizer;
        Situation {
            // The worker has carried out the steps before the cycle.
            done: state.done.or(Some(Step::Readiness)),
            handlers: Presence {
                // Nothing has happened to a revisited object.
                watching: !self.served.handlers.watching.is_empty() && self.event_kind != EventKind::Revisited,
                spawning: !self.served.handlers.spawning.is_empty(),
                changing: !self.served.handlers.changing.is_empty(),
            },
            is_gone: self.event_kind == EventKind::Deleted,
            is_held: self.body.is_deleting() && self.body.has_finalizer(finalizer),
            cause: state.cause.as_ref().map(|cause| cause.reason),
            began_with_patch: state.began_with_patch,
            own_patch: state.own_patch,
            has_patch: !state.patch.is_empty(),
            delay: state.delay(),
            has_slept: state.has_slept,
            ..Situation::default()
        }
    }

    async fn carry_out(&self, step: Step, state: State) -> Result<State, Error> {
        match step {
            Step::Detect => self.detect(state),
            Step::Watch => self.watch(state).await,
            Step::Background => self.update_background(state).await,
            Step::Concern => self.drop_unless_concerned(state).await,
            Step::Finalizer => self.adjust_finalizer(state).await,
            Step::Consistency => Ok(State { own_patch: self.await_own_patch().await, ..state }),
            Step::Changes => self.handle_change(state).await,
            Step::Release => Ok(self.release(state)),
            Step::Patch => self.send_changes(state).await,
            Step::Sleep => Ok(State { has_slept: self.sleep(state.delay().unwrap_or_default()).await, ..state }),
            Step::Touch => self.touch(state).await,
            Step::Index | Step::StandBy | Step::Readiness | Step::End => Ok(state),
        }
    }

    /// Returns the unapplied functions of an earlier cycle, unless they would change nothing: their request may have
    /// succeeded with its answer lost. Then there would be no patch and no further event, and the object would stay
    /// unhandled until its next change.
    async fn still_needed(&self, remaining: Vec<Transform>) -> Vec<Transform> {
        if remaining.is_empty() {
            return remaining;
        }
        let mut changed = (*self.body).clone();
        for transform in &remaining {
            match transformed(transform, changed).await {
                Ok(applied) => changed = applied,
                // The error is reported when the patch is made.
                Err(_) => return remaining,
            }
        }
        if changed == *self.body { Vec::new() } else { remaining }
    }

    fn detect(&self, state: State) -> Result<State, Error> {
        let change = essence::change(&self.served.storages, &self.body, &self.served.extra_fields)?;
        if self.served.handlers.changing.is_empty() {
            return Ok(State { change: Arc::new(change), ..state });
        }
        let cause = cause::detect(self.event_kind, &self.body, &self.served.storages.finalizer, self.memory, change);
        Ok(State { change: Arc::clone(&cause.change), cause: Some(cause), ..state })
    }

    fn object(&self) -> Object {
        Object { resource: Arc::clone(&self.served.resource), body: self.body.clone(), memo: self.memo.clone() }
    }

    /// Returns the subject of functions and expressions: a change, or the raw event.
    fn subject(&self, cause: Option<&Cause>) -> Subject {
        match cause {
            Some(cause) => {
                Subject::Change { object: self.object(), reason: cause.reason, change: Arc::clone(&cause.change) }
            }
            None => Subject::Event { object: self.object(), event_kind: self.event_kind },
        }
    }

    /// Repeats a decision as long as it needs further expressions.
    async fn settled<T, E: Into<Obstacle>>(
        &self,
        cause: Option<&Cause>,
        decide: impl FnMut(&Answers) -> Result<T, E>,
    ) -> Result<T, Error> {
        settled(self.effects, || self.subject(cause), decide).await
    }

    /// Calls the handlers of raw events. Nothing depends on them, and their errors are only logged.
    async fn watch(&self, state: State) -> Result<State, Error> {
        let State { mut patch, mut notes, .. } = state;
        let transforms = patch.transforms.len();
        let view = filter::View { body: &self.body, change: None };
        let selected =
            self.settled(None, |answers| select::watching(&self.served.handlers.watching, view, answers)).await?;
        for handler in selected {
            let record = Record::fresh(self.effects.clock().now(), None);
            self.log_message(&attempt::announce(handler));
            let attempt = Attempt { handler, record: &record, subject: self.subject(None), subhandling: None };
            let returned = self.call(attempt, patch).await?;
            notes.take_writes(&returned);
            if self.is_noted {
                notes.handlers.push(handler.id.clone());
            }
            patch = returned.patch;
            let now = self.effects.clock().now();
            let (outcome, message) =
                attempt::judge(handler, &record, returned.verdict, now, self.served.default_backoff);
            self.log_message(&message);
            if let Some(result) = outcome.result.filter(|result| !result.is_null()) {
                patch.deliver(&handler.id, result);
            }
        }
        if self.is_noted {
            notes.fields.extend(patch.changed_fields(&self.body));
            notes.have_events_written =
                !notes.fields.is_empty() || patch.transforms.len() > transforms || !notes.versions.is_empty();
        }
        Ok(State { patch, notes, ..state })
    }

    async fn update_background(&self, state: State) -> Result<State, Error> {
        let (object, handlers) = (self.object(), &self.served.handlers.spawning);
        let event = ObjectEvent { object: &object, event_kind: self.event_kind, change: &state.change, handlers };
        let demand = self.effects.update_background(event).await?;
        Ok(State { is_finalizer_demanded: demand.demand_finalizer, delays: demand.delays, ..state })
    }

    /// Drops the cause if no change handler concerns the object.
    async fn drop_unless_concerned(&self, state: State) -> Result<State, Error> {
        let Some(cause) = &state.cause else { return Ok(state) };
        let view = filter::View { body: &self.body, change: Some(&cause.change) };
        let is_concerned = self
            .settled(Some(cause), |answers| select::is_concerned(&self.served.handlers.changing, view, answers))
            .await?;
        Ok(if is_concerned { state } else { State { cause: None, ..state } })
    }

    /// Adds or removes the finalizer, if necessary. The cause is then handled with the event of this patch.
    async fn adjust_finalizer(&self, mut state: State) -> Result<State, Error> {
        let is_demanded = state.is_finalizer_demanded
            || match &state.cause {
                None => false,
                Some(cause) => {
                    let view = filter::View { body: &self.body, change: Some(&cause.change) };
                    self.settled(Some(cause), |answers| {
                        is_demanded_by_deletion(&self.served.handlers.changing, view, answers)
                    })
                    .await?
                }
            };
        let name = &self.served.storages.finalizer;
        let adjustment = adjust(is_demanded, &self.body, name);
        if let Some(message) = adjustment.message() {
            self.log_message(&Message::debug(message));
        }
        let transform = match adjustment {
            Adjustment::Add => Transform::AddFinalizer(name.clone()),
            Adjustment::Remove => Transform::RemoveFinalizer(name.clone()),
            Adjustment::None => return Ok(state),
        };
        state.patch.transforms.push(transform);
        Ok(State { cause: None, ..state })
    }

    /// Waits for the event of the operator's last patch, up to the time limit.
    async fn await_own_patch(&self) -> OwnPatch {
        let left =
            self.consistent_at.map(|deadline| time_between(self.effects.clock().now(), deadline)).unwrap_or_default();
        if self.mailbox.sleep(left).await { OwnPatch::Seen } else { OwnPatch::Interrupted }
    }

    fn release(&self, mut state: State) -> State {
        self.log_message(&Message::debug(finalizer::RELEASE));
        state.patch.transforms.push(Transform::RemoveFinalizer(self.served.storages.finalizer.clone()));
        state
    }

    /// Handles the cause.
    async fn handle_change(&self, state: State) -> Result<State, Error> {
        let Some(cause) = &state.cause else { return Ok(state) };
        let is_essence_outdated = essence::is_outdated(&self.served.storages, &self.body);
        let awaits_background = !state.delays.is_empty();
        let (mut patch, mut notes) = (state.patch, state.notes);
        let decision = if cause.reason.is_handled() {
            let now = self.effects.clock().now();
            let records =
                Arc::new(Stored { storages: Arc::clone(&self.served.storages), body: self.body.clone(), now });
            let plan = self.plan(cause, &records, now).await?;
            self.log_plan(&plan, cause);
            let attempts = self.attempt_all(&plan, cause, &records, patch, notes).await?;
            (patch, notes) = (attempts.patch, attempts.notes);
            let owned: Vec<&str> = self.served.handlers.changing.iter().map(|handler| handler.id.as_str()).collect();
            let now = self.effects.clock().now();
            let circumstances =
                Circumstances { change: &cause.change, owned: &owned, is_essence_outdated, awaits_background, now };
            let mut decision = conclude(plan, &attempts.outcomes, &circumstances);
            decision.store.extend(attempts.sub_records);
            if self.is_noted {
                notes.fields.extend(patch.changed_fields(&self.body));
                notes.fields.extend(decision.results.iter().map(|(id, _)| format!("status.{id}")));
            }
            decision
        } else {
            pass_over(cause, is_essence_outdated)
        };
        write::write(&self.served.storages, &self.body, &decision, &mut patch);
        decision.messages.iter().for_each(|message| self.report(message));
        let delays = state.delays.into_iter().chain(decision.delays).collect();
        Ok(State { patch, delays, handled: decision.is_handled, notes, ..state })
    }

    async fn plan<'a>(&'a self, cause: &'a Cause, records: &'a Stored, now: Timestamp) -> Result<Plan<'a>, Error> {
        // One function may be declared several times, for several reasons: only selected ones are called.
        let (handlers, lifecycle) = (&self.served.handlers.changing, self.served.lifecycle);
        let situation = plan::Situation { handlers, body: &self.body, cause, records, lifecycle, now };
        let random_below = |bound| self.effects.random_below(bound);
        self.settled(Some(cause), |answers| plan::plan(&situation, answers, &mut { random_below })).await
    }

    fn log_message(&self, message: &Message) {
        self.effects.events().log_message(message);
    }

    /// Logs a message about the handling of a change, which may also become a Kubernetes Event.
    fn report(&self, message: &Message) {
        self.effects.events().report_handling(&self.body, message);
    }

    fn log_plan(&self, plan: &Plan<'_>, cause: &Cause) {
        plan.messages.iter().for_each(|message| self.report(message));
        if self.effects.events().wants_debugging() {
            let title = cause.reason.capitalised_title();
            self.report(&Message::debug(format!("{title} is in progress: {}", secret::shown(&self.body))));
            if !cause.change.diff.is_empty() && cause.change.old.is_some() && cause.change.new.is_some() {
                let values = secret::Values::of(&self.body);
                let items: Vec<Value> =
                    secret::shown_items(values.as_ref(), &cause.change.diff).iter().map(diff_item).collect();
                self.report(&Message::debug(format!("{title} diff: {}", Value::Array(items))));
            }
        }
    }

    /// Calls the handlers that are due, one after another.
    async fn attempt_all(
        &self,
        plan: &Plan<'_>,
        cause: &Cause,
        records: &Arc<Stored>,
        patch: Patch,
        notes: Notes,
    ) -> Result<Attempts, Error> {
        let mut attempts = Attempts { outcomes: Vec::new(), sub_records: Vec::new(), patch, notes };
        let whole = self.subject(Some(cause));
        for handler in &plan.run {
            let Some(entry) = plan.state.get(&handler.id) else { continue };
            let record = &entry.record;
            self.report(&attempt::announce(handler));
            let (outcome, message) =
                if let Some(failed) = attempt::check_limits(handler, record, self.effects.clock().now()) {
                    failed
                } else {
                    let subject = handler.field.as_ref().map_or_else(|| whole.clone(), |field| whole.reduced_to(field));
                    let subhandling = Some(self.subhandling(handler, cause.reason, records));
                    let returned = self.call(Attempt { handler, record, subject, subhandling }, attempts.patch).await?;
                    attempts.notes.take_writes(&returned);
                    attempts.notes.has_advanced |= returned.attempts.iter().any(|attempted| attempted.outcome.is_final);
                    attempts.patch = returned.patch;
                    attempts.sub_records.extend(returned.records);
                    let now = self.effects.clock().now();
                    let (mut outcome, message) =
                        attempt::judge(handler, record, returned.verdict, now, self.served.default_backoff);
                    outcome.subrefs = returned.subrefs;
                    (outcome, message)
                };
            self.report(&message);
            let (body, retry) = (&self.body, record.retries);
            self.effects.events().emit(&EngineEvent::AttemptJudged { body, handler, retry, outcome: &outcome });
            attempts.notes.has_called = true;
            attempts.notes.has_advanced |= outcome.is_final;
            if self.is_noted {
                attempts.notes.handlers.push(handler.id.clone());
            }
            attempts.outcomes.push((handler.id.clone(), outcome));
        }
        Ok(attempts)
    }

    fn subhandling(&self, handler: &Handler, purpose: Reason, records: &Arc<Stored>) -> Subhandling {
        let parent = self.served.handlers.changing.shared(handler);
        Subhandling {
            parent: parent.unwrap_or_else(|| Arc::new(handler.clone())),
            records: Arc::clone(records) as Arc<dyn crate::handling::Records>,
            purpose,
            lifecycle: self.served.lifecycle,
            default_backoff: self.served.default_backoff,
            defaults: self.served.sub_defaults.clone(),
        }
    }

    /// Calls a handler with the patch so far, and returns the extended patch.
    async fn call(&self, attempt: Attempt<'_>, patch: Patch) -> Result<Returned, Error> {
        let Attempt { handler, record, subject, subhandling } = attempt;
        let call = Call {
            target: handler.target,
            subject,
            patch,
            retry: record.retries,
            started: record.started.at,
            param: handler.param.clone(),
            subhandling,
            stop: self.stop.clone(),
            span: self.span.clone(),
        };
        #[cfg(test)]
        if super::defects::is_on(super::defects::Defect::CallsTwice) {
            self.call_once(handler, call.clone()).await;
        }
        let returned = self.call_once(handler, call).await;
        if returned.is_cancelled {
            self.log_message(&Message::warning(format!("{} is cancelled. Will escalate.", handler.title())));
            return Err(Error::Cancelled);
        }
        Ok(returned)
    }

    async fn call_once(&self, handler: &Handler, call: Call) -> Returned {
        let (events, body, reason, retry) = (self.effects.events(), &self.body, call.subject.reason(), call.retry);
        events.emit(&EngineEvent::HandlerCalled { body, handler, reason, retry });
        let returned = self.effects.call(handler, call).await;
        events.emit(&EngineEvent::HandlerReturned { body, handler, reason, retry, returned: &returned });
        returned
    }

    /// Sends the changes.
    async fn send_changes(&self, mut state: State) -> Result<State, Error> {
        write::touch(&self.served.storages.progress, &self.body, None, &mut state.patch);
        state.patch.transforms.extend(self.condition.clone());
        let sent = self.send(&state.patch, state.sent).await?;
        let delay = state.delays.iter().copied().min();
        if let Some(delay) = delay.filter(|delay| !delay.is_zero()) {
            self.log_message(&Message::debug(format!(
                "Sleeping was skipped because of the patch, {} seconds left.",
                float(delay)
            )));
        }
        Ok(State { sent, ..state })
    }

    async fn send(&self, patch: &Patch, before: Sent) -> Result<Sent, Error> {
        let applied = patching::send(self.effects, &self.served.resource, &self.body, patch, self.mailbox).await?;
        let version = applied.expected_version().or(before.version);
        let remaining = before.remaining.into_iter().chain(applied.remaining).collect();
        let versions = before.versions.into_iter().chain(applied.versions).collect();
        Ok(Sent { version, remaining, versions })
    }

    /// Sleeps until the next attempt is due. Returns whether it slept in full, so that a touch must trigger the next
    /// cycle.
    async fn sleep(&self, delay: Duration) -> bool {
        let begun = self.effects.clock().now();
        let limit = delay.min(SLEEP_CAP);
        if !delay.is_zero() {
            let cap = if delay > SLEEP_CAP { format!(" (capped {})", seconds(SLEEP_CAP)) } else { String::new() };
            self.log_message(&Message::debug(format!(
                "Sleeping for {}{cap} seconds for the delayed handlers.",
                float(delay)
            )));
        }
        let is_full = self.mailbox.sleep(limit).await;
        if self.mailbox.is_closed() {
            return false;
        }
        if !is_full {
            let left = limit.saturating_sub(time_between(begun, self.effects.clock().now()));
            self.log_message(&Message::debug(format!(
                "Sleeping was interrupted by new changes, {} seconds left.",
                float(left)
            )));
        }
        is_full
    }

    async fn touch(&self, state: State) -> Result<State, Error> {
        let mut dummy = Patch::default();
        write::touch(&self.served.storages.progress, &self.body, Some(self.effects.clock().now()), &mut dummy);
        let sent = self.send(&dummy, state.sent).await?;
        Ok(State { sent, ..state })
    }

    fn log_end(&self, state: &State) {
        let situation = self.situation(state);
        let is_idle = !situation.has_patch && situation.delay.is_none() && !situation.is_gone;
        if is_idle && state.cause.is_some() && !situation.is_postponed() {
            self.log_message(&Message::debug(FINISHED));
        }
    }
}

impl Notes {
    /// Takes over the writes of a call to the object.
    fn take_writes(&mut self, returned: &Returned) {
        for write in &returned.self_writes {
            self.versions.push(write.version.clone());
            self.fields.extend(write.fields.iter().cloned());
        }
    }
}

/// One attempt of a handler.
struct Attempt<'a> {
    handler: &'a Handler,
    record: &'a Record,
    subject: Subject,
    subhandling: Option<Subhandling>,
}

/// The results of a cycle's attempts.
struct Attempts {
    outcomes: Vec<(String, Outcome)>,
    sub_records: Vec<(String, Record)>,
    patch: Patch,
    notes: Notes,
}

/// Reports a cycle without changes.
pub fn log_nothing_changed(events: &EventStream) {
    if events.wants_debugging() {
        events.log_message(&Message::debug(uninteresting(Reason::Noop)));
        events.log_message(&Message::debug(FINISHED));
    }
}
