//! The worker of one object: processes its events one by one, and ends when none is queued or awaited.

use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use jiff::Timestamp;

use crate::cluster::{self, Unconfirmed};
use crate::handling::breaker::{Breaker, Report, Trigger};
use crate::handling::message::seconds;
use crate::handling::progress::time_between;
use crate::handling::sequence::{Situation, Step, next};
use crate::handling::{Message, Moment};
use crate::kit::errors::chain;
use crate::kit::{Stop, tasks};
use crate::manifest::settings;
use crate::object::{Body, EventKind, Patch, Resource, Transform, secret};
use crate::script::{Object, ObjectMemo};
use crate::wire::PartialMetadata;

use super::cycle::{self, Cycle, Ended};
use super::echo::Echo;
use super::looping::{self, Begun, Ran};
use super::mailbox::{Event, Mailbox};
use super::memory::{Memories, Noticed, RetryState};
use super::revision::{KindRevisions, Serving};
pub use super::worker_settings::WorkerSettings;
use crate::engines::effects::{Effects, IndexEvent};
use crate::engines::error::Error;
use crate::engines::events::EngineEvent;
use crate::engines::leading::Lead;
use crate::engines::patching;
use crate::engines::readiness::Readiness;

/// The minimum pause of an object after a panic, even if the settings have no delays after errors.
const MIN_PAUSE_AFTER_PANIC: Duration = Duration::from_secs(1);

/// How long calls may take to end when the leadership has ended. Nothing they do has an effect then.
const CANCELLATION: Duration = Duration::from_secs(1);

/// The text of the panic after a call that ended although no stop was requested.
const CANCELLED: &str = "a call was cancelled, though the operator does not stop";

/// Parses an object; a function pointer, so that tests can make it fail.
pub type Read = fn(&str, &Resource) -> Result<Body, serde_json::Error>;

/// The worker of one object.
pub struct Worker<W: Effects> {
    /// The revisions of the operator.
    pub revisions: Arc<KindRevisions<W>>,
    /// The revision of the event that is being processed.
    pub serving: Arc<Serving<W>>,
    /// The memories of the kind's objects.
    pub memories: Arc<Memories>,
    /// The queue of the object's events.
    pub mailbox: Arc<Mailbox>,
    /// The object's unique id.
    pub uid: Arc<str>,
    /// The key of the object's memo.
    pub memo_key: Arc<str>,
    /// Ends running calls.
    pub stop: Stop,
    /// The span of its log lines.
    pub span: tracing::Span,
    /// The version that results from the operator's last patch.
    pub expected: Expected,
    /// Parses the objects of events.
    pub read: Read,
    /// The state that must survive a panic.
    pub attempt: Attempt,
    /// Whether the next event is indexed already.
    pub is_indexed_ahead: bool,
    /// Whether this replica leads.
    pub lead: Lead,
    /// Ends the calls of the event that is being handled, if the leadership may end before the operator.
    pub led_stop: Option<Stop>,
}

/// The event that is being processed, or indexed ahead.
#[derive(Debug, Default)]
pub struct Attempt {
    event: Option<Event>,
    /// The number of panics in a row.
    panics: usize,
}

/// The end of the pause of an object that is slowed down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pause {
    /// In full, or there was none.
    Over,
    /// By a newer event: the state that was paused may be outdated by minutes.
    Interrupted,
}

/// The version that results from the operator's last patch, until its event arrives.
#[derive(Debug, Clone, Default)]
pub struct Expected {
    version: Option<String>,
    until: Option<Timestamp>,
    /// The object before the patch, and its echo, as long as the object has no other changes.
    echo: Option<(Arc<str>, Echo)>,
}

impl Expected {
    /// Tells whether an echo is the last one; `None` if the event is not an echo.
    fn is_last_echo(&self, event: &Event) -> Option<bool> {
        let (before, echo) = self.echo.as_ref().filter(|_| event.event_kind == EventKind::Modified)?;
        echo.version_in(before, &event.raw).map(|version| Some(version) == self.version.as_deref())
    }
}

impl<W: Effects> Worker<W> {
    /// Processes events until none is queued, or the mailbox is closed. A worker stays only for the event of its own
    /// patch.
    ///
    /// After a panic, the object is paused, and processed again in its newest state.
    pub async fn run(&mut self) {
        while let Err(panic) = AssertUnwindSafe(self.process_events()).catch_unwind().await {
            self.recover(&tasks::panic_text(&*panic)).await;
        }
        self.expected = Expected::default();
    }

