//! Errors of the YAML itself.

use crate::kit::source::SourceSpan;

/// An error of the YAML itself.
#[derive(Debug, Clone)]
pub struct Mistake {
    /// The position in the file.
    pub spot: SourceSpan,
    /// Its path.
    pub path: Option<String>,
    /// The text of the diagnostic.
    pub message: String,
    /// A hint on the fix.
    pub hint: Option<String>,
}
