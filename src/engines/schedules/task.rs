//! The life of one schedule: it waits for ticks, makes the attempts of a run, and keeps the store up to date while it
//! waits.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::warn;

use super::context::ScheduleContext;
use crate::cluster::Error;
use crate::engines::MIN_ERROR_DELAY;
use crate::engines::effects::call_safely;
use crate::engines::events::EngineEvent;
use crate::engines::leading::Lead;
use crate::handling::progress::time_between;
use crate::handling::schedule::{CronSchedule, Phase, Step};
use crate::handling::timer::{MAX_TICK_SLEEP, Now};
use crate::handling::{Handler, Message, Outcome, Record, attempt};
use crate::kit::{Backoff, Stop};
use crate::object::Patch;
use crate::persistence::ScheduleRecord;
use crate::script::{Call, Returned, Subject};
use crate::telemetry::metrics::ScheduleMetrics;

/// Time limit for a cancelled call to end.
const CANCELLATION: Duration = Duration::from_secs(1);

/// A schedule. It owns its state.
pub(super) struct Task {
    handler: Arc<Handler>,
    schedule: CronSchedule,
    context: ScheduleContext,
    /// The newest revision of the operator: each attempt reads it once.
    newest: watch::Receiver<Revision>,
    metrics: ScheduleMetrics,
    ends: Ends,
    /// Ends a running call.
    cancelled: Stop,
    /// The beginning of the time of retries.
    origin: Instant,
    phase: Phase,
    /// The progress of the current run.
    record: Record,
    memory: Memory,
    /// When the store may be used again after a failure.
    retry_at: Instant,
    error_delays: Backoff,
    /// Whether the last attempt has succeeded.
    has_succeeded: bool,
}

/// The part of the operator's revision that a schedule reads.
#[derive(Clone)]
pub(super) struct Revision {
    pub handler: Arc<Handler>,
    pub context: ScheduleContext,
}

/// The ends of a schedule. It has no further attempts then.
pub(super) struct Ends {
    /// The operator stops: a running call has a time limit.
    pub stop: Stop,
    /// The schedule was removed from the manifest: a running call ends by itself.
    pub retired: Stop,
    /// Whether this replica leads.
    pub lead: Lead,
    /// The term, after which another replica runs the schedule: a running call is cancelled at once.
    pub term: u64,
}

impl Ends {
    fn is_requested(&self) -> bool {
        self.stop.is_requested() || self.retired.is_requested() || self.is_lost()
    }

    fn is_lost(&self) -> bool {
        !self.lead.holds(Some(self.term))
    }

    async fn requested(&self) {
        tokio::select! {
            biased;
            () = self.stop.requested() => {}
            () = self.retired.requested() => {}
            () = self.lead.ended(self.term) => {}
        }
    }
}

/// The state of the stored record as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Memory {
    /// Nothing yet. Until it is read, no missed tick is caught up.
    Unread,
    /// All ticks up to this time are done, which is not stored yet.
    Unsaved(Timestamp),
    /// There is nothing to store.
    Saved,
}

/// The end of a use of the store.
enum Synced {
    Read(Option<ScheduleRecord>),
    Saved,
    Failed(Error),
}

impl Task {
    /// Returns a schedule that begins.
    pub(super) fn new(
        schedule: CronSchedule,
        mut newest: watch::Receiver<Revision>,
        ends: Ends,
        origin: Instant,
    ) -> Self {
        let Revision { handler, context } = newest.borrow_and_update().clone();
        let now = context.clock.now();
        Self {
            metrics: context.metrics.schedule(&handler.id),
            phase: schedule.first(None, now),
            record: Record::fresh(now, None),
            memory: if schedule.catches_up { Memory::Unread } else { Memory::Saved },
            retry_at: Instant::now(),
            error_delays: Backoff::new(Arc::clone(&context.error_delays)),
            has_succeeded: false,
            handler,
            schedule,
            context,
            newest,
            ends,
            cancelled: Stop::new(),
            origin,
        }
    }

    /// Runs until the stop is requested, or there are no further ticks.
    pub(super) async fn run(mut self) {
        self.context
            .events
            .emit(&EngineEvent::ScheduleStarted { handler: &self.handler, is_synced: self.memory == Memory::Saved });
        while !self.ends.is_requested() {
            if self.context.pause.is_paused() {
                self.await_end_of_pause().await;
                continue;
            }
            let (phase, step) = self.phase.next(self.now());
            self.phase = phase;
            match step {
                Step::Sleep(left) => self.wait(left).await,
                Step::GiveUp(tick) => self.give_up(tick),
                Step::Begin(tick) => {
                    self.record = Record::fresh(self.context.clock.now(), None);
                    self.attempt(tick).await;
                }
                Step::Repeat(tick) => self.attempt(tick).await,
                // The store may know of a missed tick.
                Step::End if self.memory != Memory::Saved => self.wait(MAX_TICK_SLEEP).await,
                Step::End => break,
            }
        }
        self.finish().await;
        self.context.events.emit(&EngineEvent::ScheduleEnded { handler: &self.handler });
    }

