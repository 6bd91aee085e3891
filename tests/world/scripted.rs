//! Scripted effects of cycles: handlers follow the vectors, patches go to the one-object server through the real
//! sending code.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::Timestamp;
use kopfd::cluster::{Applied, Confirmation, Unconfirmed, apply};
use kopfd::engines::background::{BackgroundOptions, InstantExit, TaskOptions};
use kopfd::engines::{Background, BackgroundTasks, Effects, EngineEvent, Environment, Error, EventSink, EventStream};
use kopfd::engines::{IndexEvent, Indexing, ObjectEvent, Patcher, Scripts};
use kopfd::handling::attempt::TEMPORARY_DELAY;
use kopfd::handling::spawning::BackgroundDemand;
use kopfd::handling::{Handler, On, Verdict, filter, select};
use kopfd::kit::Clock;
use kopfd::object::{Body, BodyFunction, Item, Patch, Reply, Resource, Transform};
use kopfd::script::{Call, Evaluation, Returned, Stopped, Subject};
use kopfd::telemetry::OperatorMetrics;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use super::callbacks::{Callbacks, Facts, Oracle};
use super::declare::{self, Declared, Script};
use super::host::ScriptHost;
use super::server::Server;
use super::timeline::{Entry, Timeline};

/// The target of log lines with the messages of the engine, which are written in the span of their object.
pub(crate) const TOLD: &str = "kopfd.told";

/// The steps of one case's handlers in each call, and the records of their calls.
pub(crate) struct Steps {
    pub(crate) scripts: Vec<Script>,
    timeline: Arc<Timeline>,
    server: Arc<Server>,
    calls: Mutex<BTreeMap<usize, usize>>,
}

impl Steps {
    /// Records a call with the values that its handler got, and returns its step: the last one repeats.
    pub(crate) fn call(&self, target: usize, seen: Value, started: Option<Timestamp>) -> Value {
        let script = &self.scripts[target];
        let mut calls = self.calls.lock();
        let count = calls.entry(target).or_default();
        let step = script.steps.get(*count).or(script.steps.last()).cloned().unwrap_or_else(|| json!({}));
        *count += 1;
        drop(calls);
        let mut shown = seen;
        shown["call"] = json!(script.id);
        let is_final = step.get("temporary").is_none() && step.get("error").is_none();
        self.timeline.add(Entry { shown, started, before: self.server.object(), is_final, ..Entry::default() });
        step
    }
}

/// The scripted world.
pub(crate) struct ScriptedWorld {
    pub(crate) timeline: Arc<Timeline>,
    pub(crate) server: Arc<Server>,
    pub(crate) handlers: Vec<Arc<Handler>>,
    pub(crate) steps: Arc<Steps>,
    pub(crate) callbacks: Callbacks,
    /// The patches that were sent.
    pub(crate) patches: Mutex<Vec<Patch>>,
    /// The delays of each cycle.
    pub(crate) delays: Arc<Mutex<Vec<Vec<Duration>>>>,
    /// Whether the essence had changed, for each update of background tasks.
    pub(crate) resets: Mutex<Vec<bool>>,
    /// Whether no sink wants the states of objects.
    pub(crate) ignores_states: Arc<AtomicBool>,
    /// Further sinks of the events.
    pub(crate) further_sinks: Arc<OnceLock<EventStream>>,
    events: EventStream,
    background: BackgroundTasks<Self>,
    /// Started with the first handler that has sub-handlers.
    host: OnceCell<ScriptHost>,
}

impl ScriptedWorld {
    /// Returns the world of some handlers.
    pub(crate) fn new(declared: Declared, server: Arc<Server>, timeline: Arc<Timeline>) -> Arc<Self> {
        let Declared { handlers, scripts, callbacks } = declared;
        let delays: Arc<Mutex<Vec<Vec<Duration>>>> = Arc::default();
        let ignores_states: Arc<AtomicBool> = Arc::default();
        let further_sinks: Arc<OnceLock<EventStream>> = Arc::default();
        let sink = TimelineSink {
            timeline: Arc::clone(&timeline),
            delays: Arc::clone(&delays),
            ignores_states: Arc::clone(&ignores_states),
            further_sinks: Arc::clone(&further_sinks),
        };
        let events = EventStream::default().with(Arc::new(sink));
        let options = background_options(&handlers, &scripts);
        let steps =
            Steps { scripts, timeline: Arc::clone(&timeline), server: Arc::clone(&server), calls: Mutex::default() };
        Arc::new_cyclic(|world| Self {
            timeline,
            server,
            handlers,
            steps: Arc::new(steps),
            callbacks,
            patches: Mutex::default(),
            delays,
            resets: Mutex::default(),
            ignores_states,
            further_sinks,
            events,
            background: BackgroundTasks::new(Weak::clone(world), options),
            host: OnceCell::new(),
        })
    }

