//! Diagnostics: problems of a manifest or its scripts, with positions and hints.

use std::path::PathBuf;

/// One problem or remark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// The severity.
    pub severity: Severity,
    /// The message: a fragment without a full stop.
    pub message: String,
    /// The file, as named by the user.
    pub file: PathBuf,
    /// The line, from 1; zero for the whole file.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The number of marked characters.
    pub length: usize,
    /// The path in the YAML, such as `spec.resources[0].handlers[2].retries`.
    pub path: Option<String>,
    /// A hint on the fix.
    pub hint: Option<String>,
    /// The line of the file; only its part around the column if it is very long.
    pub snippet: Option<Snippet>,
}

/// The severity of a diagnostic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The operator cannot run.
    Error,
    /// The operator can run, but probably not as intended.
    Warning,
    /// The text may have another meaning than intended.
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

/// A line of a file, or a part of a very long one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snippet {
    /// The text.
    pub text: String,
    /// The number of characters cut before it.
    pub skipped: usize,
}

impl Snippet {
    /// The characters shown on each side of the column.
    const REACH: usize = 160;

    /// Returns the part of a line around a column.
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

    /// Tells whether it prevents the operator from running.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}
