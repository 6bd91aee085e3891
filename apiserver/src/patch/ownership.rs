//! Field ownership: server-side apply, its conflicts, and the `managedFields` of objects.
//!
//! Schemas are not checked here: applied objects must conform to their kind.

mod compare;
mod entries;
mod lists;
mod manager;
mod merge;
mod set;

use serde_json::{Map, Value};

use crate::http::api_error::{ApiError, FieldError};
use entries::{Entries, Entry};
pub(crate) use lists::lists_of;
pub(crate) use manager::{Manager, Operation};
use set::Set;

/// Merges the applied object into the live one and moves the ownership of its fields.
///
/// *Guarantees*: applying the same again returns the live object unchanged. Without a live object the result is the
/// applied one.
///
/// # Errors
///
/// 409 with a cause for each field that another manager owns with another value, unless forced; 400 for `managedFields`
/// in the applied object; 500 for list items without their keys, and for the same item twice.
pub(crate) fn apply(live: Option<&Value>, applied: &Value, by: &Manager<'_>) -> Result<Value, ApiError> {
    if applied.pointer("/metadata/managedFields").is_some_and(|fields| !fields.is_null()) {
        return Err(ApiError::bad_request("metadata.managedFields must be nil"));
    }
    merge::check_items(applied, by.lists)?;
    let applied = tracked_part(applied, by);
    let mut entries = live.map(Entries::read).unwrap_or_default();
    if let Some(live) = live.filter(|_| entries.is_empty()) {
        let fields = compare::compare(Some(&by.lists.zero()), Some(live), by.lists).changed;
        entries.put(Entry::before_first_apply(by, untrack(fields, by.lists.has_status())));
    }
    let before = entries.take(by);
    let fields = untrack(compare::all(&applied, by.lists), false);
    let mut merged = live.map_or_else(|| applied.clone(), |live| merge::merge(live, &applied, by.lists));
    if let Some(before) = &before {
        let kept = entries.all_fields().union(&fields);
        merge::prune(&mut merged, &before.fields, &kept, by.lists);
    }
    let difference = compare::compare(live, Some(&merged), by.lists);
    let conflicts = entries.owners_of(&untrack(difference.changed.clone(), false));
    if !by.force && !conflicts.is_empty() {
        return Err(conflict(&conflicts));
    }
    entries.take_fields(&difference.changed);
    entries.take_fields(&difference.removed);
    let mut entry = Entry::of(by, fields);
    if difference.is_empty() {
        // A manager that changes nothing keeps the time of its last write; it has none if it only becomes a co-owner.
        entry.time = before.map(|before| before.time).unwrap_or_default();
    }
    entries.put(entry);
    entries.write(&mut merged);
    Ok(merged)
}

/// Records the written fields of a manager after a write that is not an apply.
///
/// `old` is `None` for a creation. A `managedFields` with one empty entry ends all tracking; an untracked object stays
/// so until it is applied.
pub(crate) fn record(old: Option<&Value>, new: &mut Value, by: &Manager<'_>) {
    let mut entries = match by.subresource {
        Some(_) => Entries::default(),
        None if Entries::is_reset(new) => {
            take(new);
            return;
        }
        None => Entries::read(new),
    };
    if let Some(old) = old.filter(|_| entries.is_empty()) {
        entries = Entries::read(old);
    }
    take(new);
    if old.is_some() && entries.is_empty() {
        return;
    }
    let difference = match old {
        Some(old) => compare::compare(Some(old), Some(new), by.lists),
        None => compare::compare(Some(&by.lists.zero()), Some(new), by.lists),
    };
    let changed = untrack(difference.changed, by.subresource.is_none() && by.lists.has_status());
    entries.take_fields(&difference.removed);
    entries.take_others(&changed, by);
    if !changed.is_empty() {
        let fields = entries.take(by).map(|entry| entry.fields).unwrap_or_default().union(&changed);
        entries.put(Entry::of(by, fields));
    }
    entries.limit();
    entries.write(new);
}

/// Removes and returns the `managedFields` of an object; null if it has none.
pub(crate) fn take(object: &mut Value) -> Value {
    let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
    metadata.and_then(|metadata| metadata.remove("managedFields")).unwrap_or_default()
}

/// Sets the `managedFields` of an object.
pub(crate) fn give(object: &mut Value, owners: Value) {
    if owners.as_array().is_none_or(Vec::is_empty) {
        take(object);
    } else {
        object["metadata"]["managedFields"] = owners;
    }
}

/// Returns the part that the request may write: the object without the status, or the status through its subresource.
fn tracked_part(applied: &Value, by: &Manager<'_>) -> Value {
    let Value::Object(members) = applied else { return applied.clone() };
    let status_only = by.subresource == Some("status");
    let no_status = by.subresource.is_none() && by.lists.has_status();
    let keeps = |key: &str| match key {
        "status" => !no_status,
        "apiVersion" | "kind" | "metadata" => true,
        _ => !status_only,
    };
    let mut part: Map<String, Value> =
        members.iter().filter(|(key, _)| keeps(key)).map(|(key, value)| (key.clone(), value.clone())).collect();
    if let Some(Value::Object(metadata)) = part.get_mut("metadata").filter(|_| status_only) {
        metadata.retain(|key, _| matches!(key.as_str(), "name" | "namespace" | "uid" | "resourceVersion"));
    }
    Value::Object(part)
}

/// Fields that belong to the server are never owned.
fn untrack(mut fields: Set, without_status: bool) -> Set {
    fields.remove("f:apiVersion");
    fields.remove("f:kind");
    if without_status {
        fields.remove("f:status");
    }
    if let Some(metadata) = fields.child_mut("f:metadata") {
        metadata.disown();
        for field in merge::SERVERS {
            metadata.remove(&format!("f:{field}"));
        }
    }
    fields.tidy();
    fields
}

fn conflict(conflicts: &[(String, Vec<String>)]) -> ApiError {
    let all: Vec<FieldError> = conflicts
        .iter()
        .flat_map(|(who, paths)| {
            paths
                .iter()
                .map(move |path| FieldError::new("FieldManagerConflict", path.clone(), format!("conflict with {who}")))
        })
        .collect();
    let texts: Vec<String> = conflicts
        .iter()
        .map(|(who, paths)| match paths.as_slice() {
            [path] => format!("conflict with {who}: {path}"),
            _ => format!("conflicts with {who}:\n- {}", paths.join("\n- ")),
        })
        .collect();
    let number = if all.len() == 1 { "1 conflict".to_owned() } else { format!("{} conflicts", all.len()) };
    let mut failure = ApiError::new(409, "Conflict", format!("Apply failed with {number}: {}", texts.join("\n")));
    failure.details.causes = all;
    failure
}

#[cfg(test)]
mod tests;
