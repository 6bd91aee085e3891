//! Clock, tasks, stop signals, back-off, token buckets, durations, positions in files, visible forms of texts.
//! Independent of Kubernetes.

pub mod backoff;
pub mod clock;
pub mod counted;
pub mod duration;
pub mod errors;
pub mod hexadecimal;
pub mod source;
pub mod stop;
pub mod suggest;
pub mod surplus;
pub mod task_group;
pub mod tasks;
pub mod token_bucket;
pub mod visible;

pub use backoff::Backoff;
pub use clock::Clock;
pub use counted::counted;
pub use hexadecimal::hexadecimal;
pub use stop::Stop;
pub use surplus::surplus;
pub use task_group::TaskGroup;
pub use tasks::{Ended, Tasks};
pub use token_bucket::{Rate, TokenBucket};
