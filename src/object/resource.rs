//! A resource: the endpoint of one kind, as the API server's discovery describes it.

use std::fmt;

/// One kind in one version. Its identity is group, version, and plural name.
#[derive(Debug, Clone, Default)]
pub struct Resource {
    /// The API group; empty for the core group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The plural name, used in URLs.
    pub plural: String,
    /// The kind, used in objects.
    pub kind: String,
    /// The singular name; the lower-case kind if the server has none.
    pub singular: String,
    /// The short names.
    pub shortcuts: Vec<String>,
    /// The categories.
    pub categories: Vec<String>,
    /// The subresources, such as `status` and `scale`.
    pub subresources: Vec<String>,
    /// Whether its objects are namespaced.
    pub namespaced: bool,
    /// Whether this is the preferred version of its group.
    pub preferred: bool,
    /// The verbs that the server offers.
    pub verbs: Vec<String>,
}

impl Resource {
    /// Returns the `apiVersion` of its objects.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { [&*self.group, "/", &self.version].concat() }
    }

    /// Tells whether the server offers a subresource.
    pub fn has_subresource(&self, name: &str) -> bool {
        self.subresources.iter().any(|subresource| subresource == name)
    }

    /// Tells whether the server offers a verb.
    pub fn has_verb(&self, verb: &str) -> bool {
        self.verbs.iter().any(|offered| offered == verb)
    }

    /// Tells whether both have the same properties beyond their identity.
    pub fn has_same_details(&self, other: &Self) -> bool {
        let names = |resource: &Self| {
            (resource.kind.clone(), resource.singular.clone(), resource.shortcuts.clone(), resource.categories.clone())
        };
        let abilities = |resource: &Self| {
            (resource.subresources.clone(), resource.verbs.clone(), resource.namespaced, resource.preferred)
        };
        self == other && names(self) == names(other) && abilities(self) == abilities(other)
    }

    fn identity(&self) -> (&str, &str, &str) {
        (&self.group, &self.version, &self.plural)
    }
}

impl PartialEq for Resource {
    fn eq(&self, other: &Self) -> bool {
        self.identity() == other.identity()
    }
}

impl Eq for Resource {}

impl PartialOrd for Resource {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Resource {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.identity().cmp(&other.identity())
    }
}

impl std::hash::Hash for Resource {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.identity().hash(state);
    }
}

/// The form of Kubernetes: `databases.v1.techoral.com`, `pods.v1`.
impl fmt::Display for Resource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.plural, self.version)?;
        if self.group.is_empty() { Ok(()) } else { write!(formatter, ".{}", self.group) }
    }
}
