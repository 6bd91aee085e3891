//! The life of one task: the initial delay, the attempts with their pauses, and the patches.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::object::{ObjectTasks, Replacement};
use super::options::{BackgroundOptions, TaskOptions};
use super::registry::Registry;
use super::revisions::TaskRevisions;
use super::running::RunningTask;
use crate::cluster::{self, Unconfirmed};
use crate::engines::MIN_ERROR_DELAY;
use crate::engines::effects::{Effects, call_safely};
use crate::engines::error::Error;
use crate::engines::events::{EngineEvent, EventStream};
use crate::engines::patching;
use crate::handling::message::seconds;
use crate::handling::timer::{Made, Now, Phase, Schedule, Step};
use crate::handling::{Handler, Message, Outcome, Predicate, Record, Verdict, attempt, spawning};
use crate::kit::errors::chain;
use crate::kit::tasks::panic_text;
use crate::kit::{Backoff, Clock};
use crate::manifest::operator::Delay;
use crate::object::{Patch, secret};
use crate::script::{Call, LiveBody, Returned, StopFlag, Subject};

/// The dependencies of a task.
pub(super) struct Parts<W: Effects> {
    /// The revisions of the operator.
    pub revisions: Arc<TaskRevisions<W>>,
    /// All tasks.
    pub registry: Arc<Registry>,
    /// The beginning of the time of schedules.
    pub origin: Instant,
    /// The clock.
    pub clock: Clock,
    /// The events of the operator.
    pub events: EventStream,
    /// Its object.
    pub object: Arc<ObjectTasks>,
    /// Its view from outside.
    pub running: Arc<RunningTask>,
    /// The newest state of the object.
    pub live: Arc<LiveBody>,
    /// Its options.
    pub options: Arc<TaskOptions>,
    /// The pauses after failed patches.
    pub error_delays: Arc<[Duration]>,
    /// Its number among all tasks.
    pub number: u64,
}

/// A task. Dropping it removes it from its object.
pub(super) struct Task<W: Effects> {
    parts: Parts<W>,
    /// The handler that starts after it, once it is removed.
    replacement: Arc<Mutex<Option<Replacement>>>,
    record: Record,
    /// The functions that the last patch could not apply.
    patch: Patch,
    error_delays: Backoff,
    /// Whether the last attempt has succeeded.
    has_succeeded: bool,
}

/// The result of an attempt.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Attempted {
    /// The handler has succeeded or failed.
    Finished,
    /// It is called again after a delay.
    Retry(Duration),
    /// The task was cancelled.
    Cancelled,
}

impl<W: Effects> Drop for Task<W> {
    fn drop(&mut self) {
        let Parts { revisions, registry, events, object, running, live, number, .. } = &self.parts;
        let is_requested = running.stopped.is_set() || registry.halt().is_some();
        registry.remove(*number);
        let end = object.end(running, is_requested);
        // The function may have written to the memo after the object was forgotten. If it is watched again, the memo is
        // no longer its own.
        if end.is_last_of_gone
            && let Some((effects, _)) = revisions.newest()
            && !effects.follows(&object.memo.key)
        {
            effects.forget(&object.memo.key);
        }
        *self.replacement.lock() = end.replacement;
        let (body, handler) = (&live.get(), &*running.handler);
        running.span.in_scope(|| events.emit(&EngineEvent::TaskEnded { body, handler, is_requested }));
        running.stopped.raise(StopFlag::Done);
        running.ended.request("the task has ended");
    }
}

impl<W: Effects> Task<W> {
    /// Returns a task that has not begun.
    pub(super) fn new(parts: Parts<W>) -> Self {
        let record = Record::fresh(parts.clock.now(), None);
        let error_delays = Backoff::new(Arc::clone(&parts.error_delays));
        Self { parts, replacement: Arc::default(), record, patch: Patch::default(), error_delays, has_succeeded: false }
    }

    /// Runs until the function has ended, or the task is asked to stop. Returns the handler that replaces it in a new
    /// revision.
    ///
    /// Boxed, because the future would have a place for the task before its first poll, and another one for the time
    /// after it.
    pub(super) async fn run(mut self: Box<Self>) -> Option<Replacement> {
        self.run_to_end().await;
        let replacement = Arc::clone(&self.replacement);
        drop(self);
        replacement.lock().take()
    }