    /// Waits for the end of a pause, and uses the store meanwhile.
    async fn await_end_of_pause(&mut self) {
        let pause = self.context.pause.clone();
        tokio::select! {
            biased;
            () = self.ends.requested() => {}
            () = pause.resumed() => self.take_up(),
            synced = self.sync() => self.note_sync(synced),
        }
    }

    /// Goes on after a pause. Ticks that have passed are missed, unless they are caught up; a peer may have run them,
    /// as the store knows.
    fn take_up(&mut self) {
        let now = self.context.clock.now();
        match self.phase {
            Phase::Waiting(_) if self.schedule.catches_up && self.memory == Memory::Saved => {
                self.phase = self.schedule.first(None, now);
                self.remember(Memory::Unread);
            }
            Phase::Waiting(Some(tick)) if !self.schedule.catches_up && tick <= now => {
                self.phase = self.schedule.first(None, now);
            }
            Phase::Retrying { tick, next: Some(next), .. } if !self.schedule.catches_up && next <= now => {
                self.give_up(tick);
                self.phase = self.schedule.first(None, now);
            }
            Phase::Waiting(_) | Phase::Retrying { .. } => {}
        }
    }

    /// Sleeps, and uses the store meanwhile. Returns early if that has changed anything, another revision is there, or
    /// the stop is requested.
    async fn wait(&mut self, left: Duration) {
        let mut newest = self.newest.clone();
        let synced = {
            let mut sync = std::pin::pin!(self.sync());
            tokio::select! {
                biased;
                () = self.ends.requested() => {
                    // A write of the leader that is cut off would keep it from releasing its Lease.
                    let is_written = self.ends.lead.is_elected() && matches!(self.memory, Memory::Unsaved(_));
                    if is_written { tokio::time::timeout(self.context.exit_timeout, sync).await.ok() } else { None }
                }
                Ok(()) = newest.changed() => None,
                () = self.context.pause.paused() => None,
                () = tokio::time::sleep(left) => None,
                synced = &mut sync => Some(synced),
            }
        };
        match synced {
            Some(synced) => self.note_sync(synced),
            None => self.follow(),
        }
    }

    fn note_sync(&mut self, synced: Synced) {
        match synced {
            Synced::Read(record) => self.recall(record.as_ref()),
            Synced::Saved => self.remember(Memory::Saved),
            Synced::Failed(error) => {
                let delay = self.error_delays.next_or_last().unwrap_or(MIN_ERROR_DELAY);
                let delay = delay.max(error.retry_after().unwrap_or_default());
                self.retry_at = Instant::now() + delay;
                let (verb, error, seconds) = (self.sync_verb(), error.chain(), delay.as_secs_f64());
                warn!(target: "kopfd::schedules", "{}: failed to {verb} its last run, will retry in {seconds} seconds: {error}", self.title());
            }
        }
    }

    /// Reads or writes the store, as far as that is needed; waits forever if it is not.
    async fn sync(&self) -> Synced {
        if self.memory == Memory::Saved {
            return std::future::pending().await;
        }
        tokio::time::sleep_until(self.retry_at).await;
        let ended = match self.memory {
            Memory::Unsaved(done_until) => self.save(done_until).await.map(|()| Synced::Saved),
            Memory::Unread | Memory::Saved => self.context.store.get(&self.handler.id).await.map(Synced::Read),
        };
        ended.unwrap_or_else(Synced::Failed)
    }

