//! The values that calls are given, return and share: JSON, times, errors, memos, indexes. What scripts can do with
//! them is in `language`.

pub(crate) mod index;
pub(super) mod json;
pub(super) mod live_body;
pub(super) mod memo;
pub(crate) mod plain;
pub(super) mod script_error;
pub(super) mod shared;
pub(crate) mod stopped;
pub(super) mod time;
pub(super) mod titles;
pub(super) mod transforms;
