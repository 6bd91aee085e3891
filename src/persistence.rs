//! The stored form of progress, of the last handled essence, and of peers: annotations and status fields, in kopf's formats.
//!
//! `handling` decides about the records, `reactor` sends them.

pub mod clash;
pub mod digests;
pub mod essence;
mod fields;
pub mod key;
pub mod lease;
pub mod peering;
pub mod record;
pub mod schedule;
pub mod storage;
pub mod text;
pub mod write;

pub use clash::Clash;
pub use digests::{Keys, MissingKey, SecretForm, SecretStorage};
pub use record::Stored;
pub use schedule::ScheduleRecord;
pub use storage::{DiffbaseAnnotations, DiffbaseStatus, DiffbaseStorage, ProgressAnnotations, ProgressStatus, ProgressStorage, Storages};
