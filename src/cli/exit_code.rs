//! The exit codes of commands.

/// Success.
pub const SUCCESS: u8 = 0;
/// The input has errors, or the work failed.
pub const FAILURE: u8 = 1;
/// Invalid command line.
pub const USAGE_ERROR: u8 = 2;
/// The process was ended at once.
pub const INTERRUPTED: u8 = 130;
/// The process was terminated before its work was done.
pub const TERMINATED: u8 = 143;
