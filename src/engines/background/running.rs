//! A running task from outside: it is asked to stop, cancelled, and abandoned in stages.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::Span;

use super::options::InstantExit;
use crate::engines::events::{EngineEvent, EventStream};
use crate::handling::Handler;
use crate::handling::spawning::{self, Cancellation, Stage, Step, StopReason};
use crate::kit::Stop;
use crate::manifest::fingerprint::Fingerprint;
use crate::object::Resource;
use crate::script::{LiveBody, StopFlag, Stopped};
use crate::telemetry::metrics::TaskGauge;

/// A running task.
#[derive(Debug)]
pub(super) struct RunningTask {
    /// The handler, as it was declared at the start.
    pub handler: Arc<Handler>,
    /// The digest of its declaration and code.
    pub fingerprint: Fingerprint,
    /// The key of its object's memo.
    pub memo: Arc<str>,
    /// The kind of its object.
    pub resource: Arc<Resource>,
    /// Asks the function to stop.
    pub stopped: Stopped,
    /// Cancels the function.
    pub cancelled: Stop,
    /// Set when the task has ended.
    pub ended: Stop,
    /// Whether the function has ended on its own, and the task only sends its last patch.
    is_concluding: AtomicBool,
    /// Whether a call has ended, and its patch is being sent.
    is_patching: AtomicBool,
    /// The span of its log lines.
    pub span: Span,
    /// Counts its state.
    pub gauge: TaskGauge,
    live: Arc<LiveBody>,
    limits: StopLimits,
    events: EventStream,
    stopping: Mutex<Option<Stopping>>,
}

/// How long a cycle of the object waits for the last patch of a stopping task. The event of the patch may come before
/// its answer.
const LAST_PATCH: Duration = Duration::from_secs(1);

/// The limits of a stop.
#[derive(Debug)]
pub(super) struct StopLimits {
    /// The time limits of its stages.
    pub cancellation: Cancellation,
    /// The wait for a task that ends at once.
    pub instant_exit: InstantExit,
    /// The number of tasks that have ended.
    pub ends: Arc<AtomicU64>,
}

/// The identity of a task, and the receivers of its states.
#[derive(Debug)]
pub(super) struct Reports {
    /// The digest of the declaration and the code.
    pub fingerprint: Fingerprint,
    /// The key of the object's memo.
    pub memo: Arc<str>,
    /// The kind of the object.
    pub resource: Arc<Resource>,
    /// The events of the operator.
    pub events: EventStream,
    /// The gauge of the task.
    pub gauge: TaskGauge,
}

/// The progress of a stop.
#[derive(Debug, Clone, Copy)]
struct Stopping {
    asked_at: Instant,
    reached: Stage,
}

impl RunningTask {
    /// Returns a task that begins.
    pub(super) fn new(
        handler: Arc<Handler>,
        live: Arc<LiveBody>,
        limits: StopLimits,
        reports: Reports,
        span: Span,
    ) -> Arc<Self> {
        let Reports { fingerprint, memo, resource, events, gauge } = reports;
        let (stopped, cancelled, ended) = (Stopped::default(), Stop::new(), Stop::new());
        let (is_concluding, is_patching, stopping) = (AtomicBool::new(false), AtomicBool::new(false), Mutex::default());
        Arc::new(Self {
            handler,
            fingerprint,
            memo,
            resource,
            stopped,
            cancelled,
            ended,
            is_concluding,
            is_patching,
            span,
            gauge,
            live,
            limits,
            events,
            stopping,
        })
    }

    /// Notes whether the function has ended on its own, and only its last patch is being sent.
    pub(super) fn set_concluding(&self, is_concluding: bool) {
        self.is_concluding.store(is_concluding && !self.stopped.is_set(), Ordering::Relaxed);
    }

    /// Notes whether a call has ended, and its patch is being sent.
    pub(super) fn set_patching(&self, is_patching: bool) {
        self.is_patching.store(is_patching, Ordering::Relaxed);
    }

    /// Tells whether a pause of the operator has stopped the task.
    pub(super) fn is_pausing(&self) -> bool {
        self.stopped.is_set() && self.stopped.flags().contains(&StopFlag::OperatorPausing)
    }

