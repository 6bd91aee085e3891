//! The embedded API server: a store of objects with the face of Kubernetes, for trying and testing operators without a cluster.
//!
//! What a request does to the objects is decided by pure functions; waiting, sockets and time come from outside.

pub mod builtin;
pub mod causes;
pub mod definition;
pub mod failure;
pub mod kind;
pub mod metadata;
pub mod openapi;
pub mod schema;
pub mod selector;
pub mod table;

pub use failure::{Cause, Failure};
pub use kind::Kind;
pub use schema::Schema;
