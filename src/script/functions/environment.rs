//! `env(name)`: the environment variables that the operator is allowed to read.

use std::env::VarError;

use rhai::{Dynamic, Engine, EvalAltResult, NativeCallContext};

use super::options::text;
use crate::script::runtime::context::Context;
use crate::script::values::script_error::Failure;

/// Registers the function.
pub(super) fn register(engine: &mut Engine) {
    engine.register_fn("env", |native: NativeCallContext<'_>, name: Dynamic| env(&native, &name));
}

/// `env(name)`: the text of a variable that `allow.env` lists; `()` if it is not set. Reading another one is an error.
fn env(native: &NativeCallContext<'_>, name: &Dynamic) -> Result<Dynamic, Box<EvalAltResult>> {
    let context = Context::of(native)?;
    let name = text("env", "the name", name)?;
    if !context.allow().env.contains(&name) {
        return Err(Failure::host("forbidden", format!("the variable {name} is not listed under `allow.env`")).into());
    }
    match std::env::var(&name) {
        Ok(value) => Ok(value.into()),
        Err(VarError::NotPresent) => Ok(Dynamic::UNIT),
        Err(VarError::NotUnicode(_)) => {
            Err(Failure::host("parse", format!("the variable {name} is not UTF-8 text")).into())
        }
    }
}
