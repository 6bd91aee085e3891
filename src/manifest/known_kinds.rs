//! The kinds known without a cluster: the built-in ones, and those in the `crds` files of manifests.

use std::collections::BTreeSet;
use std::path::Path;

use super::operator::Operator;
use super::source::Source;
use super::tree::{self, Kind, Node};
use crate::object::builtin_kinds::{self, BuiltinKind};
use crate::object::{Resource, Selector};

/// Returns the kinds in the `crds` files of the operators, then the built-in ones, in all their versions.
pub fn of(operators: &[Operator]) -> Vec<Resource> {
    defined_by(operators).into_iter().chain(builtin_kinds::all().iter().map(built_in)).collect()
}

/// Returns the kinds in the `crds` files of the operators, in all their versions.
pub fn defined_by(operators: &[Operator]) -> Vec<Resource> {
    let files: BTreeSet<_> = operators.iter().flat_map(|operator| &operator.crds).collect();
    files.into_iter().flat_map(|file| defined(file)).collect()
}

/// Returns the groups and plural names of the known kinds that a selector selects in any version.
pub fn matching<'a>(selector: &Selector, known: &'a [Resource]) -> BTreeSet<(&'a str, &'a str)> {
    let of_any_version = Selector { version: None, ..selector.clone() };
    of_any_version
        .select(known)
        .into_iter()
        .map(|resource| (resource.group.as_str(), resource.plural.as_str()))
        .collect()
}

fn built_in(kind: &BuiltinKind) -> Resource {
    Resource {
        group: kind.group.clone(),
        version: kind.version.clone(),
        plural: kind.plural.clone(),
        kind: kind.kind.clone(),
        singular: kind.singular.clone(),
        shortcuts: kind.short_names.clone(),
        categories: kind.categories.clone(),
        subresources: kind.subresources.iter().map(|subresource| subresource.name.clone()).collect(),
        namespaced: kind.namespaced,
        preferred: true,
        ..Resource::default()
    }
}

fn defined(file: &Path) -> Vec<Resource> {
    // Errors of the file are reported at its entry in the manifest.
    let Ok(source) = Source::read(file) else { return Vec::new() };
    let documents = tree::parse(&source).unwrap_or_default();
    documents.iter().flat_map(|document| resources(&document.root).unwrap_or_default()).collect()
}

/// Returns a resource for each version of a definition.
fn resources(definition: &Node) -> Option<Vec<Resource>> {
    let text = |node: Option<&Node>| node.and_then(Node::text).map(str::to_owned);
    let list = |node: Option<&Node>| match node.map(|node| &node.kind) {
        Some(Kind::List(items)) => items.clone(),
        _ => Vec::new(),
    };
    let spec = definition.get("spec")?;
    let names = spec.get("names")?;
    let texts = |key: &str| list(names.get(key)).iter().filter_map(|item| text(Some(item))).collect::<Vec<_>>();
    let kind = text(names.get("kind")).unwrap_or_default();
    let resource = Resource {
        group: text(spec.get("group"))?,
        plural: text(names.get("plural"))?,
        singular: text(names.get("singular")).unwrap_or_else(|| kind.to_lowercase()),
        kind,
        shortcuts: texts("shortNames"),
        categories: texts("categories"),
        namespaced: text(spec.get("scope")).as_deref() != Some("Cluster"),
        preferred: true,
        ..Resource::default()
    };
    let versions = list(spec.get("versions"));
    let of_version = |version: &Node| {
        let subresources = match version.get("subresources").map(|node| &node.kind) {
            Some(Kind::Map(entries)) => entries.iter().map(|entry| entry.key.clone()).collect(),
            _ => Vec::new(),
        };
        Some(Resource { version: text(version.get("name"))?, subresources, ..resource.clone() })
    };
    Some(versions.iter().filter_map(of_version).collect())
}
