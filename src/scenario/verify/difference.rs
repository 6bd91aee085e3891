//! Differences from expectations, and their words.

use serde_json::Value;

use crate::manifest::tree::SourceSpan;
use crate::reactor::activity::shown;
use crate::telemetry::credentials;

use super::super::pattern::{Mismatch, Pattern, PatternKind};
use super::super::update::Fix;

/// A difference from an expectation.
#[derive(Debug, Clone)]
pub struct Difference {
    /// Position of the expectation.
    pub spot: SourceSpan,
    /// The difference, in one or several lines.
    pub text: String,
    /// Change of the file with which `--update` makes it match.
    pub fix: Option<Fix>,
    /// Log lines that the difference refers to.
    pub lines: Vec<String>,
}

impl Difference {
    pub(crate) fn new(spot: SourceSpan, text: impl Into<String>) -> Self {
        Self { spot, text: credentials::hide(text.into()), fix: None, lines: Vec::new() }
    }

    /// Returns the difference with what `--update` can do about it.
    pub(super) fn with_fix(self, fix: Option<Fix>) -> Self {
        Self { fix, ..self }
    }

    /// Returns the difference with the log line that it refers to, if there is one.
    pub(super) fn about_line(self, line: Option<&str>) -> Self {
        Self { lines: line.map(str::to_owned).into_iter().collect(), ..self }
    }
}

/// Returns the difference of a mismatch, which may show another value than the found one.
pub(super) fn of_mismatch(subject: &str, mismatch: Mismatch, hidden: Option<Value>) -> Difference {
    let Mismatch { path, spot, wanted, found, is_plain } = mismatch;
    let found_text = hidden.as_ref().or(found.as_ref()).map_or_else(|| "nothing".to_owned(), shown);
    let fix = found.filter(|_| is_plain).map(|value| Fix::Scalar { spot, value });
    let path = if path.is_empty() { String::new() } else { format!("{path}: ") };
    Difference::new(spot, format!("{subject}: {path}expected {wanted}, found {found_text}")).with_fix(fix)
}

/// Returns the words for a pattern.
pub(crate) fn describe(pattern: &Pattern) -> String {
    match &pattern.kind {
        PatternKind::Value(value) => value.to_string(),
        PatternKind::Matcher(_, text) => text.clone(),
        _ => "a pattern".to_owned(),
    }
}
