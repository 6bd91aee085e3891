//! Daemons and timers: one task for each object and handler.
//!
//! `handling::spawning` decides which tasks are started and stopped, `handling::timer` when a timer is called. A task
//! makes its attempts with the operator's effects, and sends a patch of its own after each of them.

#[cfg(test)]
pub(crate) mod defects;
mod object;
pub(crate) mod options;
mod registry;
mod revisions;
mod running;
mod task;

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::future::join_all;
use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::Instrument as _;

use super::effects::{Effects, ObjectEvent};
use super::error::Error;
use super::events::EngineEvent;
use super::settling::settled;
use crate::handling::filter::{Answers, View};
use crate::handling::spawning::{self, BackgroundDemand, RunningTasks, StopReason};
use crate::handling::trial::TrialScope;
use crate::handling::{Handler, Unsettled};
use crate::kit::TaskGroup;
use crate::object::{Body, EventKind, Resource};
use crate::script::{LiveBody, Object, StopFlag, Stopped, Subject};
use crate::telemetry::object_span;

use object::{ObjectTasks, Replacement, TaskIds};
pub use options::{BackgroundOptions, InstantExit, TaskOptions};
use registry::Registry;
use revisions::{TaskRevision, TaskRevisions};
use running::{Reports, RunningTask, StopLimits};
use task::Task;

/// How long abandoned tasks may continue before an exiting operator cancels them.
const HUNG_TASK_TIMEOUT: Duration = Duration::from_secs(5);

/// Time limit for cancelled calls to end.
const CANCELLATION: Duration = Duration::from_secs(1);

/// The daemons and timers of one operator.
pub struct BackgroundTasks<W: Effects>(Arc<Shared<W>>);

/// The state that the tasks share.
struct Shared<W: Effects> {
    revisions: Arc<TaskRevisions<W>>,
    /// The objects whose kinds have daemons or timers, by the keys of their memos.
    objects: Mutex<HashMap<Arc<str>, Arc<ObjectTasks>>>,
    registry: Arc<Registry>,
    tasks: TaskGroup,
    /// How long tasks beyond their limits may continue at the exit.
    hung_timeout: Mutex<Duration>,
    /// The beginning of the time of schedules.
    origin: Instant,
}

