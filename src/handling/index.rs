//! The structure of one index: the values of each key, and the keys of each object.
//!
//! The values are in a persistent map: a snapshot of them costs nothing, and never changes. Keys and objects are
//! sorted, so that the same objects give the same order, whichever was indexed first.

use std::borrow::Borrow;
use std::collections::{BTreeMap, HashMap};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use imbl::OrdMap;

use super::index_key::Key;
use crate::object::{Body, ObjectKey};

/// The identity of an indexed object: namespace, name and uid, separated by zero bytes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Member(Arc<str>);

impl Member {
    /// Returns the identity of an object.
    pub fn of(body: &Body) -> Self {
        let ObjectKey { namespace, name, uid } = ObjectKey::of(body);
        Self(format!("{}\0{name}\0{uid}", namespace.unwrap_or_default()).into())
    }

    /// Returns the unique id.
    pub fn uid(&self) -> &str {
        self.0.rsplit('\0').next().unwrap_or_default()
    }
}

/// A member that is found by its uid: of a vanished object, nothing else may be known.
#[derive(Debug, Clone)]
struct ByUid(Member);

impl Borrow<str> for ByUid {
    fn borrow(&self) -> &str {
        self.0.uid()
    }
}

impl PartialEq for ByUid {
    fn eq(&self, other: &Self) -> bool {
        self.0.uid() == other.0.uid()
    }
}

impl Eq for ByUid {}

impl Hash for ByUid {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.uid().hash(state);
    }
}

/// One index.
#[derive(Debug, Clone)]
pub struct Index<V> {
    entries: Entries<V>,
    /// The keys of each object in their order. An object without entries is not in it.
    keys: HashMap<ByUid, Box<[Key]>>,
}

/// The values by their keys. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Entries<V>(OrdMap<Key, Values<V>>);

/// The values of one key: at least one.
#[derive(Debug, Clone)]
enum Values<V> {
    One(Member, V),
    Many(OrdMap<Member, V>),
}

impl<V> Default for Index<V> {
    fn default() -> Self {
        Self { entries: Entries::default(), keys: HashMap::new() }
    }
}

impl<V> Default for Entries<V> {
    fn default() -> Self {
        Self(OrdMap::new())
    }
}

impl<V: Clone + PartialEq> Index<V> {
    /// Replaces all entries of an object. Of several values with one key, the last one is kept.
    pub fn replace(&mut self, member: &Member, values: impl IntoIterator<Item = (Key, V)>) {
        let values: BTreeMap<Key, V> = values.into_iter().collect();
        // Known members and keys are used again: each is in memory once.
        let (member, before) = match self.keys.remove_entry(member.uid()) {
            Some((known, keys)) => (known.0, keys),
            None => (member.clone(), Box::default()),
        };
        for key in before.iter().filter(|key| !values.contains_key(key)) {
            self.entries.remove(key, &member);
        }
        let mut keys = Vec::with_capacity(values.len());
        for (key, value) in values {
            let key = before.binary_search(&key).map_or(key, |position| before[position].clone());
            self.entries.insert(&key, &member, value);
            keys.push(key);
        }
        if !keys.is_empty() {
            self.keys.insert(ByUid(member), keys.into_boxed_slice());
        }
    }

    /// Removes all entries of an object.
    pub fn remove(&mut self, uid: &str) {
        if let Some((member, keys)) = self.keys.remove_entry(uid) {
            keys.iter().for_each(|key| self.entries.remove(key, &member.0));
        }
    }

    /// Returns a snapshot of the current entries.
    pub fn entries(&self) -> Entries<V> {
        self.entries.clone()
    }

    /// Returns the number of objects with entries.
    pub fn objects(&self) -> usize {
        self.keys.len()
    }
}

impl<V: Clone + PartialEq> Entries<V> {
    /// Returns the values of a key, sorted by the namespaces and names of their objects.
    pub fn get(&self, key: &Key) -> impl Iterator<Item = &V> {
        let (one, many) = match self.0.get(key) {
            None => (None, None),
            Some(Values::One(_, value)) => (Some(value), None),
            Some(Values::Many(values)) => (None, Some(values.values())),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }

    /// Tells whether a key has values.
    pub fn contains(&self, key: &Key) -> bool {
        self.0.contains_key(key)
    }

    /// Returns the keys in their order.
    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        self.0.keys()
    }

    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Tells whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn insert(&mut self, key: &Key, member: &Member, value: V) {
        // An equal value is not written again, so that snapshots continue to share it.
        if self.value(key, member) == Some(&value) {
            return;
        }
        match self.0.get_mut(key) {
            Some(values) => values.insert(member, value),
            None => drop(self.0.insert(key.clone(), Values::One(member.clone(), value))),
        }
    }

    fn value(&self, key: &Key, member: &Member) -> Option<&V> {
        match self.0.get(key)? {
            Values::One(known, value) => (known == member).then_some(value),
            Values::Many(values) => values.get(member),
        }
    }

    fn remove(&mut self, key: &Key, member: &Member) {
        let is_last = match self.0.get_mut(key) {
            Some(Values::One(known, _)) => known == member,
            Some(values) => {
                values.remove(member);
                false
            }
            None => false,
        };
        if is_last {
            self.0.remove(key);
        }
    }
}