    fn seen(&self, call: &Call) -> Value {
        match &call.subject {
            Subject::Change { reason, change, .. } => json!({
                "reason": reason.as_str(),
                "retry": call.retry,
                "runtime": self.clock().now().duration_since(call.started).as_secs_f64(),
                "old": change.old,
                "new": change.new,
                "diff": change.diff.iter().map(diff_item).collect::<Vec<_>>(),
            }),
            Subject::Event { event_kind, .. } => json!({"type": event_kind.event_type()}),
            other => panic!("the vectors call nothing for {other:?}"),
        }
    }

    /// Runs a daemon: it waits for its stop, takes the time of its script, and ends.
    async fn run_daemon(&self, handler: &Handler, stopped: &Stopped) -> Returned {
        let script = &self.steps.scripts[handler.target];
        self.timeline.add(Entry { shown: json!({"call": script.id}), ..Entry::default() });
        stopped.raised().await;
        let seconds = script.steps.first().and_then(|step| step["exits_after"].as_f64()).unwrap_or(0.0);
        if seconds > 0.0 {
            tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
        }
        self.timeline.add(Entry { shown: json!({"daemon_exit": script.id}), ..Entry::default() });
        Returned::new(Verdict::Returned(None), Patch::default())
    }

    async fn invoke(&self, handler: &Handler, call: Call) -> Returned {
        if let Subject::Background { stopped, .. } = &call.subject {
            return self.run_daemon(handler, stopped).await;
        }
        if !self.steps.scripts[handler.target].subs.is_empty() {
            return self.invoke_script(call).await;
        }
        let step = self.steps.call(handler.target, self.seen(&call), Some(call.started));
        if let Some(seconds) = step["takes"].as_f64() {
            tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
        }
        let mut patch = call.patch;
        if let Some(changes) = step.get("patch") {
            let mut merge = Value::Object(patch.merge);
            overlay(&mut merge, changes);
            patch.merge = merge.as_object().cloned().unwrap_or_default();
        }
        patch.transforms.extend(step["fns"].as_array().into_iter().flatten().map(transform));
        Returned::new(verdict(&step), patch)
    }

    /// Calls a handler with sub-handlers, as a script.
    async fn invoke_script(&self, call: Call) -> Returned {
        let start = || ScriptHost::start(Arc::clone(&self.steps), self.clock().clone());
        let returned = self.host.get_or_init(start).await.call(call).await;
        returned.messages.iter().for_each(|message| self.timeline.tell(message));
        returned
    }
}

impl Scripts for ScriptedWorld {
    fn call<'a>(&'a self, handler: &'a Handler, call: Call) -> BoxFuture<'a, Returned> {
        Box::pin(self.invoke(handler, call))
    }

    fn evaluate<'a>(&'a self, subject: &'a Subject, evaluation: Evaluation) -> BoxFuture<'a, Result<bool, String>> {
        let holds = self.callbacks.holds(evaluation.predicate, &evaluation.candidate, &Facts::of(subject));
        Box::pin(std::future::ready(Ok(holds)))
    }
}

impl Patcher for ScriptedWorld {
    fn apply<'a>(
        &'a self,
        resource: &'a Resource,
        body: &'a Body,
        patch: &'a Patch,
        _: &'a dyn Confirmation,
    ) -> BoxFuture<'a, Result<Applied, Error>> {
        self.patches.lock().push(patch.clone());
        // The golden cases have the times of kopf, which awaits no events between its requests.
        Box::pin(async move { Ok(apply::apply(&*self.server, resource, body, patch, &Unconfirmed).await?) })
    }
}

impl Background for ScriptedWorld {
    fn update_background<'a>(&'a self, event: ObjectEvent<'a>) -> BoxFuture<'a, Result<BackgroundDemand, Error>> {
        self.resets.lock().push(!event.change.diff.is_empty());
        Box::pin(self.background.update(event))
    }

    fn has_background(&self, memo: &str) -> bool {
        self.background.has_tasks(memo)
    }
}

impl Indexing for ScriptedWorld {
    fn index<'a>(&'a self, event: IndexEvent<'a>) -> BoxFuture<'a, Result<(), Error>> {
        let IndexEvent { object, event_kind, handlers, .. } = event;
        let view = filter::View { body: &object.body, change: None };
        let oracle = Oracle { callbacks: &self.callbacks, facts: Facts::of_event(&object.body, event_kind) };
        let selected = select::indexing(handlers, view, &oracle);
        for handler in selected.expect("the world answers all questions") {
            let shown = json!({"call": self.steps.scripts[handler.target].id, "type": event_kind.event_type()});
            self.timeline.add(Entry { shown, ..Entry::default() });
        }
        Box::pin(std::future::ready(Ok(())))
    }
}

impl Environment for ScriptedWorld {
    fn clock(&self) -> &Clock {
        &self.timeline.clock
    }
}

impl Effects for ScriptedWorld {
    fn events(&self) -> &EventStream {
        &self.events
    }
}

