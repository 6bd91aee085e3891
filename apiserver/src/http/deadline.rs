//! Time limits of requests: as requested, but at most a minute. Watches have none.

use std::time::Duration;

use axum::body::Body;
use http::{HeaderValue, Response, StatusCode, header};
use serde_json::json;

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
        let asked = duration(text).ok_or_else(|| {
            ApiError::bad_request(format!("invalid timeout specified in the request URL - time: invalid duration {text:?}"))
        })?;
        // Zero and negative values mean the default.
        Ok(Self(Some(Duration::try_from_secs_f64(asked).ok().filter(|asked| !asked.is_zero()).unwrap_or(MAX_TIMEOUT).min(MAX_TIMEOUT))))
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
    let status = json!({"metadata": {}, "status": "Failure", "message": text, "reason": "Timeout", "details": {}, "code": 504});
    let mut response = Response::new(Body::from(status.to_string()));
    *response.status_mut() = StatusCode::GATEWAY_TIMEOUT;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

/// Returns the seconds of a duration in Go's syntax, such as `1m30s`, `.5s` or `0`.
fn duration(text: &str) -> Option<f64> {
    let (sign, mut rest) = match text.as_bytes().first()? {
        b'-' => (-1.0, &text[1..]),
        b'+' => (1.0, &text[1..]),
        _ => (1.0, text),
    };
    if rest == "0" {
        return Some(0.0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let is_digit = |c: char| c.is_ascii_digit() || c == '.';
        let number = &rest[..rest.find(|c| !is_digit(c))?];
        rest = &rest[number.len()..];
        let unit = &rest[..rest.find(is_digit).unwrap_or(rest.len())];
        rest = &rest[unit.len()..];
        let size = match unit {
            "ns" => 1e-9,
            "us" | "µs" | "μs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return None,
        };
        seconds += number.parse::<f64>().ok()? * size;
    }
    Some(sign * seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn deadline(uri: &str) -> Option<Deadline> {
        Deadline::of(&ParsedRequest::read(http::Request::get(uri).body(Bytes::new()).unwrap())).ok()
    }

    #[test]
    fn durations_are_read_as_go_does() {
        assert_eq!(
            (duration("1m30s"), duration("-1.5h"), duration(".5s"), duration("0")),
            (Some(90.0), Some(-5400.0), Some(0.5), Some(0.0))
        );
        for wrong in ["", "-", "abc", "5", "5d", ".s", "1s2", "s"] {
            assert_eq!(duration(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_request_has_a_minute_or_less_and_a_watch_as_long_as_it_likes() {
        let after = |time| Some(Deadline(Some(time)));
        assert_eq!(deadline("/api/v1/pods?timeout=250ms"), after(Duration::from_millis(250)));
        for most in ["/version", "/api/v1/pods", "/api/v1/pods?timeout=0", "/api/v1/pods?timeout=-5s", "/api/v1/pods?timeout=99999999h"] {
            assert_eq!(deadline(most), after(MAX_TIMEOUT), "{most}");
        }
        assert_eq!(deadline("/api/v1/pods?watch=true&timeout=abc"), Some(Deadline(None)));
        assert_eq!(deadline("/version?timeout=abc"), None);
    }
}
