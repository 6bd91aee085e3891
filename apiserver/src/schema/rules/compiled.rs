//! Rules in the form in which they are evaluated.

use crate::cel::Program;

/// A rule that can be evaluated.
#[derive(Debug, Clone)]
pub(crate) struct Compiled {
    /// The rule.
    pub(super) rule: Program,
    /// What computes the message.
    pub(super) message: Option<Program>,
    /// Whether the rule looks at the old value.
    pub(super) uses_old: bool,
}
