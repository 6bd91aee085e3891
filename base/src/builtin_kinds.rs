//! The built-in kinds of Kubernetes: their names, scopes, verbs and subresources.

use std::sync::LazyLock;

use serde::Deserialize;

/// A built-in kind in one version.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BuiltinKind {
    /// API group; empty for the core group.
    pub group: String,
    /// API version.
    pub version: String,
    /// Plural name.
    pub plural: String,
    /// Singular name.
    pub singular: String,
    /// Kind.
    pub kind: String,
    /// Whether its objects have a namespace.
    pub namespaced: bool,
    /// Verbs of the objects themselves.
    #[serde(default = "all_verbs")]
    pub verbs: Vec<String>,
    /// Short names of kubectl.
    #[serde(default)]
    pub short_names: Vec<String>,
    /// Categories, such as `all`.
    #[serde(default)]
    pub categories: Vec<String>,
    /// Subresources.
    #[serde(default)]
    pub subresources: Vec<Subresource>,
    /// The rule for names of objects: `label`, `path`, or empty for subdomains.
    #[serde(default)]
    pub names: String,
}

/// A subresource of a built-in kind.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Subresource {
    /// Last part of the path, such as `status`.
    pub name: String,
    /// Kind that is read and written; `None` for the object itself.
    pub kind: Option<String>,
    /// Verbs of the subresource.
    #[serde(default = "object_verbs")]
    pub verbs: Vec<String>,
}

/// Returns all built-in kinds. Of several versions of a kind, the first is the stored one.
pub fn all() -> &'static [BuiltinKind] {
    static KINDS: LazyLock<Vec<BuiltinKind>> = LazyLock::new(|| {
        serde_json::from_str(include_str!("builtin_kinds.json")).expect("the table of built-in kinds is valid")
    });
    &KINDS
}

fn all_verbs() -> Vec<String> {
    ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"].map(str::to_owned).to_vec()
}

fn object_verbs() -> Vec<String> {
    ["get", "patch", "update"].map(str::to_owned).to_vec()
}
