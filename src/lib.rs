//! kopfd: a Kubernetes operator engine with the semantics of kopf.

pub mod cli;
pub mod cluster;
mod cryptography;
pub mod engines;
pub mod handling;
pub mod manifest;
pub mod object;
pub mod outside;
pub mod packaging;
pub mod persistence;
pub mod reactor;
pub mod scenario;
pub mod script;
pub mod telemetry;

pub use kopfd_apiserver as apiserver;
pub use kopfd_base::{http, kit};
pub use kopfd_wire as wire;
