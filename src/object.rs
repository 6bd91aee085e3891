//! Kubernetes objects as data: bodies, identities, field paths, diffs, patches, and selectors of kinds.
//!
//! Independent of handlers, of the network, and of time.

pub(crate) mod body;
pub mod diff;
pub mod hierarchy;
pub(crate) mod late_body;
pub mod namespace;
pub(crate) mod patch;
pub(crate) mod path;
pub(crate) mod resource;
pub(crate) mod secret;
pub(crate) mod secret_key;
pub mod selector;

pub use kopfd_base::{builtin_kinds, equality, label_selector, names, quantity, yaml};

pub use body::{Body, EventKind, ObjectKey};
pub use diff::{Diff, Item, Op, Scope};
pub use late_body::LateBody;
pub use patch::{BodyFunction, Condition, Patch, Reply, Transform};
pub use path::FieldPath;
pub use resource::Resource;
pub use secret_key::SecretKey;
pub use selector::Selector;
