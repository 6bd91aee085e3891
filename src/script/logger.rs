//! `logger`, `print` and `debug`: lines of scripts in the operator's log, with the object's reference.

use rhai::{Dynamic, Engine, EvalAltResult, NativeCallContext};

use super::context::Context;
use super::convert;
use crate::handling::Level;

/// The target of everything that is told about objects.
macro_rules! target {
    () => {
        "kopfd::objects"
    };
}

/// The `logger` of a call; what it belongs to comes from the call.
#[derive(Debug, Clone, Copy)]
pub struct Logger;

/// Registers the logger's methods, and `print` and `debug`.
pub fn register(engine: &mut Engine) {
    engine.register_type_with_name::<Logger>("Logger");
    for (name, level) in [("debug", Level::Debug), ("info", Level::Info), ("warning", Level::Warning), ("error", Level::Error)] {
        pure!(engine, name, move |native: NativeCallContext<'_>, _: &mut Logger, text: Dynamic| log(&native, level, &text));
    }
    engine.register_fn("print", |native: NativeCallContext<'_>, text: Dynamic| log(&native, Level::Info, &text));
    engine.register_fn("print", |native: NativeCallContext<'_>| log(&native, Level::Info, &"".into()));
    engine.register_fn("debug", |native: NativeCallContext<'_>, text: Dynamic| log(&native, Level::Debug, &text));
    engine.register_fn("debug", |native: NativeCallContext<'_>| log(&native, Level::Debug, &"".into()));
}

fn log(native: &NativeCallContext<'_>, level: Level, text: &Dynamic) -> Result<(), Box<EvalAltResult>> {
    let context = Context::of(native)?;
    context.acts(native.fn_name())?;
    context.budget().count_output()?;
    tell(context.span(), level, &convert::shown(text));
    Ok(())
}

/// Logs a line about an object.
pub fn tell(span: &tracing::Span, level: Level, text: &str) {
    span.in_scope(|| match level {
        Level::Debug => tracing::debug!(target: target!(), "{text}"),
        Level::Info => tracing::info!(target: target!(), "{text}"),
        Level::Warning => tracing::warn!(target: target!(), "{text}"),
        Level::Error => tracing::error!(target: target!(), "{text}"),
    });
}
