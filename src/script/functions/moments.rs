//! Time: `now()`, `time(text)`, and `duration(text)`. The operations on times are in `time.rs`.

use jiff::Timestamp;
use rhai::{Dynamic, Engine, EvalAltResult, NativeCallContext};

use super::options::text;
use crate::handling::Moment;
use crate::script::runtime::context::Context;
use crate::script::values::script_error::Failure;
use crate::script::values::time::{self, Time};

type Thrown = Box<EvalAltResult>;

/// Registers the functions.
pub(crate) fn register(engine: &mut Engine) {
    engine.register_fn("now", |native: NativeCallContext<'_>| now(&native));
    engine.register_fn("time", |given: Dynamic| parse(&given));
    engine.register_fn("duration", |given: Dynamic| duration(&given));
}

/// `now()`: the current time in whole microseconds, the precision of Kubernetes' `MicroTime`. Not available in
/// expressions.
fn now(native: &NativeCallContext<'_>) -> Result<Time, Thrown> {
    let context = Context::of(native)?;
    context.varies("now")?;
    Ok(Time(Moment::utc(context.clock().now()).at))
}

/// `time(text)`: the moment of an RFC 3339 text, such as a `creationTimestamp`; of a number, that many seconds after
/// 1970. A time is returned unchanged.
fn parse(given: &Dynamic) -> Result<Time, Thrown> {
    if let Some(time) = given.read_lock::<Time>() {
        return Ok(*time);
    }
    if let Some(seconds) = given.as_float().ok().or_else(|| given.as_int().ok().map(|integer| integer as f64)) {
        return Ok(Time(Timestamp::UNIX_EPOCH).after(seconds)?);
    }
    Ok(Time(moment(&text("time", "the time", given)?).map_err(Failure::argument)?))
}

/// Returns the moment of a text.
///
/// # Errors
/// The text of the error.
pub(crate) fn moment(text: &str) -> Result<Timestamp, String> {
    text.parse().map_err(|_| format!("{text:?} is no time: write it like \"2020-01-01T00:00:00Z\""))
}

/// `duration(text)`: the seconds of a text such as `"1h30m"` or `"500ms"`, as a float; numbers are seconds already.
fn duration(given: &Dynamic) -> Result<f64, Thrown> {
    Ok(time::duration(given)?.as_secs_f64())
}
