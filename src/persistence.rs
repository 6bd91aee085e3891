//! The stored form of progress, of the last handled essence, and of peers: annotations and status fields, in kopf's
//! formats.
//!
//! `handling` decides about the records, `reactor` sends them.

pub(crate) mod clash;
pub(crate) mod digests;
pub mod essence;
mod fields;
pub mod key;
pub(crate) mod lease;
pub mod peering;
pub(crate) mod record;
pub(crate) mod schedule;
pub mod storage;
pub mod text;
pub(crate) mod write;

pub use clash::Clash;
pub use digests::{Keys, MissingKey, SecretForm, SecretStorage};
pub use record::Stored;
pub use schedule::ScheduleRecord;
pub use storage::{
    DiffbaseAnnotations, DiffbaseStatus, DiffbaseStorage, ProgressAnnotations, ProgressStatus, ProgressStorage,
    Storages,
};
