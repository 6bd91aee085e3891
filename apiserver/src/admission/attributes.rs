//! The attributes of requests for webhooks.

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::auth::access::{self, User};
use crate::http::api_error::ApiError;
use crate::kinds::kind::Kind;

/// The operation of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// It creates an object.
    Create,
    /// It changes an object or a subresource.
    Update,
    /// It deletes an object.
    Delete,
    /// It connects to an object.
    Connect,
}

/// A request for webhooks.
#[derive(Debug, Clone, Copy)]
pub struct Attributes<'a> {
    /// The kind in the version of the request.
    pub kind: &'a Kind,
    /// The kind of the written object, if it is not that of the resource, such as `Scale`.
    pub subresource_kind: Option<&'a Kind>,
    /// The other versions whose rules apply, since they differ only in the `apiVersion` of the object.
    pub versions: &'a [String],
    /// The subresource, or empty.
    pub subresource: &'a str,
    /// The object's name; empty if it will be generated.
    pub name: &'a str,
    /// The namespace, or empty.
    pub namespace: &'a str,
    /// The labels of the namespace.
    pub namespace_labels: Option<&'a Map<String, Value>>,
    /// The operation.
    pub operation: Operation,
    /// The user, in the form of `userInfo`.
    pub user: &'a Value,
    /// The object after the request; `None` for a deletion.
    pub object: Option<&'a Value>,
    /// The object before the request; `None` for a creation.
    pub old: Option<&'a Value>,
    /// Whether it is a dry run.
    pub dry_run: bool,
    /// The options of the request with their `kind` and `apiVersion`.
    pub options: &'a Value,
    /// The authorizer for match conditions.
    pub authorizer: &'a Authorizer,
}

/// Decides whether a user may perform an action.
type Verdict = dyn Fn(&User, &access::Attributes) -> bool + Send + Sync;

/// The authorizer.
#[derive(Clone)]
pub struct Authorizer(pub Arc<Verdict>);

impl fmt::Debug for Authorizer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Authorizer")
    }
}

/// The reason why a webhook did not allow the request.
#[derive(Debug, Clone, PartialEq)]
pub enum WebhookError {
    /// It denied the request, or its patch cannot be applied: the request fails.
    Refused(ApiError),
    /// It could not be called, or its answer is invalid: its failure policy decides.
    Failed(String),
}
