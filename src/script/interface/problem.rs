//! Problems of scripts.

use std::path::PathBuf;

use crate::kit::source::SourcePosition;

/// A problem in a script, or in its declaration.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// The file.
    pub file: PathBuf,
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1, in characters.
    pub column: usize,
    /// The severity.
    pub severity: Severity,
    /// The number of marked characters.
    pub length: usize,
    /// The message: a fragment of a sentence.
    pub message: String,
    /// A hint on the fix.
    pub hint: Option<String>,
    /// The number of the affected binding, if there is one.
    pub binding: Option<usize>,
}

impl Problem {
    /// Returns an error at a position.
    pub fn error(place: SourcePosition, message: impl Into<String>) -> Self {
        Self::at(Severity::Error, place, message.into())
    }

    /// Returns a problem at a position.
    pub fn at(severity: Severity, place: SourcePosition, message: String) -> Self {
        Self { severity, file: place.file, line: place.line, column: place.column, length: 1, message, hint: None, binding: None }
    }
}

/// The severity of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The script cannot run.
    Error,
    /// The script can run, but probably not as intended.
    Warning,
    /// There is a better way.
    Hint,
}
