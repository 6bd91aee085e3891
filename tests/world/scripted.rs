//! The world around the cycles, scripted: handlers do what the vectors say, patches go to the one-object server through the real sending code.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use kopfd::cluster::{Applied, apply};
use kopfd::handling::attempt::TEMPORARY_DELAY;
use kopfd::handling::spawning::Companions;
use kopfd::handling::subhandling::{self, Pass};
use kopfd::handling::{Handler, Record, Telling, Verdict, attempt, filter, select};
use kopfd::kit::Clock;
use kopfd::object::{Body, BodyFunction, Item, Patch, Resource, Sighting, Transform};
use kopfd::reactor::{Error, World};
use kopfd::script::{Arguments, Call, Evaluation, Returned, Subhandling};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::callbacks::{Callbacks, Facts, Oracle};
use super::companions::Daemons;
use super::declare::{self, Declared, Script};
use super::server::Server;
use super::timeline::{Entry, Timeline};

/// The scripted world.
pub struct ScriptedWorld {
    pub timeline: Arc<Timeline>,
    pub server: Arc<Server>,
    pub handlers: Vec<Arc<Handler>>,
    pub scripts: Vec<Script>,
    pub callbacks: Callbacks,
    /// The patches that were sent.
    pub patches: Mutex<Vec<Patch>>,
    /// What each cycle had to wait for.
    pub delays: Mutex<Vec<Vec<f64>>>,
    daemons: Daemons,
    calls: Mutex<BTreeMap<usize, usize>>,
}

impl ScriptedWorld {
    /// Returns the world of some handlers.
    pub fn new(declared: Declared, server: Arc<Server>, timeline: Arc<Timeline>) -> Self {
        let Declared { handlers, scripts, callbacks } = declared;
        Self {
            timeline,
            server,
            handlers,
            scripts,
            callbacks,
            patches: Mutex::default(),
            delays: Mutex::default(),
            daemons: Daemons::default(),
            calls: Mutex::default(),
        }
    }

    /// Returns what happens in the next call of a handler: the last step repeats.
    fn next_step(&self, target: usize) -> Value {
        let mut calls = self.calls.lock();
        let count = calls.entry(target).or_default();
        let steps = &self.scripts[target].steps;
        let step = steps.get(*count).or(steps.last()).cloned().unwrap_or_else(|| json!({}));
        *count += 1;
        step
    }

    fn note_call(&self, handler: &Handler, call: &Call, step: &Value) {
        let Arguments { reason, change, sighting, .. } = &call.arguments;
        let id = &self.scripts[handler.target].id;
        let shown = match reason {
            None => json!({"call": id, "type": sighting.event_type()}),
            Some(reason) => json!({
                "call": id,
                "reason": reason.as_str(),
                "retry": call.retry,
                "runtime": kopfd::handling::progress::seconds_between(call.started, self.clock().now()),
                "old": change.old,
                "new": change.new,
                "diff": change.diff.iter().map(diff_item).collect::<Vec<_>>(),
            }),
        };
        let is_final = step.get("temporary").is_none() && step.get("error").is_none();
        self.timeline.add(Entry { shown, started: Some(call.started), before: self.server.object(), is_final });
    }

    async fn invoke(&self, handler: &Handler, mut call: Call) -> Returned {
        let step = self.next_step(handler.target);
        self.note_call(handler, &call, &step);
        if let Some(seconds) = step["takes"].as_f64() {
            tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
        }
        let mut patch = std::mem::take(&mut call.patch);
        if let Some(changes) = step.get("patch") {
            let mut merge = Value::Object(std::mem::take(&mut patch.merge));
            overlay(&mut merge, changes);
            patch.merge = merge.as_object().cloned().unwrap_or_default();
        }
        patch.transforms.extend(step["fns"].as_array().into_iter().flatten().map(transform));
        let verdict = verdict(&step);
        let mut returned = Returned {
            verdict,
            patch,
            records: BTreeMap::new(),
            subrefs: Vec::new(),
            tellings: Vec::new(),
            attempts: Vec::new(),
            is_cancelled: false,
        };
        if let (Verdict::Returned(_), Some(subhandling)) = (&returned.verdict, call.subhandling.clone())
            && let Some(delay) = self.run_subs(handler, &call, &subhandling, &mut returned).await
        {
            returned.verdict = Verdict::Unfinished { delay };
        }
        returned
    }

    /// Runs one pass over the sub-handlers. Returns the seconds until the next one, if any is unfinished.
    async fn run_subs(&self, parent: &Handler, call: &Call, subhandling: &Subhandling, returned: &mut Returned) -> Option<f64> {
        let registered = &self.scripts[parent.target].subs;
        if registered.is_empty() {
            return None;
        }
        let arguments = &call.arguments;
        let view = filter::View { body: &arguments.body, change: Some(&arguments.change) };
        let oracle = Oracle { callbacks: &self.callbacks, facts: Facts::of(arguments) };
        let selected = subhandling::select(registered, view, &oracle).expect("the world answers all questions");
        let (purpose, lifecycle) = (subhandling.purpose, subhandling.lifecycle);
        let pass = Pass::begin(registered, &selected, &*subhandling.records, purpose, lifecycle, self.clock().now(), &mut |_| 0);
        let pass = pass.expect("the vectors' records of sub-handlers are well-formed");
        let mut outcomes = Vec::new();
        for handler in pass.run.clone() {
            let record = pass.record(&handler.id).expect("a handler that is run has a record");
            let outcome = self.attempt_sub(handler, record, call, subhandling, returned).await;
            outcomes.push((handler.id.clone(), outcome));
        }
        let end = pass.end(&outcomes, self.clock().now());
        returned.records.extend(end.store);
        returned.subrefs.extend(end.subrefs);
        end.results.into_iter().for_each(|(id, result)| returned.patch.deliver(&id, result));
        end.delay
    }

