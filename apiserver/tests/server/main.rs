//! The API server in the same process: its answers equal those of a real server, fault injection, and webhooks.

mod applying;
#[cfg_attr(
    not(feature = "cel"),
    expect(dead_code, reason = "the cases and their answers are for servers with all features")
)]
#[path = "../differ/mod.rs"]
mod differ;
mod faults;
mod requests;
mod rules;
// Many of its cases are about rules.
#[cfg(feature = "cel")]
mod sameness;
mod test_server;
mod watching;
mod webhooks;
