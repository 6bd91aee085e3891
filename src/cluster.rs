//! The only speaker to the API server: connections, requests, discovery, watches, and patches.
//!
//! It knows paths and statuses, but not why somebody asks.

pub mod address;
pub mod apply;
pub mod calls;
pub mod client;
pub mod config;
pub mod discovery;
pub mod error;
mod excerpt;
pub mod head;
pub mod in_process;
pub mod kinds;
pub mod line;
mod plugin;
pub mod transport;
pub mod watch;

pub use apply::{Applied, Requests, transformed};
pub use calls::Calls;
pub use client::{Client, Repeat, Request, Response};
pub use config::{Networking, Options, Watching};
pub use error::{Error, LoginError};
pub use head::Head;
pub use kinds::Kinds;
pub use watch::{Seen, Sink, Watcher};