    fn sync_verb(&self) -> &'static str {
        if self.memory == Memory::Unread { "read" } else { "store" }
    }

    async fn save(&self, done_until: Timestamp) -> Result<(), Error> {
        self.context.store.put(&self.handler.id, &ScheduleRecord::of(&self.schedule, done_until)).await
    }

    /// Takes over the stored state. Before the first run ever, or after a change of the schedule, nothing was missed.
    fn recall(&mut self, record: Option<&ScheduleRecord>) {
        let now = self.context.clock.now();
        let done_until = record.and_then(|record| record.done_until(&self.schedule));
        // A run that is retried comes after all missed ticks.
        if let Phase::Waiting(_) = self.phase {
            self.phase = self.schedule.first(done_until, now);
        }
        self.remember(done_until.map_or(Memory::Unsaved(now), |_| Memory::Saved));
    }

    fn remember(&mut self, memory: Memory) {
        if memory == Memory::Saved {
            self.error_delays.reset();
        }
        self.memory = memory;
        self.context
            .events
            .emit(&EngineEvent::ScheduleSynced { handler: &self.handler, is_synced: memory == Memory::Saved });
    }

    fn give_up(&mut self, tick: Timestamp) {
        let retries = self.record.retries;
        let text =
            format!("{} is given up for {tick} after {retries} attempts, since its next tick has come.", self.title());
        self.log(&Message::warning(text));
        self.context.events.emit(&EngineEvent::ScheduleGivenUp { handler: &self.handler, scheduled_at: tick });
    }

    /// Takes over the newest revision. An earlier one is not kept in memory until the next tick.
    fn follow(&mut self) {
        if self.newest.has_changed().unwrap_or_default() {
            Revision { handler: self.handler, context: self.context } = self.newest.borrow_and_update().clone();
        }
    }

    /// Makes an attempt of the run for a tick, once the indexes are filled.
    async fn attempt(&mut self, tick: Timestamp) {
        tokio::select! {
            biased;
            () = self.ends.requested() => return,
            () = self.context.pause.paused() => return,
            () = self.context.readiness.ready() => {}
        }
        self.follow();
        let (retry, events) = (self.record.retries, self.context.events.clone());
        if retry == 0 {
            self.metrics.late(time_between(tick, self.context.clock.now()));
        }
        let handler = Arc::clone(&self.handler);
        events.emit(&EngineEvent::ScheduleCalled { handler: &handler, scheduled_at: tick, retry });
        let attempted = self.outcome(tick).await;
        events.emit(&EngineEvent::ScheduleJudged {
            handler: &handler,
            scheduled_at: tick,
            retry,
            outcome: attempted.as_ref(),
        });
        // The operator stops: the run is not finished.
        let Some(outcome) = attempted else { return };
        self.record = self.record.after(&outcome, self.context.clock.now());
        let retry = (!outcome.is_final).then(|| outcome.delay.unwrap_or_default());
        self.phase = self.schedule.after(tick, retry, self.now());
        self.has_succeeded = outcome.is_final && outcome.error.is_none();
        if self.has_succeeded {
            self.metrics.succeeded(self.context.clock.now());
        }
        if outcome.is_final && self.schedule.catches_up {
            self.retry_at = Instant::now();
            self.remember(Memory::Unsaved(tick));
        }
    }

    /// Returns the outcome of an attempt; `None` if it was cancelled.
    async fn outcome(&self, tick: Timestamp) -> Option<Outcome> {
        let is_repetition = self.has_succeeded && self.context.events.folds_repetitions();
        self.log(&attempt::announce(&self.handler).demoted_if(is_repetition));
        let clock = &self.context.clock;
        if let Some((outcome, message)) = attempt::check_limits(&self.handler, &self.record, clock.now()) {
            self.log(&message);
            return Some(outcome);
        }
        let returned = self.call(tick).await;
        if returned.is_cancelled {
            self.log(&Message::warning(format!("{} is cancelled, since the operator stops.", self.title())));
            return None;
        }
        let backoff = self.context.default_backoff;
        let (outcome, message) = attempt::judge(&self.handler, &self.record, returned.verdict, clock.now(), backoff);
        let is_success = outcome.is_final && outcome.error.is_none();
        self.log(&message.demoted_if(is_repetition && is_success));
        Some(outcome)
    }

    /// Calls the function. When the operator stops, the call may continue for some time.
    async fn call(&self, tick: Timestamp) -> Returned {
        let call = Call {
            target: self.handler.target,
            subject: Subject::Schedule { scheduled_at: tick, settings: Arc::clone(&self.context.settings) },
            patch: Patch::default(),
            retry: self.record.retries,
            started: self.record.started.at,
            param: self.handler.param.clone(),
            subhandling: None,
            stop: self.cancelled.clone(),
            span: tracing::Span::current(),
        };
        let mut called = std::pin::pin!(call_safely(&*self.context.scripts, &self.handler, call));
        let timeout = async {
            let at_exit = async {
                self.ends.stop.requested().await;
                tokio::time::sleep(self.context.exit_timeout).await;
            };
            tokio::select! {
                () = at_exit => {}
                () = self.ends.lead.ended(self.ends.term) => {}
            }
        };
        tokio::select! {
            biased;
            returned = &mut called => return returned,
            () = timeout => self.cancelled.request("the operator stops"),
        }
        tokio::time::timeout(CANCELLATION, called).await.unwrap_or_else(|_| Returned::cancelled("the operator stops"))
    }

    /// Stores the state that is not stored yet.
    async fn finish(&self) {
        let Memory::Unsaved(done_until) = self.memory else { return };
        if self.ends.is_lost() {
            return;
        }
        let failure = match tokio::time::timeout(self.context.exit_timeout, self.save(done_until)).await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.chain(),
            Err(_) => "the API server does not answer in time".to_owned(),
        };
        warn!(target: "kopfd::schedules", "{}: its last run is not stored, and may be repeated: {failure}", self.title());
    }

    fn now(&self) -> Now {
        Now { elapsed: self.origin.elapsed(), wall: self.context.clock.now() }
    }

    fn title(&self) -> String {
        self.handler.title()
    }

    fn log(&self, message: &Message) {
        self.context.events.log_message(message);
    }
}
