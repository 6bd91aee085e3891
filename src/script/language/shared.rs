//! `shared` and its locks in scripts.

use std::rc::Rc;
use std::sync::Arc;

use rhai::{Dynamic, Engine, EvalAltResult, FnPtr, ImmutableString, NativeCallContext};

use super::convert;
use crate::object::ObjectKey;
use crate::script::runtime::budget::Budget;
use crate::script::runtime::context::{Context, wait_in};
use crate::script::values::script_error::Failure;
use crate::script::values::shared::{SharedData, TooLarge};

type Thrown = Box<EvalAltResult>;

/// `shared` as an argument of a script.
#[derive(Debug, Clone)]
pub(crate) struct SharedHandle(Arc<SharedData>);

impl SharedHandle {
    /// Returns the handle of the operator's shared data.
    pub(crate) fn new(data: &Arc<SharedData>) -> Self {
        Self(Arc::clone(data))
    }
}

/// A lock as a value of a script.
#[derive(Debug, Clone)]
pub(crate) struct LockHandle(Arc<str>);

/// Registers the methods.
pub(crate) fn register(engine: &mut Engine) {
    engine.register_type_with_name::<SharedHandle>("Shared");
    engine.register_type_with_name::<LockHandle>("Lock");
    pure!(engine, "get", |native: NativeCallContext<'_>, shared: &mut SharedHandle, key: ImmutableString| {
        enter(&native, &shared.0, "shared.get")?;
        Ok::<_, Thrown>(shared.0.get(&key).map_or(Dynamic::UNIT, |value| value.to_dynamic()))
    });
    pure!(engine, "set", |native: NativeCallContext<'_>,
                          shared: &mut SharedHandle,
                          key: ImmutableString,
                          value: Dynamic| {
        enter(&native, &shared.0, "shared.set")?;
        set(&shared.0, &key, &value)
    });
    pure!(engine, "update", |native: NativeCallContext<'_>,
                             shared: &mut SharedHandle,
                             key: ImmutableString,
                             function: FnPtr| {
        update(&native, &shared.0, &key, &function)
    });
    pure!(engine, "lock", |native: NativeCallContext<'_>, shared: &mut SharedHandle, key: ImmutableString| lock(
        &native, &shared.0, &key
    ));
    pure!(engine, "unlock", |native: NativeCallContext<'_>, lock: &mut LockHandle| {
        Ok::<_, Thrown>(Context::of(&native)?.budget().held().release_lock(&lock.0))
    });
}

/// Waits for the call's turn at the data, which it then has until its next wait.
fn enter(native: &NativeCallContext<'_>, data: &Arc<SharedData>, function: &str) -> Result<Context, Thrown> {
    let context = Context::of(native)?;
    context.acts(function)?;
    let budget = Rc::clone(context.budget());
    if budget.held().has_turn() {
        return Ok(context);
    }
    let turn = match Arc::clone(&data.turn).try_acquire_owned() {
        Ok(turn) => turn,
        Err(_) => wait_in(&context, Arc::clone(&data.turn).acquire_owned())?.expect("the semaphore is never closed"),
    };
    budget.held().keep_turn(turn);
    Ok(context)
}

fn set(data: &SharedData, key: &str, value: &Dynamic) -> Result<(), Thrown> {
    let value = convert::to_data(value)
        .map_err(|error| Failure::argument(format!("`shared` holds plain data only: {error}")))?;
    let too_large = |TooLarge| {
        Failure::argument(
            "`shared` is full: its values would take more than 256 MiB; remove some with `shared.set(key, ())`",
        )
    };
    Ok(data.set(key, Some(value).filter(|value| !value.is_null())).map_err(too_large)?)
}

/// Replaces a value by the result of a function, which gets the present value, or `()`. Returns the new value.
fn update(
    native: &NativeCallContext<'_>,
    data: &Arc<SharedData>,
    key: &str,
    function: &FnPtr,
) -> Result<Dynamic, Thrown> {
    let context = enter(native, data, "shared.update")?;
    let before = data.get(key).map_or(Dynamic::UNIT, |value| value.to_dynamic());
    let updating = context.budget().held().updating();
    let after = function.call_raw(native, None, [before])?;
    drop(updating);
    set(data, key, &after)?;
    Ok(after)
}

/// Waits for a lock, which the call then has until it releases it or ends. If it has the lock already, nothing happens.
fn lock(native: &NativeCallContext<'_>, data: &Arc<SharedData>, key: &str) -> Result<LockHandle, Thrown> {
    let context = Context::of(native)?;
    context.acts("shared.lock")?;
    let budget = context.budget();
    let handle = LockHandle(Arc::from(key));
    if budget.lineage().any(|budget| budget.held().has_lock(key)) {
        return Ok(handle);
    }
    let (mut guard, permits) = data.request(key, budget.held().call(|| data.next_call()));
    let permit = if let Ok(permit) = Arc::clone(&permits).try_acquire_owned() {
        permit
    } else {
        guard.wait();
        // Other calls end with their time limit.
        if !budget.has_time_limit() && data.is_deadlocked(key, &numbers(budget, data)) {
            return Err(Failure::argument(format!(
                "`shared.lock` would never end: it waits for {}",
                data.describe(key)
            ))
            .into());
        }
        let (data, key) = (Arc::clone(data), key.to_owned());
        let _note = budget.waiting_for(move || data.describe(&key));
        wait_in(&context, permits.acquire_owned())?.expect("the semaphore is never closed")
    };
    guard.take(permit, title(native, &context));
    budget.held().keep_lock(guard);
    Ok(handle)
}

/// Returns the numbers of a fiber of the call that wants a lock, and of the fibers that wait for it: their locks are
/// not released before.
fn numbers(budget: &Budget, data: &SharedData) -> Vec<u64> {
    let own = budget.held().call(|| data.next_call());
    std::iter::once(own).chain(budget.lineage().skip(1).filter_map(|budget| budget.held().known_call())).collect()
}

/// Returns the place in the script and the object of a call.
fn title(native: &NativeCallContext<'_>, context: &Context) -> String {
    let position = native.call_position();
    let place = match (native.call_source(), position.line()) {
        (Some(source), Some(line)) => format!("{source}:{line}"),
        _ => "a script".to_owned(),
    };
    match context.body() {
        Some(body) => {
            let kind = body.get("kind").and_then(serde_json::Value::as_str).unwrap_or("object");
            format!("{place} for {kind} {}", ObjectKey::of(&body))
        }
        None => place,
    }
}
