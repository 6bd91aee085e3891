//! Manifests: YAML as people write it becomes a checked [`Operator`], or a list of diagnostics.
//!
//! All mistakes are found at once, each with its place and a way out. Nothing here talks to a cluster or runs a handler.

mod activities;
mod binding;
mod budgets;
mod builder;
mod crds;
mod document;
mod filters;
mod handlers;
mod reconcile;
mod scripts;
mod selectors;
mod settings_reader;
mod storages;
mod timers_and_daemons;
mod values;
mod webhooks;

pub mod admission;
pub mod cross_operator;
pub mod diagnostic;
pub mod known_kinds;
pub mod load;
pub mod operator;
pub mod ranges;
pub mod reader;
pub mod settings;
pub mod source;
pub mod suggest;
pub mod tree;

pub use diagnostic::{Diagnostic, Severity, Snippet};
pub use load::{Loaded, load, read};
pub use operator::{Activity, Daemon, NamedKind, Operator, Reconcile, Schedule, Timer, Unsupported, Webhook};
pub use settings::Settings;