impl<W: Effects + 'static> BackgroundTasks<W> {
    /// Returns the daemons and timers of an operator. None runs yet.
    pub fn new(effects: Weak<W>, options: BackgroundOptions) -> Self {
        Self(Arc::new(Shared {
            revisions: Arc::new(TaskRevisions::new(effects, options)),
            objects: Mutex::default(),
            registry: Arc::default(),
            tasks: TaskGroup::default(),
            hung_timeout: Mutex::new(HUNG_TASK_TIMEOUT),
            origin: Instant::now(),
        }))
    }

    /// Follows another revision of the operator: later attempts are made with its code. Tasks whose declaration or code
    /// has changed are asked to stop; they start again at the next event of their object, or when they have ended after
    /// it.
    pub fn revise(&self, number: u32, effects: Weak<W>, options: BackgroundOptions) {
        self.0.revisions.replace(TaskRevision { number, effects, options: Arc::new(options) });
        self.stop_outdated();
    }

    /// Lets a revision serve the tasks of some objects, as [`Self::revise`] does for all.
    pub fn try_out(&self, number: u32, effects: Weak<W>, options: BackgroundOptions, scope: TrialScope) {
        self.0.revisions.try_out(TaskRevision { number, effects, options: Arc::new(options) }, scope);
        self.stop_outdated();
    }

    /// Lets the newest revision serve the tasks of all objects again.
    pub fn withdraw(&self) {
        self.0.revisions.withdraw();
        self.stop_outdated();
    }

    /// Asks the tasks to stop whose declaration is not that of the revision that serves their objects.
    fn stop_outdated(&self) {
        for task in self.0.registry.all() {
            let options = self.0.revisions.of(&task.memo, &task.resource).map(|(_, options)| options);
            if options.is_some_and(|options| options.target_of(&task.fingerprint).is_none()) {
                self.0.stop(task, StopReason::Reloading);
            }
        }
    }

    /// Does the same as [`Self::update`] for a cycle of a revision. If a newer one is followed already, nothing is
    /// started or stopped: the object gets another cycle.
    ///
    /// # Errors
    /// If a filter fails, or the object is malformed.
    pub async fn update_in(&self, revision: u32, event: ObjectEvent<'_>) -> Result<BackgroundDemand, Error> {
        let (memo, resource) = (&event.object.memo.key, &event.object.resource);
        if revision == self.0.revisions.number(memo, resource) || event.event_kind == EventKind::Deleted {
            return self.update(event).await;
        }
        let Some((effects, options)) = self.0.revisions.of(memo, resource) else {
            return Ok(BackgroundDemand::default());
        };
        let object = self.0.objects.lock().get(&event.object.memo.key).map(Arc::clone);
        let object = object.unwrap_or_else(|| ObjectTasks::new(event.object.memo.clone()));
        let demand_finalizer = self.plan(&*effects, &options, &object, &event).await?.demand_finalizer;
        Ok(BackgroundDemand { demand_finalizer, delays: Vec::new() })
    }

    /// Starts and stops the tasks of an object, and returns what its cycle has to wait for.
    ///
    /// # Errors
    /// If a filter fails, or the object is malformed.
    pub async fn update(&self, event: ObjectEvent<'_>) -> Result<BackgroundDemand, Error> {
        let memo = &event.object.memo;
        let revision = self.0.revisions.of(&memo.key, &event.object.resource);
        let Some((effects, options)) = revision else { return Ok(BackgroundDemand::default()) };
        if event.event_kind == EventKind::Deleted {
            let object = self.forget(&memo.key).unwrap_or_else(|| ObjectTasks::new(memo.clone()));
            let demand_finalizer = self.plan(&*effects, &options, &object, &event).await?.demand_finalizer;
            return Ok(BackgroundDemand { demand_finalizer, delays: Vec::new() });
        }
        let object = Arc::clone(
            self.0.objects.lock().entry(Arc::clone(&memo.key)).or_insert_with(|| ObjectTasks::new(memo.clone())),
        );
        object.observe(&event);
        let events = effects.events();
        events.emit(&EngineEvent::BackgroundObserved { body: &event.object.body });
        let planned = self.plan(&*effects, &options, &object, &event).await?;
        events.emit(&EngineEvent::BackgroundDecided { body: &event.object.body, answers: &planned.answers });
        object.replace(planned.replace);
        let (resource, body) = (&event.object.resource, &event.object.body);
        planned.spawn.iter().for_each(|handler| self.0.spawn(&object, handler, resource, body));
        let stops = planned.stop.iter().filter_map(|(id, reason)| Some((object.task(id)?, *reason)));
        let steps = stops.map(|(task, reason)| async move { task.step(reason).await });
        let delays = join_all(steps).await.into_iter().flatten().collect();
        Ok(BackgroundDemand { demand_finalizer: planned.demand_finalizer, delays })
    }

    /// Decides which tasks are started and stopped.
    async fn plan(
        &self,
        effects: &W,
        options: &BackgroundOptions,
        object: &ObjectTasks,
        event: &ObjectEvent<'_>,
    ) -> Result<Planned, Error> {
        let view = View { body: &event.object.body, change: None };
        let subject = || {
            let live = LiveBody::new(event.object.body.clone());
            let Object { resource, memo, .. } = event.object;
            Subject::Background {
                resource: Arc::clone(resource),
                live,
                memo: memo.clone(),
                stopped: Stopped::default(),
            }
        };
        let decide = |answers: &Answers| {
            let TaskIds { running, outdated, ended } =
                object.ids(event.object.body.is_deleting(), |fingerprint| options.target_of(fingerprint).is_some());
            let tasks =
                RunningTasks { running: &running, outdated: &outdated, ended: &ended, halt: self.0.registry.halt() };
            let plan = spawning::plan(event.handlers, tasks, view, answers)?;
            let shared = |handlers: Vec<&Handler>| {
                handlers.into_iter().filter_map(|handler| event.handlers.shared(handler)).collect()
            };
            let (spawn, replace) = (shared(plan.spawn), shared(plan.replace));
            let (stop, demand_finalizer) = (plan.stop, plan.demand_finalizer);
            Ok::<_, Unsettled>(Planned { spawn, replace, stop, demand_finalizer, answers: answers.clone() })
        };
        settled(effects, subject, decide).await
    }

    /// Forgets an object that is deleted or no longer watched. Its tasks are stopped.
    pub fn leave(&self, memo: &str) {
        self.forget(memo);
    }

    fn forget(&self, memo: &str) -> Option<Arc<ObjectTasks>> {
        let object = self.0.objects.lock().remove(memo)?;
        for task in object.leave() {
            self.0.stop(task, StopReason::Deleted);
        }
        Some(object)
    }

    /// Tells whether an object is followed: it was seen, and is not forgotten.
    pub fn follows(&self, memo: &str) -> bool {
        self.0.objects.lock().contains_key(memo)
    }

    /// Tells whether an object has running tasks.
    pub fn has_tasks(&self, memo: &str) -> bool {
        self.0.objects.lock().get(memo).is_some_and(|object| object.has_tasks())
    }

    /// Stops all tasks, without waiting for their end. Until [`Self::resume`], none is started.
    pub fn pause(&self) {
        self.0.registry.set_halt(Some(StopReason::Pausing));
        for task in self.0.registry.all() {
            self.0.stop(task, StopReason::Pausing);
        }
    }

    /// Allows tasks again. They are started at the next events of their objects; tasks that are still stopping, when
    /// they have ended after that.
    pub fn resume(&self) {
        self.0.registry.set_halt(None);
    }

    /// Forgets all objects, and cancels their tasks without their stages, since another replica may lead: nothing is
    /// written after that. Until [`Self::resume`], none is started.
    pub async fn suspend(&self) {
        self.0.registry.set_halt(Some(StopReason::Pausing));
        let objects: Vec<_> = self.0.objects.lock().drain().map(|(_, object)| object).collect();
        for object in objects {
            drop(object.leave());
        }
        for task in self.0.registry.all() {
            task.stopped.raise(StopFlag::OperatorPausing);
            task.cancel();
        }
        self.0.tasks.settle(Duration::MAX).await;
    }

    /// Sets how long tasks that do not end within their limits may continue when the operator exits.
    pub fn limit_exit(&self, limit: Duration) {
        *self.0.hung_timeout.lock() = limit;
    }

    /// Stops all tasks, since the operator exits. Tasks that do not end within their limits are cancelled at last.
    pub async fn end(&self) {
        self.halt(StopReason::Exiting).await;
        let hung_timeout = *self.0.hung_timeout.lock();
        if !self.0.tasks.settle(hung_timeout).await {
            self.0.registry.all().iter().for_each(|task| task.cancel());
            self.0.tasks.settle(CANCELLATION).await;
        }
        self.0.tasks.abandon().await;
    }

    async fn halt(&self, reason: StopReason) {
        self.0.registry.set_halt(Some(reason));
        let tasks = self.0.registry.all();
        join_all(tasks.iter().map(|task| task.stop(reason))).await;
    }

    /// Drops all tasks without waiting.
    pub fn abandon(&self) {
        self.0.registry.set_halt(Some(StopReason::Exiting));
        self.0.tasks.cancel();
    }
}

