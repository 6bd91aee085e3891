//! Field managers.

use jiff::Timestamp;

use super::lists::Lists;

/// The kind of a manager's writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Operation {
    /// By server-side apply.
    Apply,
    /// In any other way.
    Update,
}

/// A field manager and its write.
pub(crate) struct Manager<'a> {
    /// The name of the field manager.
    pub name: &'a str,
    /// The kind of its writes.
    pub operation: Operation,
    /// The subresource that it writes through.
    pub subresource: Option<&'a str>,
    /// The version of the request.
    pub api_version: &'a str,
    /// The time of the request.
    pub time: Timestamp,
    /// Whether an apply takes fields from other managers.
    pub force: bool,
    /// The ownership of the kind's lists and maps.
    pub lists: &'a dyn Lists,
}
