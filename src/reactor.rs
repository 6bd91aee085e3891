//! From watch events to patches: the watchers, the queues, one worker per object, and the cycle that each event goes
//! through.
//!
//! `handling` makes the decisions; the reactor waits and carries them out.

pub(crate) mod activity;
pub(crate) mod admission;
pub(crate) mod built_in_credentials;
pub mod change_log;
pub(crate) mod changes;
pub mod cycle;
#[cfg(test)]
pub(crate) mod defects;
pub(crate) mod echo;
mod first_cycles;
pub(crate) mod hooks;
pub mod kind;
pub(crate) mod leaving;
pub(crate) mod live_effects;
pub(crate) mod looping;
pub(crate) mod mailbox;
pub(crate) mod memory;
pub mod observation;
mod observed;
pub mod observer;
pub mod operator;
mod pausing;
pub(crate) mod pending;
pub mod precedence;
pub(crate) mod queues;
pub mod reload;
pub mod revision;
pub mod rights;
pub mod script_api;
mod script_metrics;
mod script_watch;
pub(crate) mod status;
pub(crate) mod throttle;
pub(crate) mod touching;
mod trial;
mod watching;
pub mod worker;
pub(crate) mod worker_settings;

pub use activity::ActivityMonitor;
pub use admission::Admission;
pub use built_in_credentials::BuiltInCredentials;
pub use cycle::Served;
pub use hooks::HookReach;
pub use live_effects::{HostScripts, LiveEffects};
pub use mailbox::{Event, Mailbox};
pub use memory::Memories;
pub use observer::{Observer, Scope};
pub use worker::WorkerSettings;
