//! Answers before they are encoded.

use axum::body::Body;
use bytes::Bytes;
use futures::stream::BoxStream;
use http::{HeaderValue, Response, header};
use serde_json::{Value, json};

use crate::http::api_error::ApiError;
use crate::http::request::Accept;
use kopfd_base::yaml;

/// An answer.
pub struct Reply {
    /// The HTTP status.
    pub code: u16,
    /// The content.
    pub content: Content,
    /// The warnings for the client.
    pub warnings: Vec<String>,
}

/// The content of an answer.
pub enum Content {
    /// An object, a list, a status.
    Object(Value),
    /// A text for people.
    Text(String),
    /// The events of a watch, as lines.
    Lines(BoxStream<'static, Bytes>),
}

impl Reply {
    /// Returns a successful answer with an object.
    pub fn object(value: Value) -> Self {
        Self { code: 200, content: Content::Object(value), warnings: Vec::new() }
    }

    /// Returns an answer with a text.
    pub fn text(code: u16, text: &str) -> Self {
        Self { code, content: Content::Text(text.to_owned()), warnings: Vec::new() }
    }

    /// Returns the answer for unknown paths.
    pub fn no_page() -> Self {
        Self::text(404, "404 page not found\n")
    }

    /// Returns the answer with another HTTP status.
    pub fn with_code(self, code: u16) -> Self {
        Self { code, ..self }
    }

    /// Returns the answer with warnings.
    pub fn with_warnings(self, warnings: Vec<String>) -> Self {
        Self { warnings, ..self }
    }

    /// Returns the answer for a deletion.
    pub fn success(group: &str, plural: &str, name: &str, uid: &str) -> Self {
        let mut details = json!({"name": name, "kind": plural, "uid": uid});
        if !group.is_empty() {
            details["group"] = json!(group);
        }
        Self::object(
            json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}),
        )
    }

    /// Returns the answer for a successful operation without an object.
    pub fn created() -> Self {
        Self::object(json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}))
            .with_code(201)
    }

    /// Encodes the answer.
    pub fn into_response(self, accept: Accept) -> Response<Body> {
        let (media, body) = match self.content {
            Content::Object(value) if accept.is_yaml => {
                ("application/yaml", Body::from(yaml::dump(&value).unwrap_or_default()))
            }
            Content::Object(value) => {
                let mut text = serde_json::to_vec(&value).unwrap_or_default();
                text.push(b'\n');
                ("application/json", Body::from(text))
            }
            Content::Text(text) if text.is_empty() && self.code != 200 => ("", Body::empty()),
            Content::Text(text) => ("text/plain; charset=utf-8", Body::from(text)),
            Content::Lines(lines) => {
                let lines = futures::StreamExt::map(lines, Ok::<_, std::convert::Infallible>);
                ("application/json", Body::from_stream(lines))
            }
        };
        let mut response = Response::new(body);
        *response.status_mut() =
            http::StatusCode::from_u16(self.code).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        if !media.is_empty() {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
        }
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
        for warning in self.warnings {
            let quoted = warning.replace('\\', "\\\\").replace('"', "\\\"");
            // Like the real server, it sends UTF-8.
            if let Ok(value) = HeaderValue::from_bytes(format!("299 - \"{quoted}\"").as_bytes()) {
                headers.append(header::WARNING, value);
            }
        }
        response
    }
}

impl From<ApiError> for Reply {
    fn from(failure: ApiError) -> Self {
        Self { code: failure.code, content: Content::Object(failure.to_json()), warnings: failure.warnings }
    }
}

/// Returns an already encoded message with its own media type.
pub fn message(content: &'static [u8], media: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::from(content));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    response
}

/// Encodes a failure.
pub fn refuse(failure: ApiError) -> Response<Body> {
    let retry_after = failure.details.retry_after;
    let accept = Accept { form: crate::http::request::Form::Plain, is_yaml: false, is_beta: false };
    let mut response = Reply::from(failure).into_response(accept);
    if let Some(seconds) = retry_after {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}
