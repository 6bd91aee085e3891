//! `patch.transform(closure)`.

use std::rc::Rc;
use std::time::Duration;

use futures::FutureExt as _;
use rhai::{Engine, EvalAltResult, FnPtr, NativeCallContext};
use serde_json::Value;

use super::convert;
use super::patch_handle::PatchHandle;
use super::trace;
use crate::kit::Stop;
use crate::kit::tasks::panic_text;
use crate::script::limits::Limits;
use crate::script::runtime::budget::Budget;
use crate::script::runtime::context::{Context, Mode};
use crate::script::runtime::fiber::Fiber;
use crate::script::runtime::function::Closure;
use crate::script::values::script_error::Failure;

/// The time limit of one transformation.
const TIME: Duration = Duration::from_secs(1);

/// Registers `patch.transform`.
pub(crate) fn register(engine: &mut Engine) {
    pure!(engine, "transform", |native: NativeCallContext<'_>, patch: &mut PatchHandle, function: FnPtr| {
        transform(&native, patch, &function)
    });
}

fn transform(
    native: &NativeCallContext<'_>,
    patch: &mut PatchHandle,
    function: &FnPtr,
) -> Result<(), Box<EvalAltResult>> {
    let context = Context::of(native)?;
    context.acts("patch.transform")?;
    let closure = Closure::of(function, native.global_runtime_state()).map_err(Failure::argument)?;
    if closure.params().len() != 1 {
        return Err(Failure::argument("a transformation takes one parameter, the body").into());
    }
    let call = Rc::new(TransformCall { closure, context: stripped(&context) });
    let apply = move |engine, body| Rc::clone(&call).apply(engine, body).boxed_local();
    let transform = context.environment().transforms.keep(Rc::new(apply));
    patch.patch().borrow_mut().transforms.push(transform);
    Ok(())
}

/// Returns the context without the registry of sub-handlers, which would keep the whole call in memory.
fn stripped(context: &Context) -> Context {
    let stripped = Context::new(Rc::clone(context.environment()), Rc::clone(context.budget()), Mode::Transform);
    match context.subject() {
        Some(subject) => stripped.about(subject.clone(), context.span().clone()),
        None => stripped,
    }
}

/// A transformation registered by a script.
struct TransformCall {
    closure: Closure,
    context: Context,
}

impl TransformCall {
    async fn apply(self: Rc<Self>, engine: Rc<Engine>, body: Value) -> Result<Value, String> {
        let budget = Rc::new(Budget::new(&Limits { time: Some(TIME), ..Limits::default() }, Stop::new()));
        let mut context = Context::new(Rc::clone(self.context.environment()), Rc::clone(&budget), Mode::Transform);
        if let Some(subject) = self.context.subject() {
            context = context.about(subject.clone(), self.context.span().clone());
        }
        let run = move || {
            let ended = self.closure.run(&engine, &context, vec![convert::to_dynamic(&body)]);
            ended.map_err(|error| {
                let source = self.closure.function.global.source().unwrap_or_default();
                trace::describe(error, "a transformation", source, &std::collections::BTreeMap::new()).text
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
