//! Errors of a cycle. A failed cycle delays its object and nothing else.

use std::time::Duration;

use crate::cluster;
use crate::handling::progress::BrokenRecord;

/// An error of a cycle.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operator's state on the object cannot be read.
    #[error(transparent)]
    Stored(#[from] BrokenRecord),
    /// The object has a form that no API server sends.
    #[error("the object is malformed: {0}")]
    Malformed(String),
    /// An expression of a filter failed.
    #[error("a filter failed: {0}")]
    Filter(String),
    /// The API server refused the patch, or could not be reached.
    #[error(transparent)]
    Patch(#[from] cluster::Error),
    /// A transformation of the whole object failed.
    #[error("a transformation of the object failed: {0}")]
    Transform(String),
    /// A call was cancelled, so the cycle has no result.
    #[error("the operator stops")]
    Cancelled,
}

impl Error {
    /// Returns the pause that the API server has asked for.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Patch(error) => error.retry_after(),
            _ => None,
        }
    }
}
