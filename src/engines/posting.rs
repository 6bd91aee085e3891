//! Kubernetes Events: they are queued, and posted one after another, so that no handler waits for them.

pub(crate) mod aggregation;
pub mod rules;
pub(crate) mod sink;
pub(crate) mod task;

pub use rules::KubernetesEvent;
pub use sink::LogPoster;
pub use task::{Poster, Queue, queue};
