//! Daemons of the scripted world: each waits for its stop, takes the time of its script, and ends.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kopfd::handling::progress::time_between;
use kopfd::handling::spawning::{self, BackgroundDemand, BackgroundPlan, RunningTasks, Stage};
use kopfd::handling::{Handler, Message, On, SpawningHandlers, attempt, filter};
use kopfd::kit::{Stop, Tasks};
use kopfd::object::EventKind;
use kopfd::script::Object;
use parking_lot::Mutex;
use serde_json::json;

use super::callbacks::{Facts, Oracle};
use super::declare::Script;
use super::scripted::ScriptedWorld;
use super::timeline::{Entry, Timeline};

/// Number of turns of other tasks, in which a stopped task may end at once.
const INSTANT_TURNS: usize = 10;

/// The daemons of the one object.
#[derive(Default)]
pub(crate) struct Daemons {
    running: Mutex<BTreeMap<String, Running>>,
    tasks: Mutex<Tasks<()>>,
}

#[derive(Clone)]
struct Running {
    handler: Arc<Handler>,
    stop: Stop,
    /// When it was asked to stop, and the stage of the stop.
    stopping: Option<(Timestamp, Stage)>,
    has_ended: Arc<Mutex<bool>>,
}

impl Daemons {
    /// Starts and stops daemons as planned.
    pub(crate) async fn update_background(&self, world: &ScriptedWorld, object: &Object, event_kind: EventKind) -> BackgroundDemand {
        let mut demand = BackgroundDemand::default();
        self.running.lock().retain(|_, running| !*running.has_ended.lock());
        let oracle = Oracle { callbacks: &world.callbacks, facts: Facts::of_event(&object.body, event_kind) };
        let running: BTreeSet<String> = self.running.lock().keys().cloned().collect();
        let tasks =
            RunningTasks { running: &running, ended: &BTreeSet::new(), is_paused: false, is_gone: event_kind == EventKind::Deleted };
        let view = filter::View { body: &object.body, change: None };
        let handlers = SpawningHandlers::of(world.handlers.iter().cloned());
        let plan = spawning::plan(&handlers, tasks, view, &oracle).expect("the world answers all questions");
        let BackgroundPlan { spawn, stop, demand_finalizer } = plan;
        demand.demand_finalizer = demand_finalizer;
        spawn.into_iter().filter(|handler| handler.on == On::Daemon).for_each(|handler| self.spawn(world, handler));
        for (id, _) in stop {
            demand.delays.extend(self.stop(world, &id).await);
        }
        demand
    }

    fn spawn(&self, world: &ScriptedWorld, handler: &Handler) {
        let (stop, has_ended) = (Stop::new(), Arc::new(Mutex::new(false)));
        let running = Running { handler: Arc::new(handler.clone()), stop: stop.clone(), stopping: None, has_ended };
        let life = live(running.clone(), world.steps.scripts[handler.target].clone(), Arc::clone(&world.timeline));
        self.running.lock().insert(handler.id.clone(), running);
        self.tasks.lock().spawn(handler.id.clone(), life);
    }

    /// Returns the time until the task is checked again, if it has not ended.
    async fn stop(&self, world: &ScriptedWorld, id: &str) -> Option<Duration> {
        let now = world.timeline.clock.now();
        let mut running = self.running.lock().get(id).cloned()?;
        if running.stopping.is_none() {
            running.stop.request("the object does not need it");
            running.end_at_once().await;
        }
        let (asked_at, reached) = *running.stopping.get_or_insert((now, Stage::Asked));
        if *running.has_ended.lock() {
            return None;
        }
        let script = &world.steps.scripts[running.handler.target];
        let step = spawning::step(script.cancellation, reached, time_between(asked_at, now));
        if let Some(message) = spawning::step_message(&running.handler, step) {
            world.timeline.tell(&message);
        }
        running.stopping = Some((asked_at, step.enter.unwrap_or(reached)));
        if step.enter.is_some() {
            running.end_at_once().await;
        }
        let delay = step.delay.filter(|_| !*running.has_ended.lock());
        self.running.lock().insert(id.to_owned(), running);
        delay
    }
}

impl Running {
    async fn end_at_once(&self) {
        for _ in 0..INSTANT_TURNS {
            if *self.has_ended.lock() {
                return;
            }
            tokio::task::yield_now().await;
        }
    }
}

async fn live(running: Running, script: Script, timeline: Arc<Timeline>) {
    timeline.tell(&attempt::announce(&running.handler));
    timeline.add(Entry { shown: json!({"call": script.id}), ..Entry::default() });
    running.stop.requested().await;
    let seconds = script.steps.first().and_then(|step| step["exits_after"].as_f64()).unwrap_or(0.0);
    if seconds > 0.0 {
        tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
    }
    timeline.add(Entry { shown: json!({"daemon_exit": script.id}), ..Entry::default() });
    timeline.tell(&Message::info(format!("{} succeeded.", running.handler.title())));
    timeline.tell(&spawning::end_message(&running.handler, true));
    *running.has_ended.lock() = true;
}
