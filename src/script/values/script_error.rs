//! Errors in scripts, thrown by scripts or by host functions.

use std::collections::BTreeMap;
use std::time::Duration;

use rhai::{Dynamic, EvalAltResult, Position};
use serde_json::Value;

use crate::script::outside::api::ApiError;

/// The status code of a rejection without a code, or with zero, as in kopf.
pub(crate) const REJECTED: u16 = 500;

/// An error with the properties that scripts see: `kind`, `message`, `status`, `reason`, `details`, and further ones;
/// any other property is `()`.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    /// Its meaning for the handler.
    pub meaning: Meaning,
    /// The text; empty if there is none.
    pub message: String,
    /// The HTTP status of an answer, or the code of a rejection.
    pub status: Option<u16>,
    /// The reason in one word, as of Kubernetes: `NotFound`.
    pub reason: Option<String>,
    /// Kubernetes' details.
    pub details: Option<Value>,
    /// Further properties, such as the `code` and `stderr` of a program.
    pub properties: BTreeMap<&'static str, Value>,
}

/// The meaning of an error for the handler, if it is not caught.
#[derive(Debug, Clone, PartialEq)]
pub enum Meaning {
    /// Try again after a delay; `None` means at once.
    Temporary(Option<Duration>),
    /// The handler fails permanently.
    Permanent,
    /// The request is denied. Outside of webhooks, the handler fails permanently.
    Reject,
    /// A host function has failed, with this kind of error: `api`, `argument`, `budget`…
    Host(&'static str),
}

impl Failure {
    /// Returns the failure of a host function.
    pub fn host(kind: &'static str, message: impl Into<String>) -> Self {
        Self::new(Meaning::Host(kind), message)
    }

    /// Returns the failure of a host function because of an invalid argument.
    pub fn argument(message: impl Into<String>) -> Self {
        Self::host("argument", message)
    }

    /// Returns a failure with any meaning.
    pub fn new(meaning: Meaning, message: impl Into<String>) -> Self {
        Self {
            meaning,
            message: message.into(),
            status: None,
            reason: None,
            details: None,
            properties: BTreeMap::new(),
        }
    }

    /// Returns the name of its meaning.
    pub fn kind(&self) -> &'static str {
        match self.meaning {
            Meaning::Temporary(_) => "temporary",
            Meaning::Permanent => "permanent",
            Meaning::Reject => "reject",
            Meaning::Host(kind) => kind,
        }
    }
}

impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Self {
        let ApiError { message, status, reason, details } = error;
        Self { status, reason, details, ..Self::host("api", message) }
    }
}

/// Throws a failure at the call of the host function.
impl From<Failure> for Box<EvalAltResult> {
    fn from(failure: Failure) -> Self {
        EvalAltResult::ErrorRuntime(Dynamic::from(failure), Position::NONE).into()
    }
}
