//! Sets of fields in the form of `fieldsV1`: a tree whose nodes are fields (`f:`), items with keys (`k:`) and values of
//! sets (`v:`).

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// A set of fields below a field.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Set {
    /// Whether the field itself is in the set, not only its parts.
    own: bool,
    below: BTreeMap<String, Set>,
}

impl Set {
    /// Returns the set of the field itself.
    pub(super) fn leaf() -> Self {
        Self { own: true, below: BTreeMap::new() }
    }

    /// Reads `fieldsV1`; `None` for other values.
    pub(super) fn read(fields: &Value) -> Option<Self> {
        fn node(value: &Value) -> Option<Set> {
            let members = value.as_object()?;
            let below =
                members.iter().filter(|(key, _)| *key != ".").map(|(key, value)| Some((key.clone(), node(value)?)));
            Some(Set { own: members.is_empty() || members.contains_key("."), below: below.collect::<Option<_>>()? })
        }
        let mut set = node(fields)?;
        set.own = false;
        Some(set)
    }

    /// Writes `fieldsV1`.
    pub(super) fn write(&self) -> Value {
        let mut members: Map<String, Value> = self.below.iter().map(|(key, set)| (key.clone(), set.write())).collect();
        if self.own && !members.is_empty() {
            members.insert(".".to_owned(), Value::Object(Map::new()));
        }
        Value::Object(members)
    }

    /// Tells whether the set is empty.
    pub(super) fn is_empty(&self) -> bool {
        !self.own && self.below.values().all(Self::is_empty)
    }

    /// Adds the field itself to the set.
    pub(super) fn own(&mut self) {
        self.own = true;
    }

    /// Removes the field itself from the set.
    pub(super) fn disown(&mut self) {
        self.own = false;
    }

    /// Adds a set below the field.
    pub(super) fn insert(&mut self, part: impl Into<String>, set: Self) {
        self.below.insert(part.into(), set);
    }

    /// Removes a part and everything below it.
    pub(super) fn remove(&mut self, part: &str) {
        self.below.remove(part);
    }

    /// Returns the set below a part.
    pub(super) fn child(&self, part: &str) -> Option<&Self> {
        self.below.get(part)
    }

    /// Returns the set below a part, to change it.
    pub(super) fn child_mut(&mut self, part: &str) -> Option<&mut Self> {
        self.below.get_mut(part)
    }

    /// Returns the parts of the set.
    pub(super) fn parts(&self) -> impl Iterator<Item = (&String, &Self)> {
        self.below.iter()
    }

    /// Removes empty branches.
    pub(super) fn tidy(&mut self) {
        self.below.values_mut().for_each(Self::tidy);
        self.below.retain(|_, set| !set.is_empty());
    }

    /// Returns the union of both sets.
    pub(super) fn union(&self, other: &Self) -> Self {
        let mut below = self.below.clone();
        for (part, set) in &other.below {
            let joined = below.get(part).map_or_else(|| set.clone(), |own| own.union(set));
            below.insert(part.clone(), joined);
        }
        Self { own: self.own || other.own, below }
    }

    /// Returns the difference of this set and the other.
    pub(super) fn without(&self, other: &Self) -> Self {
        let below = self.below.iter().map(|(part, set)| {
            let left = other.below.get(part).map_or_else(|| set.clone(), |other| set.without(other));
            (part.clone(), left)
        });
        let mut left = Self { own: self.own && !other.own, below: below.collect() };
        left.tidy();
        left
    }

    /// Returns the intersection of both sets.
    pub(super) fn common(&self, other: &Self) -> Self {
        let below =
            self.below.iter().filter_map(|(part, set)| Some((part.clone(), set.common(other.below.get(part)?))));
        let mut common = Self { own: self.own && other.own, below: below.collect() };
        common.tidy();
        common
    }

    /// Returns the paths in the form of conflict messages, such as `.spec.items[k="x"].v`.
    pub(super) fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        self.collect(String::new(), &mut paths);
        paths
    }

    fn collect(&self, path: String, paths: &mut Vec<String>) {
        for (part, set) in &self.below {
            set.collect(format!("{path}{}", words(part)), paths);
        }
        if self.own {
            paths.push(path);
        }
    }
}

fn words(part: &str) -> String {
    match part.split_once(':') {
        Some(("f", name)) => format!(".{name}"),
        Some(("v", value)) => format!("[={value}]"),
        Some(("i", index)) => format!("[{index}]"),
        Some(("k", keys)) => {
            let keys: Map<String, Value> = serde_json::from_str(keys).unwrap_or_default();
            let pairs: Vec<String> = keys.iter().map(|(key, value)| format!("{key}={value}")).collect();
            format!("[{}]", pairs.join(","))
        }
        _ => format!(".{part}"),
    }
}