    async fn process_events(&mut self) {
        while !self.stop.is_requested()
            && let Some(event) = self.mailbox.take(self.idle_time_left()).await
        {
            if !self.follow_revision() {
                event.unblock();
                continue;
            }
            self.attempt.event = Some(event.clone());
            self.take_up(event).await;
            self.attempt = Attempt::default();
        }
    }

    /// Switches to the revision that serves the object. Returns whether it still declares the kind.
    fn follow_revision(&mut self) -> bool {
        let Some(newest) = self.revisions.take_up(&self.uid) else { return false };
        if !Arc::ptr_eq(&newest, &self.serving) {
            // The new revision has to see the object, even if it needs no further cycle by the old one.
            self.expected.echo = None;
            self.span.record("revision", &*newest.digest);
            self.serving = newest;
        }
        true
    }

    /// Indexes the object of the next event, which stays queued: indexing waits neither for other objects nor for other
    /// workers.
    ///
    /// Errors are left to the processing of the event, which repeats the failed indexing.
    pub async fn index_ahead(&mut self) {
        let Some(event) = self.mailbox.first().filter(|event| event.event_kind != EventKind::Deleted) else { return };
        self.attempt.event = Some(event.clone());
        let noticed = self.notice(&event);
        if self.is_of_indexed_kind()
            && let Ok(body) = (self.read)(&event.raw, &self.serving.served.resource)
        {
            self.is_indexed_ahead = self.index(&event, &body, &noticed).await.is_ok();
        }
        event.unblock();
        self.attempt.event = None;
    }

    /// Waits until the indexes of the operator are filled. Returns false if the mailbox is closed before, or the
    /// operator is paused.
    pub async fn await_readiness(&self) -> bool {
        let Some(readiness) = self.pending_indexes() else { return true };
        tokio::select! {
            biased;
            () = readiness.ready() => true,
            () = self.mailbox.rest(Duration::MAX) => false,
        }
    }

    /// Returns the readiness of the indexes of the operator, unless they are filled.
    fn pending_indexes(&self) -> Option<&Arc<Readiness>> {
        self.serving.indexing().effects.readiness().filter(|readiness| !readiness.is_ready())
    }

    fn is_of_indexed_kind(&self) -> bool {
        let indexing = self.serving.indexing();
        !indexing.served.handlers.indexing.is_empty() || indexing.effects.is_filling()
    }

    /// Records an event of the object before anything else waits: the first one decides what its memo begins with.
    fn notice(&self, event: &Event) -> Noticed {
        self.memories.notice(&self.uid, event.event_kind == EventKind::Listed, || self.serving.effects.operator_memo())
    }

    fn memo(&self, noticed: &Noticed) -> ObjectMemo {
        ObjectMemo { key: Arc::clone(&self.memo_key), origin: Arc::clone(&noticed.operator_memo) }
    }

    async fn index(&self, event: &Event, body: &Body, noticed: &Noticed) -> Result<(), Error> {
        let object = Object {
            resource: Arc::clone(&self.serving.served.resource),
            body: body.clone(),
            memo: self.memo(noticed),
        };
        let indexing = self.serving.indexing();
        let event = IndexEvent {
            object: &object,
            event_kind: event.event_kind,
            handlers: &indexing.served.handlers.indexing,
            default_backoff: indexing.served.default_backoff,
            stop: &self.stop,
            span: &self.span,
        };
        let indexed = indexing.effects.index(event).await;
        // Its kind or namespace may have vanished during the call.
        if !self.memories.knows(&self.uid) {
            indexing.effects.unindex(&self.uid);
        }
        indexed
    }

    /// Reports a panic, pauses the object, and queues its event again.
    pub async fn recover(&mut self, panic: &str) {
        // No other object waits for one that cannot be indexed.
        self.attempt.event.iter().for_each(Event::unblock);
        let delays = &self.serving.settings.error_delays;
        let delay =
            delays.get(self.attempt.panics).or(delays.last()).copied().unwrap_or_default().max(MIN_PAUSE_AFTER_PANIC);
        self.attempt.panics += 1;
        // The patch may or may not have been sent.
        self.expected = Expected::default();
        let text = format!("Throttling for {} seconds due to a defect of the engine: {panic}", seconds(delay));
        let message = Message::error(&text).followed_by("The object will be processed again in its newest state.");
        // Logging itself may panic.
        if std::panic::catch_unwind(AssertUnwindSafe(|| self.log_message(&message))).is_err() {
            let logged = || tracing::error!(target: "kopfd::reactor", uid = &*self.uid, "{text}");
            // There is no other way to report it.
            let _ = std::panic::catch_unwind(AssertUnwindSafe(logged));
        }
        self.mailbox.rest(delay).await;
        // A paused operator gets the object again when it resumes.
        if let Some(event) = self.attempt.event.take()
            && !self.mailbox.is_closed()
            && !self.mailbox.is_halted()
        {
            self.mailbox.put_back(event);
        }
    }

