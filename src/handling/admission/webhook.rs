//! Declared admission webhooks.

use std::time::Duration;

use serde_json::Value;

use crate::handling::handler::Handler;

/// A validating or mutating webhook.
#[derive(Debug, Clone)]
pub struct Webhook {
    /// The common part of all handlers.
    pub handler: Handler,
    /// Whether it may change the object.
    pub is_mutating: bool,
    /// The operations in capitals; empty for all.
    pub operations: Vec<String>,
    /// The subresource; `None` for the object itself.
    pub subresource: Option<String>,
    /// Whether it stays in the configuration when the operator stops.
    pub is_persistent: bool,
    /// Its declared side effects.
    pub side_effects: SideEffects,
    /// Whether the API server accepts requests if the webhook fails.
    pub ignores_failures: bool,
    /// Conditions that the API server checks, as they are written.
    pub match_conditions: Vec<Value>,
    /// How long the API server waits for the answer: whole seconds.
    pub timeout: Duration,
}

/// The declared side effects of a webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SideEffects {
    /// There are none.
    #[default]
    None,
    /// There are none on dry runs.
    NoneOnDryRun,
}

impl Webhook {
    /// Returns its name in manifests.
    pub fn word(&self) -> &'static str {
        if self.is_mutating { "mutate" } else { "validate" }
    }

    /// Returns a webhook without options.
    pub fn simple(handler: Handler, is_mutating: bool) -> Self {
        Self {
            handler,
            is_mutating,
            operations: Vec::new(),
            subresource: None,
            is_persistent: false,
            side_effects: SideEffects::default(),
            ignores_failures: false,
            match_conditions: Vec::new(),
            timeout: Duration::from_secs(30),
        }
    }
}
