//! The errors of the system about files.

use std::fmt::Display;
use std::io::{Error, ErrorKind};

use crate::script::outside::files::{FileError, FileFailure};

/// Returns the error of the system about a file.
pub(super) fn failed(path: &dyn Display, error: &Error) -> FileError {
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => {
            FileError::new(FileFailure::NotFound, format!("{path} does not exist"))
        }
        ErrorKind::PermissionDenied => {
            FileError::new(FileFailure::Forbidden, format!("the system denies access to {path}"))
        }
        _ => FileError::new(FileFailure::Unreadable, format!("{path} cannot be read: {error}")),
    }
}
