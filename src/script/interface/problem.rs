//! Problems of scripts.

use crate::kit::source::SourcePosition;

/// A problem in a script, or in its declaration.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// The position.
    pub place: SourcePosition,
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
        Self { severity, place, length: 1, message, hint: None, binding: None }
    }
}

/// The severity of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The operator cannot run.
    Error,
    /// The operator can run, but probably not as intended.
    Warning,
    /// The text may have another meaning than intended, or there is a better way.
    Hint,
}

impl Severity {
    /// Returns the name of the severity.
    pub fn word(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Hint => "hint",
        }
    }
}
