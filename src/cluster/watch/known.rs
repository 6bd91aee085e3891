//! The identities of the objects that a watcher has seen, to notice when one has vanished.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use crate::object::{Body, ObjectKey, Resource};
use crate::wire::PartialMetadata;

/// The identities of objects. One takes about 140 bytes with usual names.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// Uid, namespace, name, and, for objects without a uid, the time of creation, separated by zero bytes; with the
    /// list in which the object was last seen.
    objects: HashMap<Box<str>, LastSeen>,
    listing: u32,
    key: String,
}

/// When an object was seen last.
#[derive(Debug, Clone, Copy)]
struct LastSeen {
    listing: u32,
    /// Its version then; zero if it is not a number.
    version: u64,
}

/// The identity of a known or vanished object.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Identity(Box<str>);

impl Known {
    pub(super) fn len(&self) -> usize {
        self.objects.len()
    }

    pub(super) fn identities(&self) -> impl Iterator<Item = Identity> {
        self.objects.keys().map(|key| Identity(key.clone()))
    }

    pub(super) fn remember(&mut self, head: &PartialMetadata<'_>) {
        self.set_key(head);
        let version = head.resource_version().and_then(|version| version.parse().ok()).unwrap_or_default();
        let last_seen = LastSeen { listing: self.listing, version };
        match self.objects.get_mut(self.key.as_str()) {
            Some(known) => *known = last_seen,
            None => {
                self.objects.insert(self.key.as_str().into(), last_seen);
            }
        }
    }

    /// Tells whether a newer state of an object was seen before.
    pub(super) fn is_outdated(&mut self, head: &PartialMetadata<'_>) -> bool {
        self.set_key(head);
        let version: Option<u64> = head.resource_version().and_then(|version| version.parse().ok());
        let known = self.objects.get(self.key.as_str());
        version.zip(known).is_some_and(|(version, known)| version < known.version)
    }

    /// Tells whether this is the state of an object that was seen last.
    pub(super) fn is_latest(&mut self, head: &PartialMetadata<'_>) -> bool {
        self.set_key(head);
        let version: u64 = head.resource_version().and_then(|version| version.parse().ok()).unwrap_or_default();
        self.objects.get(self.key.as_str()).is_some_and(|known| known.version == version)
    }

    pub(super) fn forget(&mut self, head: &PartialMetadata<'_>) {
        self.set_key(head);
        self.objects.remove(self.key.as_str());
    }

    pub(super) fn begin_listing(&mut self) {
        self.listing = self.listing.wrapping_add(1);
    }

    /// Returns the objects that were not seen since the list began. They stay known until forgotten, so that an
    /// interrupted report is repeated.
    pub(super) fn end_listing(&mut self) -> Vec<Identity> {
        let is_old = |last_seen: &LastSeen| last_seen.listing != self.listing;
        let mut vanished: Vec<Identity> = self
            .objects
            .iter()
            .filter(|(_, last_seen)| is_old(last_seen))
            .map(|(key, _)| Identity(key.clone()))
            .collect();
        vanished.sort_by(|one, other| one.0.cmp(&other.0));
        vanished
    }

    fn set_key(&mut self, head: &PartialMetadata<'_>) {
        self.key.clear();
        let created = head.metadata.creation_timestamp.as_deref().filter(|_| head.uid().is_none());
        let parts = [head.uid(), head.namespace(), Some(head.name()), created];
        for (index, part) in parts.into_iter().enumerate() {
            if index > 0 {
                self.key.push('\0');
            }
            self.key.push_str(part.unwrap_or_default());
        }
    }
}

impl Identity {
    /// Returns the unique id.
    pub(super) fn uid(&self) -> Option<&str> {
        self.0.split('\0').next().filter(|uid| !uid.is_empty())
    }

    /// Returns the identity as metadata.
    pub(super) fn metadata(&self) -> Value {
        let keys = ["uid", "namespace", "name", "creationTimestamp"];
        let parts = keys.into_iter().zip(self.0.split('\0')).filter(|(_, part)| !part.is_empty());
        Value::Object(parts.map(|(key, part)| (key.to_owned(), part.into())).collect::<Map<_, _>>())
    }
}

/// The identities of the objects that a watcher knew.
#[derive(Debug)]
pub struct KnownObjects(pub(super) Known);

impl KnownObjects {
    /// Returns their unique ids; for objects without one, the substitutes by which they are distinguished.
    pub fn uids(&self, resource: &Resource) -> impl Iterator<Item = String> {
        self.0.identities().map(|identity| match identity.uid() {
            Some(uid) => uid.to_owned(),
            None => ObjectKey::of(&Body::from(identified(&identity, resource))).uid,
        })
    }
}

/// Returns an object with nothing but its identity.
pub(super) fn identified(identity: &Identity, resource: &Resource) -> Value {
    json!({"apiVersion": resource.api_version(), "kind": resource.kind, "metadata": identity.metadata()})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_missing_from_a_new_list_have_vanished() {
        let object = |name: &str| format!(r#"{{"metadata":{{"name":"{name}","namespace":"n","uid":"u-{name}"}}}}"#);
        let mut known = Known::default();
        known.begin_listing();
        for name in ["a", "b", "c"] {
            known.remember(&PartialMetadata::of(&object(name)).unwrap());
        }
        assert_eq!(known.end_listing(), []);
        known.begin_listing();
        known.remember(&PartialMetadata::of(&object("b")).unwrap());
        known.forget(&PartialMetadata::of(&object("c")).unwrap());
        let vanished = known.end_listing();
        assert_eq!(vanished.len(), 1);
        assert_eq!(vanished[0].metadata(), serde_json::json!({"name": "a", "namespace": "n", "uid": "u-a"}));
    }

    #[test]
    fn a_state_before_the_last_one_is_outdated_until_the_next_listing() {
        let object = |version: u64| format!(r#"{{"metadata":{{"name":"a","uid":"u","resourceVersion":"{version}"}}}}"#);
        let mut known = Known::default();
        assert!(!known.is_outdated(&PartialMetadata::of(&object(7)).unwrap()));
        known.remember(&PartialMetadata::of(&object(7)).unwrap());
        let judged = [6, 7, 8].map(|version| known.is_outdated(&PartialMetadata::of(&object(version)).unwrap()));
        assert_eq!(judged, [true, false, false]);
        known.begin_listing();
        known.remember(&PartialMetadata::of(&object(3)).unwrap());
        assert!(!known.is_outdated(&PartialMetadata::of(&object(4)).unwrap()));
    }

    #[test]
    fn the_state_that_was_seen_last_is_the_latest_one() {
        let object = |name: &str, version: u64| {
            format!(r#"{{"metadata":{{"name":"{name}","uid":"{name}","resourceVersion":"{version}"}}}}"#)
        };
        let mut known = Known::default();
        known.remember(&PartialMetadata::of(&object("a", 7)).unwrap());
        let judged = [("a", 6), ("a", 7), ("a", 8), ("b", 7)]
            .map(|(name, version)| known.is_latest(&PartialMetadata::of(&object(name, version)).unwrap()));
        assert_eq!(judged, [false, true, false, false]);
    }

    #[test]
    fn objects_without_a_uid_are_distinguished_by_their_creation() {
        let object = |created: &str| format!(r#"{{"metadata":{{"name":"a","creationTimestamp":"{created}"}}}}"#);
        let mut known = Known::default();
        known.remember(&PartialMetadata::of(&object("1")).unwrap());
        known.remember(&PartialMetadata::of(&object("2")).unwrap());
        assert_eq!(known.len(), 2);
    }
}