impl<V: Clone> Values<V> {
    fn insert(&mut self, member: &Member, value: V) {
        match self {
            Self::One(known, present) if known == member => *present = value,
            Self::One(known, present) => {
                let both = [(known.clone(), present.clone()), (member.clone(), value)];
                *self = Self::Many(both.into_iter().collect());
            }
            Self::Many(values) => drop(values.insert(member.clone(), value)),
        }
    }

    fn remove(&mut self, member: &Member) {
        let Self::Many(values) = self else { return };
        values.remove(member);
        if values.len() == 1
            && let Some((member, value)) = values.iter().next()
        {
            *self = Self::One(member.clone(), value.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn member(name: &str) -> Member {
        Member::of(&Body::from(json!({"metadata": {"namespace": "ns", "name": name, "uid": format!("uid-{name}")}})))
    }

    fn key(value: &Value) -> Key {
        Key::of(value).unwrap()
    }

    fn put(index: &mut Index<Value>, name: &str, values: &[(Value, Value)]) {
        index.replace(&member(name), values.iter().map(|(one, value)| (key(one), value.clone())));
    }

    /// Returns all entries, as `key: values`.
    fn shown(entries: &Entries<Value>) -> Vec<String> {
        entries.keys().map(|key| format!("{key}: {}", entries.get(key).cloned().collect::<Value>())).collect()
    }

    #[test]
    fn entries_of_an_object_are_replaced_as_a_whole() {
        let mut index = Index::default();
        put(&mut index, "b", &[(json!("x"), json!(1)), (json!("y"), json!(2))]);
        put(&mut index, "a", &[(json!("x"), json!(null))]);
        assert_eq!(shown(&index.entries()), ["x: [null,1]", "y: [2]"]);
        put(&mut index, "b", &[(json!("x"), json!(3)), (json!("z"), json!(4))]);
        assert_eq!(shown(&index.entries()), ["x: [null,3]", "z: [4]"]);
        put(&mut index, "b", &[]);
        assert_eq!((shown(&index.entries()), index.objects()), (vec!["x: [null]".to_owned()], 1));
        index.remove("uid-a");
        index.remove("uid-a");
        assert!(index.entries().is_empty() && index.objects() == 0 && index.keys.is_empty());
    }

    #[test]
    fn equal_keys_are_one_key_and_the_last_value_is_kept() {
        let mut index = Index::default();
        put(&mut index, "a", &[(json!(1), json!("first")), (json!(true), json!("last"))]);
        assert_eq!(index.entries().get(&key(&json!(1.0))).collect::<Vec<_>>(), [&json!("last")]);
        assert_eq!(index.entries().len(), 1);
        put(&mut index, "b", &[(json!(["n", 1]), json!("composite")), (json!(null), json!("flat"))]);
        assert_eq!(shown(&index.entries()), ["null: [\"flat\"]", "true: [\"last\"]", "[\"n\",1]: [\"composite\"]"]);
        assert!(
            index.entries().contains(&key(&json!(["n", true]))) && !index.entries().contains(&key(&json!(["n", "1"])))
        );
        assert_eq!(index.entries().get(&key(&json!("nothing"))).count(), 0);
    }

    #[test]
    fn a_snapshot_never_changes() {
        let mut index = Index::default();
        for number in 0..100 {
            put(&mut index, &format!("{number:03}"), &[(json!("all"), json!(number)), (json!(number), json!(1))]);
        }
        let snapshot = index.entries();
        for number in 0..100 {
            index.remove(&format!("uid-{number:03}"));
        }
        assert!(index.entries().is_empty());
        assert_eq!(snapshot.len(), 101);
        assert_eq!(snapshot.get(&key(&json!("all"))).count(), 100);
    }

    #[test]
    fn values_are_sorted_by_namespace_and_name() {
        let mut index = Index::default();
        for (namespace, name) in [("b", "a"), ("a-b", "a"), ("a", "z"), ("a", "b")] {
            let metadata = json!({"namespace": namespace, "name": name, "uid": format!("{namespace}{name}")});
            index.replace(
                &Member::of(&Body::from(json!({"metadata": metadata}))),
                [(Key::Null, json!(format!("{namespace}/{name}")))],
            );
        }
        assert_eq!(shown(&index.entries()), ["null: [\"a/b\",\"a/z\",\"a-b/a\",\"b/a\"]"]);
    }

    proptest! {
        /// After any changes, an index equals a new one with the last entries of each object.
        #[test]
        fn an_index_equals_a_fresh_one(changes in prop::collection::vec((0u8..6, prop::collection::vec((0u8..5, 0u8..3), 0..4)), 0..40)) {
            let mut index = Index::default();
            let mut last = BTreeMap::new();
            for (object, values) in changes {
                let name = object.to_string();
                if values.is_empty() {
                    index.remove(&format!("uid-{name}"));
                } else {
                    put(&mut index, &name, &values.iter().map(|(key, value)| (json!(key), json!(value))).collect::<Vec<_>>());
                }
                last.insert(name, values);
            }
            let mut fresh = Index::default();
            for (name, values) in last.into_iter().rev() {
                put(&mut fresh, &name, &values.iter().map(|(key, value)| (json!(key), json!(value))).collect::<Vec<_>>());
            }
            prop_assert_eq!(shown(&index.entries()), shown(&fresh.entries()));
            prop_assert_eq!(index.objects(), fresh.objects());
        }
    }
}