    async fn run_to_end(&mut self) {
        self.await_initial_delay().await;
        let options = Arc::clone(&self.parts.options);
        match &options.schedule {
            Some(schedule) => self.run_timer(schedule).await,
            None => self.run_daemon().await,
        }
    }

    async fn await_initial_delay(&self) {
        let delay = match self.parts.options.initial_delay {
            None => return,
            Some(Delay::Fixed(delay)) => delay,
            Some(Delay::Expression(expression)) => match self.evaluate_delay(expression).await {
                Ok(delay) => self.announce_delay(delay),
                Err(error) => {
                    let text = format!("{}: the initial delay cannot be computed: {error}", self.handler().title());
                    self.log(&Message::error(text).followed_by("Beginning without a delay."));
                    self.announce_delay(Duration::ZERO)
                }
            },
        };
        self.pause(delay).await;
    }

    fn announce_delay(&self, delay: Duration) -> Duration {
        let (body, handler) = (&self.parts.live.get(), self.handler());
        self.parts.events.emit(&EngineEvent::InitialDelayComputed { body, handler, delay });
        delay
    }

    /// Evaluates an expression of the revision that the task was started by.
    async fn evaluate_delay(&self, expression: Predicate) -> Result<Duration, String> {
        let Some((effects, _)) = self.revision() else { return Ok(Duration::ZERO) };
        effects.evaluate_delay(&self.subject(), expression).await
    }

    async fn run_daemon(&mut self) {
        self.record = self.fresh_record();
        while !self.is_stopped() {
            match self.attempt_safely().await {
                Attempted::Retry(delay) => self.pause(delay).await,
                Attempted::Finished => break,
                Attempted::Cancelled => return,
            }
        }
        self.log(&spawning::end_message(self.handler(), self.is_stopped()));
    }

    async fn run_timer(&mut self, schedule: &Schedule) {
        let mut changes = self.parts.object.changes();
        self.record = self.fresh_record();
        let mut phase = schedule.first(self.now());
        while !self.is_stopped() {
            let changed_at = changes.borrow_and_update().saturating_duration_since(self.parts.origin);
            let phase_before = phase;
            let (entered, step) = schedule.next(phase, self.now(), changed_at);
            #[cfg(test)]
            let (entered, step) = super::defects::spoiled((entered, step));
            if entered == Phase::Quiet
                && phase != Phase::Quiet
                && (self.record.is_finished() || self.record.retries == 0)
            {
                self.record = self.fresh_record();
            }
            phase = entered;
            match step {
                Step::Sleep(left) => self.pause(left).await,
                Step::AwaitChange => {
                    self.parts.live.rest(None);
                    tokio::select! {
                        biased;
                        () = self.parts.running.stopped.raised() => {}
                        // The sender lives as long as the object, which this task holds.
                        _ = changes.changed() => {}
                    }
                }
                Step::Call => {
                    let now = self.now();
                    self.parts.options.metrics.late(schedule.lateness(phase_before, now, changed_at));
                    let began = now.elapsed;
                    let retry = match self.attempt_safely().await {
                        Attempted::Finished => None,
                        Attempted::Retry(delay) => Some(delay),
                        Attempted::Cancelled => return,
                    };
                    phase = schedule.after(Made { began, retry }, self.now());
                    #[cfg(test)]
                    if super::defects::fires_again() {
                        phase = Phase::Quiet;
                        self.record = self.fresh_record();
                    }
                }
                Step::End => return,
            }
        }
    }

    /// Makes an attempt. A defect of the engine is logged, and counts as an arbitrary error.
    async fn attempt_safely(&mut self) -> Attempted {
        match AssertUnwindSafe(self.attempt_and_conclude()).catch_unwind().await {
            Ok(attempted) => attempted,
            Err(panic) => {
                self.patch = Patch::default();
                let (outcome, message) = self.judge(Verdict::defect(&panic_text(&*panic)));
                self.log(&message);
                self.emit_judged(&outcome);
                self.emit_concluded();
                self.conclude(&outcome)
            }
        }
    }

    async fn attempt_and_conclude(&mut self) -> Attempted {
        let attempted = self.attempt().await;
        if attempted != Attempted::Cancelled {
            self.emit_concluded();
        }
        attempted
    }

