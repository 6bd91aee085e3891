//! What is wrong with scripts, and where.

use std::path::PathBuf;

use crate::kit::source::SourcePosition;

/// Something in a script, or in what names it, that is wrong or hardly meant.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// The file.
    pub file: PathBuf,
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1, in characters.
    pub column: usize,
    /// How bad it is.
    pub severity: Severity,
    /// The characters that it is about.
    pub length: usize,
    /// What is wrong: a fragment of a sentence.
    pub message: String,
    /// A way out.
    pub hint: Option<String>,
    /// The binding that it was found for, if it concerns one.
    pub binding: Option<usize>,
}

impl Problem {
    /// Returns an error at a place.
    pub fn error(place: SourcePosition, message: impl Into<String>) -> Self {
        Self::at(Severity::Error, place, message.into())
    }

    /// Returns a problem at a position.
    pub fn at(severity: Severity, place: SourcePosition, message: String) -> Self {
        Self { severity, file: place.file, line: place.line, column: place.column, length: 1, message, hint: None, binding: None }
    }
}

/// How bad a problem is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// It cannot be run.
    Error,
    /// It can be run, but hardly does what was meant.
    Warning,
    /// There is a better way.
    Hint,
}
