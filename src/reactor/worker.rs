//! The worker of one object: takes its events one by one, and lives as long as there is something to wait for.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use jiff::{SignedDuration, Timestamp};

use crate::cluster;
use crate::handling::progress::seconds_between;
use crate::handling::telling::seconds;
use crate::handling::{Moment, Telling};
use crate::kit::errors::chain;
use crate::kit::{Stop, tasks};
use crate::object::{Body, Sighting};

use super::cycle::{Cycle, Served};
use super::error::Error;
use super::mailbox::{Event, Mailbox};
use super::memory::{Memories, Rare};
use super::world::World;

/// How workers behave; the operator's settings.
#[derive(Debug, Clone, PartialEq)]
pub struct Pace {
    /// The seconds that the own patch is waited for.
    pub consistency_timeout: f64,
    /// The seconds without events after which a worker ends that has patched its object and does not see it.
    pub idle_timeout: f64,
    /// The seconds to leave an object alone after repeated errors.
    pub error_delays: Vec<f64>,
}

impl Default for Pace {
    fn default() -> Self {
        let fibonacci = [1.0, 1.0, 2.0, 3.0, 5.0, 8.0, 13.0, 21.0, 34.0, 55.0, 89.0, 144.0, 233.0, 377.0, 610.0];
        Self { consistency_timeout: 5.0, idle_timeout: 5.0, error_delays: fibonacci.to_vec() }
    }
}

/// The worker of one object.
pub struct Worker<W: World> {
    /// The world around it.
    pub world: Arc<W>,
    /// The kind.
    pub served: Arc<Served>,
    /// The memories of the kind's objects.
    pub memories: Arc<Memories>,
    /// Where the object's events wait.
    pub mailbox: Arc<Mailbox>,
    /// The object's unique id.
    pub uid: Arc<str>,
    /// The name of the object's memory in scripts.
    pub memo: Arc<str>,
    /// How it behaves.
    pub pace: Arc<Pace>,
    /// Ends running calls.
    pub stop: Stop,
    /// The span of its log lines.
    pub span: tracing::Span,
    /// The version that the own last patch has led to.
    pub expected: Expected,
}

/// The version that the own last patch has led to, until it is seen.
#[derive(Debug, Clone, Default)]
pub struct Expected {
    version: Option<String>,
    until: Option<Timestamp>,
}

impl<W: World> Worker<W> {
    /// Processes events until none waits, or the mailbox is closed. A worker stays only for the event of its own patch.
    pub async fn run(&mut self) {
        loop {
            let Some(event) = self.mailbox.take(duration(self.patience())).await else { break };
            self.take_up(event).await;
            if self.stop.is_requested() {
                break;
            }
        }
        self.expected = Expected::default();
    }

    /// Returns the seconds to wait for an event. Where none is awaited, the next one may as well start a new worker:
    /// thousands of workers with nothing to do would cost memory, and know nothing that is not on the object.
    fn patience(&self) -> f64 {
        let now = self.world.clock().now();
        self.expected.until.map_or(0.0, |until| seconds_between(now, until).max(self.pace.idle_timeout))
    }

    async fn take_up(&mut self, event: Event) {
        let body = match cluster::watch::read(&event.raw, &self.served.resource) {
            Ok(body) => body,
            Err(error) => {
                self.world.tell(Telling::error(format!("Ignoring an event with an object that is no JSON: {error}")));
                return;
            }
        };
        if self.expected.version.is_some() && self.expected.version.as_deref() == body.resource_version() {
            self.expected = Expected::default();
        }
        let now = self.world.clock().now();
        self.world.taken_up(event.sighting, &body, self.expected.until.map(|until| seconds_between(now, until)));
        let version = self.process(event.sighting, body).await;
        if let Some(version) = version
            && self.pace.consistency_timeout > 0.0
        {
            let until = Moment::after(self.world.clock().now(), self.pace.consistency_timeout).at;
            self.expected = Expected { version: Some(version), until: Some(until) };
        }
    }

    /// Runs one cycle, unless the object is left alone after errors. Returns the version to wait for.
    async fn process(&mut self, sighting: Sighting, body: Body) -> Option<String> {
        self.memories.notice(&self.uid, sighting == Sighting::Listed);
        let memory = self.memories.flags(&self.uid);
        let mut rare = self.memories.take_rare(&self.uid);
        if sighting == Sighting::Deleted {
            self.memories.forget(&self.uid);
        }
        self.await_throttling(&mut rare).await;
        let seen = body.clone();
        let mut version = None;
        if rare.throttle.active_until().is_none() {
            let mut is_handled = false;
            let cycle = Cycle {
                world: &*self.world,
                served: &self.served,
                sighting,
                body,
                memory,
                remaining: rare.remaining.clone(),
                consistent_at: self.expected.until,
                mailbox: &self.mailbox,
                stop: self.stop.clone(),
                memo: Arc::clone(&self.memo),
                span: self.span.clone(),
            };
            let result = AssertUnwindSafe(cycle.run(&mut is_handled)).catch_unwind().await;
            if is_handled {
                self.memories.mark_handled(&self.uid);
            }
            match result {
                Ok(Ok(ended)) => {
                    rare.throttle.succeed();
                    self.world.cycled(&self.uid, &seen, None);
                    rare.remaining = ended.remaining;
                    version = ended.version;
                }
                Ok(Err(Error::Cancelled)) => {}
                Ok(Err(error)) => self.throttle(&mut rare, &seen, &chain(&error)).await,
                Err(panic) => self.throttle(&mut rare, &seen, &format!("a defect of the engine: {}", tasks::panic_text(&*panic))).await,
            }
        }
        if sighting == Sighting::Deleted {
            // Nothing is left of an object that is gone that could be brought to its end.
            self.world.cycled(&self.uid, &seen, None);
            self.world.forget(&self.memo);
        } else {
            self.memories.keep_rare(&self.uid, rare);
        }
        version
    }

    async fn await_throttling(&self, rare: &mut Rare) {
        if let Some(until) = rare.throttle.active_until() {
            let left = seconds_between(self.world.clock().now(), until);
            self.sleep_off(rare, left).await;
        }
    }

    async fn throttle(&self, rare: &mut Rare, body: &Body, error: &str) {
        self.world.cycled(&self.uid, body, Some(error));
        let now = self.world.clock().now();
        if let Some(delay) = rare.throttle.fail(&self.pace.error_delays, now) {
            self.world.tell(Telling::error(format!("Throttling for {} seconds due to an unexpected error: {error}", seconds(delay))));
            self.sleep_off(rare, delay).await;
        }
    }

    async fn sleep_off(&self, rare: &mut Rare, left: f64) {
        if self.mailbox.sleep(duration(left)).await {
            rare.throttle.lift();
            self.world.tell(Telling::info("Throttling is over. Switching back to normal operations."));
        }
    }
}

fn duration(seconds: f64) -> Duration {
    Duration::try_from(SignedDuration::try_from_secs_f64(seconds).unwrap_or(SignedDuration::MAX)).unwrap_or_default()
}
