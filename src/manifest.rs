//! Manifests: reads YAML into a checked [`Operator`], or reports a list of diagnostics.
//!
//! All errors are reported at once, each with its position and a hint. Nothing here connects to a cluster or calls a
//! handler.

mod activities;
mod allow;
mod binding;
mod budgets;
mod builder;
mod connections;
mod crds;
mod document;
mod filters;
mod handlers;
mod hooks;
mod reconcile;
mod scripts;
mod secret_keys;
mod selectors;
mod settings_reader;
mod storages;
mod timers_and_daemons;
mod values;
mod webhooks;

pub mod admission;
pub mod canary;
pub(crate) mod cross_operator;
pub(crate) mod diagnostic;
pub(crate) mod fingerprint;
pub(crate) mod hook_server;
pub mod known_kinds;
pub mod load;
pub(crate) mod operator;
pub(crate) mod paths;
pub(crate) mod ranges;
pub(crate) mod reader;
pub mod rights;
pub mod settings;
pub mod settings_table;
pub mod settings_tree;
pub(crate) mod source;
pub(crate) mod suggest;
pub(crate) mod tree;

pub use diagnostic::{Diagnostic, Severity, Snippet};
pub use load::{Loaded, load, read};
pub use operator::{Activity, Daemon, NamedKind, Operator, Reconcile, Schedule, Timer, Unsupported};
pub(crate) use scripts::requested_kinds;
pub use settings::Settings;
