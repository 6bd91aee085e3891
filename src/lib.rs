//! kopfd: a Kubernetes operator engine with the semantics of kopf.

pub mod cli;
pub mod cluster;
pub mod devserver;
pub mod handling;
pub mod http;
pub mod kit;
pub mod manifest;
pub mod object;
pub mod persistence;
pub mod reactor;
pub mod scenario;
pub mod script;
pub mod telemetry;
