//! Requests to HTTP servers.

use std::sync::Arc;

use futures::future::BoxFuture;
use url::Url;

use super::hosts::Grants;

/// Sends requests of the `http::` functions.
pub trait HttpClient: Send + Sync {
    /// Sends one request, and reads the whole answer. Redirects are answers, and nothing is repeated.
    ///
    /// The host of the address is allowed; the client checks the network addresses that it stands for.
    ///
    /// *Cancel safety*: dropping the future closes the connection. The server may or may not have processed the
    /// request.
    fn send(&self, request: HttpRequest) -> BoxFuture<'_, Result<HttpAnswer, HttpError>>;
}

/// One request. It has secrets, and so no form for logs.
#[derive(Clone)]
pub struct HttpRequest {
    /// The method, in capital letters.
    pub method: String,
    /// The address: `http` or `https`, with a host, without a name and a password.
    pub url: Url,
    /// The headers. They are tokens and visible characters.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
    /// A longer body of the answer is an error.
    pub max_bytes: usize,
    /// The connection.
    pub connection: Arc<HttpConnection>,
}

/// The options of a connection. Requests with equal values may share connections.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct HttpConnection {
    /// The hosts and addresses that are allowed by their names.
    pub grants: Grants,
    /// The authorities that servers must be certified by, as PEM; `None` means those of the system.
    pub authorities: Option<Vec<u8>>,
    /// The certificate of the client.
    pub identity: Option<Identity>,
    /// The proxy.
    pub proxy: ProxyChoice,
}

/// A certificate and its key, both as PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Identity {
    /// The certificate, maybe followed by those of its authorities.
    pub certificate: Vec<u8>,
    /// The private key.
    pub key: Vec<u8>,
}

/// The proxy of a request.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum ProxyChoice {
    /// As the environment of the process says.
    #[default]
    Environment,
    /// No proxy.
    Direct,
    /// The proxy of an allowed address.
    Given(Url),
}

/// The answer of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HttpAnswer {
    /// The status.
    pub status: u16,
    /// The headers, by their names in small letters; a name may occur several times.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl HttpAnswer {
    /// Returns the first header of a name in small letters.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// The reason why there is no answer. The message contains no secrets of the request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct HttpError {
    /// The kind of the failure.
    pub problem: HttpProblem,
    /// The text.
    pub message: String,
}

/// The kind of a failure. Scripts see its name as the `reason` of the error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpProblem {
    /// The host, or an address that it stands for, is not allowed.
    Forbidden,
    /// No connection was made: the server has not seen the request.
    Connect,
    /// The server, or the certificate of the client, is not accepted.
    Tls,
    /// The connection ended, or the received data are no answer.
    Broken,
    /// The answer took too long.
    Timeout,
    /// The answer is too large.
    TooLarge,
    /// There were too many redirects, or one that cannot be followed.
    Redirect,
    /// The status is that of an error, and the script has asked for an error.
    Status,
    /// No stub of the scenario answers the request.
    Unexpected,
}

impl HttpProblem {
    /// Returns the name that scripts see.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Forbidden => "Forbidden",
            Self::Connect => "Connect",
            Self::Tls => "Tls",
            Self::Broken => "Broken",
            Self::Timeout => "Timeout",
            Self::TooLarge => "TooLarge",
            Self::Redirect => "Redirect",
            Self::Status => "Status",
            Self::Unexpected => "Unexpected",
        }
    }
}
