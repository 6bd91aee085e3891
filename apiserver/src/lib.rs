//! The embedded API server: a store of objects with the face of Kubernetes, for trying and testing operators without a cluster.
//!
//! What a request does to the objects is decided by pure functions; waiting, sockets and time come from outside.

pub mod access;
pub mod admission;
pub mod api;
mod attendance;
pub mod builtin;
pub mod call;
pub mod causes;
#[cfg(feature = "cel")]
mod cel;
pub mod chores;
pub mod control;
pub mod controllers;
pub mod conversion;
pub mod deadline;
pub mod definition;
pub mod deleting;
pub mod discovery;
pub mod failure;
pub mod faults;
pub mod gate;
pub mod given;
pub mod hand;
pub mod handlers;
pub mod identity;
pub mod ids;
pub mod impersonation;
pub mod injection;
pub mod journal;
pub mod json;
pub mod json_patch;
pub mod kind;
pub mod kubeconfig;
pub mod merge_patch;
pub mod messages;
pub mod metadata;
pub mod openapi;
pub mod ownership;
pub mod pace;
pub mod patching;
mod pod_classes;
pub mod private;
pub mod protobuf;
pub mod reading;
pub mod registry;
pub mod reply;
pub mod request;
pub mod requests;
pub mod reviews;
pub mod rules;
pub mod schema;
pub mod selector;
pub mod server;
pub mod shapes;
pub mod store;
pub mod strategic;
pub mod table;
pub mod view;
pub mod watch;
pub mod writing;

pub use api::{Api, Settings};
pub use failure::{Cause, Failure};
pub use kind::Kind;
pub use schema::Schema;
