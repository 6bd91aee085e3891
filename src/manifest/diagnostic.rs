//! Diagnostics: problems of a manifest or its scripts, with positions and hints.

use std::path::PathBuf;

use crate::kit::source::SourcePosition;
pub use crate::script::interface::problem::Severity;

/// One problem or remark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// The severity.
    pub severity: Severity,
    /// The message: a fragment without a full stop.
    pub message: String,
    /// The position. Its line is zero for the whole file.
    pub place: SourcePosition,
    /// The number of marked characters.
    pub length: usize,
    /// The path in the YAML, such as `spec.resources[0].handlers[2].retries`.
    pub path: Option<String>,
    /// A hint on the fix.
    pub hint: Option<String>,
    /// The line of the file; only its part around the column if it is very long.
    pub snippet: Option<Snippet>,
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
    pub fn of_file(
        severity: Severity,
        file: impl Into<PathBuf>,
        message: impl Into<String>,
        hint: Option<String>,
    ) -> Self {
        let place = SourcePosition { file: file.into(), ..SourcePosition::default() };
        Self { severity, message: message.into(), place, length: 0, path: None, hint, snippet: None }
    }

    /// Returns it with the path in the YAML.
    #[must_use]
    pub fn at_path(self, path: &str) -> Self {
        Self { path: (!path.is_empty()).then(|| path.to_owned()), ..self }
    }

    /// Tells whether it prevents the operator from running.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}