    /// Tells whether the function has ended on its own, and only its last patch is being sent.
    pub(super) fn is_concluding(&self) -> bool {
        self.is_concluding.load(Ordering::Relaxed)
    }

    /// Takes the next step of a stop in the cycles of the object. Returns the time until the next one; `None` if the
    /// task has ended or is no longer awaited.
    pub(super) async fn step(&self, reason: StopReason) -> Option<Duration> {
        let age = self.ask(reason).await;
        if self.is_patching.load(Ordering::Relaxed) {
            // No further event would come after that of the patch.
            let _ = tokio::time::timeout(LAST_PATCH, self.ended.requested()).await;
        }
        if self.ended.is_requested() {
            return None;
        }
        let reached = self.stopping.lock().map_or(Stage::Asked, |stopping| stopping.reached);
        let step = spawning::step(self.limits.cancellation, reached, age);
        self.enter(step);
        if step.enter.is_some() {
            self.limits.instant_exit.wait(&self.ended, &self.limits.ends).await;
        }
        step.delay.filter(|_| !self.ended.is_requested())
    }

    /// Stops the task without cycles of the object: waits for its end up to its limits.
    pub(super) async fn stop(&self, reason: StopReason) {
        self.ask(reason).await;
        let Cancellation { backoff, timeout, .. } = self.limits.cancellation;
        for (stage, limit) in [(Stage::Signalled, backoff), (Stage::Cancelled, timeout)] {
            if let Some(limit) = limit.filter(|_| !self.ended.is_requested()) {
                self.enter(Step { enter: self.is_new(stage).then_some(stage), delay: None });
                // The end is checked by the next stage.
                let _ = tokio::time::timeout(limit, self.ended.requested()).await;
            }
        }
        if !self.ended.is_requested() && self.is_new(Stage::Abandoned) {
            self.enter(Step { enter: Some(Stage::Abandoned), delay: None });
        }
    }

    /// Cancels the running call.
    pub(super) fn cancel(&self) {
        self.cancelled.request("the task is cancelled");
    }

    /// Asks the task to stop, if that is a new reason, and lets it end at once. Returns the time since the first
    /// request.
    async fn ask(&self, reason: StopReason) -> Duration {
        let now = Instant::now();
        let asked_at = self.stopping.lock().get_or_insert(Stopping { asked_at: now, reached: Stage::Asked }).asked_at;
        let flag = flag(reason);
        if !self.stopped.flags().contains(&flag) {
            self.emit(Stage::Asked);
            self.stopped.raise(flag);
            self.limits.instant_exit.wait(&self.ended, &self.limits.ends).await;
        }
        now - asked_at
    }

    fn is_new(&self, stage: Stage) -> bool {
        self.stopping.lock().is_none_or(|stopping| stopping.reached < stage)
    }

    fn emit(&self, stage: Stage) {
        self.gauge.stopping(stage == Stage::Abandoned);
        let (body, handler) = (&self.live.get(), &*self.handler);
        self.span.in_scope(|| self.events.emit(&EngineEvent::TaskStopping { body, handler, stage }));
    }

    fn enter(&self, step: Step) {
        if let Some(message) = spawning::step_message(&self.handler, step) {
            self.span.in_scope(|| self.events.log_message(&message));
        }
        let Some(stage) = step.enter else { return };
        if let Some(stopping) = &mut *self.stopping.lock() {
            stopping.reached = stopping.reached.max(stage);
        }
        self.emit(stage);
        match stage {
            Stage::Asked => {}
            Stage::Signalled => self.stopped.raise(StopFlag::DaemonSignalled),
            Stage::Cancelled => {
                self.stopped.raise(StopFlag::DaemonCancelled);
                self.cancel();
            }
            Stage::Abandoned => self.stopped.raise(StopFlag::DaemonAbandoned),
        }
    }
}

fn flag(reason: StopReason) -> StopFlag {
    match reason {
        StopReason::Deleted => StopFlag::ResourceDeleted,
        StopReason::Mismatch => StopFlag::FiltersMismatch,
        StopReason::Pausing => StopFlag::OperatorPausing,
        StopReason::Exiting => StopFlag::OperatorExiting,
        StopReason::Reloading => StopFlag::OperatorReloading,
    }
}
