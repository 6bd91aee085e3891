//! Time limits of requests: as requested, but at most a minute. Watches have none.

use std::time::Duration;

use axum::body::Body;
use http::{HeaderValue, Response, StatusCode, header};
use serde_json::json;

use crate::go;
use crate::http::api_error::ApiError;
use crate::http::request::{ParsedRequest, Path, verb};

/// The maximum.
const MAX_TIMEOUT: Duration = Duration::from_mins(1);

/// The time limit of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadline(Option<Duration>);

impl Deadline {
    /// Returns the time limit of a request.
    ///
    /// # Errors
    /// If its `timeout` is invalid.
    pub fn of(request: &ParsedRequest) -> Result<Self, ApiError> {
        if let Path::Objects(resource_path) = &request.path
            && verb(&request.method, resource_path, &request.query) == "watch"
        {
            return Ok(Self(None));
        }
        let Some(text) = request.query.text("timeout") else { return Ok(Self(Some(MAX_TIMEOUT))) };
        let asked = go::duration(text).ok_or_else(|| {
            ApiError::bad_request(format!(
                "invalid timeout specified in the request URL - time: invalid duration {text:?}"
            ))
        })?;
        // Zero and negative values mean the default.
        Ok(Self(Some(
            Duration::try_from(asked).ok().filter(|asked| !asked.is_zero()).unwrap_or(MAX_TIMEOUT).min(MAX_TIMEOUT),
        )))
    }

    /// Waits for an answer up to the time limit. Returns `None` if it is exceeded, and drops the unfinished work.
    pub async fn wait<T>(self, answer: impl Future<Output = T>) -> Option<T> {
        match self.0 {
            Some(time) => tokio::time::timeout(time, answer).await.ok(),
            None => Some(answer.await),
        }
    }
}

/// Returns the answer after a timeout. Like that of a real server it has neither a kind nor a content type.
pub fn passed() -> Response<Body> {
    let text = "Timeout: request did not complete within the allotted timeout";
    let status =
        json!({"metadata": {}, "status": "Failure", "message": text, "reason": "Timeout", "details": {}, "code": 504});
    let mut response = Response::new(Body::from(status.to_string()));
    *response.status_mut() = StatusCode::GATEWAY_TIMEOUT;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn deadline(uri: &str) -> Option<Deadline> {
        Deadline::of(&ParsedRequest::read(http::Request::get(uri).body(Bytes::new()).unwrap())).ok()
    }

    #[test]
    fn a_request_has_a_minute_or_less_and_a_watch_as_long_as_it_likes() {
        let after = |time| Some(Deadline(Some(time)));
        assert_eq!(deadline("/api/v1/pods?timeout=250ms"), after(Duration::from_millis(250)));
        for most in [
            "/version",
            "/api/v1/pods",
            "/api/v1/pods?timeout=0",
            "/api/v1/pods?timeout=-5s",
            "/api/v1/pods?timeout=2562047h",
        ] {
            assert_eq!(deadline(most), after(MAX_TIMEOUT), "{most}");
        }
        assert_eq!(deadline("/api/v1/pods?watch=true&timeout=abc"), Some(Deadline(None)));
        for wrong in ["/version?timeout=abc", "/version?timeout=5", "/version?timeout=99999999h"] {
            assert_eq!(deadline(wrong), None, "{wrong}");
        }
    }
}
