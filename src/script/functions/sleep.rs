//! `sleep(seconds)`: suspends the script, and holds no thread.

use rhai::{Dynamic, Engine, EvalAltResult, NativeCallContext};

use crate::script::runtime::context::{Context, wait_at_most};
use crate::script::values::time;

/// Registers `sleep` for integers, floats and texts with units.
pub(crate) fn register(engine: &mut Engine) {
    engine.register_fn("sleep", |native: NativeCallContext<'_>, seconds: i64| sleep(&native, &seconds.into()));
    engine.register_fn("sleep", |native: NativeCallContext<'_>, seconds: f64| sleep(&native, &seconds.into()));
    engine.register_fn("sleep", |native: NativeCallContext<'_>, seconds: Dynamic| sleep(&native, &seconds));
}

fn sleep(native: &NativeCallContext<'_>, seconds: &Dynamic) -> Result<(), Box<EvalAltResult>> {
    let context = Context::of(native)?;
    context.acts("sleep")?;
    // A sleep beyond the range of the timer ends with the call's deadline, or with the process.
    let duration = time::duration(seconds)?;
    let until = tokio::time::Instant::now().checked_add(duration);
    wait_at_most(&context, Some(duration), async move {
        match until {
            Some(until) => tokio::time::sleep_until(until).await,
            None => std::future::pending().await,
        }
    })?;
    context.budget().refill();
    Ok(())
}
