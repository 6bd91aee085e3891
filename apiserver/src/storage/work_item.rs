//! What writes leave to be done by the controllers afterwards.

use serde_json::Value;

use crate::storage::resource::{Key, Resource, owners, uid_of};

/// The finalizer of an owner that waits for its dependents.
pub const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer of an owner whose dependents are to be left alone.
pub const ORPHAN: &str = "orphan";
/// The finalizer of a definition whose objects are to be removed first.
pub const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// One thing to be looked at by the controllers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkItem {
    /// An object with owners: are they there?
    Owned(Resource, Key),
    /// The objects that are owned by a unique id, which has gone or is going.
    Owner(String),
    /// The objects with an owner of a kind that is known since a moment.
    Kind {
        /// The group of the kind.
        group: String,
        /// The kind.
        kind: String,
    },
    /// A namespace that came, is going, or has lost content while going.
    Namespace(String),
    /// A definition that is going, by its name.
    Definition(String),
    /// An event that was written, and will not be kept for ever.
    Event(Key),
}

impl WorkItem {
    /// Returns what a write leaves to be done.
    pub fn from_write(resource: &Resource, key: &Key, old: Option<&Value>, new: Option<&Value>) -> Vec<Self> {
        let mut queue = Vec::new();
        let leaving = |value: &Value| value["metadata"]["deletionTimestamp"].is_string();
        match (old, new) {
            (Some(old), None) => {
                queue.push(Self::Owner(uid_of(old).to_owned()));
                // An owner may wait for this object.
                queue.extend(owners(old).map(|uid| Self::Owner(uid.to_owned())));
                if !key.0.is_empty() {
                    queue.push(Self::Namespace(key.0.clone()));
                }
                if !resource.group.is_empty() {
                    queue.push(Self::Definition(format!("{}.{}", resource.plural, resource.group)));
                }
            }
            (old, Some(new)) => {
                let has_new_owners = old.is_none_or(|old| old["metadata"]["ownerReferences"] != new["metadata"]["ownerReferences"]);
                if has_new_owners {
                    if owners(new).next().is_some() {
                        queue.push(Self::Owned(resource.clone(), key.clone()));
                    }
                    // A former owner may have waited for this object.
                    queue.extend(old.into_iter().flat_map(owners).map(|uid| Self::Owner(uid.to_owned())));
                }
                if leaving(new) {
                    queue.push(Self::Owner(uid_of(new).to_owned()));
                    if !key.0.is_empty() {
                        queue.push(Self::Namespace(key.0.clone()));
                    }
                }
                match (resource.group.as_str(), resource.plural.as_str()) {
                    ("", "events") => queue.push(Self::Event(key.clone())),
                    ("", "namespaces") if leaving(new) || old.is_none() => queue.push(Self::Namespace(key.1.clone())),
                    ("apiextensions.k8s.io", "customresourcedefinitions") if leaving(new) => {
                        queue.push(Self::Definition(key.1.clone()));
                    }
                    _ => {}
                }
            }
            (None, None) => {}
        }
        queue
    }
}

/// Tells whether an object has a finalizer.
pub fn has_finalizer(value: &Value, finalizer: &str) -> bool {
    value["metadata"]["finalizers"].as_array().is_some_and(|all| all.iter().any(|one| one == finalizer))
}
