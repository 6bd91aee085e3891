//! Randomness: `random()`, `random(low, high)`, and `uuid()`. Not available in expressions; simulations can seed it.

use rhai::{Dynamic, Engine, EvalAltResult, NativeCallContext};

use crate::script::runtime::context::Context;
use crate::script::values::script_error::Failure;

type Thrown = Box<EvalAltResult>;

/// Registers the functions.
pub(super) fn register(engine: &mut Engine) {
    engine.register_fn("random", |native: NativeCallContext<'_>| random(&native));
    engine.register_fn("random", |native: NativeCallContext<'_>, low: Dynamic, high: Dynamic| {
        random_between(&native, &low, &high)
    });
    engine.register_fn("uuid", |native: NativeCallContext<'_>| uuid(&native));
}

/// `random()`: a float that is at least 0, and less than 1.
fn random(native: &NativeCallContext<'_>) -> Result<f64, Thrown> {
    let context = Context::of(native)?;
    context.varies("random")?;
    Ok(context.environment().rng.fraction())
}

/// `random(low, high)`: an integer between two integers, both included; a float between two numbers if one of them is a
/// float, the upper one excluded. A low end above the high one is an error.
fn random_between(native: &NativeCallContext<'_>, low: &Dynamic, high: &Dynamic) -> Result<Dynamic, Thrown> {
    let context = Context::of(native)?;
    context.varies("random")?;
    let rng = &context.environment().rng;
    if let (Ok(low), Ok(high)) = (low.as_int(), high.as_int()) {
        return if low <= high { Ok(rng.between(low, high).into()) } else { Err(reversed(&low, &high)) };
    }
    let number = |value: &Dynamic| {
        value.as_float().or_else(|_| value.as_int().map(|integer| integer as f64)).ok().filter(|n| n.is_finite())
    };
    match (number(low), number(high)) {
        (Some(low), Some(high)) if low <= high => Ok((low + rng.fraction() * (high - low)).into()),
        (Some(low), Some(high)) => Err(reversed(&low, &high)),
        _ => Err(Failure::argument("`random` takes two numbers").into()),
    }
}

fn reversed(low: &dyn std::fmt::Display, high: &dyn std::fmt::Display) -> Thrown {
    Failure::argument(format!("`random`: {low} is more than {high}")).into()
}

/// `uuid()`: a random UUID (version 4), in lower case with dashes.
fn uuid(native: &NativeCallContext<'_>) -> Result<String, Thrown> {
    let context = Context::of(native)?;
    context.varies("uuid")?;
    Ok(uuid::Builder::from_random_bytes(context.environment().rng.bytes()).into_uuid().to_string())
}
