//! The events of the engine, as one stream with any number of sinks.
//!
//! Events are passed on immediately and in order, so that simulations are reproducible. A sink must not wait: slow sinks get a
//! [`buffered()`] channel, which drops events when it is full, and counts them.

mod buffered;
mod event;
mod log;
mod stream;

pub use buffered::{BufferedEvents, BufferedSink, buffered};
pub use event::EngineEvent;
pub use log::LogSink;
pub use stream::{EventSink, EventStream};
