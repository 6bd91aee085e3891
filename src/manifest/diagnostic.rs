//! Diagnostics: what is wrong with a manifest or its scripts, where, and what to do about it.

use std::path::PathBuf;

/// One thing that is wrong, or worth knowing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// What it is: a fragment without a full stop.
    pub message: String,
    /// The file, as the user knows it.
    pub file: PathBuf,
    /// The line, from 1; zero if it is about the file as a whole.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The number of characters that are meant.
    pub length: usize,
    /// The way through the YAML, such as `spec.resources[0].handlers[2].retries`.
    pub path: Option<String>,
    /// The way out.
    pub hint: Option<String>,
    /// The line of the file, cut to what is near if it is very long.
    pub snippet: Option<Snippet>,
}

/// How bad a diagnostic is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The operator cannot run.
    Error,
    /// It can, but probably does not do what is meant.
    Warning,
    /// It may be meant otherwise.
    Hint,
}

impl Severity {
    /// Returns the word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Hint => "hint",
        }
    }
}

/// A line of a file, or a part of a very long one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snippet {
    /// The text.
    pub text: String,
    /// The number of characters of the line that stand before it.
    pub skipped: usize,
}

impl Snippet {
    /// The characters of a line that are shown on each side of the place.
    const REACH: usize = 160;

    /// Returns what is near a column of a line.
    pub fn of(line: &str, column: usize) -> Self {
        let skipped = column.saturating_sub(Self::REACH + 1);
        let text = line.chars().skip(skipped).take(2 * Self::REACH).collect();
        Self { text, skipped: if skipped < column { skipped } else { 0 } }
    }
}

impl Diagnostic {
    /// Returns a diagnostic about a file as a whole.
    pub fn of_file(severity: Severity, file: impl Into<PathBuf>, message: impl Into<String>, hint: Option<String>) -> Self {
        Self { severity, message: message.into(), file: file.into(), line: 0, column: 0, length: 0, path: None, hint, snippet: None }
    }

    /// Tells whether the operator cannot run with it.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}
