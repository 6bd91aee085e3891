//! Everything for an object or an operator besides the handling of changes. The engines do not know each other.
//!
//! Each one has rules that decide, and tasks that wait and act by its [`Effects`].

use std::time::Duration;

pub(crate) mod activities;
pub mod admission;
pub mod background;
pub(crate) mod definitions;
pub(crate) mod deployment;
pub(crate) mod effects;
pub(crate) mod endpoints;
pub(crate) mod error;
pub mod events;
pub(crate) mod health;
pub(crate) mod hooks;
pub(crate) mod indexing;
pub mod leading;
pub mod metrics;
pub(crate) mod patching;
pub(crate) mod pause;
pub mod peering;
pub mod posting;
pub(crate) mod readiness;
pub(crate) mod rights;
pub(crate) mod schedules;
pub(crate) mod settling;
pub(crate) mod status;
pub(crate) mod tally;
pub(crate) mod uninstall;

pub use activities::{Activities, ActivityError};
pub use background::BackgroundTasks;
pub use effects::{Background, Effects, Environment, IndexEvent, Indexing, ObjectEvent, Patcher, Scripts};
pub use endpoints::{Endpoints, LivenessUrl};
pub use error::Error;
pub use events::{EngineEvent, EventSink, EventStream};
pub use health::Health;
pub use hooks::Hooks;
pub use indexing::Indexer;
pub use leading::Lead;
pub use pause::{Hold, Pause};
pub use readiness::{Blocker, Readiness};
pub use schedules::Schedules;

/// The pause after a failed request, if the settings have none.
const MIN_ERROR_DELAY: Duration = Duration::from_secs(1);
