//! What scripts throw, and what host functions fail with: values that a script can catch and look at.

use std::time::Duration;

use rhai::{Dynamic, Engine, EvalAltResult, ImmutableString, NativeCallContext, Position};
use serde_json::Value;

use super::api::ApiError;
use super::{convert, time};
use crate::handling::attempt::TEMPORARY_DELAY;

/// The status code of a rejection that names none, or zero, as in kopf.
pub const REJECTED: u16 = 500;

/// Something that went wrong, as scripts see it: `kind`, `message`, `status`, `reason`, `details`; any other property is `()`.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    /// What it means to the handler.
    pub meaning: Meaning,
    /// The text; empty if it was thrown without one.
    pub message: String,
    /// The HTTP status, if a server has answered, or the code of a rejection.
    pub status: Option<u16>,
    /// Kubernetes' reason, such as `NotFound`.
    pub reason: Option<String>,
    /// Kubernetes' details.
    pub details: Option<Value>,
}

/// What a failure means to the handler, if it is not caught.
#[derive(Debug, Clone, PartialEq)]
pub enum Meaning {
    /// Try again after a delay; none for "at once".
    Temporary(Option<Duration>),
    /// It will never succeed.
    Permanent,
    /// The request is denied. Outside of webhooks, it will never succeed.
    Reject,
    /// A host function has failed in this way: `api`, `argument`, `budget`…
    Host(&'static str),
}

impl Failure {
    /// Returns the failure of a host function.
    pub fn host(kind: &'static str, message: impl Into<String>) -> Self {
        Self::new(Meaning::Host(kind), message)
    }

    /// Returns the failure of a host function that was called with something that it cannot take.
    pub fn argument(message: impl Into<String>) -> Self {
        Self::host("argument", message)
    }

    fn new(meaning: Meaning, message: impl Into<String>) -> Self {
        Self { meaning, message: message.into(), status: None, reason: None, details: None }
    }

    /// Returns the word for what it means.
    pub fn kind(&self) -> &'static str {
        match self.meaning {
            Meaning::Temporary(_) => "temporary",
            Meaning::Permanent => "permanent",
            Meaning::Reject => "reject",
            Meaning::Host(kind) => kind,
        }
    }

    fn property(&mut self, name: ImmutableString) -> Dynamic {
        match name.as_str() {
            "kind" => self.kind().into(),
            "message" => self.message.clone().into(),
            "status" => self.status.map_or(Dynamic::UNIT, |status| i64::from(status).into()),
            "reason" => self.reason.clone().map_or(Dynamic::UNIT, Into::into),
            "details" => self.details.as_ref().map_or(Dynamic::UNIT, convert::to_dynamic),
            _ => Dynamic::UNIT,
        }
    }
}

impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Self {
        let ApiError { message, status, reason, details } = error;
        Self { meaning: Meaning::Host("api"), message, status, reason, details }
    }
}

/// A failure is thrown where the host function is called.
impl From<Failure> for Box<EvalAltResult> {
    fn from(failure: Failure) -> Self {
        EvalAltResult::ErrorRuntime(Dynamic::from(failure), Position::NONE).into()
    }
}

/// Registers `temporary`, `permanent`, `reject`, and the properties of what can be caught.
pub fn register(engine: &mut Engine) {
    engine.register_type_with_name::<Failure>("Failure");
    engine.register_indexer_get(Failure::property);
    engine.register_fn("to_string", |failure: &mut Failure| failure.message.clone());
    engine.register_fn("to_debug", |failure: &mut Failure| format!("{}({:?})", failure.kind(), failure.message));
    engine.register_fn("temporary", || Failure::new(Meaning::Temporary(Some(TEMPORARY_DELAY)), ""));
    engine.register_fn("temporary", |text: Dynamic| Failure::new(Meaning::Temporary(Some(TEMPORARY_DELAY)), convert::text_of(&text)));
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
