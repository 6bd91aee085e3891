//! Positions in files that users write. Lines and columns count from 1, columns and lengths in characters.

use std::path::PathBuf;

/// A position in a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourcePosition {
    /// The file, as named by the user.
    pub file: PathBuf,
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

/// A part of a line; the file is known from the context.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceSpan {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
    /// The length, at most up to the end of the line.
    pub length: usize,
}
