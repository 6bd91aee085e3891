//! Errors as scripts see them, whether they were thrown or come from host functions.

use std::time::Duration;

use rhai::{Dynamic, EvalAltResult, Position};
use serde_json::Value;

use super::api::ApiError;

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

    /// Returns a failure of any meaning.
    pub fn new(meaning: Meaning, message: impl Into<String>) -> Self {
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
