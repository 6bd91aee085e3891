//! One cycle: one event of one object, from the causes to the patch, and the sleep until the next attempt.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::handling::conclude::conclude;
use crate::handling::finalizer::{self, Adjustment, adjust, is_demanded_by_deletion};
use crate::handling::plan::{Obstacle, Situation, plan};
use crate::handling::progress::seconds_between;
use crate::handling::telling::float;
use crate::handling::{
    Answers, Cause, Change, Handler, Lifecycle, On, Outcome, Plan, Policy, Reason, Record, Telling, Unsettled, Verdict, attempt, cause,
    filter, select,
};
use crate::kit::Stop;
use crate::object::{Body, Patch, Resource, Sighting, Transform};
use crate::persistence::{Storages, Stored, essence, write};
use crate::script::{Call, Evaluation, Object, Returned, Subhandling, Subject};

use super::error::Error;
use super::mailbox::Mailbox;
use super::world::World;

/// Sleeps are cut to this many seconds and followed by a touch, so that no watch is silent for too long.
const SLEEP_CAP: f64 = 600.0;

/// One kind as one operator serves it.
#[derive(Debug)]
pub struct Served {
    /// The kind.
    pub resource: Arc<Resource>,
    /// The handlers declared for the kind.
    pub handlers: Vec<Arc<Handler>>,
    /// The fields that belong to its essences because handlers look at them.
    pub extra_fields: Vec<Vec<String>>,
    /// Where the operator keeps what it remembers.
    pub storages: Arc<Storages>,
    /// How many handlers are run in one cycle.
    pub lifecycle: Lifecycle,
    /// The seconds between attempts after arbitrary errors.
    pub default_backoff: f64,
    /// How errors of sub-handlers are taken where their options do not say.
    pub sub_defaults: Policy,
}

impl Served {
    /// Returns the kind with those of the handlers that are declared for it.
    pub fn new(
        resource: Arc<Resource>,
        handlers: &[Arc<Handler>],
        storages: Arc<Storages>,
        lifecycle: Lifecycle,
        default_backoff: f64,
    ) -> Self {
        let handlers: Vec<Arc<Handler>> = handlers.iter().filter(|handler| handler.concerns(&resource)).cloned().collect();
        let extra_fields = essence::extra_fields(handlers.iter().map(AsRef::as_ref));
        Self { resource, handlers, extra_fields, storages, lifecycle, default_backoff, sub_defaults: Policy::default() }
    }

    /// Returns the kind with defaults for sub-handlers.
    pub fn with_sub_defaults(self, sub_defaults: Policy) -> Self {
        Self { sub_defaults, ..self }
    }

    fn has(&self, is_meant: impl Fn(&Handler) -> bool) -> bool {
        self.handlers.iter().any(|handler| is_meant(handler))
    }

    fn all(&self) -> impl Iterator<Item = &Handler> {
        self.handlers.iter().map(AsRef::as_ref)
    }
}

/// What one cycle is about.
pub struct Cycle<'a, W: World> {
    /// The world around it.
    pub world: &'a W,
    /// The kind.
    pub served: &'a Served,
    /// How the object came to our notice.
    pub sighting: Sighting,
    /// The object.
    pub body: Body,
    /// What is remembered of it.
    pub memory: cause::Memory,
    /// The functions that could not be applied in an earlier cycle.
    pub remaining: Vec<Transform>,
    /// Until when the event of the own last patch is waited for.
    pub consistent_at: Option<Timestamp>,
    /// Where newer events wait; they interrupt sleeps.
    pub mailbox: &'a Mailbox,
    /// Ends running calls.
    pub stop: Stop,
    /// The name of the object's memory in scripts.
    pub memo: Arc<str>,
    /// The span of its log lines.
    pub span: tracing::Span,
}

/// What a cycle leaves behind.
#[derive(Debug, Default)]
pub struct Ended {
    /// The version that the next cycle is to wait for.
    pub version: Option<String>,
    /// The functions that could not be applied.
    pub remaining: Vec<Transform>,
}

/// What was found out about the delays before patching.
struct Handled {
    patch: Patch,
    delays: Vec<f64>,
    is_matched: bool,
}

