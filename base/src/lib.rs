//! What the engine of kopfd and its embedded API server share: time, tasks, HTTP listeners, and plain data.
//!
//! Nothing here knows of operators, or of objects of Kubernetes beyond their YAML, their quantities, and the names of built-in kinds.

pub mod builtin_kinds;
pub mod equality;
pub mod http;
pub mod kit;
pub mod quantity;
pub mod yaml;
