//! Errors in the form of the API server: `Status` objects with a code, a reason, and causes.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

/// The error of a refused request.
#[derive(Debug, Clone, PartialEq)]
pub struct ApiError {
    /// The HTTP status.
    pub code: u16,
    /// The reason in Kubernetes' words; empty for none.
    pub reason: Cow<'static, str>,
    /// The text for people.
    pub message: String,
    /// The details.
    pub details: Details,
    /// The warnings before the error.
    pub warnings: Vec<String>,
}

/// The details of an error.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Details {
    /// The object's name.
    pub name: String,
    /// The API group.
    pub group: String,
    /// The resource, or the kind if only that is known.
    pub kind: String,
    /// The object's unique id.
    pub uid: String,
    /// The field errors.
    pub causes: Vec<FieldError>,
    /// The seconds after which the client may try again.
    pub retry_after: Option<u64>,
    /// Whether empty details are included.
    pub includes_empty: bool,
}

/// One field error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    /// The reason in Kubernetes' words, such as `FieldValueInvalid`; empty for none.
    pub reason: String,
    /// The text for people.
    pub message: String,
    /// The field, such as `spec.replicas`; empty for none.
    pub field: String,
}

impl FieldError {
    /// Returns a field error.
    pub fn new(reason: impl Into<String>, field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { reason: reason.into(), message: message.into(), field: field.into() }
    }

    /// Returns the reason and the field, such as `Invalid@spec.replicas`, for comparisons in tests.
    #[cfg(test)]
    pub(crate) fn shown(&self) -> String {
        format!("{}@{}", self.reason.trim_start_matches("FieldValue"), self.field)
    }
}

impl ApiError {
    /// Returns an error without details.
    pub fn new(code: u16, reason: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self { code, reason: reason.into(), message: message.into(), details: Details::default(), warnings: Vec::new() }
    }

    /// Returns the error with empty details included.
    pub fn with_details(mut self) -> Self {
        self.details.includes_empty = true;
        self
    }

    /// Returns an error with empty details included, as some errors have.
    pub fn plain(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { details: Details { includes_empty: true, ..Details::default() }, ..Self::new(code, reason, message) }
    }

    /// Returns the error for an unknown path.
    pub fn no_resource() -> Self {
        Self::plain(404, "NotFound", "the server could not find the requested resource")
    }

    /// Returns the error for a method that the path does not support.
    pub fn no_method() -> Self {
        Self::plain(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
    }

    /// Returns the error for an invalid request.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// Returns the error for an object with another namespace than its request.
    pub fn other_namespace() -> Self {
        Self::bad_request("the namespace of the provided object does not match the namespace sent on the request")
    }

    /// Returns the error for an invalid object. The kind is that of the object, not the resource.
    pub fn invalid(group: &str, kind: &str, name: &str, causes: Vec<FieldError>) -> Self {
        let texts: Vec<String> = causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
        let text = if let [one] = texts.as_slice() { one.clone() } else { format!("[{}]", texts.join(", ")) };
        let full = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
        let details = Details {
            name: name.to_owned(),
            group: group.to_owned(),
            kind: kind.to_owned(),
            causes,
            ..Details::default()
        };
        Self { details, ..Self::new(422, "Invalid", format!("{full} {name:?} is invalid: {text}")) }
    }

    /// Returns the error for an object that does not exist.
    pub fn not_found(group: &str, resource: &str, name: &str) -> Self {
        let full = if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") };
        let details =
            Details { name: name.to_owned(), group: group.to_owned(), kind: resource.to_owned(), ..Details::default() };
        Self { details, ..Self::new(404, "NotFound", format!("{full} {name:?} not found")) }
    }

    /// Returns the error for a conflicting write.
    pub fn conflict(group: &str, resource: &str, name: &str, message: &str) -> Self {
        let full = if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") };
        let details =
            Details { name: name.to_owned(), group: group.to_owned(), kind: resource.to_owned(), ..Details::default() };
        let text = format!("Operation cannot be fulfilled on {full} {name:?}: {message}");
        Self { details, ..Self::new(409, "Conflict", text) }
    }

    /// Returns the error for an internal error.
    pub fn internal(text: impl Into<String>) -> Self {
        let text = text.into();
        let mut failure = Self::new(500, "InternalError", format!("Internal error occurred: {text}"));
        failure.details.causes = vec![FieldError::new("", "", text)];
        failure
    }

    /// Returns the error for a storage that is not ready.
    pub fn storage_not_ready() -> Self {
        Self::new(429, "TooManyRequests", "storage is (re)initializing").retry_after(1)
    }

    /// Returns the error with the seconds after which the client may try again.
    pub fn retry_after(mut self, seconds: u64) -> Self {
        self.details.retry_after = Some(seconds);
        self
    }

    /// Returns the error with warnings before it.
    pub fn after(mut self, warnings: &[String]) -> Self {
        self.warnings.splice(..0, warnings.iter().cloned());
        self
    }

    /// Returns the `Status` object.
    pub fn to_json(&self) -> Value {
        let mut status = Map::new();
        status.insert("kind".into(), json!("Status"));
        status.insert("apiVersion".into(), json!("v1"));
        status.insert("metadata".into(), json!({}));
        status.insert("status".into(), json!("Failure"));
        status.insert("message".into(), json!(self.message));
        if !self.reason.is_empty() {
            status.insert("reason".into(), json!(self.reason));
        }
        let details = self.details.to_json();
        if !details.is_empty() || self.details.includes_empty {
            status.insert("details".into(), Value::Object(details));
        }
        status.insert("code".into(), json!(self.code));
        Value::Object(status)
    }
}

impl Details {
    fn to_json(&self) -> Map<String, Value> {
        let mut details = Map::new();
        for (key, text) in [("name", &self.name), ("group", &self.group), ("kind", &self.kind), ("uid", &self.uid)] {
            if !text.is_empty() {
                details.insert(key.into(), json!(text));
            }
        }
        if !self.causes.is_empty() {
            let causes: Vec<Value> = self.causes.iter().map(FieldError::to_json).collect();
            details.insert("causes".into(), Value::Array(causes));
        }
        if let Some(seconds) = self.retry_after {
            details.insert("retryAfterSeconds".into(), json!(seconds));
        }
        details
    }
}

impl FieldError {
    fn to_json(&self) -> Value {
        let mut cause = Map::new();
        for (key, text) in [("reason", &self.reason), ("message", &self.message), ("field", &self.field)] {
            if !text.is_empty() {
                cause.insert(key.into(), json!(text));
            }
        }
        Value::Object(cause)
    }
}
