//! The currently served kinds: built-in and defined ones.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use crate::http::api_error::FieldError;
use crate::kinds::kind::Kind;
use crate::kinds::{builtin, definition};
use crate::schema::Schema;
use crate::storage::resource::Resource;

/// One kind in one version, with everything needed to serve it.
#[derive(Debug)]
pub struct ServedKind {
    /// The kind.
    pub kind: Kind,
    /// The resource of its objects in the store.
    pub resource: Resource,
    /// The schema of this version; `None` for built-in kinds.
    pub schema: Option<Schema>,
    /// The schema of the storage version, if it is another one.
    pub stored_schema: Option<Schema>,
    /// The warning for clients of a deprecated version.
    pub deprecation: Option<String>,
    /// Whether the definition is being deleted, so that no objects can be created.
    pub is_terminating: bool,
    /// Objects written after this revision conform to the schema.
    pub since: u64,
    /// When the definition was last changed; `None` for built-in kinds.
    pub defined_at: Option<Timestamp>,
    /// When the definition was created.
    pub created_at: Option<Timestamp>,
}

impl ServedKind {
    /// Returns a kind without a schema.
    pub fn of(kind: Kind) -> Self {
        // Events of both groups share one store.
        let group = if kind.plural == "events" && kind.group == "events.k8s.io" { "" } else { &kind.group };
        let resource = Resource { group: group.to_owned(), plural: kind.plural.clone() };
        Self {
            kind,
            resource,
            schema: None,
            stored_schema: None,
            deprecation: None,
            is_terminating: false,
            since: 0,
            defined_at: None,
            created_at: None,
        }
    }

    /// Returns the full name of the resource, such as `widgets.ex.dev`.
    pub fn full_name(&self) -> String {
        if self.kind.group.is_empty() {
            self.kind.plural.clone()
        } else {
            format!("{}.{}", self.kind.plural, self.kind.group)
        }
    }
}

/// A rule of a definition that is not enforced, or an error for which a whole schema is not.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unenforced {
    /// The version.
    pub version: String,
    /// The field in the schema, and why.
    pub reason: String,
}

/// All kinds.
#[derive(Debug, Clone, Default)]
pub struct Registry {
    built_in: Vec<Arc<ServedKind>>,
    /// The kinds of each definition, by its name.
    defined: BTreeMap<String, Vec<Arc<ServedKind>>>,
    /// All of them by group, version, and plural name.
    all: BTreeMap<(String, String, String), Arc<ServedKind>>,
}

impl Registry {
    /// Returns the built-in kinds.
    pub fn new() -> Self {
        let served = |kind: Kind| ServedKind { deprecation: builtin::deprecation(&kind), ..ServedKind::of(kind) };
        let built_in = builtin::kinds().into_iter().map(|kind| Arc::new(served(kind))).collect();
        let mut registry = Self { built_in, ..Self::default() };
        registry.index();
        registry
    }

    /// Serves the kinds of a definition, from the given revision and time on. Returns the parts of its schemas that are
    /// not enforced.
    pub fn define(&mut self, definition: &Value, since: u64, now: Timestamp) -> BTreeSet<Unenforced> {
        let name = definition["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let is_terminating = definition["metadata"]["deletionTimestamp"].is_string();
        let known = self.defined.get(&name).and_then(|versions| versions.first()).and_then(|served| served.created_at);
        let created_at = known.or(Some(now));
        let mut unenforced = BTreeSet::new();
        let mut schema_of = |version: &str| {
            let schema = definition::schema(definition, version);
            unenforced
                .extend(reasons(&schema).into_iter().map(|reason| Unenforced { version: version.to_owned(), reason }));
            schema.ok()
        };
        let served = definition::kinds(definition).into_iter().map(|kind| {
            let schema = schema_of(&kind.version);
            let is_stored = |version: &&Value| version["storage"] == true && version["name"] != kind.version.as_str();
            let stored = definition::versions(definition).find(is_stored);
            let stored_schema = stored.and_then(|version| schema_of(version["name"].as_str().unwrap_or_default()));
            let deprecation = definition::deprecation(definition, &kind.version);
            let (defined_at, kind) = (Some(now), ServedKind::of(kind));
            Arc::new(ServedKind {
                schema,
                stored_schema,
                deprecation,
                is_terminating,
                since,
                defined_at,
                created_at,
                ..kind
            })
        });
        self.defined.insert(name, served.collect());
        self.index();
        unenforced
    }

    /// Stops serving the kinds of a definition.
    pub fn forget(&mut self, definition: &str) {
        self.defined.remove(definition);
        self.index();
    }

    /// Returns a kind by its path.
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<ServedKind>> {
        self.all.get(&(group.to_owned(), version.to_owned(), plural.to_owned()))
    }

    /// Returns a kind by the `apiVersion` and `kind` of its objects.
    pub fn by_kind(&self, api_version: &str, kind: &str) -> Option<&Arc<ServedKind>> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        self.version(group, version).find(|served| served.kind.kind == kind)
    }

