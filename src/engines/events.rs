//! The events of the engine, as one stream with any number of sinks.
//!
//! Events are passed on immediately and in order, so that simulations are reproducible. A sink must not wait: it puts
//! longer work into a queue with a limit, as the log and the posting of Kubernetes Events do. Items that a full queue
//! does not take are dropped and counted.

mod event;
mod log;
mod stream;

pub use event::EngineEvent;
pub use log::LogSink;
pub use stream::{EventSink, EventStream};
