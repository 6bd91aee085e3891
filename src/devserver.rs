//! The embedded API server: a store of objects with the face of Kubernetes, for trying and testing operators without a cluster.
//!
//! What a request does to the objects is decided by pure functions; waiting, sockets and time come from outside.

pub mod admission;
pub mod failure;
pub mod faults;
pub mod json_patch;
pub mod kind;
pub mod merge_patch;
pub mod ownership;
pub mod protobuf;
pub mod shapes;
pub mod strategic;

pub use failure::{Cause, Failure};
pub use kind::Kind;