    async fn attempt(&mut self) -> Attempted {
        if let Some((effects, _)) = self.revision() {
            // Each revision has a tally of its own.
            self.parts.events = effects.events().clone();
        }
        let is_repetition = self.is_repetition();
        self.log(&attempt::announce(self.handler()).demoted_if(is_repetition));
        let mut patch = std::mem::take(&mut self.patch);
        let limited = attempt::check_limits(self.handler(), &self.record, self.parts.clock.now());
        let (mut outcome, message) = if let Some(failed) = limited {
            failed
        } else {
            let returned = self.call(patch).await;
            if returned.is_cancelled && self.is_stopped() {
                if self.parts.running.cancelled.is_requested() {
                    self.log(&Message::warning(format!("{} is cancelled. Will escalate.", self.handler().title())));
                }
                return Attempted::Cancelled;
            }
            patch = returned.patch;
            self.judge(returned.verdict)
        };
        // Changes need the line, which says who makes them.
        let has_changed = !patch.is_empty() || outcome.result.as_ref().is_some_and(|result| !result.is_null());
        let is_success = outcome.is_final && outcome.error.is_none();
        self.log(&message.demoted_if(is_repetition && is_success && !has_changed));
        self.has_succeeded = is_success;
        self.emit_judged(&outcome);
        if let Some(result) = outcome.result.take().filter(|result| !result.is_null()) {
            patch.deliver(&self.handler().id, result);
        }
        let is_daemon = self.parts.options.schedule.is_none();
        self.parts.running.set_concluding(is_daemon && outcome.is_final);
        // Boxed, because a task that waits has no place for the state of a request.
        self.parts.running.set_patching(true);
        let sent = Box::pin(self.send(patch)).await;
        self.parts.running.set_patching(self.is_stopped());
        if let Err(error) = sent {
            let text = format!("the changes were refused: {error}");
            if outcome.error.is_none() {
                let (refused, message) =
                    self.judge(Verdict::Failed { representation: text.clone(), text, trace: None });
                self.log(&message);
                self.emit_judged(&refused);
                outcome = refused;
                self.parts.running.set_concluding(is_daemon && outcome.is_final);
            } else {
                self.log(&Message::error(format!("{}: {text}", self.handler().title())));
            }
        }
        self.conclude(&outcome)
    }

    /// Tells whether an attempt repeats a success, for sinks that fold repetitions.
    fn is_repetition(&self) -> bool {
        self.has_succeeded && self.parts.events.folds_repetitions()
    }

    async fn call(&self, patch: Patch) -> Returned {
        let Parts { events, running, live, .. } = &self.parts;
        let (handler, retry) = (self.handler(), self.record.retries);
        let newest = self
            .revision()
            .and_then(|(effects, options)| Some((effects, options.target_of(&running.fingerprint)?, options)));
        // No attempt is made with an outdated declaration: the task is asked to stop.
        let Some((effects, target, options)) = newest else {
            running.stopped.raised().await;
            return Returned::cancelled("its declaration has changed");
        };
        running.span.record("revision", &*options.revision);
        let call = Call {
            target,
            subject: self.subject(),
            patch,
            retry,
            started: self.record.started.at,
            param: handler.param.clone(),
            subhandling: None,
            stop: running.cancelled.clone(),
            span: running.span.clone(),
        };
        running.gauge.calling(true);
        events.emit(&EngineEvent::HandlerCalled { body: &live.get(), handler, reason: None, retry });
        let returned = call_safely(&*effects, handler, call).await;
        events.emit(&EngineEvent::HandlerReturned {
            body: &live.get(),
            handler,
            reason: None,
            retry,
            returned: &returned,
        });
        running.gauge.calling(false);
        returned
    }

    fn judge(&self, verdict: Verdict) -> (Outcome, Message) {
        let now = self.parts.clock.now();
        let backoff = self.revision().map_or(MIN_ERROR_DELAY, |(_, options)| options.default_backoff);
        attempt::judge(self.handler(), &self.record, verdict, now, backoff)
    }

    fn emit_judged(&self, outcome: &Outcome) {
        let (body, handler, retry) = (&self.parts.live.get(), self.handler(), self.record.retries);
        self.parts.events.emit(&EngineEvent::AttemptJudged { body, handler, retry, outcome });
    }

    fn emit_concluded(&self) {
        let (body, handler) = (&self.parts.live.get(), self.handler());
        self.parts.events.emit(&EngineEvent::AttemptConcluded { body, handler });
    }

    fn conclude(&mut self, outcome: &Outcome) -> Attempted {
        self.record = self.record.after(outcome, self.parts.clock.now());
        if outcome.is_final { Attempted::Finished } else { Attempted::Retry(outcome.delay.unwrap_or_default()) }
    }

