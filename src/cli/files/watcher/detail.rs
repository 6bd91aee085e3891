//! How much is told of a directory.

/// What is told of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Detail {
    /// Its entries are created, removed, or called otherwise.
    Names,
    /// Its files are written, too.
    Contents,
}
