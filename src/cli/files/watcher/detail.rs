//! The extent of the events that a watcher reports of a directory.

/// The events of a directory that are reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Detail {
    /// Its entries are created, removed, or called otherwise.
    Names,
    /// Its files are written, too.
    Contents,
}
