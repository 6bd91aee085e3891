//! Served kinds: one resource in one version.

use std::sync::Arc;

use serde_json::Value;

/// One resource in one version, built in or defined.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Kind {
    /// The API group; empty for the core group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The storage version.
    pub storage_version: String,
    /// The plural name.
    pub plural: String,
    /// The singular name.
    pub singular: String,
    /// The kind of the objects.
    pub kind: String,
    /// The kind of lists.
    pub list_kind: String,
    /// The short names.
    pub short_names: Vec<String>,
    /// The categories.
    pub categories: Vec<String>,
    /// The verbs.
    pub verbs: Vec<String>,
    /// Whether objects are namespaced.
    pub namespaced: bool,
    /// Whether there is a `status` subresource.
    pub has_status: bool,
    /// The paths of the `scale` subresource in the definition.
    pub scale: Option<Scale>,
    /// The definition of the kind; `None` for built-in kinds.
    pub definition: Option<Arc<Value>>,
}

/// The paths of a `scale` subresource.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scale {
    /// The path of the desired number, such as `.spec.replicas`.
    pub spec_replicas: String,
    /// The path of the current number.
    pub status_replicas: String,
    /// The path of the label selector.
    pub label_selector: Option<String>,
}

impl Kind {
    /// Returns the `apiVersion` of the objects.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// Tells whether the kind is defined by a CustomResourceDefinition.
    pub fn is_custom(&self) -> bool {
        self.definition.is_some()
    }
}
