//! Why a cycle fails. A failed cycle delays its object and nothing else.

use crate::cluster;
use crate::handling::progress::BrokenRecord;

/// Why a cycle fails.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What the operator has stored on the object cannot be read.
    #[error(transparent)]
    Stored(#[from] BrokenRecord),
    /// The object is not what an API server sends.
    #[error("the object is malformed: {0}")]
    Malformed(String),
    /// An expression of a filter failed.
    #[error("a filter failed: {0}")]
    Filter(String),
    /// The API server did not take the patch.
    #[error(transparent)]
    Patch(#[from] cluster::Error),
    /// A transformation of the whole object failed.
    #[error("a transformation of the object failed: {0}")]
    Transform(String),
    /// A call was ended from outside, so nothing of the cycle counts.
    #[error("the operator stops")]
    Cancelled,
}
