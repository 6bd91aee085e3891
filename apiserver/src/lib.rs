#![doc = include_str!("../README.md")]
//!
//! # Architecture
//!
//! Pure functions decide about the effects of requests; waiting, sockets and time are outside of them. [`TestServer`]
//! is the interface for tests of other projects; [`ApiServer`] is the server without a runtime of its own.

pub mod admin_client;
pub mod admission;
mod api;
pub mod auth;
pub mod bootstrap;
#[cfg(feature = "cel")]
mod cel;
mod controllers;
mod discovery;
pub mod faults;
mod go;
pub mod http;
pub mod kinds;
mod patch;
mod rules;
mod schema;
pub mod server;
pub mod storage;
pub mod test_server;
mod verbs;

pub use crate::api::Settings;
pub use crate::api::latency::Latency;
pub use crate::http::api_error::{ApiError, FieldError};
pub use crate::kinds::kind::Kind;
pub use crate::schema::Schema;
pub use crate::server::ApiServer;
pub use crate::test_server::TestServer;
