//! How progress and the last handled essence stand on an object: annotations and status fields, in kopf's formats.
//!
//! What the records mean belongs to `handling`; when they are sent, to `reactor`.

pub mod clash;
pub mod essence;
mod fields;
pub mod key;
pub mod record;
pub mod storage;
pub mod text;
pub mod write;

pub use clash::Clash;
pub use record::Stored;
pub use storage::{DiffbaseAnnotations, DiffbaseStatus, DiffbaseStorage, ProgressAnnotations, ProgressStatus, ProgressStorage, Storages};
