//! The verbs of requests for objects: read, write, patch, delete, watch.

pub mod admission_chain;
pub mod body;
pub mod conversion;
pub mod deleting;
mod deletion_options;
pub mod dispatch;
pub mod patching;
pub mod pod_classes;
pub mod reading;
pub mod request_context;
pub mod reviews;
pub mod scale;
pub mod target;
pub mod watch;
pub mod writing;
