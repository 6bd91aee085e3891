//! The cluster interface of host functions. The owner of the host implements it.

use std::sync::Arc;

use std::time::Duration;

use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt as _, ready};
use futures::stream::{self, BoxStream, StreamExt as _};
use serde_json::Value;

use super::clusters::ServerRule;
use super::programs::{Finished, ProgramError};
use crate::handling::Level;
use crate::object::{Resource, Selector};

/// The operations of the `k8s::` functions. All of them wait without holding a thread, and may be dropped at any time.
pub trait Api: Send + Sync {
    /// Returns the kind of a selector.
    fn resolve(&self, selector: Selector) -> BoxFuture<'_, Result<Arc<Resource>, ApiError>>;
    /// Sends one request.
    fn send(&self, request: ApiRequest) -> BoxFuture<'_, Result<Value, ApiError>>;
    /// Lists objects, and follows their changes until the stream is dropped. It goes on over broken connections, and
    /// ends with an error that does not pass by itself.
    fn watch(&self, request: WatchRequest) -> BoxStream<'static, Result<Change, ApiError>> {
        let _ = request;
        stream::once(ready(Err(ApiError::unavailable("objects cannot be watched here")))).boxed()
    }
    /// Runs a command in a container to its end.
    fn exec(&self, request: ExecRequest) -> BoxFuture<'_, Result<Finished, ExecError>> {
        let _ = request;
        ready(Err(ExecError::Api(ApiError::unavailable("there is no API server for commands in containers")))).boxed()
    }
    /// Sends a request to a path of the API server.
    fn raw(&self, request: RawRequest) -> BoxFuture<'_, Result<Bytes, ApiError>> {
        let _ = request;
        ready(Err(ApiError::unavailable("there is no API server for other requests"))).boxed()
    }
    /// Returns the cluster of a kubeconfig, whose server the rule must allow.
    fn other_cluster(&self, kubeconfig: &str, rule: ServerRule) -> BoxFuture<'_, Result<Arc<dyn Api>, ApiError>> {
        let _ = (kubeconfig, rule);
        ready(Err(ApiError::unavailable("other clusters cannot be reached here"))).boxed()
    }
    /// Passes an object on, to be handled as if it had changed. Returns whether the operator handles such an object.
    fn touch(
        &self,
        _resource: Arc<Resource>,
        _namespace: Option<String>,
        _name: String,
    ) -> BoxFuture<'_, Result<bool, ApiError>> {
        Box::pin(std::future::ready(Ok(false)))
    }
    /// Queues Kubernetes Events, as far as the settings allow.
    fn post(&self, event: EventRequest);
    /// Tells whether log messages of scripts are posted as Events.
    fn posts_logs(&self) -> bool;
    /// Queues the Event of a log message about an object.
    fn post_log(&self, object: &Value, level: Level, message: &str);
    /// Returns the operations for calls that every replica makes, whether it leads or not; `None` if they are the same.
    fn of_every_replica(&self) -> Option<Arc<dyn Api>> {
        None
    }
}

/// Kubernetes Events of a script: one for each object.
#[derive(Debug, Clone, PartialEq)]
pub struct EventRequest {
    /// The objects.
    pub objects: Vec<Value>,
    /// `Normal`, `Warning`, or another type.
    pub event_type: String,
    /// The reason.
    pub reason: String,
    /// The message.
    pub message: String,
    /// The level that must be posted; `None` if only the main switch counts.
    pub level: Option<Level>,
}

/// The credentials of the built-in logins, for login functions. Errors are texts.
pub trait Credentials: Send + Sync {
    /// Returns the connection info of the service account; `None` outside of a container.
    fn service_account(&self) -> BoxFuture<'_, Result<Option<Value>, String>>;
    /// Returns the connection info of the kubeconfig in a context, by default the current one; `None` without a
    /// kubeconfig.
    fn kubeconfig(&self, context: Option<String>) -> BoxFuture<'_, Result<Option<Value>, String>>;
}

/// One request of a script.
#[derive(Debug, Clone, PartialEq)]
pub struct ApiRequest {
    /// The kind.
    pub resource: Arc<Resource>,
    /// The namespace; `None` for cluster-scoped objects, and for lists of all namespaces.
    pub namespace: Option<String>,
    /// The operation.
    pub operation: Operation,
}

/// Which objects are watched.
#[derive(Debug, Clone, PartialEq)]
pub struct WatchRequest {
    /// The kind.
    pub resource: Arc<Resource>,
    /// The namespace; `None` for cluster-scoped objects, and for all namespaces.
    pub namespace: Option<String>,
    /// A label selector.
    pub labels: Option<String>,
    /// A field selector.
    pub fields: Option<String>,
}

