//! Work items for the controllers after writes.

use serde_json::Value;

use crate::storage::resource::{Key, Resource, owners, uid_of};

/// The finalizer of an owner that waits for its dependents.
pub const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer of an owner whose dependents are not deleted.
pub const ORPHAN: &str = "orphan";
/// The finalizer of a definition whose objects are deleted first.
pub const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// One work item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkItem {
    /// An object with owners, which may not exist.
    Owned(Resource, Key),
    /// The dependents of an owner that is deleted or being deleted, by its unique id.
    Owner(String),
    /// The objects with an owner of a newly known kind.
    Kind {
        /// The group of the kind.
        group: String,
        /// The kind.
        kind: String,
    },
    /// A namespace that was created, is being deleted, or has lost an object while being deleted.
    Namespace(String),
    /// A definition that is being deleted, by its name.
    Definition(String),
    /// A written event, which will expire.
    Event(Key),
}

impl WorkItem {
    /// Returns the work items of a write.
    pub fn from_write(resource: &Resource, key: &Key, old: Option<&Value>, new: Option<&Value>) -> Vec<Self> {
        let mut queue = Vec::new();
        let terminating = |value: &Value| value["metadata"]["deletionTimestamp"].is_string();
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
                let has_new_owners =
                    old.is_none_or(|old| old["metadata"]["ownerReferences"] != new["metadata"]["ownerReferences"]);
                if has_new_owners {
                    if owners(new).next().is_some() {
                        queue.push(Self::Owned(resource.clone(), key.clone()));
                    }
                    // A former owner may have waited for this object.
                    queue.extend(old.into_iter().flat_map(owners).map(|uid| Self::Owner(uid.to_owned())));
                }
                if terminating(new) {
                    queue.push(Self::Owner(uid_of(new).to_owned()));
                    if !key.0.is_empty() {
                        queue.push(Self::Namespace(key.0.clone()));
                    }
                }
                match (resource.group.as_str(), resource.plural.as_str()) {
                    ("", "events") => queue.push(Self::Event(key.clone())),
                    ("", "namespaces") if terminating(new) || old.is_none() => {
                        queue.push(Self::Namespace(key.1.clone()));
                    }
                    ("apiextensions.k8s.io", "customresourcedefinitions") if terminating(new) => {
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
