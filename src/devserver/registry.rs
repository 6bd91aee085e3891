//! The kinds that the server offers at a moment: those built in, and those defined.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::kind::Kind;
use super::schema::Schema;
use super::store::Resource;
use super::{builtin, definition};

/// One kind in one version, with all that is needed to serve it.
#[derive(Debug)]
pub struct Served {
    /// The kind.
    pub kind: Kind,
    /// Where its objects are stored.
    pub resource: Resource,
    /// The schema of this version; none for built-in kinds.
    pub schema: Option<Schema>,
    /// The schema of the version that is stored, if that is another one.
    pub stored_schema: Option<Schema>,
    /// What clients of a deprecated version are told.
    pub deprecation: Option<String>,
    /// Whether the definition is going, so that there are no new objects.
    pub is_leaving: bool,
    /// Objects that were written after this revision obey the schema.
    pub since: u64,
}

impl Served {
    /// Returns a kind without a schema.
    pub fn of(kind: Kind) -> Self {
        // Events have two faces and one store.
        let group = if kind.plural == "events" && kind.group == "events.k8s.io" { "" } else { &kind.group };
        let resource = Resource { group: group.to_owned(), plural: kind.plural.clone() };
        Self { kind, resource, schema: None, stored_schema: None, deprecation: None, is_leaving: false, since: 0 }
    }

    /// Returns the full name of the resource, such as `widgets.ex.dev`.
    pub fn full_name(&self) -> String {
        if self.kind.group.is_empty() { self.kind.plural.clone() } else { format!("{}.{}", self.kind.plural, self.kind.group) }
    }
}

/// All kinds.
#[derive(Debug, Clone, Default)]
pub struct Registry {
    built_in: Vec<Arc<Served>>,
    /// The kinds of each definition, by its name.
    defined: BTreeMap<String, Vec<Arc<Served>>>,
    /// All of them by group, version, and plural name.
    all: BTreeMap<(String, String, String), Arc<Served>>,
}

impl Registry {
    /// Returns the kinds that are built in.
    pub fn new() -> Self {
        let built_in = builtin::kinds().into_iter().map(|kind| Arc::new(Served::of(kind))).collect();
        let mut registry = Self { built_in, ..Self::default() };
        registry.index();
        registry
    }

    /// Serves what a definition defines, from the given revision on.
    pub fn define(&mut self, definition: &Value, since: u64) {
        let name = definition["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let is_leaving = definition["metadata"]["deletionTimestamp"].is_string();
        let served = definition::kinds(definition).into_iter().map(|kind| {
            let version = versions(definition).find(|version| version["name"] == kind.version.as_str());
            let parse = |version: &Value| Schema::parse(&version["schema"]["openAPIV3Schema"]).ok();
            let schema = version.and_then(parse);
            let stored = versions(definition).find(|version| version["storage"] == true && version["name"] != kind.version.as_str());
            let stored_schema = stored.and_then(parse);
            let deprecation = version.and_then(|version| deprecation(definition, &kind, version));
            Arc::new(Served { schema, stored_schema, deprecation, is_leaving, since, ..Served::of(kind) })
        });
        self.defined.insert(name, served.collect());
        self.index();
    }

    /// Serves what a definition has defined no longer.
    pub fn forget(&mut self, definition: &str) {
        self.defined.remove(definition);
        self.index();
    }

    /// Returns a kind by its path.
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Served>> {
        self.all.get(&(group.to_owned(), version.to_owned(), plural.to_owned()))
    }

    /// Returns a kind by what stands in its objects.
    pub fn by_kind(&self, api_version: &str, kind: &str) -> Option<&Arc<Served>> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        self.version(group, version).find(|served| served.kind.kind == kind)
    }

    /// Returns the kind of a stored resource, in its storage version.
    pub fn stored(&self, resource: &Resource) -> Option<&Arc<Served>> {
        let mut versions = self.all.values().filter(|served| served.resource == *resource);
        let first = versions.next()?;
        let is_storage = |served: &&Arc<Served>| served.kind.version == served.kind.storage_version && served.kind.group == resource.group;
        if is_storage(&first) { Some(first) } else { versions.find(is_storage).or(Some(first)) }
    }

    /// Returns all kinds.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Served>> {
        self.all.values()
    }

    /// Returns the kinds of one version of a group.
    pub fn version(&self, group: &str, version: &str) -> impl Iterator<Item = &Arc<Served>> {
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
            versions.sort_by_key(|version| std::cmp::Reverse(priority(version)));
        }
        groups
    }

    fn index(&mut self) {
        let defined = self.defined.values().flatten();
        let path = |served: &Served| (served.kind.group.clone(), served.kind.version.clone(), served.kind.plural.clone());
        self.all = self.built_in.iter().chain(defined).map(|served| (path(served), Arc::clone(served))).collect();
    }
}

fn versions(definition: &Value) -> impl Iterator<Item = &Value> {
    definition["spec"]["versions"].as_array().into_iter().flatten()
}

fn deprecation(definition: &Value, kind: &Kind, version: &Value) -> Option<String> {
    if version["deprecated"] != true {
        return None;
    }
    if let Some(text) = version["deprecationWarning"].as_str() {
        return Some(text.to_owned());
    }
    let is_better = |other: &&Value| other["served"] == true && other["deprecated"] != true;
    let newer = versions(definition).filter(is_better).filter_map(|other| other["name"].as_str()).max_by_key(|name| priority(name));
    let newer = newer.filter(|name| priority(name) > priority(&kind.version));
    let text = format!("{} {} is deprecated", kind.api_version(), kind.kind);
    Some(newer.map_or(text.clone(), |newer| format!("{text}; use {}/{newer} {}", kind.group, kind.kind)))
}

/// Returns what versions are ordered by: finished before beta before alpha, then by their numbers; others last, by their names.
fn priority(version: &str) -> (u8, u32, u32, std::cmp::Reverse<String>) {
    let parse = || {
        let rest = version.strip_prefix('v')?;
        let digits = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
        let major: u32 = rest[..digits].parse().ok()?;
        let (stage, minor) = match &rest[digits..] {
            "" => (3, ""),
            beta if beta.starts_with("beta") => (2, &beta[4..]),
            alpha if alpha.starts_with("alpha") => (1, &alpha[5..]),
            _ => return None,
        };
        let minor = if stage == 3 { 0 } else { minor.parse().ok()? };
        Some((stage, major, minor))
    };
    let (stage, major, minor) = parse().unwrap_or_default();
    (stage, major, minor, std::cmp::Reverse(version.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finished_versions_come_first_and_newer_ones_before_older_ones() {
        let mut versions = ["v1alpha1", "v2", "foo", "v1", "v1beta1", "v10", "v1beta2"];
        versions.sort_by_key(|version| std::cmp::Reverse(priority(version)));
        assert_eq!(versions, ["v10", "v2", "v1", "v1beta2", "v1beta1", "v1alpha1", "foo"]);
    }
}