    async fn attempt_sub(
        &self,
        handler: &Handler,
        record: &Record,
        parent: &Call,
        subhandling: &Subhandling,
        returned: &mut Returned,
    ) -> attempt::Outcome {
        self.tell(attempt::announce(handler));
        if let Some((outcome, telling)) = attempt::check_limits(handler, record, self.clock().now()) {
            self.tell(telling);
            return outcome;
        }
        let mut arguments = parent.arguments.clone();
        if let Some(field) = &handler.field {
            arguments.change = Arc::new(arguments.change.reduced_to(field));
        }
        let call = Call {
            target: handler.target,
            arguments,
            patch: std::mem::take(&mut returned.patch),
            retry: record.retries,
            started: record.started.at,
            subhandling: Some(Subhandling { parent: Arc::new(handler.clone()), ..subhandling.clone() }),
            ..parent.clone()
        };
        let sub = Box::pin(self.invoke(handler, call)).await;
        returned.patch = sub.patch;
        returned.records.extend(sub.records);
        let (mut outcome, telling) = attempt::judge(handler, record, sub.verdict, self.clock().now(), subhandling.default_backoff);
        outcome.subrefs = sub.subrefs;
        self.tell(telling);
        outcome
    }
}

impl World for ScriptedWorld {
    fn call<'a>(&'a self, handler: &'a Handler, call: Call) -> BoxFuture<'a, Returned> {
        Box::pin(self.invoke(handler, call))
    }

    fn evaluate<'a>(&'a self, arguments: &'a Arguments, evaluation: Evaluation) -> BoxFuture<'a, Result<bool, String>> {
        let holds = self.callbacks.holds(evaluation.predicate, &evaluation.candidate, &Facts::of(arguments));
        Box::pin(std::future::ready(Ok(holds)))
    }

    fn apply<'a>(&'a self, resource: &'a Resource, body: &'a Body, patch: &'a Patch) -> BoxFuture<'a, Result<Applied, Error>> {
        self.patches.lock().push(patch.clone());
        Box::pin(async move { Ok(apply::apply(&*self.server, resource, body, patch).await?) })
    }

    fn accompany<'a>(&'a self, arguments: &'a Arguments, _is_reset: bool) -> BoxFuture<'a, Result<Companions, Error>> {
        Box::pin(async { Ok(self.daemons.accompany(self, arguments).await) })
    }

    fn index<'a>(&'a self, arguments: &'a Arguments) -> BoxFuture<'a, Result<(), Error>> {
        let view = filter::View { body: &arguments.body, change: None };
        let oracle = Oracle { callbacks: &self.callbacks, facts: Facts::of(arguments) };
        let selected = select::indexing(self.handlers.iter().map(AsRef::as_ref), view, &oracle);
        for handler in selected.expect("the world answers all questions") {
            let shown = json!({"call": self.scripts[handler.target].id, "type": arguments.sighting.event_type()});
            self.timeline.add(Entry { shown, ..Entry::default() });
        }
        Box::pin(std::future::ready(Ok(())))
    }

    fn tell(&self, telling: Telling) {
        self.timeline.tell(&telling);
    }

    fn is_debugging(&self) -> bool {
        true
    }

    fn clock(&self) -> &Clock {
        &self.timeline.clock
    }

    fn chance(&self, _bound: usize) -> usize {
        0
    }

    fn taken_up(&self, sighting: Sighting, body: &Body, consistency_in: Option<f64>) {
        let mut shown = json!({"event": sighting.event_type(), "rv": body.resource_version()});
        if let Some(seconds) = consistency_in {
            shown["consistency_in"] = json!(seconds);
        }
        self.timeline.add(Entry { shown, ..Entry::default() });
    }

    fn waits(&self, delays: &[f64]) {
        self.delays.lock().push(delays.to_vec());
    }
}

/// Returns a difference as the vectors write it.
pub fn diff_item(item: &Item) -> Value {
    json!([item.op.as_str(), item.path, item.old, item.new])
}

fn verdict(step: &Value) -> Verdict {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    if let Some(error) = step.get("temporary") {
        let delay = step.get("delay").map_or(Some(TEMPORARY_DELAY), Value::as_f64);
        return Verdict::Temporary { text: error.as_str().map(str::to_owned), delay };
    }
    if let Some(error) = step.get("permanent") {
        return Verdict::Permanent { text: text(error) };
    }
    if let Some(error) = step.get("error") {
        return Verdict::Failed { text: text(error), representation: format!("ValueError('{}')", text(error)), trace: None };
    }
    Verdict::Returned(step.get("return").filter(|result| !result.is_null()).cloned())
}

/// Merges changes as a handler makes them: nulls are kept, since they are what deletes.
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

/// Returns a function over the body, as the vectors name it.
pub fn transform(spec: &Value) -> Transform {
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
    fn call(&self, mut body: Value) -> BoxFuture<'_, Result<Value, String>> {
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
            "insert0" => {
                let mut items = list(parent);
                items.insert(0, value);
                parent[last] = items.into();
            }
            other => return Box::pin(std::future::ready(Err(format!("the function {other:?} is unknown")))),
        }
        Box::pin(std::future::ready(Ok(body)))
    }
}