    /// Sends a patch, and keeps the functions that could not be applied. If the server cannot be reached or has a
    /// transient error, the patch is sent again after a pause; when the task is asked to stop, for the last time.
    ///
    /// # Errors
    /// The text of the error if the patch itself is refused.
    async fn send(&mut self, patch: Patch) -> Result<(), String> {
        if patch.is_empty() {
            return Ok(());
        }
        let mut is_throttled = false;
        loop {
            let is_last = is_throttled && self.is_stopped();
            let Some(sent) = self.send_once(&patch).await else { return Ok(()) };
            match sent {
                Ok(remaining) => {
                    self.error_delays.reset();
                    self.patch = remaining;
                    return Ok(());
                }
                // Another replica may lead: the task is cancelled.
                Err(Error::Patch(cluster::Error::Fenced)) => {
                    self.parts.running.cancelled.requested().await;
                    return Ok(());
                }
                Err(error) if is_refused(&error) => return Err(self.described(&error)),
                Err(error) if is_last => {
                    let text = format!(
                        "{}: the changes are lost, since it must stop: {}",
                        self.handler().title(),
                        self.described(&error)
                    );
                    self.log(&Message::error(text));
                    return Ok(());
                }
                Err(error) => {
                    let delay = self.error_delays.next_or_last().unwrap_or(MIN_ERROR_DELAY);
                    let delay = delay.max(error.retry_after().unwrap_or_default());
                    let text = format!(
                        "Throttling for {} seconds due to an unexpected error: {}",
                        seconds(delay),
                        self.described(&error)
                    );
                    self.log(&Message::error(text));
                    self.pause(delay).await;
                    is_throttled = true;
                }
            }
        }
    }

    /// Returns the text of an error: servers may repeat contents of an object.
    fn described(&self, error: &Error) -> String {
        secret::hidden(&self.parts.live.get(), &chain(error)).into_owned()
    }

    /// Sends a patch once; returns `None` if the task is cancelled.
    async fn send_once(&self, patch: &Patch) -> Option<Result<Patch, Error>> {
        let Parts { object, running, live, .. } = &self.parts;
        let (resource, body) = (object.resource(), live.get());
        let (effects, _) = self.revision()?;
        tokio::select! {
            biased;
            () = running.cancelled.requested() => None,
            sent = patching::send(&*effects, &resource, &body, patch, &Unconfirmed) => {
                Some(sent.map(|applied| Patch { transforms: applied.remaining, ..Patch::default() }))
            }
        }
    }

    /// Returns the revision that serves the object.
    fn revision(&self) -> Option<(Arc<W>, Arc<BackgroundOptions>)> {
        let Parts { revisions, running, .. } = &self.parts;
        revisions.of(&running.memo, &running.resource)
    }

    fn subject(&self) -> Subject {
        let Parts { object, running, live, .. } = &self.parts;
        let memo = object.memo.clone();
        Subject::Background {
            resource: object.resource(),
            live: Arc::clone(live),
            memo,
            stopped: running.stopped.clone(),
        }
    }

    fn fresh_record(&self) -> Record {
        Record::fresh(self.parts.clock.now(), None)
    }

    fn now(&self) -> Now {
        Now { elapsed: self.parts.origin.elapsed(), wall: self.parts.clock.now() }
    }

    /// Sleeps until the task is asked to stop.
    async fn pause(&self, delay: Duration) {
        if delay.is_zero() {
            return;
        }
        self.parts.live.rest(Some(delay));
        tokio::select! {
            biased;
            () = self.parts.running.stopped.raised() => {}
            () = tokio::time::sleep(delay) => {}
        }
    }

    fn handler(&self) -> &Handler {
        &self.parts.running.handler
    }

    fn is_stopped(&self) -> bool {
        self.parts.running.stopped.is_set()
    }

    fn log(&self, message: &Message) {
        self.parts.events.report_handling(&self.parts.live.get(), message);
    }
}

/// Tells whether the same patch would be refused again: it is invalid, or a function of it fails.
fn is_refused(error: &Error) -> bool {
    match error {
        Error::Patch(error) => {
            matches!(error, cluster::Error::Transform(_)) || matches!(error.status(), Some(400 | 405 | 413 | 415 | 422))
        }
        _ => true,
    }
}