/// Returns the options of the daemons. The timers of the vectors are only selected.
fn background_options(handlers: &[Arc<Handler>], scripts: &[Script]) -> BackgroundOptions {
    let daemons = handlers.iter().filter(|handler| handler.on == On::Daemon);
    let options = |handler: &Arc<Handler>| TaskOptions {
        initial_delay: None,
        schedule: None,
        cancellation: scripts[handler.target].cancellation,
        metrics: Arc::new(OperatorMetrics::default().daemon(&handler.id)),
        fingerprint: handler.target.to_string().into(),
    };
    BackgroundOptions {
        tasks: daemons.map(|handler| (handler.target, Arc::new(options(handler)))).collect(),
        instant_exit: InstantExit { timeout: None, turns: 10, grace: Duration::ZERO },
        revision: Arc::default(),
        default_backoff: TEMPORARY_DELAY,
        error_delays: [].into(),
    }
}

/// Records the events of the engine in the timeline.
struct TimelineSink {
    timeline: Arc<Timeline>,
    delays: Arc<Mutex<Vec<Vec<Duration>>>>,
    ignores_states: Arc<AtomicBool>,
    further_sinks: Arc<OnceLock<EventStream>>,
}

impl EventSink for TimelineSink {
    fn accept(&self, event: &EngineEvent<'_>) {
        if let Some(sinks) = self.further_sinks.get() {
            sinks.emit(event);
        }
        match event {
            EngineEvent::Message(message) => {
                tracing::trace!(target: TOLD, "{}", message.text);
                self.timeline.tell(message);
            }
            EngineEvent::ObjectSeen { body, event_kind, consistency_in } => {
                let mut shown = json!({"event": event_kind.event_type(), "rv": body.resource_version()});
                if let Some(left) = consistency_in {
                    shown["consistency_in"] = json!(left.as_secs_f64());
                }
                self.timeline.add(Entry { shown, before: Value::clone(body), ..Entry::default() });
            }
            EngineEvent::CycleDecided { delays } => self.delays.lock().push(delays.to_vec()),
            _ => {}
        }
    }

    fn wants_debugging(&self) -> bool {
        true
    }

    fn wants_states(&self) -> bool {
        !self.ignores_states.load(Ordering::Relaxed)
    }
}

/// Returns a difference in the form of the vectors.
pub(crate) fn diff_item(item: &Item) -> Value {
    json!([item.op.as_str(), item.path, item.old, item.new])
}

fn verdict(step: &Value) -> Verdict {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    if let Some(error) = step.get("temporary") {
        let delay = step.get("delay").map_or(Some(TEMPORARY_DELAY), declare::duration);
        return Verdict::Temporary { text: error.as_str().map(str::to_owned), delay };
    }
    if let Some(error) = step.get("permanent") {
        return Verdict::Permanent { text: text(error) };
    }
    if let Some(error) = step.get("error") {
        return Verdict::Failed {
            text: text(error),
            representation: format!("ValueError('{}')", text(error)),
            trace: None,
        };
    }
    Verdict::Returned(step.get("return").filter(|result| !result.is_null()).cloned())
}

/// Merges changes of a handler: nulls are kept, since they delete fields.
fn overlay(target: &mut Value, changes: &Value) {
    match (target, changes) {
        (Value::Object(target), Value::Object(changes)) => {
            for (key, change) in changes {
                overlay(target.entry(key.clone()).or_insert(Value::Null), change);
            }
        }
        (target, changes) => *target = changes.clone(),
    }
}

/// Returns a function over the body, by its name in the vectors.
pub(crate) fn transform(spec: &Value) -> Transform {
    let name = || spec["name"].as_str().unwrap_or_default().to_owned();
    match spec["fn"].as_str().unwrap_or_default() {
        "add_finalizer" => Transform::AddFinalizer(name()),
        "remove_finalizer" => Transform::RemoveFinalizer(name()),
        _ => Transform::Function(Arc::new(Function(spec.clone()))),
    }
}

#[derive(Debug)]
struct Function(Value);

impl BodyFunction for Function {
    fn start(&self, mut body: Value, reply: Reply) {
        let path = declare::keys(&self.0["path"]);
        let (last, parents) = path.split_last().expect("a function has a path");
        let parent = parents.iter().fold(&mut body, |object, key| {
            if object.get(key).is_none() {
                object[key] = json!({});
            }
            &mut object[key]
        });
        let value = self.0["value"].clone();
        let list = |parent: &mut Value| parent.get(last).and_then(Value::as_array).cloned().unwrap_or_default();
        match self.0["fn"].as_str().unwrap_or_default() {
            "set" => parent[last] = value,
            "delete" => drop(parent.as_object_mut().and_then(|parent| parent.remove(last))),
            "append" => {
                let mut items = list(parent);
                if !items.contains(&value) {
                    items.push(value);
                }
                parent[last] = items.into();
            }
            "remove_item" => {
                let mut items = list(parent);
                items.retain(|item| *item != value);
                parent[last] = items.into();
            }
            "insert0" => {
                let mut items = list(parent);
                items.insert(0, value);
                parent[last] = items.into();
            }
            other => return reply(Err(format!("the function {other:?} is unknown"))),
        }
        reply(Ok(body));
    }
}
