//! Compares the fields of two states of an object, and lists the fields of a document.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::lists::{ITEM, Lists, Topology};
use super::set::Set;

/// The differences between two states.
#[derive(Debug, Default)]
pub(super) struct Difference {
    /// The fields that are new or have another value.
    pub changed: Set,
    /// The removed fields.
    pub removed: Set,
}

impl Difference {
    /// Tells whether the states are the same.
    pub(super) fn is_empty(&self) -> bool {
        self.changed.is_empty() && self.removed.is_empty()
    }
}

/// Compares two states of an object, without its `managedFields`.
pub(super) fn compare(old: Option<&Value>, new: Option<&Value>, lists: &dyn Lists) -> Difference {
    let mut difference = walk(old, new, &mut Vec::new(), lists);
    for set in [&mut difference.changed, &mut difference.removed] {
        set.disown();
        if let Some(metadata) = set.child_mut("f:metadata") {
            metadata.remove("f:managedFields");
        }
        set.tidy();
    }
    difference
}

fn walk<'v>(old: Option<&'v Value>, new: Option<&'v Value>, path: &mut Vec<&'v str>, lists: &dyn Lists) -> Difference {
    let mut difference = Difference::default();
    if old == new {
        return difference;
    }
    let topology = lists.topology(path);
    let (before, after) = (parts(old, &topology), parts(new, &topology));
    if before.is_none() && after.is_none() {
        // A leaf, or a leaf that replaces another value.
        if new.is_some() {
            difference.changed.own();
        } else {
            difference.removed.own();
        }
        return difference;
    }
    // A map or list itself is new if there was no value, or one of another type.
    // A null counts as present, without parts.
    let is_replaced = old.is_some_and(|old| !old.is_null()) && before.is_none() || after.is_none();
    if new.is_some() && (is_replaced || old.is_none()) {
        difference.changed.own();
    }
    if new.is_none() {
        difference.removed.own();
    }
    let (before, after) = (before.unwrap_or_default(), after.unwrap_or_default());
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    for name in names {
        let (old, new) = (before.get(name), after.get(name));
        let (step, _) = old.or(new).expect("one of them has the part");
        path.push(step);
        let mut inner = walk(old.map(|(_, value)| *value), new.map(|(_, value)| *value), path, lists);
        path.pop();
        if step == &ITEM {
            // The items of lists are members, too.
            match (old, new) {
                (None, Some(_)) => inner.changed.own(),
                (Some(_), None) => inner.removed.own(),
                _ => {}
            }
        }
        for (set, below) in [(&mut difference.changed, inner.changed), (&mut difference.removed, inner.removed)] {
            if !below.is_empty() {
                set.insert(name.clone(), below);
            }
        }
    }
    difference
}

/// A part of a value: its path step, and its value.
type Part<'v> = (&'v str, &'v Value);

/// Returns the parts with separate owners, by their names in `fieldsV1`; `None` for values that are owned as a whole.
pub(super) fn parts<'v>(value: Option<&'v Value>, topology: &Topology) -> Option<BTreeMap<String, Part<'v>>> {
    match (value?, topology) {
        (Value::Object(members), Topology::Granular) => {
            Some(members.iter().map(|(key, value)| (format!("f:{key}"), (key.as_str(), value))).collect())
        }
        (Value::Array(list), Topology::Set | Topology::Keyed(_)) => {
            list.iter().map(|item| Some((item_name(item, topology)?, (ITEM, item)))).collect()
        }
        _ => None,
    }
}

/// Returns the name of a list's item in `fieldsV1`; `None` for an item without its keys.
pub(super) fn item_name(item: &Value, topology: &Topology) -> Option<String> {
    match topology {
        Topology::Set => Some(format!("v:{item}")),
        Topology::Keyed(keys) => {
            let members = item.as_object()?;
            let known: Map<String, Value> = keys
                .iter()
                .filter_map(|(key, default)| Some((key.clone(), members.get(key).or(default.as_ref())?.clone())))
                .collect();
            if known.is_empty() { None } else { Some(format!("k:{}", Value::Object(known))) }
        }
        Topology::Atomic | Topology::Granular => None,
    }
}

/// Returns all fields of an applied document: its leaves, list items, and keys of free maps.
pub(super) fn all(document: &Value, lists: &dyn Lists) -> Set {
    let mut set = fields(document, &mut Vec::new(), lists);
    set.disown();
    set.tidy();
    set
}

fn fields<'v>(value: &'v Value, path: &mut Vec<&'v str>, lists: &dyn Lists) -> Set {
    let Some(parts) = parts(Some(value), &lists.topology(path)) else { return Set::leaf() };
    let mut set = Set::default();
    for (name, (step, value)) in parts {
        path.push(step);
        let mut below = fields(value, path, lists);
        let is_empty_map = value.as_object().is_some_and(Map::is_empty);
        if step == ITEM || is_empty_map || !lists.is_declared(path) {
            below.own();
        }
        path.pop();
        set.insert(name, below);
    }
    set
}
