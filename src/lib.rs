//! kopfd: a Kubernetes operator engine with the semantics of kopf.

pub mod cluster;
pub mod kit;
pub mod object;