    /// Returns how long to wait for an event. If none is awaited, the next one may as well start a new worker:
    /// thousands of idle workers would cost memory, and have no state that is not on the object.
    fn idle_time_left(&self) -> Duration {
        let now = self.serving.effects.clock().now();
        self.expected
            .until
            .map_or(Duration::ZERO, |until| time_between(now, until).max(self.serving.settings.idle_timeout))
    }

    async fn take_up(&mut self, event: Event) {
        let is_indexed = std::mem::take(&mut self.is_indexed_ahead) || !self.is_of_indexed_kind();
        if let Some(is_last) = self.expected.is_last_echo(&event) {
            return self.skip(&event, is_last);
        }
        self.expected.echo = None;
        let noticed = self.notice(&event);
        let body = match (self.read)(&event.raw, &self.serving.served.resource) {
            Ok(body) => body,
            Err(_) if !self.lead.holds(event.term) => return self.stand_by(&event),
            Err(error) => return self.pass_over(&event, &error).await,
        };
        if self.expected.version.is_some() && self.expected.version.as_deref() == body.resource_version() {
            self.expected = Expected::default();
        }
        let now = self.serving.effects.clock().now();
        let (event_kind, consistency_in) =
            (event.event_kind, self.expected.until.map(|until| until.duration_since(now)));
        self.serving.effects.events().emit(&EngineEvent::ObjectSeen { body: &body, event_kind, consistency_in });
        if !self.prepare(&event, &body, &noticed, is_indexed).await {
            return;
        }
        let Some((version, echo)) = self.process_in_term(&event, body, &noticed).await else { return };
        if let Some(version) = version
            && !self.serving.settings.consistency_timeout.is_zero()
        {
            #[cfg(test)]
            if super::defects::is_on(super::defects::Defect::WaitsForNothing) {
                return;
            }
            let until = Moment::after(self.serving.effects.clock().now(), self.serving.settings.consistency_timeout).at;
            self.expected =
                Expected { version: Some(version), until: Some(until), echo: echo.map(|echo| (event.raw, echo)) };
        }
    }

    /// Carries out the steps before the cycle. Returns whether there is one.
    async fn prepare(&mut self, event: &Event, body: &Body, noticed: &Noticed, is_indexed: bool) -> bool {
        let mut done = None;
        loop {
            let situation = Situation {
                done,
                is_unindexed: !is_indexed,
                stands_by: !self.lead.holds(event.term),
                awaits_indexes: self.pending_indexes().is_some(),
                ..Situation::default()
            };
            let step = next(&situation);
            if step > Step::Index {
                event.unblock();
            }
            match step {
                Step::Index => {
                    if let Err(error) = self.index(event, body, noticed).await {
                        event.unblock();
                        self.fail_indexing(body, error).await;
                        return false;
                    }
                }
                Step::StandBy => {
                    self.stand_by(event);
                    return false;
                }
                Step::Readiness => {
                    if !self.await_readiness().await {
                        return false;
                    }
                }
                // The others are those of the cycle.
                _ => return true,
            }
            done = Some(step);
        }
    }

    /// Passes over an event while this replica does not lead. When it does, the object is listed.
    fn stand_by(&mut self, event: &Event) {
        self.expected = Expected::default();
        event.unblock();
        if event.event_kind == EventKind::Deleted {
            self.memories.forget(&self.uid);
            self.serving.indexing().effects.unindex(&self.uid);
            self.serving.effects.forget(&self.memo_key);
        }
    }

