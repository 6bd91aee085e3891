//! Object references of log lines.

use serde_json::{Value, json};
use tracing::Span;
use tracing::field::{Field, Visit};

use crate::object::Resource;

/// The object that a log line is about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ObjectReference {
    /// `apiVersion` of the object.
    pub api_version: String,
    /// Kind of the object.
    pub kind: String,
    /// Name of the object.
    pub name: String,
    /// `None` if it is not known.
    pub uid: Option<String>,
    /// `None` for cluster-scoped objects.
    pub namespace: Option<String>,
    /// The revision of the operator that handles the object; `None` before it does.
    pub revision: Option<String>,
}

/// Returns the span for all log lines about an object. Its field `revision` is recorded later, and may change.
pub fn object_span(resource: &Resource, namespace: Option<&str>, name: &str, uid: &str) -> Span {
    let (api_version, kind) = (resource.api_version(), resource.kind.as_str());
    tracing::error_span!(target: "kopfd::objects", "object", api_version, kind, name, uid, namespace, revision = tracing::field::Empty)
}

impl ObjectReference {
    /// Returns the reference as JSON; absent values are null.
    pub fn to_json(&self) -> Value {
        json!({
            "apiVersion": self.api_version, "kind": self.kind, "name": self.name, "uid": self.uid, "namespace": self.namespace,
        })
    }

    /// Returns the prefix of log lines about the object.
    pub fn prefix(&self) -> String {
        match &self.namespace {
            Some(namespace) => ["[", namespace, "/", &self.name, "] "].concat(),
            None => ["[", &self.name, "] "].concat(),
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
            "revision" => self.revision = Some(value),
            _ => {}
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}
