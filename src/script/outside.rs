//! The interfaces of host functions to the world outside of the cluster. The owner of the host implements them.

mod hosts;
mod http;
mod tokens;

use std::sync::Arc;

pub use hosts::{Grants, is_allowed};
pub use http::{HttpAnswer, HttpClient, HttpConnection, HttpError, HttpProblem, HttpRequest, Identity, ProxyChoice};
pub(super) use tokens::Tokens;

/// What scripts can reach outside of the cluster. `None` is not available.
#[derive(Clone, Default)]
pub struct Outside {
    /// HTTP servers.
    pub http: Option<Arc<dyn HttpClient>>,
    /// The tokens of OAuth 2, which the calls of one operator share.
    tokens: Arc<Tokens>,
}

impl Outside {
    /// Returns the world with these HTTP servers.
    pub fn with_http(http: Arc<dyn HttpClient>) -> Self {
        Self { http: Some(http), ..Self::default() }
    }

    /// Returns the same world for an operator that begins anew.
    pub(super) fn without_tokens(self) -> Self {
        Self { tokens: Arc::default(), ..self }
    }

    /// Returns the tokens of OAuth 2.
    pub(super) fn tokens(&self) -> &Tokens {
        &self.tokens
    }
}