    /// Runs a cycle while the term of the event lasts. When it ends, calls are cancelled, and everything else is
    /// dropped soon: nothing is written any more. Returns `None` then.
    async fn process_in_term(
        &mut self,
        event: &Event,
        body: Body,
        noticed: &Noticed,
    ) -> Option<(Option<String>, Option<Echo>)> {
        if !self.lead.is_elected() {
            return Some(self.process(event.event_kind, body, noticed).await);
        }
        let Some((duty, term)) = self.lead.enter(event.term).zip(event.term) else {
            self.stand_by(event);
            return None;
        };
        let (lead, stop) = (self.lead.clone(), self.stop.child());
        self.led_stop = Some(stop.clone());
        let lost = async {
            lead.ended(term).await;
            stop.request("the lease is lost");
            tokio::time::sleep(CANCELLATION).await;
        };
        let processed = tokio::select! {
            biased;
            processed = self.process(event.event_kind, body, noticed) => Some(processed),
            () = lost => None,
        };
        self.led_stop = None;
        drop(duty);
        if !self.lead.holds(event.term) {
            self.expected = Expected::default();
            return None;
        }
        processed
    }

    /// Returns the signal that ends running calls.
    fn calls_stop(&self) -> &Stop {
        self.led_stop.as_ref().unwrap_or(&self.stop)
    }

    /// An object that cannot be indexed is not handled, and pauses.
    async fn fail_indexing(&self, body: &Body, error: Error) {
        match error {
            Error::Cancelled if self.stop.is_requested() => {}
            Error::Cancelled => panic!("{CANCELLED}"),
            error => {
                let mut retry_state = self.memories.retry_state(&self.uid);
                self.throttle(&mut retry_state, body, &error).await;
                self.memories.keep_retry_state(&self.uid, retry_state);
            }
        }
    }

    /// Skips an event that contains only the own patch at the end of a cause: a cycle would do nothing.
    fn skip(&mut self, event: &Event, is_last: bool) {
        if is_last {
            self.expected = Expected::default();
        }
        let events = self.serving.effects.events();
        let state =
            if events.wants_states() { (self.read)(&event.raw, &self.serving.served.resource).ok() } else { None };
        if let Some(body) = &state {
            let consistency_in =
                self.expected.until.map(|until| until.duration_since(self.serving.effects.clock().now()));
            events.emit(&EngineEvent::ObjectSeen { body, event_kind: event.event_kind, consistency_in });
        }
        if is_last {
            cycle::log_nothing_changed(events);
        }
        events.emit(&EngineEvent::CycleDecided { delays: &[] });
        if let Some(body) = &state {
            self.report_cycle(body, None);
        }
    }

    /// Skips an object that cannot be parsed, but does not block its deletion: for that, its metadata are enough.
    async fn pass_over(&mut self, event: &Event, error: &serde_json::Error) {
        let head = PartialMetadata::of(&event.raw).unwrap_or_default();
        let resource = &self.serving.served.resource;
        let body = Body::from(head.to_object(&resource.api_version(), &resource.kind));
        self.serving.indexing().effects.unindex(&self.uid);
        event.unblock();
        if event.event_kind == EventKind::Deleted {
            self.memories.forget(&self.uid);
            self.report_cycle(&body, None);
            return self.serving.effects.forget(&self.memo_key);
        }
        let mut retry_state = self.memories.retry_state(&self.uid);
        if !std::mem::replace(&mut retry_state.is_unreadable, true) {
            let message = Message::error(format!("The object cannot be read and is not handled: {error}"));
            self.log_message(&message.followed_by(
                "Its next changes are not reported while that lasts. Its deletion will not be held back.",
            ));
        }
        self.report_cycle(&body, Some(&format!("the object cannot be read: {error}")));
        let finalizer = &self.serving.served.storages.finalizer;
        if head.is_deleting() && head.has_finalizer(finalizer) {
            self.log_message(&Message::warning(
                "Removing the finalizer without calling any handlers, since the object cannot be read.",
            ));
            let patch = Patch { transforms: vec![Transform::RemoveFinalizer(finalizer.clone())], ..Patch::default() };
            if let Err(error) =
                self.serving.effects.apply(&self.serving.served.resource, &body, &patch, &Unconfirmed).await
            {
                self.throttle(&mut retry_state, &body, &error).await;
            }
        }
        self.memories.keep_retry_state(&self.uid, retry_state);
    }

