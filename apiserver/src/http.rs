//! The HTTP interface of the server: requests, answers, media types, sockets, and the kubeconfig.

pub mod api_error;
pub mod deadline;
pub mod identity;
pub mod json;
pub mod kubeconfig;
pub mod protobuf;
pub mod reply;
pub mod request;
