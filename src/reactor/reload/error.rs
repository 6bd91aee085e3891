//! The reason why a revision does not take effect, and the ends of a reload.

use crate::persistence::MissingKey;
use crate::script::Problem;

/// The reason why a revision does not take effect.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// Its scripts cannot be used.
    #[error("the scripts have errors")]
    Scripts(Vec<Problem>),
    /// Its settings contradict those that the startup functions have assigned.
    #[error("the settings do not fit those that the startup functions have assigned: {}", .0.join("; "))]
    Settings(Vec<String>),
    /// The values of Secrets cannot be digested.
    #[error(transparent)]
    Key(#[from] MissingKey),
    /// The objects for an added or changed index cannot be listed.
    #[error("the objects of {resource} cannot be listed for the indexes: {reason}")]
    Index {
        /// The kind.
        resource: String,
        /// The last error.
        reason: String,
    },
    /// It has not started yet, so that it has to be started anew with the new files.
    #[error("the operator is still starting")]
    Starting,
    /// A newer revision was asked for meanwhile.
    #[error("a newer revision replaces it")]
    Outdated,
    /// The operator ends.
    #[error("the operator ends")]
    Ended,
}

/// The end of a reload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reloaded {
    /// The files have not changed.
    Unchanged,
    /// This revision has taken effect.
    Changed(String),
    /// This revision serves a share of the objects, and takes effect if it is not worse.
    OnTrial(String),
}
