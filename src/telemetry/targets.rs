//! Targets of log lines with a meaning for logging itself.

/// The target of log lines about objects.
pub(crate) const OBJECTS: &str = "kopfd::objects";

/// The target of the lines that only `dev` shows at the normal level; they are debug lines elsewhere.
pub(crate) const STEPS: &str = "kopfd::objects::steps";
