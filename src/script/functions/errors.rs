//! `temporary`, `permanent` and `reject`, and the properties of errors that a script catches.

use rhai::{Dynamic, Engine, EvalAltResult, ImmutableString, NativeCallContext};

use crate::handling::attempt::TEMPORARY_DELAY;
use crate::script::language::convert;
use crate::script::values::script_error::{Failure, Meaning, REJECTED};
use crate::script::values::time;

/// Registers `temporary`, `permanent`, `reject`, and the properties of errors that can be caught.
pub(super) fn register(engine: &mut Engine) {
    engine.register_type_with_name::<Failure>("Failure");
    engine.register_indexer_get(property);
    engine.register_fn("to_string", |failure: &mut Failure| failure.message.clone());
    engine.register_fn("to_debug", |failure: &mut Failure| format!("{}({:?})", failure.kind(), failure.message));
    engine.register_fn("temporary", || Failure::new(Meaning::Temporary(Some(TEMPORARY_DELAY)), ""));
    engine.register_fn("temporary", |text: Dynamic| {
        Failure::new(Meaning::Temporary(Some(TEMPORARY_DELAY)), convert::text_of(&text))
    });
    engine.register_fn("temporary", temporary);
    engine.register_fn("permanent", || Failure::new(Meaning::Permanent, ""));
    engine.register_fn("permanent", |text: Dynamic| Failure::new(Meaning::Permanent, convert::text_of(&text)));
    engine.register_fn("reject", || reject(String::new(), REJECTED));
    engine.register_fn("reject", |text: Dynamic| reject(convert::text_of(&text), REJECTED));
    engine.register_fn("reject", |text: Dynamic, code: i64| -> Result<Failure, Box<EvalAltResult>> {
        let code = u16::try_from(code).map_err(|_| Failure::argument(format!("{code} is no status code")))?;
        Ok(reject(convert::text_of(&text), code))
    });
}

fn temporary(_: NativeCallContext<'_>, text: Dynamic, delay: Dynamic) -> Result<Failure, Box<EvalAltResult>> {
    let delay = if delay.is_unit() { None } else { Some(time::duration(&delay)?) };
    Ok(Failure::new(Meaning::Temporary(delay), convert::text_of(&text)))
}

fn reject(text: String, code: u16) -> Failure {
    let code = if code == 0 { REJECTED } else { code };
    Failure { status: Some(code), ..Failure::new(Meaning::Reject, text) }
}

fn property(failure: &mut Failure, name: ImmutableString) -> Dynamic {
    match name.as_str() {
        "kind" => failure.kind().into(),
        "message" => failure.message.clone().into(),
        "status" => failure.status.map_or(Dynamic::UNIT, |status| i64::from(status).into()),
        "reason" => failure.reason.clone().map_or(Dynamic::UNIT, Into::into),
        "details" => failure.details.as_ref().map_or(Dynamic::UNIT, convert::to_dynamic),
        name => failure.properties.get(name).map_or(Dynamic::UNIT, convert::to_dynamic),
    }
}
