//! The body of an object, its common properties, and its identity.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::secret;

/// The kind of a received event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// The object was in a list: when a watch starts or restarts.
    Listed,
    /// It was added during the watch.
    Added,
    /// It changed.
    Modified,
    /// It was deleted.
    Deleted,
    /// Nothing has happened to it: it is handled once more, since the operator has another revision.
    Revisited,
    /// It was passed on once more because a script has touched it: it is handled as if it had changed.
    Touched,
}

impl EventKind {
    /// Returns the type of the watch event; a listed or revisited object has none. A touched one counts as changed.
    pub fn event_type(self) -> Option<&'static str> {
        match self {
            Self::Listed | Self::Revisited => None,
            Self::Added => Some("ADDED"),
            Self::Modified | Self::Touched => Some("MODIFIED"),
            Self::Deleted => Some("DELETED"),
        }
    }
}

/// A body as the API server sent it; cheap to clone.
#[derive(Clone, PartialEq)]
pub struct Body(Arc<Value>);

impl Body {
    /// Returns the shared value.
    pub fn shared(&self) -> Arc<Value> {
        Arc::clone(&self.0)
    }

    /// Returns the metadata, if they are a mapping.
    pub fn metadata(&self) -> Option<&Map<String, Value>> {
        self.get("metadata")?.as_object()
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.metadata()?.get(key)?.as_str()
    }

    /// Returns the name, or an empty text.
    pub fn name(&self) -> &str {
        self.text("name").unwrap_or_default()
    }

    /// Returns the namespace; cluster-scoped objects have none.
    pub fn namespace(&self) -> Option<&str> {
        self.text("namespace")
    }

    /// Returns the unique id, which every object of a real cluster has.
    pub fn uid(&self) -> Option<&str> {
        self.text("uid")
    }

    /// Returns the version of the object.
    pub fn resource_version(&self) -> Option<&str> {
        self.text("resourceVersion")
    }

    /// Returns one annotation.
    pub fn annotation(&self, key: &str) -> Option<&Value> {
        self.metadata()?.get("annotations")?.as_object()?.get(key)
    }

    /// Tells whether a deletion was requested: the timestamp is present and not null.
    pub fn is_deleting(&self) -> bool {
        self.metadata().and_then(|metadata| metadata.get("deletionTimestamp")).is_some_and(|stamp| !stamp.is_null())
    }

    /// Tells whether the object has a finalizer.
    pub fn has_finalizer(&self, finalizer: &str) -> bool {
        let finalizers = self.metadata().and_then(|metadata| metadata.get("finalizers")).and_then(Value::as_array);
        finalizers.is_some_and(|finalizers| finalizers.iter().any(|value| value == finalizer))
    }
}

impl From<Value> for Body {
    fn from(value: Value) -> Self {
        Self(Arc::new(value))
    }
}

impl Deref for Body {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.0
    }
}

/// Without the values of a Secret.
impl fmt::Debug for Body {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        secret::shown(&self.0).fmt(formatter)
    }
}

/// The identity of an object of a kind in messages and queues.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    /// The namespace; `None` for cluster-scoped objects.
    pub namespace: Option<String>,
    /// The name.
    pub name: String,
    /// The unique id; an object created again under the same name has another.
    pub uid: String,
}

impl ObjectKey {
    /// Returns the key of a body.
    pub fn of(body: &Body) -> Self {
        Self {
            namespace: body.namespace().map(str::to_owned),
            name: body.name().to_owned(),
            uid: body.uid().map_or_else(|| substitute_uid(body), str::to_owned),
        }
    }
}

/// Objects of virtual kinds may have no uid; kopf distinguishes them by these parts.
fn substitute_uid(body: &Body) -> String {
    let top = |key| body.get(key).and_then(Value::as_str).unwrap_or("-");
    let meta = |key| body.text(key).unwrap_or("-");
    [top("kind"), top("apiVersion"), meta("name"), meta("namespace"), meta("creationTimestamp")].join("//")
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(formatter, "{namespace}/{}", self.name),
            None => formatter.write_str(&self.name),
        }
    }
}
