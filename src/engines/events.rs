//! The events of the engine, as one stream with any number of sinks.
//!
//! Events are passed on immediately and in order, so that simulations are reproducible. A sink must not wait: what it does not finish at once
//! it puts into a queue with a limit, as the log and the posting of Kubernetes Events do. What a full queue does not take is dropped and
//! counted.

mod event;
mod log;
mod stream;

pub use event::EngineEvent;
pub use log::LogSink;
pub use stream::{EventSink, EventStream};
