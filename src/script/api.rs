//! What host functions need of a cluster. The starter of the host provides it.

use futures::future::BoxFuture;
use serde_json::Value;

use crate::object::{Resource, Selector};

/// The operations behind the `k8s::` functions. All wait without holding a thread, and may be dropped at any time.
pub trait Api: Send + Sync {
    /// Returns the one kind that a selector means.
    fn resolve(&self, selector: Selector) -> BoxFuture<'_, Result<std::sync::Arc<Resource>, ApiError>>;
    /// Sends one request.
    fn send(&self, request: ApiRequest) -> BoxFuture<'_, Result<Value, ApiError>>;
}

/// One request of a script.
#[derive(Debug, Clone, PartialEq)]
pub struct ApiRequest {
    /// The kind.
    pub resource: std::sync::Arc<Resource>,
    /// The namespace; none for cluster-scoped objects, and for lists of all namespaces.
    pub namespace: Option<String>,
    /// What is to be done.
    pub operation: Operation,
}

/// What is to be done with objects.
#[derive(Debug, Clone, PartialEq)]
pub enum Operation {
    /// Read one object; the answer is null if there is none.
    Get {
        /// Its name.
        name: String,
    },
    /// Read all objects, as a JSON array, whatever the number of pages.
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
    /// Apply an object on the side of the server, with the operator as the field manager.
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
    /// Delete an object; the answer is whether it was there.
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
