//! Merges an applied object into the live one, and removes fields that are no longer applied.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::compare::{item_name, parts};
use super::lists::{ITEM, Lists, Topology};
use super::set::Set;
use crate::http::api_error::ApiError;

/// The metadata fields of the server.
pub(super) const SERVERS: &[&str] = &[
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "selfLink",
    "managedFields",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
];

/// Merges the applied document into the live object: maps and keyed lists are merged, other values are replaced.
pub(super) fn merge(live: &Value, applied: &Value, lists: &dyn Lists) -> Value {
    let mut merged = join(Some(live), applied, &mut Vec::new(), lists);
    // Tools send empty server fields, such as `creationTimestamp: null`, without intent.
    if let (Some(metadata), Some(old)) =
        (merged.get_mut("metadata").and_then(Value::as_object_mut), live["metadata"].as_object())
    {
        for field in
            SERVERS.iter().filter(|field| metadata.get(**field).is_some_and(Value::is_null)).collect::<Vec<_>>()
        {
            match old.get(*field) {
                Some(value) => metadata.insert((*field).to_string(), value.clone()),
                None => metadata.remove(*field),
            };
        }
    }
    merged
}

fn join<'v>(live: Option<&'v Value>, applied: &'v Value, path: &mut Vec<&'v str>, lists: &dyn Lists) -> Value {
    let topology = lists.topology(path);
    match (live, applied, &topology) {
        (Some(Value::Object(old)), Value::Object(new), Topology::Granular) => {
            let mut merged = old.clone();
            for (key, value) in new {
                path.push(key);
                merged.insert(key.clone(), join(old.get(key), value, path, lists));
                path.pop();
            }
            Value::Object(merged)
        }
        (Some(Value::Array(old)), Value::Array(new), Topology::Set | Topology::Keyed(_)) => {
            join_lists(old, new, &topology, path, lists).unwrap_or_else(|| applied.clone())
        }
        // A null over a value with separately owned parts leaves the parts untouched.
        (Some(value), Value::Null, _) if parts(Some(value), &topology).is_some_and(|parts| !parts.is_empty()) => {
            value.clone()
        }
        _ => applied.clone(),
    }
}

/// Common items get the applied order; items of only the live list keep their place between them. `None` for items
/// without their keys.
fn join_lists<'v>(
    old: &'v [Value],
    new: &'v [Value],
    topology: &Topology,
    path: &mut Vec<&'v str>,
    lists: &dyn Lists,
) -> Option<Value> {
    let names = |list: &[Value]| list.iter().map(|item| item_name(item, topology)).collect::<Option<Vec<String>>>();
    let (old_names, new_names) = (names(old)?, names(new)?);
    let places: BTreeMap<&String, usize> = old_names.iter().zip(0..).collect();
    let applied: BTreeSet<&String> = new_names.iter().collect();
    let mut merged = Vec::new();
    let (mut left, mut right) = (0, 0);
    path.push(ITEM);
    while left < old.len() || right < new.len() {
        let next_of_both = new_names[right..].iter().find(|name| places.contains_key(name));
        match old_names.get(left) {
            Some(name) if !applied.contains(name) => {
                merged.push(old[left].clone());
                left += 1;
            }
            // Items in another order are taken in the applied order, or were taken already.
            Some(name) if next_of_both != Some(name) => left += 1,
            name => {
                let place = places.get(&new_names[right]).copied();
                merged.push(join(place.map(|place| &old[place]), &new[right], path, lists));
                left += usize::from(name == Some(&new_names[right]));
                right += 1;
            }
        }
    }
    path.pop();
    Some(Value::Array(merged))
}

/// Removes fields that the manager applied earlier and that no manager owns.
pub(super) fn prune(object: &mut Value, before: &Set, kept: &Set, lists: &dyn Lists) {
    let mut kept = kept.clone();
    if before.child("f:metadata").is_some() && kept.child("f:metadata").is_none() {
        // The metadata always exists.
        kept.insert("f:metadata", Set::leaf());
    }
    remove(object, before, &kept, &mut Vec::new(), lists);
}

/// A value that loses its last part is removed, even if a value is required.
fn remove(value: &mut Value, before: &Set, kept: &Set, path: &mut Vec<String>, lists: &dyn Lists) {
    let topology = lists.topology(&path.iter().map(String::as_str).collect::<Vec<_>>());
    let is_something = match (&mut *value, &topology) {
        (Value::Object(members), Topology::Granular) => {
            let found = members.len();
            for (part, before) in before.parts() {
                let Some(name) = part.strip_prefix("f:") else { continue };
                match (kept.child(part), members.get_mut(name)) {
                    (Some(kept), Some(value)) => {
                        path.push(name.to_owned());
                        remove(value, before, kept, path, lists);
                        path.pop();
                    }
                    (None, Some(_)) => drop(members.remove(name)),
                    (_, None) => {}
                }
            }
            found == 0 || !members.is_empty()
        }
        (Value::Array(list), Topology::Set | Topology::Keyed(_)) => {
            let found = list.len();
            list.retain(|item| {
                item_name(item, &topology)
                    .is_none_or(|name| before.child(&name).is_none() || kept.child(&name).is_some())
            });
            path.push(ITEM.to_owned());
            for item in list.iter_mut() {
                let Some(name) = item_name(item, &topology) else { continue };
                if let (Some(before), Some(kept)) = (before.child(&name), kept.child(&name)) {
                    remove(item, before, kept, path, lists);
                }
            }
            path.pop();
            found == 0 || !list.is_empty()
        }
        _ => true,
    };
    if !is_something {
        *value = Value::Null;
    }
}

/// Refuses lists with duplicate items, and items without their keys.
pub(super) fn check_items(applied: &Value, lists: &dyn Lists) -> Result<(), ApiError> {
    check(applied, &mut Vec::new(), lists)
}

fn check<'v>(value: &'v Value, path: &mut Vec<&'v str>, lists: &dyn Lists) -> Result<(), ApiError> {
    let topology = lists.topology(path);
    let broken = |path: &[&str], what: &str| {
        let text = format!("failed to create typed patch object: .{}: {what}", path.join(".").replace(".[]", "[]"));
        ApiError::new(500, "", text)
    };
    match (value, &topology) {
        (Value::Object(members), Topology::Granular) => {
            for (key, value) in members {
                path.push(key);
                check(value, path, lists)?;
                path.pop();
            }
        }
        (Value::Array(list), Topology::Set | Topology::Keyed(_)) => {
            let Some(parts) = parts(Some(value), &topology) else {
                return Err(broken(path, "an item has none of the keys of its list"));
            };
            if matches!(topology, Topology::Set) && list.iter().any(Value::is_null) {
                return Err(broken(path, "a member of a set is null"));
            }
            if parts.len() < list.len() {
                return Err(broken(path, "duplicate entries for key"));
            }
            path.push(ITEM);
            for item in list {
                check(item, path, lists)?;
            }
            path.pop();
        }
        _ => {}
    }
    Ok(())
}
