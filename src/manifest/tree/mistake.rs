//! Errors of the YAML itself.

use crate::kit::source::SourceSpan;

/// An error of the YAML itself.
#[derive(Debug, Clone)]
pub struct Mistake {
    /// Where.
    pub spot: SourceSpan,
    /// Its path.
    pub path: Option<String>,
    /// What it is.
    pub message: String,
    /// How to fix it.
    pub hint: Option<String>,
}