impl<W: World> Cycle<'_, W> {
    /// Runs the cycle to its end, sleeps included. Whether the cause was handled to its end is known even if the patch fails.
    ///
    /// # Errors
    /// If anything but a handler fails.
    pub async fn run(mut self, is_handled: &mut bool) -> Result<Ended, Error> {
        let handled = self.handle(is_handled).await?;
        self.world.waits(&handled.delays);
        if self.sighting == Sighting::Deleted {
            return Ok(Ended::default());
        }
        self.finish(handled).await
    }

    /// Does everything up to the patch.
    async fn handle(&mut self, is_handled: &mut bool) -> Result<Handled, Error> {
        if self.served.has(|handler| handler.on == On::Index) {
            self.world.index(&self.object(), self.sighting).await?;
        }
        let mut patch = Patch { transforms: self.still_needed().await, ..Patch::default() };
        let was_empty = patch.is_empty();
        let changing = self.served.has(|handler| handler.on.is_changing());
        let change = self.change(changing || self.served.has(|handler| handler.on.is_spawning()))?;
        let cause =
            changing.then(|| cause::detect(self.sighting, &self.body, &self.served.storages.finalizer, self.memory, change.clone()));
        self.watch(&mut patch).await?;
        let companions = self.accompany(&change).await?;
        let mut cause = match cause {
            Some(cause) => self.unless_stealthy(cause).await?,
            None => None,
        };
        let adjustment = self.adjust_finalizer(cause.as_ref(), companions.demand_finalizer, &mut patch).await?;
        if adjustment != Adjustment::None {
            cause = None;
        }
        if let Some(cause) = &cause
            && !self.is_consistent(cause.reason, was_empty, patch.is_empty()).await
        {
            return Ok(Handled { patch, delays: companions.delays, is_matched: false });
        }
        let mut delays = companions.delays;
        if let Some(cause) = &cause {
            *is_handled = self.handle_change(cause, &mut patch, &mut delays).await?;
        }
        if finalizer::is_released(self.sighting, &self.body, &self.served.storages.finalizer, !delays.is_empty()) {
            self.world.tell(Telling::debug(finalizer::RELEASE));
            patch.transforms.push(Transform::RemoveFinalizer(self.served.storages.finalizer.clone()));
        }
        Ok(Handled { patch, delays, is_matched: cause.is_some() })
    }

    /// Takes the functions that are left from an earlier cycle, unless they would change nothing: their request may have been done, and
    /// its answer lost. Then no patch would follow, no event after it, and the object would wait for its next change unhandled.
    async fn still_needed(&mut self) -> Vec<Transform> {
        let remaining = std::mem::take(&mut self.remaining);
        if remaining.is_empty() {
            return remaining;
        }
        let mut changed = (*self.body).clone();
        for transform in &remaining {
            match transform.apply(changed).await {
                Ok(applied) => changed = applied,
                // It is told when the patch is made.
                Err(_) => return remaining,
            }
        }
        if changed == *self.body { Vec::new() } else { remaining }
    }

    fn change(&self, is_needed: bool) -> Result<Change, Error> {
        if !is_needed {
            return Ok(Change::default());
        }
        Ok(essence::change(&self.served.storages, &self.body, &self.served.extra_fields)?)
    }

    fn object(&self) -> Object {
        Object { resource: Arc::clone(&self.served.resource), body: self.body.clone(), memo: Arc::clone(&self.memo) }
    }

    /// Returns what functions and expressions are called for: a change, or the raw event.
    fn subject(&self, cause: Option<&Cause>) -> Subject {
        match cause {
            Some(cause) => Subject::Change { object: self.object(), reason: cause.reason, change: Arc::new(cause.change.clone()) },
            None => Subject::Event { object: self.object(), sighting: self.sighting },
        }
    }

    /// Decides again and again, while there are expressions to be evaluated first.
    async fn settled<T>(&self, cause: Option<&Cause>, mut decide: impl FnMut(&Answers) -> Result<T, Obstacle>) -> Result<T, Error> {
        let mut answers = Answers::default();
        loop {
            let questions = match decide(&answers) {
                Ok(decision) => return Ok(decision),
                Err(Obstacle::Unsettled(Unsettled::Questions(questions))) => questions,
                Err(Obstacle::Unsettled(Unsettled::Malformed(problem))) => return Err(Error::Malformed(problem)),
                Err(Obstacle::Broken(broken)) => return Err(Error::Stored(broken)),
            };
            let subject = self.subject(cause);
            for question in questions {
                let evaluation = Evaluation { predicate: question.predicate, candidate: question.candidate.clone() };
                let holds = self.world.evaluate(&subject, evaluation).await.map_err(Error::Filter)?;
                answers.keep(question, holds);
            }
        }
    }

    /// Runs the handlers of raw events. They are never awaited by anything, and their errors are only told.
    async fn watch(&self, patch: &mut Patch) -> Result<(), Error> {
        if !self.served.has(|handler| handler.on == On::Event) {
            return Ok(());
        }
        let view = filter::View { body: &self.body, change: None };
        let selected = self.settled(None, |answers| Ok(select::watching(self.served.all(), view, answers)?)).await?;
        for handler in selected {
            let now = self.world.clock().now();
            let record = Record::fresh(now, None);
            self.world.tell(attempt::announce(handler));
            let returned = self.call(handler, &record, self.subject(None), None, patch).await?;
            let (outcome, telling) =
                attempt::judge(handler, &record, returned.verdict, self.world.clock().now(), self.served.default_backoff);
            self.world.tell(telling);
            if let Some(result) = outcome.result.filter(|result| !result.is_null()) {
                patch.deliver(&handler.id, result);
            }
        }
        Ok(())
    }

    async fn accompany(&self, change: &Change) -> Result<crate::handling::spawning::Companions, Error> {
        if !self.served.has(|handler| handler.on.is_spawning()) {
            return Ok(crate::handling::spawning::Companions::default());
        }
        self.world.accompany(&self.object(), self.sighting, !change.diff.is_empty()).await
    }

    /// Drops the cause if no handler of changes concerns the object at all.
    async fn unless_stealthy(&self, cause: Cause) -> Result<Option<Cause>, Error> {
        let view = filter::View { body: &self.body, change: Some(&cause.change) };
        let is_concerned = self.settled(Some(&cause), |answers| Ok(select::is_concerned(self.served.all(), view, answers)?)).await?;
        Ok(is_concerned.then_some(cause))
    }

    async fn adjust_finalizer(&self, cause: Option<&Cause>, is_demanded: bool, patch: &mut Patch) -> Result<Adjustment, Error> {
        let is_demanded = is_demanded
            || match cause {
                None => false,
                Some(cause) => {
                    let view = filter::View { body: &self.body, change: Some(&cause.change) };
                    self.settled(Some(cause), |answers| Ok(is_demanded_by_deletion(self.served.all(), view, answers)?)).await?
                }
            };
        let name = &self.served.storages.finalizer;
        let adjustment = adjust(is_demanded, &self.body, name);
        if let Some(message) = adjustment.message() {
            self.world.tell(Telling::debug(message));
        }
        match adjustment {
            Adjustment::Add => patch.transforms.push(Transform::AddFinalizer(name.clone())),
            Adjustment::Remove => patch.transforms.push(Transform::RemoveFinalizer(name.clone())),
            Adjustment::None => {}
        }
        Ok(adjustment)
    }

    /// Waits until the object shows the own last patch, or the time for that is over.
    async fn is_consistent(&self, reason: Reason, was_empty: bool, is_empty: bool) -> bool {
        let Some(deadline) = self.consistent_at.filter(|_| reason != Reason::Gone) else { return was_empty };
        if !is_empty {
            return false;
        }
        let left = deadline.duration_since(self.world.clock().now());
        self.mailbox.sleep(Duration::try_from(left).unwrap_or_default()).await && was_empty
    }

    /// Handles a cause of changes. Returns whether it is handled to its end.
    async fn handle_change(&self, cause: &Cause, patch: &mut Patch, delays: &mut Vec<f64>) -> Result<bool, Error> {
        if !cause.reason.is_handled() {
            self.world.tell(Telling::debug(uninteresting(cause.reason)));
            return Ok(false);
        }
        let now = self.world.clock().now();
        let records = Arc::new(Stored { storages: Arc::clone(&self.served.storages), body: self.body.clone(), now });
        // One function may stand here several times, for several reasons: only those that are selected are called once.
        let handlers: Vec<&Handler> = self.served.all().filter(|handler| handler.on.is_changing()).collect();
        let lifecycle = self.served.lifecycle;
        let situation = Situation { handlers: &handlers, body: &self.body, cause, records: &*records, lifecycle, now };
        let mut plan = self.settled(Some(cause), |answers| plan(&situation, answers, &mut |bound| self.world.chance(bound))).await?;
        self.tell_plan(&plan, cause);
        let mut sub_records = Vec::new();
        let outcomes = self.attempt_all(&plan, cause, &records, patch, &mut sub_records).await?;
        plan.tellings.clear();
        let owned: Vec<&str> = handlers.iter().map(|handler| handler.id.as_str()).collect();
        let mut decision = conclude(plan, &outcomes, &owned, &cause.change, self.world.clock().now());
        decision.store.extend(sub_records);
        write::write(&self.served.storages, &self.body, &decision, patch);
        decision.tellings.into_iter().for_each(|telling| self.world.tell(telling));
        delays.extend(decision.delays);
        Ok(decision.is_handled)
    }

    fn tell_plan(&self, plan: &Plan<'_>, cause: &Cause) {
        plan.tellings.iter().for_each(|telling| self.world.tell(telling.clone()));
        if self.world.is_debugging() {
            let title = cause.reason.capitalised_title();
            self.world.tell(Telling::debug(format!("{title} is in progress: {}", *self.body)));
            if !cause.change.diff.is_empty() && cause.change.old.is_some() && cause.change.new.is_some() {
                let items: Vec<Value> = cause.change.diff.iter().map(diff_item).collect();
                self.world.tell(Telling::debug(format!("{title} diff: {}", Value::Array(items))));
            }
        }
    }

    /// Runs the handlers that are due, one after another.
    async fn attempt_all(
        &self,
        plan: &Plan<'_>,
        cause: &Cause,
        records: &Arc<Stored>,
        patch: &mut Patch,
        sub_records: &mut Vec<(String, Record)>,
    ) -> Result<Vec<(String, Outcome)>, Error> {
        let mut outcomes = Vec::new();
        for handler in &plan.run {
            let Some(entry) = plan.state.get(&handler.id) else { continue };
            let record = &entry.record;
            self.world.tell(attempt::announce(handler));
            let (outcome, telling) = if let Some(failed) = attempt::check_limits(handler, record, self.world.clock().now()) {
                failed
            } else {
                let whole = self.subject(Some(cause));
                let subject = handler.field.as_ref().map_or_else(|| whole.clone(), |field| whole.reduced_to(field));
                let subhandling = self.subhandling(handler, cause.reason, records);
                let returned = self.call(handler, record, subject, Some(subhandling), patch).await?;
                sub_records.extend(returned.records);
                let now = self.world.clock().now();
                let (mut outcome, telling) = attempt::judge(handler, record, returned.verdict, now, self.served.default_backoff);
                outcome.subrefs = returned.subrefs;
                (outcome, telling)
            };
            self.world.tell(telling);
            self.world.concluded(&self.body, handler, record.retries, &outcome);
            outcomes.push((handler.id.clone(), outcome));
        }
        Ok(outcomes)
    }

    fn subhandling(&self, handler: &Handler, purpose: Reason, records: &Arc<Stored>) -> Subhandling {
        let parent = self.served.handlers.iter().find(|known| std::ptr::eq(known.as_ref(), handler)).cloned();
        Subhandling {
            parent: parent.unwrap_or_else(|| Arc::new(handler.clone())),
            records: Arc::clone(records) as Arc<dyn crate::handling::Records>,
            purpose,
            lifecycle: self.served.lifecycle,
            default_backoff: self.served.default_backoff,
            defaults: self.served.sub_defaults.clone(),
        }
    }

    async fn call(
        &self,
        handler: &Handler,
        record: &Record,
        subject: Subject,
        subhandling: Option<Subhandling>,
        patch: &mut Patch,
    ) -> Result<Returned, Error> {
        let call = Call {
            target: handler.target,
            subject,
            patch: std::mem::take(patch),
            retry: record.retries,
            started: record.started.at,
            param: handler.param.clone(),
            subhandling,
            stop: self.stop.clone(),
            span: self.span.clone(),
        };
        let mut returned = self.world.call(handler, call).await;
        if returned.is_cancelled {
            self.world.tell(Telling::warning(format!("{} is cancelled. Will escalate.", handler.title())));
            return Err(Error::Cancelled);
        }
        *patch = std::mem::take(&mut returned.patch);
        Ok(returned)
    }

    /// Sends the patch, and sleeps until the next attempt is due where no event of a patch will come.
    async fn finish(&self, handled: Handled) -> Result<Ended, Error> {
        let Handled { mut patch, delays, is_matched } = handled;
        let delay = delays.into_iter().reduce(f64::min);
        let has_content = !patch.is_empty();
        let mut ended = Ended::default();
        if has_content {
            write::touch(&self.served.storages.progress, &self.body, None, &mut patch);
            self.send(&patch, &mut ended).await?;
        }
        match delay {
            Some(delay) if delay > 0.0 && has_content => {
                self.world.tell(Telling::debug(format!("Sleeping was skipped because of the patch, {} seconds left.", float(delay))));
            }
            Some(delay) => self.sleep(delay, has_content, &mut ended).await?,
            None if !has_content && is_matched => {
                self.world.tell(Telling::debug("Handling cycle is finished, waiting for new changes."));
            }
            None => {}
        }
        Ok(ended)
    }

    async fn send(&self, patch: &Patch, ended: &mut Ended) -> Result<(), Error> {
        let applied = self.world.apply(&self.served.resource, &self.body, patch).await?;
        if applied.is_gone {
            self.world.tell(Telling::debug("Patching was skipped: the object does not exist anymore."));
        }
        if !applied.remaining.is_empty() {
            self.world.tell(
                Telling::debug("Could not apply the patch in full due to conflicts with newer changes. Will try on the next cycle soon.")
                    .followed_by(format!("Remaining: {} functions.", applied.remaining.len())),
            );
        }
        if !applied.inconsistencies.is_empty() {
            let items: Vec<Value> = applied.inconsistencies.iter().map(diff_item).collect();
            self.world.tell(Telling::warning(format!("Merge-patching finished with inconsistencies: {}", Value::Array(items))));
        }
        ended.version = applied.version.or_else(|| ended.version.take());
        ended.remaining.extend(applied.remaining);
        Ok(())
    }

    async fn sleep(&self, delay: f64, has_content: bool, ended: &mut Ended) -> Result<(), Error> {
        let begun = self.world.clock().now();
        let limit = delay.min(SLEEP_CAP);
        if delay > 0.0 {
            let cap = if delay > SLEEP_CAP { format!(" (capped {SLEEP_CAP})") } else { String::new() };
            self.world.tell(Telling::debug(format!("Sleeping for {}{cap} seconds for the delayed handlers.", float(delay))));
        }
        let is_full = self.mailbox.sleep(Duration::try_from(SignedDuration::from_secs_f64(limit)).unwrap_or_default()).await;
        if has_content || self.mailbox.is_closed() {
            return Ok(());
        }
        if !is_full {
            let left = limit - seconds_between(begun, self.world.clock().now());
            self.world.tell(Telling::debug(format!("Sleeping was interrupted by new changes, {} seconds left.", float(left))));
            return Ok(());
        }
        let mut dummy = Patch::default();
        write::touch(&self.served.storages.progress, &self.body, Some(self.world.clock().now()), &mut dummy);
        self.send(&dummy, ended).await
    }
}

fn uninteresting(reason: Reason) -> &'static str {
    match reason {
        Reason::Gone => "Deleted, really deleted, and we are notified.",
        Reason::Free => "Deletion, but we are done with it, and we do not care.",
        _ => "Something has changed, but we are not interested (the essence is the same).",
    }
}

fn diff_item(item: &crate::object::Item) -> Value {
    serde_json::json!([item.op.as_str(), item.path, item.old, item.new])
}

/// A verdict for a handler that nobody could call.
pub fn uncallable(text: impl Into<String>) -> Verdict {
    Verdict::Failed { text: text.into(), representation: String::new(), trace: None }
}
