//! Compiled rules.

use crate::cel::Program;

/// A compiled rule.
#[derive(Debug, Clone)]
pub(crate) struct Compiled {
    /// The rule.
    pub(super) rule: Program,
    /// The message expression.
    pub(super) message: Option<Program>,
    /// Whether the rule uses the old value.
    pub(super) uses_old: bool,
}
