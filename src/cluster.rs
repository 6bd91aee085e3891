//! The only client of the API server: connections, requests, discovery, watches, and patches.
//!
//! It knows paths and statuses, but not the purpose of a request.

pub mod address;
pub mod apply;
pub mod client;
pub mod config;
mod connection_info;
pub mod discovery;
pub mod error;
pub mod exec;
pub mod fence;
pub mod guard;
pub mod in_flight;
pub mod in_process;
pub mod line;
pub mod object_client;
pub mod other;
mod plugin;
pub mod resource_resolver;
pub mod reviews;
pub mod secret_values;
pub mod selection;
pub mod settings;
pub mod transport;
pub mod watch;

pub use apply::{Applied, Confirmation, Requests, Unconfirmed, transformed};
pub use client::{Client, Repeat, Request, Response};
pub use config::Options;
pub use connection_info::ConnectionInfo;
pub use error::{Error, LoginError};
pub use fence::Fence;
pub use object_client::ObjectClient;
pub use resource_resolver::ResourceResolver;
pub use settings::{ConnectionSettings, Networking, Watching};
pub use watch::{KnownObjects, Seen, Sink, Touch, Watcher};
