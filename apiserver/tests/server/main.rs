//! The API server in the same process: its answers are those of a real server, whatever goes wrong on demand, and with webhooks.

mod applying;
#[path = "../differ/mod.rs"]
mod differ;
mod faults;
mod sameness;
mod test_server;
mod watching;
mod webhooks;
