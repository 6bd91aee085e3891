//! Differential cases: requests to the embedded API server and to a real one, whose answers must be the same.
//!
//! The answers of the real server are recorded in `answers/`. `cargo test` compares the embedded server with them, and
//! `tests/cluster/run` a real server.

pub(crate) mod answers;
pub(crate) mod case;
pub(crate) mod embedded;
mod normal;
pub(crate) mod run;
