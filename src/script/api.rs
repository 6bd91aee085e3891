//! The cluster interface of host functions. The owner of the host implements it.

use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::Value;

use crate::handling::Level;
use crate::object::{Resource, Selector};

/// The operations of the `k8s::` functions. All of them wait without holding a thread, and may be dropped at any time.
pub trait Api: Send + Sync {
    /// Returns the kind of a selector.
    fn resolve(&self, selector: Selector) -> BoxFuture<'_, Result<Arc<Resource>, ApiError>>;
    /// Sends one request.
    fn send(&self, request: ApiRequest) -> BoxFuture<'_, Result<Value, ApiError>>;
    /// Has an object handled as if it had changed. Returns whether the operator handles such an object.
    fn touch(&self, _resource: Arc<Resource>, _namespace: Option<String>, _name: String) -> BoxFuture<'_, Result<bool, ApiError>> {
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
    /// Returns the connection info of the kubeconfig in a context, by default the current one; `None` without a kubeconfig.
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

/// Why a request failed, as scripts may catch it.
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
