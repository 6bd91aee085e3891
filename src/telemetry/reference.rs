//! References to objects: which object a log line is about.

use serde_json::{Value, json};
use tracing::Span;
use tracing::field::{Field, Visit};

use crate::object::Resource;

/// Which object a line is about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ObjectReference {
    /// The object's `apiVersion`.
    pub api_version: String,
    /// The kind.
    pub kind: String,
    /// The name.
    pub name: String,
    /// The unique id, if it has one.
    pub uid: Option<String>,
    /// The namespace; none for cluster-scoped objects.
    pub namespace: Option<String>,
}

/// Returns the span that all lines about an object are told in.
pub fn object_span(resource: &Resource, namespace: Option<&str>, name: &str, uid: &str) -> Span {
    let (api_version, kind) = (resource.api_version(), resource.kind.as_str());
    tracing::error_span!(target: "kopfd::objects", "object", api_version, kind, name, uid, namespace)
}

impl ObjectReference {
    /// Returns the reference as JSON; what is absent is null.
    pub fn to_json(&self) -> Value {
        json!({
            "apiVersion": self.api_version, "kind": self.kind, "name": self.name, "uid": self.uid, "namespace": self.namespace,
        })
    }

    /// Returns what stands before the line.
    pub fn prefix(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("[{namespace}/{}] ", self.name),
            None => format!("[{}] ", self.name),
        }
    }
}

impl Visit for ObjectReference {
    fn record_str(&mut self, field: &Field, value: &str) {
        let value = value.to_owned();
        match field.name() {
            "api_version" => self.api_version = value,
            "kind" => self.kind = value,
            "name" => self.name = value,
            "uid" => self.uid = Some(value),
            "namespace" => self.namespace = Some(value),
            _ => {}
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}
