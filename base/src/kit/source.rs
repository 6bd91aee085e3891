//! Positions in files that users write. Lines and columns count from 1, columns and lengths in characters.

use std::fmt::{Display, Formatter};
use std::path::PathBuf;

/// A position in a file; the line zero means the whole file.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourcePosition {
    /// The file, as named by the user.
    pub file: PathBuf,
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

impl Display for SourcePosition {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> std::fmt::Result {
        let file = self.file.display();
        if self.line == 0 {
            write!(formatter, "{file}")
        } else {
            write!(formatter, "{file}:{}:{}", self.line, self.column)
        }
    }
}

impl SourcePosition {
    /// Returns the part of its line with this length.
    pub fn span(&self, length: usize) -> SourceSpan {
        SourceSpan { line: self.line, column: self.column, length }
    }
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

impl SourceSpan {
    /// Returns the position of its begin in a file.
    pub fn in_file(self, file: impl Into<PathBuf>) -> SourcePosition {
        SourcePosition { file: file.into(), line: self.line, column: self.column }
    }
}
