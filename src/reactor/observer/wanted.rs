//! Which watches an operator should have.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::object::Resource;

use super::declared::Scope;

/// A kind in one namespace, or in all.
pub(super) type WatchKey = (Arc<Resource>, Option<String>);

/// Returns which watches there should be.
pub(super) fn wanted(
    watched: &BTreeSet<Arc<Resource>>,
    scope: &Scope,
    namespaces: &BTreeSet<String>,
) -> BTreeSet<WatchKey> {
    let mut wanted = BTreeSet::new();
    for resource in watched {
        match scope {
            Scope::Namespaces(_) if resource.namespaced => {
                wanted.extend(namespaces.iter().map(|namespace| (Arc::clone(resource), Some(namespace.clone()))));
            }
            // As in kopf, an operator limited to namespaces watches cluster-scoped kinds only while it serves a
            // namespace.
            Scope::Namespaces(_) if namespaces.is_empty() => {}
            _ => {
                wanted.insert((Arc::clone(resource), None));
            }
        }
    }
    wanted
}

/// Returns the watch of the same objects in another version.
pub(super) fn other_version(watches: &BTreeSet<WatchKey>, (resource, namespace): &WatchKey) -> Option<WatchKey> {
    let is_same = |(other, other_namespace): &&WatchKey| {
        (&other.group, &other.plural, other_namespace) == (&resource.group, &resource.plural, namespace)
            && other.version != resource.version
    };
    watches.iter().find(is_same).cloned()
}
