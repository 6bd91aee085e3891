//! Requests as webhooks see them.

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::auth::access::{self, User};
use crate::http::api_error::Failure;
use crate::kinds::kind::Kind;

/// What a request does with the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// It makes it.
    Create,
    /// It changes it, or a part of it.
    Update,
    /// It deletes it.
    Delete,
    /// It connects to it.
    Connect,
}

/// A request as webhooks see it.
#[derive(Debug, Clone, Copy)]
pub struct Attributes<'a> {
    /// The kind in the version of the request.
    pub kind: &'a Kind,
    /// The kind of what is written, if it is not that of the resource: of a `Scale`, for one.
    pub shown: Option<&'a Kind>,
    /// The other versions whose rules count too, as only the version in the object tells them apart.
    pub versions: &'a [String],
    /// The subresource; empty for none.
    pub subresource: &'a str,
    /// The object's name; empty if it gets one later.
    pub name: &'a str,
    /// The namespace; empty for none.
    pub namespace: &'a str,
    /// The labels of the namespace.
    pub namespace_labels: Option<&'a Map<String, Value>>,
    /// What the request does.
    pub operation: Operation,
    /// Who asks, as `userInfo` has it.
    pub user: &'a Value,
    /// The object after the request; none for a deletion.
    pub object: Option<&'a Value>,
    /// The object before the request; none for a creation.
    pub old: Option<&'a Value>,
    /// Whether nothing will be stored.
    pub dry_run: bool,
    /// The options of the request with their `kind` and `apiVersion`.
    pub options: &'a Value,
    /// What tells who may do what, for conditions.
    pub judge: &'a Judge,
}

/// Whether a user may do something.
type Verdict = dyn Fn(&User, &access::Attributes) -> bool + Send + Sync;

/// Tells who may do what.
#[derive(Clone)]
pub struct Judge(pub Arc<Verdict>);

impl fmt::Debug for Judge {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Judge")
    }
}

/// Why a webhook did not let the request pass.
#[derive(Debug, Clone, PartialEq)]
pub enum Trouble {
    /// It said no, or asked for what cannot be done: the request fails.
    Refused(Failure),
    /// It could not be asked, or its answer is none: its failure policy decides.
    Failed(String),
}
