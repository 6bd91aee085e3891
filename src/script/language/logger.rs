//! `logger`, `print` and `debug`: log lines of scripts, with the object reference.

use rhai::{Array, Blob, Dynamic, Engine, EvalAltResult, ImmutableString, Map, NativeCallContext};

use super::convert;
use crate::handling::Level;
use crate::script::interface::subject::Subject;
use crate::script::limits::allocator;
use crate::script::runtime::context::{Context, Environment};

/// The target of log lines about objects.
macro_rules! target {
    () => {
        "kopfd::objects"
    };
}

/// The time, the level and the object of a line count as output, too.
pub(crate) const BYTES_PER_LINE: usize = 64;

/// Registers a function for values of several types.
macro_rules! log_functions {
    ($engine:ident, $name:expr, $level:expr, $($kind:ty),+) => {
        $($engine.register_fn($name, move |native: NativeCallContext<'_>, value: $kind| log(&native, $level, &Dynamic::from(value)));)+
    };
}

/// The `logger` of a call; its object comes from the call's span.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Logger;

/// Registers the logger's methods, and `print` and `debug`.
pub(crate) fn register(engine: &mut Engine) {
    engine.register_type_with_name::<Logger>("Logger");
    for (name, level) in
        [("debug", Level::Debug), ("info", Level::Info), ("warning", Level::Warning), ("error", Level::Error)]
    {
        pure!(engine, name, move |native: NativeCallContext<'_>, _: &mut Logger, text: Dynamic| log(
            &native, level, &text
        ));
    }
    for (name, level) in [("print", Level::Info), ("debug", Level::Debug)] {
        engine.register_fn(name, move |native: NativeCallContext<'_>| log(&native, level, &"".into()));
        engine.register_fn(name, move |native: NativeCallContext<'_>, value: Dynamic| log(&native, level, &value));
        // The language has its own functions with these names for these types, which would take precedence over a
        // generic one.
        log_functions!(engine, name, level, ImmutableString, char, bool, (), f64, Array, Map, Blob);
    }
}

fn log(native: &NativeCallContext<'_>, level: Level, text: &Dynamic) -> Result<(), Box<EvalAltResult>> {
    let context = Context::of(native)?;
    context.acts(native.fn_name())?;
    let Some(level) = level_in(&context, level) else { return Ok(()) };
    let text = convert::shown(text);
    context.budget().count_output(text.len() + BYTES_PER_LINE)?;
    write(context.span(), level, &text);
    if let Some(subject) = context.subject() {
        post(context.environment(), subject, level, &text);
    }
    Ok(())
}

/// Posts a log message about the handled object as an Event, if the settings say so: in the same functions as kopf.
pub(crate) fn post(environment: &Environment, subject: &Subject, level: Level, text: &str) {
    let Some(api) = environment.api.as_ref().filter(|api| api.posts_logs()) else { return };
    if let Some(body) = subject.body().filter(|_| subject.posts_logs()) {
        allocator::uncounted(|| api.post_log(&body, level, text));
    }
}

/// Index functions run for every event: they log less than other functions.
fn level_in(context: &Context, level: Level) -> Option<Level> {
    if matches!(context.subject(), Some(Subject::Index { .. })) { level.terse() } else { Some(level) }
}

/// Logs a line about an object.
pub(crate) fn write(span: &tracing::Span, level: Level, text: &str) {
    let log = || match level {
        Level::Debug => tracing::debug!(target: target!(), "{text}"),
        Level::Step => tracing::debug!(target: "kopfd::objects::steps", "{text}"),
        Level::Info => tracing::info!(target: target!(), "{text}"),
        Level::Warning => tracing::warn!(target: target!(), "{text}"),
        Level::Error => tracing::error!(target: target!(), "{text}"),
    };
    allocator::uncounted(|| span.in_scope(log));
}
