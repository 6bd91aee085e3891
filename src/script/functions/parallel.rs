//! `parallel(functions, [limit])`: runs functions that wait at the same time, on fibers of their own.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::panic::resume_unwind;
use std::rc::Rc;

use rhai::{Array, Dynamic, Engine, EvalAltResult, FnPtr, GlobalRuntimeState, Position};

use super::options::Options;
use super::support::{self, Given, Native, Thrown, WorkCounter};
use crate::script::runtime::children::{Children, Failed, MAX_AT_ONCE, MAX_LEVELS, Task};
use crate::script::runtime::context::{Context, wait_in};
use crate::script::runtime::function::{Closure, Ended};
use crate::script::values::script_error::Failure;

const NAME: &str = "parallel";

/// How many functions run at once by default.
const DEFAULT_LIMIT: usize = 8;

/// The work for one function before it begins, as a number of processed bytes.
const WORK_PER_FUNCTION: usize = 256;

/// Registers `parallel`.
pub(super) fn register(engine: &mut Engine) {
    engine.register_fn(NAME, |native: Native<'_>, functions: Dynamic| parallel(&native, &functions, None));
    engine.register_fn(NAME, |native: Native<'_>, functions: Dynamic, limit: Dynamic| {
        parallel(&native, &functions, Some(&limit))
    });
}

fn parallel(native: &Native<'_>, functions: &Dynamic, limit: Option<&Dynamic>) -> Given {
    let context = Context::of(native)?;
    context.acts(NAME)?;
    let limit = limit_of(limit)?;
    if context.budget().lineage().count() > MAX_LEVELS {
        return Err(support::wrong(
            NAME,
            format!("it may be called in functions of `{NAME}` up to {MAX_LEVELS} levels deep"),
        ));
    }
    let closures = closures(native, functions)?;
    let tasks = tasks(native, &context, closures);
    let children = Children::new(context.budget(), tasks, limit);
    let waiting = context.budget().waiting_for(|| format!("the functions of `{NAME}`"));
    let ended = wait_in(&context, children)?;
    drop(waiting);
    match ended {
        Ok(values) => Ok(values.into()),
        Err(failed) => Err(thrown(native, &context, failed)),
    }
}

/// Returns how many functions may run at once: an integer, or an option.
fn limit_of(given: Option<&Dynamic>) -> Result<usize, Thrown> {
    let Some(given) = given.filter(|given| !given.is_unit()) else { return Ok(DEFAULT_LIMIT) };
    let number = if given.is_int() {
        given.as_int().ok()
    } else {
        let options = Options::read(NAME, &["limit"], Some(given))?;
        match options.value("limit").filter(|limit| !limit.is_null()) {
            None => return Ok(DEFAULT_LIMIT),
            Some(limit) => limit.as_i64(),
        }
    };
    let limit =
        number.and_then(|number| usize::try_from(number).ok()).filter(|limit| (1..=MAX_AT_ONCE).contains(limit));
    limit.ok_or_else(|| support::wrong(NAME, format!("the limit must be an integer from 1 to {MAX_AT_ONCE}")))
}

/// Returns the functions. They are all checked before one begins.
fn closures(native: &Native<'_>, given: &Dynamic) -> Result<Vec<Closure>, Thrown> {
    let items = given.read_lock::<Array>().map(|items| items.clone());
    let Some(items) = items else {
        return Err(support::wrong(NAME, "it takes a list of functions, such as `[|| k8s::get(…)]`"));
    };
    let global = native.global_runtime_state();
    // A loop makes one function many times, with other captured values.
    let mut known: HashMap<(String, usize), Closure> = HashMap::new();
    let mut work = WorkCounter::default();
    let mut closures = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        work.spend(WORK_PER_FUNCTION)?;
        let pointer = item.read_lock::<FnPtr>();
        let pointer = pointer
            .ok_or_else(|| support::wrong(NAME, format!("item {index} is no function: {}", support::shown(item))))?;
        closures.push(closure(&pointer, global, &mut known)?);
    }
    Ok(closures)
}

fn closure(
    pointer: &FnPtr,
    global: &GlobalRuntimeState,
    known: &mut HashMap<(String, usize), Closure>,
) -> Result<Closure, Thrown> {
    let key = (pointer.fn_name().to_owned(), pointer.curry().len());
    if let Some(same) = known.get(&key) {
        return Ok(Closure { captured: pointer.curry().to_vec(), ..same.clone() });
    }
    let closure = Closure::of(pointer, global).map_err(|problem| support::wrong(NAME, problem))?;
    if let Some(param) = closure.params().first() {
        return Err(support::wrong(
            NAME,
            format!("its functions get no arguments, and one has the parameter `{param}`"),
        ));
    }
    known.insert(key, closure.clone());
    Ok(closure)
}

fn tasks(native: &Native<'_>, context: &Context, closures: Vec<Closure>) -> Vec<Task<Dynamic>> {
    let engine = (context.environment().engine_like)(native.engine());
    let level = native.global_runtime_state().level + 1;
    let task = |closure: Closure| -> Task<Dynamic> {
        let (engine, context) = (Rc::clone(&engine), context.clone());
        Box::new(move |budget| closure.run_at(level, &engine, &context.of_child(budget), Vec::new()).map(Ended::value))
    };
    closures.into_iter().map(task).collect()
}

fn thrown(native: &Native<'_>, context: &Context, failed: Failed) -> Thrown {
    let error = match failed {
        Failed::Thrown(error) => error,
        Failed::Ended(ending, error) => {
            let ended = context.budget().end(ending);
            error.unwrap_or(ended)
        }
        Failed::Panicked(panic) => resume_unwind(panic),
        Failed::NoStack(error) => {
            Failure::host("internal", format!("no memory for a function of `{NAME}`: {error}")).into()
        }
    };
    // As for methods of the interpreter, the error names the function among the calls.
    let source = native.call_source().unwrap_or_default().to_owned();
    EvalAltResult::ErrorInFunctionCall(NAME.to_owned(), source, error, Position::NONE).into()
}
