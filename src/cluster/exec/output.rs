//! The output of a command, and the reasons for which it has no exit code.

use std::time::Duration;

use crate::cluster::error::Error;

/// The output of a command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Output {
    /// The standard output.
    pub stdout: Vec<u8>,
    /// The standard error.
    pub stderr: Vec<u8>,
}

/// The reason why a command has no exit code.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// The server refuses it, or cannot run it.
    #[error(transparent)]
    Request(#[from] Error),
    /// Its time was over.
    #[error("the command has not ended within {} seconds", .0.as_secs_f64())]
    Timeout(Duration),
    /// It has written more than it may.
    #[error("the command has written more than {0} bytes")]
    TooMuchOutput(usize),
}
