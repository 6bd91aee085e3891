//! kopfd: a Kubernetes operator engine with the semantics of kopf.
//!
//! # Public API
//!
//! For other programs: [`cli::main`] is the whole command; its process needs [`http::install_crypto_provider`], and as
//! its allocator [`script::Accounting`] around [`cli::Heap`], as in `src/main.rs`. [`apiserver::TestServer`] is an API
//! server for the tests of other projects.
//!
//! All other modules are public for the tests and benchmarks of this project, and may change in any version.

pub mod cli;
pub mod cluster;
mod cryptography;
pub mod engines;
pub mod handling;
pub mod manifest;
pub mod object;
pub mod outside;
mod packaging;
pub mod persistence;
pub mod reactor;
pub mod scenario;
pub mod script;
pub mod telemetry;

pub use kopfd_apiserver as apiserver;
pub use kopfd_base::{http, kit};
pub use kopfd_wire as wire;