impl<W: Effects + 'static> Shared<W> {
    /// Stops a task without waiting for its end.
    fn stop(&self, task: Arc<RunningTask>, reason: StopReason) {
        let handler = Arc::clone(&task.handler);
        self.tasks.spawn(move || format!("stop of {}", handler.title()), async move { task.stop(reason).await });
    }

    fn spawn(
        self: &Arc<Self>,
        object: &Arc<ObjectTasks>,
        handler: &Arc<Handler>,
        resource: &Arc<Resource>,
        body: &Body,
    ) {
        let memo = &object.memo.key;
        let Some((effects, newest)) = self.revisions.of(memo, resource) else { return };
        let Some(options) = newest.tasks.get(&handler.target) else { return };
        let span = object_span(resource, body.namespace(), body.name(), body.uid().unwrap_or_default());
        span.record("revision", &*newest.revision);
        let (cancellation, instant_exit) = (options.cancellation, newest.instant_exit);
        let (fingerprint, gauge) = (Arc::clone(&options.fingerprint), options.metrics.task());
        let (memo, resource_of_task) = (Arc::clone(memo), Arc::clone(resource));
        let reports =
            Reports { fingerprint, memo, resource: resource_of_task, events: effects.events().clone(), gauge };
        let limits = StopLimits { cancellation, instant_exit, ends: self.registry.ends() };
        let start = |live: &Arc<LiveBody>| {
            let running = RunningTask::new(Arc::clone(handler), Arc::clone(live), limits, reports, span.clone());
            let number = self.registry.add(&running)?;
            Some((running, number))
        };
        // The object may have gone while filters were evaluated.
        let Some((running, live, number)) = object.begin((resource, body), start) else { return };
        let (schedule, initial_delay) = (options.schedule.as_ref(), options.initial_delay);
        span.in_scope(|| effects.events().emit(&EngineEvent::TaskStarted { body, handler, schedule, initial_delay }));
        let task = Box::new(Task::new(task::Parts {
            revisions: Arc::clone(&self.revisions),
            registry: Arc::clone(&self.registry),
            origin: self.origin,
            clock: effects.clock().clone(),
            events: effects.events().clone(),
            object: Arc::clone(object),
            running,
            live,
            options: Arc::clone(options),
            error_delays: Arc::clone(&newest.error_delays),
            number,
        }));
        let (shared, object, name) = (Arc::clone(self), Arc::clone(object), handler.title());
        let run = async move {
            if let Some(Replacement { resource, body, handler }) = task.run().await {
                shared.spawn(&object, &handler, &resource, &body);
            }
        };
        self.tasks.spawn(move || name, run.instrument(span));
    }
}

/// The tasks to start and to stop.
struct Planned {
    spawn: Vec<Arc<Handler>>,
    replace: Vec<Arc<Handler>>,
    stop: Vec<(String, StopReason)>,
    demand_finalizer: bool,
    /// The values of the filters' expressions.
    answers: Answers,
}

#[cfg(test)]
mod tests;
