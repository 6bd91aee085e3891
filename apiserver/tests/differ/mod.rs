//! Cases that run on the embedded API server and a real one, whose answers must be equal.
//!
//! The real answers are recorded in `answers/`, so that the comparison needs no real server; `tests/cluster/run` compares again with one.

pub mod answers;
pub mod case;
pub mod compare;
pub mod differences;
pub mod embedded;
mod normal;
pub mod play;
