//! Which proxy a request goes through.

use http::{HeaderValue, Uri};
use hyper_util::client::proxy::matcher::Matcher;

use super::error;
use crate::script::outside::{HttpConnection, HttpError, HttpProblem, ProxyChoice};

/// The proxies of the environment: `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY`, `NO_PROXY`.
pub(super) struct Proxies(Matcher);

/// The way to a server.
pub(super) enum Route {
    /// Without a proxy.
    Direct,
    /// Through a proxy.
    Proxy {
        /// Its address.
        uri: Uri,
        /// Whether its network address is checked.
        is_checked: bool,
        /// The value of `Proxy-Authorization`.
        authorization: Option<HeaderValue>,
    },
}

impl Proxies {
    /// Returns those of this process.
    pub(super) fn of_process() -> Self {
        Self(Matcher::from_env())
    }

    /// Returns no proxies.
    #[cfg(test)]
    pub(super) fn none() -> Self {
        Self(Matcher::builder().build())
    }

    /// Returns the way to a server.
    ///
    /// # Errors
    /// If the proxy cannot be used.
    pub(super) fn route(&self, connection: &HttpConnection, target: &Uri) -> Result<Route, HttpError> {
        let (found, is_checked) = match &connection.proxy {
            ProxyChoice::Direct => return Ok(Route::Direct),
            ProxyChoice::Environment => (self.0.intercept(target), false),
            ProxyChoice::Given(url) => (Matcher::builder().all(url.to_string()).build().intercept(target), true),
        };
        let Some(found) = found else { return Ok(Route::Direct) };
        if found.uri().scheme_str() != Some("http") {
            return Err(error::of(HttpProblem::Connect, "the address of the proxy must begin with http://"));
        }
        Ok(Route::Proxy { uri: found.uri().clone(), is_checked, authorization: found.basic_auth().cloned() })
    }

    /// Returns the value of `Proxy-Authorization` of a request that the proxy itself reads, which it does without
    /// encryption only.
    pub(super) fn authorization(&self, connection: &HttpConnection, target: &Uri) -> Option<HeaderValue> {
        if target.scheme_str() == Some("https") {
            return None;
        }
        match self.route(connection, target) {
            Ok(Route::Proxy { authorization, .. }) => authorization,
            _ => None,
        }
    }
}
