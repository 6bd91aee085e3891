//! Errors of requests to the API server.

use std::time::Duration;

use http::StatusCode;
use serde_json::Value;

use crate::kit::errors;
use crate::object::secret::Values;

/// The longest pause that the server can ask for. It bounds what a mistaken header does; a server that is still busy
/// asks again.
pub(crate) const MAX_RETRY_AFTER: Duration = Duration::from_mins(5);

/// Characters kept of an error text if the server does not answer with a `Status`.
const TEXT_LIMIT: usize = 256;

/// Errors of a request.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server answered with a failure.
    #[error("{}", describe(*.status, .reason.as_deref(), .message))]
    Status {
        /// The HTTP status.
        status: u16,
        /// The reason in Kubernetes' words, such as `NotFound`.
        reason: Option<String>,
        /// The message of the server; empty if it has none that may be shown.
        message: String,
        /// The `details` of the `Status`.
        details: Option<Box<Value>>,
        /// The seconds of `Retry-After`.
        retry_after: Option<u64>,
    },
    /// The API server could not be reached: it certainly did not receive the request.
    #[error("failed to connect to the API server")]
    Connect(#[source] BoxError),
    /// The connection broke after the request may have been sent.
    #[error("lost the connection to the API server")]
    Connection(#[source] BoxError),
    /// The answer did not come in time.
    #[error("the API server did not answer within {} seconds", .0.as_secs_f64())]
    Timeout(Duration),
    /// There are no credentials, or none that the API server accepts.
    #[error(transparent)]
    Login(#[from] LoginError),
    /// The answer cannot be parsed.
    #[error("failed to read the answer of the API server")]
    Payload(#[source] BoxError),
    /// The address of a request is invalid.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The kind of an object does not exist in the cluster.
    #[error(transparent)]
    Kind(#[from] KindError),
    /// A function over a body failed while a patch was made.
    #[error("a transformation of the object failed: {0}")]
    Transform(String),
    /// The request may not be sent, or its answer may not be awaited: this replica does not lead.
    #[error("the lease is lost: this replica does not lead")]
    Fenced,
}

/// The cause of a failure, of any type.
pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Errors of a login.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LoginError {
    /// There is neither a service account nor a kubeconfig.
    #[error(
        "no credentials: there is no service account in this container, KUBECONFIG is not set, and there is no ~/.kube/config"
    )]
    Nothing,
    /// The kubeconfig cannot be used.
    #[error("failed to use the kubeconfig: {0}")]
    Kubeconfig(String),
    /// The service account cannot be used.
    #[error("failed to use the service account: {0}")]
    ServiceAccount(String),
    /// A credential plug-in failed.
    #[error("the credential plug-in {command:?} failed: {problem}")]
    Plugin {
        /// The command.
        command: String,
        /// The problem.
        problem: String,
    },
    /// The credentials cannot be used for a connection.
    #[error("failed to set up the connection: {0}")]
    Setup(String),
    /// The login functions of the operator failed.
    #[error("the login has failed: {0}")]
    Activity(String),
    /// The login functions of the operator returned no credentials.
    #[error("no credentials were retrieved: no login function has returned any that can be used")]
    Empty,
    /// The API server refuses the credentials, and a new login returns the same ones.
    #[error("the API server refuses the credentials, and a new login brings no others")]
    Refused,
}

/// Reasons for an invalid address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// An object of a namespaced kind without its namespace.
    #[error("{0} are namespaced: a namespace is needed to address one")]
    NoNamespace(String),
    /// A namespace for a kind that has none.
    #[error("{0} are not namespaced: no namespace can be given")]
    NotNamespaced(String),
    /// An object without a name: its path would be that of the whole collection.
    #[error("an object of {0} cannot be addressed without its name")]
    NoName(String),
}

/// Errors of looking up a kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KindError {
    /// The cluster has no such kind.
    #[error("the cluster has no resource {0:?}")]
    Unknown(String),
    /// Several resources match.
    #[error("{text:?} is ambiguous: it means {}", .candidates.join(", "))]
    Ambiguous {
        /// The text.
        text: String,
        /// The resources.
        candidates: Vec<String>,
    },
}

fn describe(status: u16, reason: Option<&str>, message: &str) -> String {
    let known = StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason());
    let reason = reason.or(known).unwrap_or("unknown");
    if message.is_empty() {
        format!("HTTP {status} ({reason})")
    } else {
        format!("HTTP {status} ({reason}): {message}")
    }
}