/// A change of watched objects.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// An object exists, with this content.
    Present(Value),
    /// An object was deleted; of the content only the identity is certain.
    Gone(Value),
    /// All objects that exist were seen.
    Listed,
}

/// A request to a path of the API server.
#[derive(Debug, Clone, PartialEq)]
pub struct RawRequest {
    /// The method, in capitals.
    pub method: &'static str,
    /// The path, with its query.
    pub path: String,
    /// The type of the body.
    pub content_type: &'static str,
    /// The body.
    pub body: Option<Value>,
}

/// A command in a container.
#[derive(Debug, Clone, PartialEq)]
pub struct ExecRequest {
    /// The kind of pods.
    pub resource: Arc<Resource>,
    /// The namespace of the pod.
    pub namespace: Option<String>,
    /// The name of the pod.
    pub name: String,
    /// The container; `None` if the pod has only one, or a default one.
    pub container: Option<String>,
    /// The program and its arguments.
    pub arguments: Vec<String>,
    /// The standard input; `None` if the command has none.
    pub stdin: Option<Vec<u8>>,
    /// The time limit.
    pub time: Duration,
    /// The limit of the bytes of both outputs.
    pub output: usize,
}

/// The reason why a command in a container has no exit code.
#[derive(Debug, Clone, PartialEq)]
pub enum ExecError {
    /// The API server refuses it, or cannot run it.
    Api(ApiError),
    /// It has been run, and has not ended as it should.
    Command(ProgramError),
}

/// An operation on objects.
#[derive(Debug, Clone, PartialEq)]
pub enum Operation {
    /// Read one object; the answer is null if it does not exist.
    Get {
        /// Its name.
        name: String,
    },
    /// Read all objects of all pages, as a JSON array.
    List {
        /// A label selector.
        labels: Option<String>,
        /// A field selector.
        fields: Option<String>,
    },
    /// Create an object.
    Create {
        /// The object.
        object: Value,
    },
    /// Replace an object.
    Update {
        /// Its name.
        name: String,
        /// The object.
        object: Value,
    },
    /// Server-side apply of an object, with the operator as the field manager.
    Apply {
        /// Its name.
        name: String,
        /// The object.
        object: Value,
        /// Whether conflicts with other managers are overridden.
        force: bool,
    },
    /// Patch an object: a map is a merge patch, an array is a JSON patch.
    Patch {
        /// Its name.
        name: String,
        /// The subresource, such as `status` or `scale`.
        subresource: Option<String>,
        /// The patch.
        patch: Value,
    },
    /// Create a subresource of an object, such as the eviction of a pod.
    CreateSubresource {
        /// The name of the object.
        name: String,
        /// The subresource.
        subresource: &'static str,
        /// The new object.
        object: Value,
    },
    /// Read the log of a container, as a text; bytes that are no text are replaced.
    Log {
        /// The name of the pod.
        name: String,
        /// The wanted part.
        part: LogPart,
    },
    /// Delete an object; the answer is whether it existed.
    Delete {
        /// Its name.
        name: String,
        /// `Background`, `Foreground`, or `Orphan`.
        propagation: Option<String>,
        /// Seconds.
        grace: Option<i64>,
    },
}

/// A request for the log of a container.
#[derive(Debug, Clone, PartialEq)]
pub struct LogRequest {
    /// The namespace of the pod.
    pub namespace: Option<String>,
    /// The name of the pod.
    pub name: String,
    /// The wanted part.
    pub part: LogPart,
}

/// A part of the log of a container.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LogPart {
    /// The container; `None` if the pod has only one.
    pub container: Option<String>,
    /// The number of lines at the end.
    pub tail: Option<u64>,
    /// The maximum age of lines.
    pub since: Option<Duration>,
    /// Whether it is the log of the container before its last restart.
    pub is_previous: bool,
    /// Whether lines begin with their times.
    pub has_timestamps: bool,
    /// The most bytes.
    pub limit: u64,
}

/// The reason why a request failed, as scripts may catch it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// The text.
    pub message: String,
    /// The HTTP status, if the server has answered.
    pub status: Option<u16>,
    /// Kubernetes' reason, such as `NotFound` and `Conflict`.
    pub reason: Option<String>,
    /// Kubernetes' details, such as the causes of a conflict.
    pub details: Option<Value>,
}

impl ApiError {
    fn unavailable(message: &str) -> Self {
        Self { message: message.to_owned(), status: None, reason: None, details: None }
    }
}
