//! The embedded API server in the same process: its answers are those of a real server, and the engine's own client works with it.

mod applying;
#[path = "../differ/mod.rs"]
mod differ;
mod faults;
mod in_process;
mod sameness;
mod watching;
mod webhooks;
