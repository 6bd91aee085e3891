//! The indexes of an operator: the engine fills them, scripts read them on all threads.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::RwLock;
use serde_json::Value;

use super::plain::Plain;
use crate::handling::index::{Entries, Index, Member};
use crate::handling::index_key::Key;

/// The entries of one object in one index.
pub type IndexEntries = Vec<(Key, Plain)>;

/// The indexes of one operator by their names.
#[derive(Debug, Default)]
pub struct Indexes(BTreeMap<String, Arc<SharedIndex>>);

impl Indexes {
    /// Returns empty indexes with these names.
    pub fn new(names: &[String]) -> Self {
        Self(names.iter().map(|name| (name.clone(), Arc::new(SharedIndex::new(name)))).collect())
    }

    /// Returns indexes with these names: those that are kept are shared with earlier ones, others are empty.
    #[must_use]
    pub fn next(&self, names: &[String], is_kept: impl Fn(&str) -> bool) -> Self {
        let one = |name: &String| {
            let kept = self.0.get(name).filter(|_| is_kept(name));
            (name.clone(), kept.map_or_else(|| Arc::new(SharedIndex::new(name)), Arc::clone))
        };
        Self(names.iter().map(one).collect())
    }

    /// Returns an index.
    pub fn get(&self, name: &str) -> Option<&Arc<SharedIndex>> {
        self.0.get(name)
    }

    /// Returns all indexes in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = &SharedIndex> {
        self.0.values().map(AsRef::as_ref)
    }

    /// Returns references to all indexes.
    pub fn shared(&self) -> impl Iterator<Item = &Arc<SharedIndex>> {
        self.0.values()
    }

    /// Tells whether there are no indexes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Removes an object from all indexes.
    pub fn remove(&self, uid: &str) {
        self.iter().for_each(|index| index.remove(uid));
    }
}

/// One index.
#[derive(Debug)]
pub struct SharedIndex {
    name: Arc<str>,
    index: RwLock<Index<Plain>>,
}

impl SharedIndex {
    fn new(name: &str) -> Self {
        Self { name: Arc::from(name), index: RwLock::default() }
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Replaces all entries of an object.
    pub fn replace(&self, member: &Member, entries: IndexEntries) {
        self.index.write().replace(member, entries);
    }

    /// Removes all entries of an object.
    pub fn remove(&self, uid: &str) {
        self.index.write().remove(uid);
    }

    /// Returns a snapshot of the current entries.
    pub fn entries(&self) -> Entries<Plain> {
        self.index.read().entries()
    }

    /// Returns the number of objects with entries.
    pub fn objects(&self) -> usize {
        self.index.read().objects()
    }

    /// Returns the number of keys.
    pub fn keys(&self) -> usize {
        self.index.read().entries().len()
    }

    /// Returns the content as a JSON object: the values of each key, which is written as JSON if it is not a text.
    pub fn to_value(&self) -> Value {
        let entries = self.entries();
        let values = |key: &Key| entries.get(key).map(Plain::to_value).collect::<Value>();
        Value::Object(entries.keys().map(|key| (key.to_string(), values(key))).collect())
    }
}
