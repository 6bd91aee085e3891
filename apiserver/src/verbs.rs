//! The verbs of requests for objects: read, write, patch, delete, watch.

pub(crate) mod admission_chain;
pub(crate) mod body;
pub(crate) mod conversion;
pub(crate) mod deleting;
mod deletion_options;
pub(crate) mod dispatch;
pub(crate) mod patching;
pub(crate) mod pod_classes;
pub(crate) mod reading;
pub(crate) mod request_context;
pub(crate) mod reviews;
pub(crate) mod scale;
pub(crate) mod target;
pub(crate) mod watch;
pub(crate) mod writing;
