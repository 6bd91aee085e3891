//! The rules: each returns its violations.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::sources::{Position, Reference, Sources, Target};
use super::tables::{IMPURE, LAYERS, LISTENING, OWNERS, PURE, Package};

impl Package {
    /// Reads its sources.
    pub(crate) fn sources(&self) -> Sources {
        let sources = Sources::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join(self.folder).join("src"));
        assert!(
            sources.layers().any(|module| module == self.known_module),
            "{}src has no {}",
            self.folder,
            self.known_module
        );
        sources
    }

    /// Reads its `Cargo.toml`.
    pub(crate) fn manifest(&self) -> toml::Table {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(self.folder).join("Cargo.toml");
        toml::from_str(&std::fs::read_to_string(path).expect("the manifest of the package")).expect("TOML")
    }

    /// Returns the violation of a reference to a third-party crate, if there is one.
    pub(crate) fn strangers(&self, reference: &Reference) -> Option<String> {
        let Target::External(path) = &reference.target else { return None };
        let what = not_its_owner(self.owners, reference.layer(), path)?;
        Some(format!("{}{}: {what}", self.folder, reference.position))
    }
}

/// Returns the violation of a reference in the engine, if there is one.
pub(crate) fn offence(reference: &Reference) -> Option<String> {
    let layer = reference.layer();
    let what = match &reference.target {
        Target::Internal(path) => {
            let used = path.first()?;
            let (_, allowed) = LAYERS.iter().find(|(name, _)| *name == layer)?;
            let is_layer = LAYERS.iter().any(|(name, _)| name == used);
            (is_layer && used != layer && !allowed.contains(&used.as_str()))
                .then(|| format!("{layer} must not use {used}"))
        }
        Target::External(path) => not_its_owner(OWNERS, layer, path),
    };
    what.map(|what| format!("{}: {what}", reference.position))
}

fn not_its_owner(table: &[(&str, &[&str])], module: &str, path: &[String]) -> Option<String> {
    let (name, owners) = table.iter().find(|(name, _)| path.first().is_some_and(|first| first == name))?;
    (!owners.contains(&module)).then(|| format!("{name} belongs to {}", owners.join(" or ")))
}

/// Returns where the tables of third-party crates differ from the dependencies of a package and from what its modules
/// name.
pub(crate) fn differences(package: &Package, manifest: &toml::Table, sources: &Sources) -> Vec<String> {
    let dependencies = dependencies(manifest);
    let listed = || package.owners.iter().map(|(name, _)| *name).chain(package.anywhere.iter().copied());
    let mut named: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for reference in sources.references() {
        if let Target::External(path) = &reference.target
            && let Some(name) = path.first()
        {
            named.entry(name.clone()).or_default().insert(reference.layer().to_owned());
        }
    }
    let place = format!("{}Cargo.toml", package.folder);
    let missing = dependencies.iter().filter(|name| listed().all(|known| known != **name));
    let missing = missing.map(|name| format!("{place}: no table of tests/layering says which modules may use {name}"));
    let gone =
        listed().filter(|name| !dependencies.contains(*name)).map(|name| format!("{place}: {name} is no dependency"));
    let owners = package.owners.iter().flat_map(|(name, owners)| owners.iter().map(move |owner| (*name, *owner)));
    let unused = owners.filter(|(name, owner)| named.get(*name).is_none_or(|users| !users.contains(*owner)));
    let unused = unused.map(|(name, owner)| format!("{place}: {owner} does not use {name}"));
    let unnamed = package.anywhere.iter().filter(|name| dependencies.contains(**name) && !named.contains_key(**name));
    let unnamed = unnamed.map(|name| format!("{place}: no module uses {name}"));
    missing.chain(gone).chain(unused).chain(unnamed).collect()
}

