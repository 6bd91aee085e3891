//! The exit codes of commands.

/// Success.
pub(super) const SUCCESS: u8 = 0;
/// The input has errors, or the work failed.
pub(super) const FAILURE: u8 = 1;
/// Invalid command line.
pub(super) const USAGE_ERROR: u8 = 2;
/// The process was ended at once.
pub(super) const INTERRUPTED: u8 = 130;
/// The process was terminated before its work was done.
pub(super) const TERMINATED: u8 = 143;
