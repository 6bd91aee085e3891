//! The only speaker to the API server.

use crate::object::{Item, Transform};

/// What came of a patch.
#[derive(Debug, Default)]
pub struct Applied {
    /// The version to wait for.
    pub version: Option<String>,
    /// The functions that could not be applied.
    pub remaining: Vec<Transform>,
    /// What the server has not taken over.
    pub inconsistencies: Vec<Item>,
    /// Whether the object is gone.
    pub is_gone: bool,
}

/// What goes wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A status.
    #[error("APIServerError(status={0})")]
    Status(u16),
}
