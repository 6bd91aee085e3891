//! Errors of evaluations.

use std::sync::Arc;

/// The error of an evaluation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Error {
    /// A function failed, or a requested value does not exist.
    #[error("{0}")]
    Failed(Arc<str>),
    /// The cost limit of one expression is exceeded.
    #[error("operation cancelled: actual cost limit exceeded")]
    TooExpensive,
}

impl Error {
    /// Returns the error of a function.
    pub(super) fn new(text: impl Into<Arc<str>>) -> Self {
        Self::Failed(text.into())
    }
}

/// Returns the error of a call with unsupported types, which is only possible with dynamic types.
pub(super) fn no_such_overload() -> Error {
    Error::new("no such overload")
}

/// Returns the error of a function that failed.
pub(super) fn failed(text: impl Into<String>) -> Error {
    Error::new(text.into())
}
