//! What requests do to objects: read, write, patch, delete, watch.

pub mod conversion;
pub mod deleting;
mod deletion_options;
pub mod handlers;
pub mod patching;
pub mod reading;
pub mod request_context;
pub mod reviews;
pub mod rules;
pub mod watch;
pub mod writing;
