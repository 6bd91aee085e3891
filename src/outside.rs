//! The world outside of the cluster, for the host functions of scripts: HTTP servers.
//!
//! Nothing is opened before a script asks for it.

pub mod http;

use std::sync::Arc;

use crate::script::Outside;

/// Returns what the scripts of one operator can reach from this process. `api_server` returns the address of the API server, which is
/// reached only by its own names.
pub fn of_process(api_server: impl Fn() -> String + Send + Sync + 'static) -> Outside {
    Outside::with_http(Arc::new(http::Client::new(http::Options::of_process(Arc::new(api_server)))))
}
