//! The interfaces of host functions to the world outside of the cluster. The owner of the host implements them.

mod hosts;
mod http;

use std::sync::Arc;

pub use hosts::{Grants, is_allowed};
pub use http::{HttpAnswer, HttpClient, HttpConnection, HttpError, HttpProblem, HttpRequest, Identity, ProxyChoice};

/// What scripts can reach outside of the cluster. `None` is not available.
#[derive(Clone, Default)]
pub struct Outside {
    /// HTTP servers.
    pub http: Option<Arc<dyn HttpClient>>,
}