/// Returns the dependencies of a package, by the names that its code uses. Those of tests do not count.
fn dependencies(manifest: &toml::Table) -> BTreeSet<String> {
    let names = |table: &toml::Table| match table.get("dependencies") {
        Some(toml::Value::Table(names)) => names.keys().cloned().collect(),
        _ => Vec::new(),
    };
    let targets = manifest.get("target").and_then(toml::Value::as_table).into_iter().flat_map(toml::Table::values);
    let all = targets.filter_map(toml::Value::as_table).flat_map(names).chain(names(manifest));
    all.map(|name| crate_of(&name)).collect()
}

/// Returns the name by which the code names a package.
fn crate_of(package: &str) -> String {
    match package {
        "md-5" => "md5".to_owned(),
        "rustls-webpki" => "webpki".to_owned(),
        _ => package.replace('-', "_"),
    }
}

/// Returns the modules of another package that the pure modules of the engine re-export.
pub(crate) fn pure_modules_of(kopfd: &Sources, package: &str) -> BTreeSet<String> {
    PURE.iter().flat_map(|module| kopfd.imported_from(&[module], package)).collect()
}

/// Returns what pure modules use of others and what they wait for, outside of tests.
pub(crate) fn impurities(sources: &Sources, pure: &BTreeSet<String>) -> Vec<String> {
    let layers: BTreeSet<String> = sources.layers().collect();
    let written = sources.references().filter(|reference| pure.contains(reference.layer()) && !reference.is_test);
    let impure = written.filter_map(|reference| {
        let what = match (sources.origin(&reference.target), &reference.target) {
            (Some(path), _) => is_one_of(IMPURE, &path).then(|| path.join("::")),
            (None, Target::Internal(path)) => {
                path.first().filter(|used| layers.contains(*used) && !pure.contains(*used)).cloned()
            }
            (None, Target::External(_)) => None,
        };
        what.map(|what| format!("{}: {} is pure and must not use {what}", reference.position, reference.layer()))
    });
    let waits = sources.waits().filter(|position| pure.contains(position.layer()));
    let waits = waits.map(|position| format!("{position}: {} is pure and has nothing to wait for", position.layer()));
    impure.chain(waits).collect()
}

/// Returns what listens for connections outside of these modules and of tests.
pub(crate) fn listeners(sources: &Sources, owners: &[&str]) -> Vec<String> {
    let written = sources.references().filter(|reference| !owners.contains(&reference.layer()) && !reference.is_test);
    let found = written.filter_map(|Reference { position, target, .. }| {
        let path = sources.origin(&target)?;
        is_one_of(LISTENING, &path)
            .then(|| format!("{position}: only `http` of kopfd-base listens, not {}", path.join("::")))
    });
    found.collect()
}

/// Returns the public modules of a crate that no other crate names.
pub(crate) fn needlessly_public(name: &str, sources: &Sources, users: &[&Sources]) -> Vec<String> {
    let named = users.iter().flat_map(|user| user.references()).filter_map(|reference| match reference.target {
        Target::External(path) if path.first().is_some_and(|first| first == name) => Some(path[1..].to_vec()),
        _ => None,
    });
    let named: BTreeSet<Vec<String>> = named.collect();
    let unnamed = sources.public_modules().filter(|(_, module)| !named.iter().any(|path| path.starts_with(module)));
    unnamed
        .map(|(position, module)| {
            format!("{position}: only this crate uses {}: make it `pub(crate)`", module.join("::"))
        })
        .collect()
}

/// Returns the code that hides references.
pub(crate) fn hiding(sources: &Sources) -> Vec<String> {
    sources.hiding().map(|(position, what): (Position, _)| format!("{position}: {what}")).collect()
}

/// Tells whether a path is one of a table, or below it.
fn is_one_of(table: &[&str], path: &[String]) -> bool {
    // The standard library has its names in `core` and `alloc`, too.
    let path = path.iter().enumerate().map(|(index, segment)| match segment.as_str() {
        "core" | "alloc" if index == 0 => "std",
        other => other,
    });
    let text = path.collect::<Vec<_>>().join("::");
    table.iter().any(|name| text.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with("::")))
}
