//! From watch events to patches: the watchers, the queues, one worker per object, and the cycle that each event goes through.
//!
//! What should happen is decided in `handling`; here it is waited for and carried out.

pub mod account;
pub mod changes;
pub mod cycle;
#[cfg(test)]
pub(crate) mod defects;
pub mod engine;
pub mod error;
pub mod kind;
pub mod mailbox;
pub mod memory;
pub mod narrator;
pub mod observation;
pub mod observer;
pub mod operator;
pub mod pending;
pub mod precedence;
pub mod queues;
pub mod script_api;
pub mod throttle;
pub mod worker;
pub mod world;

pub use account::{Account, Follower, Happening};
pub use cycle::Served;
pub use engine::Engine;
pub use error::Error;
pub use mailbox::{Event, Mailbox};
pub use memory::Memories;
pub use observer::{Observer, Scope};
pub use worker::Pace;
pub use world::World;
