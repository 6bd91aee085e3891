//! Requests to the API server, when they may be repeated, and successful answers.

use bytes::Bytes;
use http::{HeaderMap, Method};
use serde::Serialize;
use serde_json::Value;

use crate::object::secret::Values;
use crate::wire;

use super::super::address;
use super::super::error::Error;

/// A request.
#[derive(Debug, Clone)]
pub struct Request {
    /// The method.
    pub method: Method,
    /// The path with its query.
    pub path: String,
    /// The content type of the body.
    pub content_type: Option<&'static str>,
    /// The body.
    pub body: Bytes,
    /// When it may be retried.
    pub repeat: Repeat,
    /// The maximum number of retries, if lower than in the settings.
    pub max_retries: usize,
}

/// When a failed request may be retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeat {
    /// After every transient failure: the request is idempotent.
    Safe,
    /// Only if the server certainly did not process it: it was not reached, or it refused for lack of capacity.
    Unreached,
    /// Never: the caller handles failures.
    Never,
}

impl Repeat {
    /// Tells whether a failure is transient and the request may be sent again.
    pub(super) fn allows(self, failure: &Error) -> bool {
        let is_untouched = matches!(failure, Error::Connect(_)) || failure.status() == Some(429);
        let may_pass = match failure {
            Error::Connect(_) | Error::Connection(_) | Error::Timeout(_) => true,
            Error::Status { status, .. } => matches!(status, 403 | 429 | 500..) && !failure.is_about_types(),
            _ => false,
        };
        match self {
            Self::Safe => may_pass,
            Self::Unreached => is_untouched,
            Self::Never => false,
        }
    }
}

impl Request {
    /// Returns a GET request.
    pub fn get(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path)
    }

    /// Returns a POST request, which is not repeated once it may have reached the server.
    pub fn post(path: impl Into<String>) -> Self {
        Self::new(Method::POST, path).repeated(Repeat::Unreached)
    }

    /// Returns a PATCH request.
    pub fn patch(path: impl Into<String>) -> Self {
        Self::new(Method::PATCH, path)
    }

    /// Returns a request without a body that may be retried.
    pub fn new(method: Method, path: impl Into<String>) -> Self {
        Self {
            method,
            path: path.into(),
            content_type: None,
            body: Bytes::new(),
            repeat: Repeat::Safe,
            max_retries: usize::MAX,
        }
    }

    /// Returns the request with a JSON body of some content type.
    #[must_use]
    pub fn with_json(self, content_type: &'static str, body: &impl Serialize) -> Self {
        let body = serde_json::to_vec(body).expect("bodies are plain data");
        Self { content_type: Some(content_type), body: body.into(), ..self }
    }

    /// Returns an error of the server without the values that the request writes into a Secret: servers and webhooks
    /// quote refused values.
    pub(super) fn without_secrets(&self, error: Error) -> Error {
        let (_, resource) = address::classify(&self.method, &self.path);
        match serde_json::from_slice(&self.body) {
            Ok(body) if resource == "secrets.v1" => error.without(&Values::of_request(&body)),
            _ => error,
        }
    }

    /// Returns the request with another retry rule.
    #[must_use]
    pub fn repeated(self, repeat: Repeat) -> Self {
        Self { repeat, ..self }
    }
}

/// A successful answer.
#[derive(Debug, Clone)]
pub struct Response {
    /// The HTTP status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

impl Response {
    /// Returns the body as JSON.
    ///
    /// # Errors
    /// If the body is not JSON.
    pub fn json(&self) -> Result<Value, Error> {
        wire::parse(&self.body).map_err(|error| Error::Payload(error.into()))
    }
}
