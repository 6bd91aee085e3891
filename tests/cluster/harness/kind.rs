//! A kind of objects: defined by a case, or built in.

use serde_json::{Value, json};

/// The paths and names of a kind.
#[derive(Debug, Clone)]
pub(crate) struct Kind {
    /// The API group; empty for the core.
    pub(crate) group: String,
    /// The version that is served.
    pub(crate) version: String,
    /// The plural name, as in paths.
    pub(crate) plural: String,
    /// The name of the kind, as in objects.
    pub(crate) name: String,
    /// Whether objects are namespaced.
    pub(crate) namespaced: bool,
    /// Whether it has a status subresource.
    pub(crate) status_subresource: bool,
}

impl Kind {
    /// Returns a new kind: namespaced, with a status subresource, and with any fields.
    pub(crate) fn of_group(group: &str) -> Self {
        Self {
            group: group.to_owned(),
            version: "v1".into(),
            plural: "things".into(),
            name: "Thing".into(),
            namespaced: true,
            status_subresource: true,
        }
    }

    /// Returns the kind with another name.
    pub(crate) fn named(self, name: &str, plural: &str) -> Self {
        Self { name: name.to_owned(), plural: plural.to_owned(), ..self }
    }

    /// Returns the kind without a status subresource.
    pub(crate) fn with_plain_status(mut self) -> Self {
        self.status_subresource = false;
        self
    }

    /// Returns the kind as cluster-scoped.
    pub(crate) fn cluster_scoped(mut self) -> Self {
        self.namespaced = false;
        self
    }

    /// Returns a namespaced kind of the core group.
    pub(crate) fn core(name: &str, plural: &str, status_subresource: bool) -> Self {
        Self { status_subresource, ..Self { group: String::new(), ..Self::of_group("") }.named(name, plural) }
    }

    /// Returns the definition to install, and the path of its collection.
    pub(crate) fn definition(&self) -> (&'static str, Value) {
        let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let mut version = json!({
            "name": self.version, "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": anything, "status": anything}}},
        });
        if self.status_subresource {
            version["subresources"] = json!({"status": {}});
        }
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": self.selector()},
            "spec": {
                "group": self.group,
                "scope": if self.namespaced { "Namespaced" } else { "Cluster" },
                "names": {"plural": self.plural, "singular": self.name.to_lowercase(), "kind": self.name},
                "versions": [version],
            },
        });
        ("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
    }

    /// Returns the path of the definition.
    pub(crate) fn definition_path(&self) -> String {
        format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{}", self.selector())
    }

    /// Returns the name for manifests and kubectl.
    pub(crate) fn selector(&self) -> String {
        if self.group.is_empty() { self.plural.clone() } else { format!("{}.{}", self.plural, self.group) }
    }

    /// Returns the value of `apiVersion` in objects.
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// Returns the path of the collection in a namespace.
    pub(crate) fn collection(&self, namespace: &str) -> String {
        let root = if self.group.is_empty() {
            format!("/api/{}", self.version)
        } else {
            format!("/apis/{}", self.api_version())
        };
        if self.namespaced {
            format!("{root}/namespaces/{namespace}/{}", self.plural)
        } else {
            format!("{root}/{}", self.plural)
        }
    }

    /// Returns the path of an object.
    pub(crate) fn path(&self, namespace: &str, name: &str) -> String {
        format!("{}/{name}", self.collection(namespace))
    }
}
