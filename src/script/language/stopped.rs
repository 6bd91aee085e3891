//! The methods of `stopped`.

use std::time::Duration;

use rhai::{Array, Dynamic, Engine, EvalAltResult, ImmutableString, NativeCallContext};

use crate::script::runtime::context::{Context, wait_at_most};
use crate::script::values::script_error::Failure;
use crate::script::values::stopped::Stopped;
use crate::script::values::time;

/// Registers the methods of `stopped`.
pub(crate) fn register(engine: &mut Engine) {
    engine.register_type_with_name::<Stopped>("Stopped");
    pure!(get engine, Stopped::get);
    pure!(engine, "is_set", |stopped: &mut Stopped| stopped.is_set());
    pure!(engine, "wait", |native: NativeCallContext<'_>, stopped: &mut Stopped| wait(&native, stopped, None));
    pure!(engine, "wait", |native: NativeCallContext<'_>, stopped: &mut Stopped, seconds: Dynamic| {
        wait(&native, stopped, Some(time::duration(&seconds)?))
    });
}

impl Stopped {
    fn get(&mut self, key: ImmutableString) -> Result<Dynamic, Box<EvalAltResult>> {
        match key.as_str() {
            "reason" => Ok(self.flags().into_iter().map(|flag| flag.as_str().into()).collect::<Array>().into()),
            other => {
                Err(Failure::argument(format!("`stopped` has no `{other}`; it has is_set(), wait(), reason")).into())
            }
        }
    }
}

/// Waits for a flag, at most until the limit. Returns whether one is raised.
fn wait(
    native: &NativeCallContext<'_>,
    stopped: &Stopped,
    limit: Option<Duration>,
) -> Result<bool, Box<EvalAltResult>> {
    let context = Context::of(native)?;
    context.acts("stopped.wait")?;
    // A limit beyond the range of the timer counts as none.
    let until = limit.and_then(|limit| tokio::time::Instant::now().checked_add(limit));
    wait_at_most(&context, limit, async {
        match until {
            // A timeout is not an error: the result is whether a flag is raised.
            Some(until) => drop(tokio::time::timeout_at(until, stopped.raised()).await),
            None => stopped.raised().await,
        }
    })?;
    context.budget().refill();
    Ok(stopped.is_set())
}