    /// Runs one cycle, unless the object is paused after errors. Returns the version to wait for, and the echo to skip
    /// until then.
    async fn process(
        &mut self,
        event_kind: EventKind,
        body: Body,
        noticed: &Noticed,
    ) -> (Option<String>, Option<Echo>) {
        let mut retry_state = self.memories.retry_state(&self.uid);
        retry_state.is_unreadable = false;
        if event_kind == EventKind::Deleted {
            self.memories.forget(&self.uid);
        }
        self.await_throttling(&mut retry_state).await;
        let seen = body.clone();
        let served = self.serving.served_for(&self.uid, &self.memories);
        let (mut version, mut echo, mut has_succeeded) = (None, None, false);
        let is_throttled = retry_state.throttle.active_until().is_some();
        let begun = Begun { event_kind, body: &seen, served: &served, revision: self.serving.revision };
        let trigger = if is_throttled { Trigger::Other } else { self.begin_cycle(&mut retry_state, &begun) };
        let pause = if is_throttled { None } else { self.await_breaker(&retry_state, trigger).await };
        if let Some(pause) = pause {
            let cycle = Cycle {
                effects: &*self.serving.effects,
                served: &served,
                event_kind,
                body,
                memory: noticed.flags,
                consistent_at: self.expected.until,
                mailbox: &self.mailbox,
                stop: self.calls_stop().clone(),
                memo: self.memo(noticed),
                span: self.span.clone(),
                is_outdated: pause == Pause::Interrupted,
                is_noted: trigger == Trigger::OwnWrite,
                condition: self.due_condition(&retry_state, &seen),
            };
            let mut ended = AssertUnwindSafe(cycle.run(retry_state.remaining.clone())).catch_unwind().await;
            if let Ok(ended) = &mut ended {
                if ended.handled {
                    self.memories.mark_handled(&self.uid);
                }
                if event_kind != EventKind::Deleted {
                    self.end_cycle(&mut retry_state, &begun, trigger, ended).await;
                }
                echo = ended.echo.take();
            }
            match ended.map(|ended| ended.result) {
                Ok(Ok(sent)) => {
                    retry_state.throttle.succeed();
                    has_succeeded = true;
                    self.report_cycle(&seen, None);
                    retry_state.remaining = sent.remaining;
                    version = sent.version;
                }
                Ok(Err(Error::Cancelled)) if self.calls_stop().is_requested() => {}
                // The term of the leadership is over.
                Ok(Err(Error::Patch(cluster::Error::Fenced))) => {}
                // A script thread has failed; without a panic, the event would be lost.
                Ok(Err(Error::Cancelled)) => panic!("{CANCELLED}"),
                Ok(Err(error)) => self.throttle(&mut retry_state, &seen, &error).await,
                Err(panic) => {
                    let error = format!("a defect of the engine: {}", tasks::panic_text(&*panic));
                    self.report_cycle(&seen, Some(&error));
                    resume_unwind(panic);
                }
            }
        }
        if event_kind == EventKind::Deleted {
            // A deleted object has nothing left to finish.
            if !has_succeeded {
                self.report_cycle(&seen, None);
            }
            self.serving.effects.forget(&self.memo_key);
        } else {
            self.memories.keep_retry_state(&self.uid, retry_state);
        }
        (version, echo)
    }

    /// Records that a cycle begins, and returns its trigger.
    fn begin_cycle(&self, retry_state: &mut RetryState, begun: &Begun<'_>) -> Trigger {
        let Some(breaker) = self.breaker().filter(|_| begun.event_kind != EventKind::Deleted) else {
            return Trigger::Other;
        };
        let (trigger, report) = retry_state.recent.begin(begun, breaker.threshold, self.serving.effects.clock().now());
        self.report_loop(begun.body, report.as_ref());
        trigger
    }

    /// Waits if the object is slowed down, and the event is that of its own write. Other events end the wait. Returns
    /// `None` if the operator stops, and leaves the object as it is.
    async fn await_breaker(&self, retry_state: &RetryState, trigger: Trigger) -> Option<Pause> {
        let until =
            retry_state.recent.breaker().and_then(Breaker::paused_until).filter(|_| trigger == Trigger::OwnWrite);
        let Some(until) = until else { return Some(Pause::Over) };
        let left = time_between(self.serving.effects.clock().now(), until);
        if left.is_zero() {
            return Some(Pause::Over);
        }
        self.log_message(&Message::debug(format!(
            "The next cycle begins in {} seconds, since the object keeps triggering itself.",
            seconds(left)
        )));
        let is_over = self.mailbox.pause(left, |event| retry_state.recent.is_urgent(event)).await;
        let is_left = self.mailbox.is_closed() || self.mailbox.is_halted();
        (!is_left).then_some(if is_over { Pause::Over } else { Pause::Interrupted })
    }