impl Error {
    /// Returns the error of a failed answer.
    ///
    /// The status is that of HTTP. The body is used only if it is a `Status`; other JSON is dropped, as it might
    /// contain secrets, and other text is cut.
    pub fn of_answer(status: u16, retry_after: Option<u64>, body: &[u8]) -> Self {
        let (mut reason, mut message, mut details) = (None, String::new(), None);
        match serde_json::from_slice::<Value>(body) {
            Ok(mut value) if value.get("kind").is_some_and(|kind| kind == "Status") => {
                reason = value.get("reason").and_then(Value::as_str).map(str::to_owned);
                value.get("message").and_then(Value::as_str).unwrap_or_default().clone_into(&mut message);
                details = value.get_mut("details").map(Value::take).filter(|details| !details.is_null()).map(Box::new);
            }
            Ok(_) => {}
            Err(_) => message = cut(String::from_utf8_lossy(body).trim()),
        }
        let asked = details.as_deref().and_then(|details| details.get("retryAfterSeconds")).and_then(Value::as_u64);
        Self::Status { status, reason, message, details, retry_after: retry_after.or(asked) }
    }

    /// Returns the error without the values of a Secret.
    pub(super) fn without(self, values: &Values) -> Self {
        match self {
            Self::Status { status, reason, message, details, retry_after } => {
                let message = values.hidden(&message).into_owned();
                let details = details.map(|details| Box::new(values.shown_at(&[], &details)));
                Self::Status { status, reason, message, details, retry_after }
            }
            other => other,
        }
    }

    /// Returns the error of a `Status` object in a watch stream.
    pub(crate) fn of_status_object(object: &str) -> Self {
        let value: Value = serde_json::from_str(object).unwrap_or_default();
        let code = value.get("code").and_then(Value::as_u64).unwrap_or_default();
        Self::of_answer(code as u16, None, object.as_bytes())
    }

    /// Returns the HTTP status, if the API server gave one.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Status { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// Returns the duration of `Retry-After`, up to five minutes.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Status { retry_after, .. } => {
                retry_after.map(|asked| Duration::from_secs(asked).min(MAX_RETRY_AFTER))
            }
            _ => None,
        }
    }

    /// Tells whether the object, or the whole resource, does not exist.
    pub fn is_not_found(&self) -> bool {
        self.status() == Some(404)
    }

    /// Tells whether a watch cannot continue from its version: the server has compacted it, or never had it.
    pub(crate) fn is_lost_version(&self) -> bool {
        let Self::Status { status, reason, message, .. } = self else { return false };
        let is_ahead = message.to_ascii_lowercase().contains("too large resource version");
        matches!(status, 400 | 410) || is_ahead || matches!(reason.as_deref(), Some("Expired" | "Gone"))
    }

    /// Tells whether a definition is refused because it removes a version that objects may be stored in.
    pub(crate) fn is_about_stored_versions(&self) -> bool {
        matches!(self, Self::Status { status: 422, message, .. } if message.contains("status.storedVersions"))
    }

    /// Tells whether an applied object has values of wrong types. Servers report this as an internal error, but
    /// retrying does not help.
    pub(crate) fn is_about_types(&self) -> bool {
        matches!(self, Self::Status { status: 500, message, .. } if message.starts_with("failed to create typed patch object"))
    }

    /// Returns the error with its causes in one line.
    pub fn chain(&self) -> String {
        errors::chain(self)
    }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(TEXT_LIMIT) {
        None => text.to_owned(),
        Some(_) => text.chars().take(TEXT_LIMIT - 3).chain("...".chars()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_status_speaks_for_itself() {
        let body = json!({"kind": "Status", "code": 1, "reason": "NotFound", "message": "pods \"a\" not found", "details": {"retryAfterSeconds": 3}});
        let error = Error::of_answer(404, None, body.to_string().as_bytes());
        assert_eq!(error.to_string(), "HTTP 404 (NotFound): pods \"a\" not found");
        assert_eq!((error.status(), error.retry_after()), (Some(404), Some(Duration::from_secs(3))));
    }

    #[test]
    fn values_of_a_secret_are_neither_in_the_message_nor_in_the_details() {
        let values = Values::of_request(&json!({"stringData": {"a": "hunter2"}}));
        let details =
            json!({"causes": [{"field": "data[a]", "message": "Invalid value: \"aHVudGVyMg==\""}], "name": "s"});
        let body = json!({"kind": "Status", "message": "data[a]: Invalid value: \"hunter2\"", "details": details});
        let error = Error::of_answer(422, None, body.to_string().as_bytes()).without(&values);
        assert_eq!(error.to_string(), "HTTP 422 (Unprocessable Entity): data[a]: Invalid value: \"***\"");
        let Error::Status { details, .. } = error else { panic!() };
        let expected = json!({"causes": [{"field": "data[a]", "message": "Invalid value: \"***\""}], "name": "s"});
        assert_eq!(details.map(|details| *details), Some(expected));
    }

    #[test]
    fn other_json_is_dropped_and_long_text_is_cut() {
        assert_eq!(Error::of_answer(500, None, b"{\"secret\": 1}").to_string(), "HTTP 500 (Internal Server Error)");
        let Error::Status { message, .. } = Error::of_answer(502, None, "ä".repeat(300).as_bytes()) else { panic!() };
        assert_eq!(message.chars().count(), 256);
        assert!(message.ends_with("ä..."));
    }
}
