//! Why expressions have no value.

use std::sync::Arc;

/// Why an expression has no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Error {
    /// A function failed, or what was asked for is not there.
    #[error("{0}")]
    Failed(Arc<str>),
    /// It costs more than one expression may.
    #[error("operation cancelled: actual cost limit exceeded")]
    TooExpensive,
}

impl Error {
    /// Returns the error of a function.
    pub(super) fn new(text: impl Into<Arc<str>>) -> Self {
        Self::Failed(text.into())
    }
}

/// The error of a call with values that it is not for, which only happens where types are not known before.
pub(super) fn no_such_overload() -> Error {
    Error::new("no such overload")
}

/// Returns the error of a function that failed.
pub(super) fn failed(text: impl Into<String>) -> Error {
    Error::new(text.into())
}
