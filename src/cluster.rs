//! The only client of the API server: connections, requests, discovery, watches, and patches.
//!
//! It knows paths and statuses, but not the purpose of a request.

pub mod address;
pub mod apply;
pub(crate) mod client;
pub(crate) mod config;
mod connection_info;
pub mod discovery;
pub(crate) mod error;
pub mod exec;
pub(crate) mod fence;
pub(crate) mod guard;
pub(crate) mod in_flight;
pub mod in_process;
pub(crate) mod line;
pub mod object_client;
pub(crate) mod other;
mod plugin;
pub(crate) mod resource_resolver;
pub(crate) mod reviews;
pub(crate) mod secret_values;
pub(crate) mod selection;
pub(crate) mod settings;
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