    /// Returns the kind of a stored object; in another version, if its own is no longer served.
    pub fn by_object(&self, value: &Value) -> Option<&Arc<ServedKind>> {
        let (version, kind) = (value["apiVersion"].as_str()?, value["kind"].as_str()?);
        let group = version.split_once('/').map_or("", |(group, _)| group);
        let is_alike = |served: &&Arc<ServedKind>| served.kind.group == group && served.kind.kind == kind;
        self.by_kind(version, kind).or_else(|| self.all().find(is_alike))
    }

    /// Returns the kind of a stored resource, in its storage version.
    pub fn stored(&self, resource: &Resource) -> Option<&Arc<ServedKind>> {
        let mut versions = self.all.values().filter(|served| served.resource == *resource);
        let first = versions.next()?;
        let is_storage = |served: &&Arc<ServedKind>| {
            served.kind.version == served.kind.storage_version && served.kind.group == resource.group
        };
        if is_storage(&first) { Some(first) } else { versions.find(is_storage).or(Some(first)) }
    }

    /// Returns all kinds.
    pub fn all(&self) -> impl Iterator<Item = &Arc<ServedKind>> {
        self.all.values()
    }

    /// Returns the kinds of one version of a group.
    pub fn version(&self, group: &str, version: &str) -> impl Iterator<Item = &Arc<ServedKind>> {
        self.all.values().filter(move |served| served.kind.group == group && served.kind.version == version)
    }

    /// Tells whether a group and version are built in.
    pub fn is_built_in(&self, group: &str, version: &str) -> bool {
        self.built_in.iter().any(|served| served.kind.group == group && served.kind.version == version)
    }

    /// Returns the groups, each with its versions, the preferred one first.
    pub fn groups(&self) -> BTreeMap<String, Vec<String>> {
        let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for served in self.all.values().filter(|served| !served.kind.group.is_empty()) {
            let versions = groups.entry(served.kind.group.clone()).or_default();
            if !versions.contains(&served.kind.version) {
                versions.push(served.kind.version.clone());
            }
        }
        for versions in groups.values_mut() {
            versions.sort_by_key(|version| definition::rank(version));
        }
        groups
    }

    fn index(&mut self) {
        let defined = self.defined.values().flatten();
        let path =
            |served: &ServedKind| (served.kind.group.clone(), served.kind.version.clone(), served.kind.plural.clone());
        self.all = self.built_in.iter().chain(defined).map(|served| (path(served), Arc::clone(served))).collect();
    }
}

/// Returns the messages about the rules of a schema that are not enforced, or the errors of a schema that cannot be
/// read.
fn reasons(schema: &Result<Schema, Vec<FieldError>>) -> Vec<String> {
    match schema {
        Ok(schema) => schema.unenforced().to_vec(),
        Err(causes) => causes
            .iter()
            .map(|cause| format!("{}: the schema is not enforced: {}", cause.field, cause.message))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_object_keeps_its_kind_when_its_version_is_not_served_any_more() {
        let schema = json!({"openAPIV3Schema": {"type": "object"}});
        let definition = json!({"metadata": {"name": "things.ex.dev"}, "spec": {"group": "ex.dev", "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"}, "versions": [{"name": "v2", "served": true, "storage": true, "schema": schema}]}});
        let mut registry = Registry::new();
        registry.define(&definition, 0, Timestamp::UNIX_EPOCH);
        let found = registry.by_object(&json!({"apiVersion": "ex.dev/v1", "kind": "Thing"})).unwrap();
        assert_eq!(found.kind.version, "v2");
        assert!(registry.by_object(&json!({"apiVersion": "v1", "kind": "Thing"})).is_none());
    }
}