    /// Records the end of a cycle.
    async fn end_cycle(&self, retry_state: &mut RetryState, begun: &Begun<'_>, trigger: Trigger, ended: &mut Ended) {
        let (Some(breaker), Ok(sent)) = (self.breaker(), &ended.result) else { return };
        let is_shown = breaker.condition.is_some()
            && retry_state.recent.breaker().is_some_and(|breaker| breaker.slowed().is_some());
        if is_shown {
            // The next event must begin a cycle, which detects that the object is at rest.
            ended.echo = None;
        }
        let now = self.serving.effects.clock().now();
        let ran = Ran { ended: &*ended, versions: &sent.versions, is_last: self.mailbox.is_empty() };
        let report = retry_state.recent.end(begun, trigger, ran, breaker.threshold, now);
        self.report_loop(begun.body, report.as_ref());
        // The conditions of looping objects are written with their other changes: a write of its own would be a part of
        // the loop.
        let is_at_rest = sent.versions.is_empty() && self.mailbox.is_empty() && !retry_state.recent.is_needed();
        if let Some(condition) = self.due_condition(retry_state, begun.body).filter(|_| is_at_rest) {
            // Boxed, because a worker that waits has no place for the state of a request.
            Box::pin(self.write_condition(retry_state, begun, condition)).await;
        }
    }

    /// Writes a condition without other changes. If that fails, it is written with the next ones.
    async fn write_condition(&self, retry_state: &mut RetryState, begun: &Begun<'_>, condition: Transform) {
        let patch = Patch { transforms: vec![condition], ..Patch::default() };
        match patching::send(&*self.serving.effects, &begun.served.resource, begun.body, &patch, &Unconfirmed).await {
            Ok(applied) => retry_state.recent.note(&applied.versions),
            Err(error) => {
                let text = chain(&error);
                self.log_message(&Message::warning(format!(
                    "Failed to write a condition: {}",
                    secret::hidden(begun.body, &text)
                )));
            }
        }
    }

    /// Returns the function that writes a condition which the object lacks, or has without a reason.
    fn due_condition(&self, retry_state: &RetryState, body: &Body) -> Option<Transform> {
        let due = retry_state.recent.due_condition(self.breaker()?, body, self.serving.effects.clock().now());
        due.map(looping::setting)
    }

    fn breaker(&self) -> Option<&settings::Breaker> {
        self.serving.settings.breaker.as_ref()
    }

    fn report_loop(&self, body: &Body, report: Option<&Report>) {
        let Some(report) = report else { return };
        let events = self.serving.effects.events();
        let uid = &self.uid;
        match report {
            Report::Began(found) => events.emit(&EngineEvent::LoopBegan { uid, handlers: &found.handlers }),
            Report::Ended(_) => events.emit(&EngineEvent::LoopEnded { uid }),
        }
        events.report_handling(body, &report.message());
    }

    fn log_message(&self, message: &Message) {
        self.serving.effects.events().log_message(message);
    }

    fn report_cycle(&self, body: &Body, error: Option<&str>) {
        self.serving.effects.events().emit(&EngineEvent::CycleEnded { uid: &self.uid, body, error });
    }

    async fn await_throttling(&self, retry_state: &mut RetryState) {
        if let Some(until) = retry_state.throttle.active_until() {
            let left = time_between(self.serving.effects.clock().now(), until);
            self.sleep_off(retry_state, left).await;
        }
    }

    async fn throttle(&self, retry_state: &mut RetryState, body: &Body, error: &Error) {
        let text = chain(error);
        // Servers, webhooks and scripts may repeat contents of an object.
        let text = secret::hidden(body, &text);
        self.report_cycle(body, Some(&text));
        let now = self.serving.effects.clock().now();
        if let Some(delay) = retry_state.throttle.fail(&self.serving.settings.error_delays, error.retry_after(), now) {
            self.log_message(&Message::error(format!(
                "Throttling for {} seconds due to an unexpected error: {text}",
                seconds(delay)
            )));
            self.sleep_off(retry_state, delay).await;
        }
    }

    async fn sleep_off(&self, retry_state: &mut RetryState, left: Duration) {
        if self.mailbox.sleep(left).await {
            retry_state.throttle.lift();
            self.log_message(&Message::info("Throttling is over. Switching back to normal operations."));
        }
    }
}
