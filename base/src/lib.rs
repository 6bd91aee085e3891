//! What the engine of kopfd and its embedded API server share: time, tasks, HTTP listeners, and plain data.
//!
//! Nothing here knows of operators, or of objects of Kubernetes beyond their YAML and their quantities.

pub mod equality;
pub mod http;
pub mod kit;
pub mod quantity;
pub mod yaml;
