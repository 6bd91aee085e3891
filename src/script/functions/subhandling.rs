//! `subhandler` and `execute`, for handlers of changes.

use std::rc::Rc;

use rhai::{Engine, EvalAltResult, FnPtr, ImmutableString, Map, NativeCallContext};

use crate::script::runtime::context::{Context, Subhandlers};
use crate::script::values::script_error::Failure;

/// Registers `subhandler` and `execute`.
pub(super) fn register(engine: &mut Engine) {
    engine.register_fn("subhandler", |native: NativeCallContext<'_>, id: ImmutableString, function: FnPtr| {
        subhandler(&native, &id, Map::new(), &function)
    });
    engine.register_fn(
        "subhandler",
        |native: NativeCallContext<'_>, id: ImmutableString, options: Map, function: FnPtr| {
            subhandler(&native, &id, options, &function)
        },
    );
    engine.register_fn("execute", |native: NativeCallContext<'_>| execute(&native));
}

fn of_call(context: &Context, function: &str) -> Result<Rc<dyn Subhandlers>, Failure> {
    if context.budget().parent().is_some() {
        let text = format!("`{function}` is not available in the functions of `parallel`: call it before or after");
        return Err(Failure::host("unavailable", text));
    }
    let subhandlers = context.subhandlers().cloned();
    subhandlers.ok_or_else(|| {
        Failure::host(
            "unavailable",
            format!("`{function}` is for handlers of changes only: only they have sub-handlers"),
        )
    })
}

fn subhandler(
    native: &NativeCallContext<'_>,
    id: &str,
    options: Map,
    function: &FnPtr,
) -> Result<(), Box<EvalAltResult>> {
    of_call(&Context::of(native)?, "subhandler")?.register(native, id, options, function)
}

fn execute(native: &NativeCallContext<'_>) -> Result<(), Box<EvalAltResult>> {
    let context = Context::of(native)?;
    of_call(&context, "execute")?.execute(&context)
}
