//! The shared code of kopfd's engine and its embedded API server: time, tasks, HTTP listeners, and plain data.
//!
//! Independent of operators, and of Kubernetes except for YAML, quantities, names, selectors of labels, and the names
//! of built-in kinds.

pub mod builtin_kinds;
pub mod equality;
pub mod http;
pub mod kit;
pub mod label_selector;
pub mod names;
pub mod quantity;
pub mod yaml;
