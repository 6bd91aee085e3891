//! Admission webhooks: their declarations, and the webhook configurations that make the API server call them.

mod conditions;
pub mod configuration;
pub mod webhook;

pub use configuration::ConfigurationKind;
pub use webhook::{SideEffects, Webhook};
