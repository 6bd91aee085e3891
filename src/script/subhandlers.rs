//! Sub-handlers: those that a handler registers while it runs.

use rhai::Engine;

/// The sub-handlers that a call has registered.
#[derive(Default)]
pub struct Registry {}

/// Registers `subhandler` and `execute`.
pub fn register(_: &mut Engine) {}
