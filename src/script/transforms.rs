//! `patch.transform(closure)`: changes of the whole body, which are made when the patch is sent, and again after a conflict.
//!
//! The closure stays on its script thread; what travels with the patch is a number and a way back.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use rhai::{Engine, EvalAltResult, FnPtr, NativeCallContext};
use serde_json::Value;
use tokio::sync::mpsc;

use super::budget::Budget;
use super::context::{Context, Mode};
use super::convert;
use super::declaration::Limits;
use super::fiber::Fiber;
use super::function::Closure;
use super::patch_handle::PatchHandle;
use super::thread::Job;
use super::throwing::Failure;
use super::trace;
use crate::kit::Stop;
use crate::kit::tasks::panic_text;
use crate::object::{BodyFunction, Reply, Transform};

/// The time that one transformation may take.
const TIME: Duration = Duration::from_secs(1);

/// The transformations that scripts of one thread have asked for, as long as the patches exist that they belong to.
pub struct Transforms {
    jobs: mpsc::WeakUnboundedSender<Job>,
    closures: RefCell<HashMap<u64, Rc<Asked>>>,
    next: Cell<u64>,
}

struct Asked {
    closure: Closure,
    context: Context,
}

impl Transforms {
    /// Returns an empty table; what travels sends its jobs there.
    pub fn new(jobs: mpsc::WeakUnboundedSender<Job>) -> Self {
        Self { jobs, closures: RefCell::default(), next: Cell::new(0) }
    }

    fn keep(&self, closure: Closure, context: Context) -> Transform {
        let number = self.next.replace(self.next.get() + 1);
        // Without the registry of sub-handlers, which would keep the whole call.
        let stripped = Context::new(Rc::clone(context.environment()), Rc::clone(context.budget()), Mode::Transform);
        let context = match context.subject() {
            Some(subject) => stripped.about(subject.clone(), context.span().clone()),
            None => stripped,
        };
        self.closures.borrow_mut().insert(number, Rc::new(Asked { closure, context }));
        Transform::Function(Arc::new(Travelling { number, jobs: self.jobs.clone() }))
    }

    /// Returns the number of transformations that may still be asked for.
    pub fn len(&self) -> usize {
        self.closures.borrow().len()
    }

    /// Drops what nobody can ask for any more.
    pub fn forget(&self, number: u64) {
        self.closures.borrow_mut().remove(&number);
    }

    /// Returns the changed body.
    ///
    /// # Errors
    /// The text of the closure's failure.
    pub async fn apply(&self, number: u64, engine: Rc<Engine>, body: Value) -> Result<Value, String> {
        let asked = self.closures.borrow().get(&number).cloned();
        let asked = asked.ok_or_else(|| "the transformation was forgotten".to_owned())?;
        let budget = Rc::new(Budget::new(&Limits { time: Some(TIME), ..Limits::default() }, Stop::new()));
        let environment = Rc::clone(asked.context.environment());
        let mut context = Context::new(environment, Rc::clone(&budget), Mode::Transform);
        if let Some(subject) = asked.context.subject() {
            context = context.about(subject.clone(), asked.context.span().clone());
        }
        let run = move || {
            let ended = asked.closure.run(&engine, &context, vec![convert::to_dynamic(&body)]);
            ended.map_err(|error| {
                let source = asked.closure.global.source().unwrap_or_default();
                trace::tell(error, "a transformation", source, &std::collections::BTreeMap::new()).text
            })
        };
        let fiber = Fiber::new(budget, run).map_err(|error| format!("no memory for a transformation: {error}"))?;
        let changed = fiber.await.map_err(|panic| panic_text(&*panic))??.value();
        match convert::to_json(&changed) {
            Ok(body @ Value::Object(_)) => Ok(body),
            Ok(_) => Err("a transformation must return the body".to_owned()),
            Err(error) => Err(format!("a transformation has returned what cannot be sent: {error}")),
        }
    }
}

/// What travels with the patch.
struct Travelling {
    number: u64,
    jobs: mpsc::WeakUnboundedSender<Job>,
}

impl BodyFunction for Travelling {
    fn start(&self, body: Value, reply: Reply) {
        // If the thread has ended, the reply is dropped here.
        let sent = self.jobs.upgrade().map(|jobs| jobs.send(Job::Transform { number: self.number, body, reply }));
        drop(sent);
    }
}

impl Drop for Travelling {
    fn drop(&mut self) {
        // If the thread has ended, there is nothing to forget.
        let sent = self.jobs.upgrade().map(|jobs| jobs.send(Job::ForgetTransform(self.number)));
        drop(sent);
    }
}

impl fmt::Debug for Travelling {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "transformation {}", self.number)
    }
}

/// Registers `patch.transform`.
pub fn register(engine: &mut Engine) {
    pure!(engine, "transform", |native: NativeCallContext<'_>, patch: &mut PatchHandle, function: FnPtr| {
        transform(&native, patch, &function)
    });
}

fn transform(native: &NativeCallContext<'_>, patch: &mut PatchHandle, function: &FnPtr) -> Result<(), Box<EvalAltResult>> {
    let context = Context::of(native)?;
    context.acts("patch.transform")?;
    let closure = Closure::of(function, native.global_runtime_state()).map_err(Failure::argument)?;
    if closure.params().len() != 1 {
        return Err(Failure::argument("a transformation takes one parameter, the body").into());
    }
    let transform = context.environment().transforms.keep(closure, context.clone());
    patch.patch().borrow_mut().transforms.push(transform);
    Ok(())
}
