//! Kubernetes Events: they are queued, and posted one after another, so that no handler waits for them.

pub mod aggregation;
pub mod rules;
pub mod sink;
pub mod task;

pub use rules::KubernetesEvent;
pub use sink::LogPoster;
pub use task::{Poster, Queue, queue};
