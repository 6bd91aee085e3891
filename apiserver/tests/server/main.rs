//! The API server in the same process: its answers equal those of a real server, fault injection, and webhooks.

mod applying;
#[path = "../differ/mod.rs"]
mod differ;
mod faults;
mod sameness;
mod test_server;
mod watching;
mod webhooks;
