//! The last seen state of an object, and the operator's writes since then, so that these are not taken for changes by
//! others.

use serde_json::{Map, Value};

use crate::object::diff::{Item, Op};
use crate::object::{Body, Patch, Transform};

/// The last seen state of an object, with the operator's later writes.
#[derive(Debug)]
pub(super) struct LastSeen {
    /// The object.
    pub body: Body,
    own: Vec<OwnWrite>,
}

/// A field that the operator has written.
#[derive(Debug, Clone)]
struct OwnWrite {
    path: Vec<String>,
    value: Value,
    /// The version that includes the write; `None` until it is known. Cycles and timers may write at the same time.
    version: Option<u64>,
}

impl LastSeen {
    /// Returns the known state after an event. Writes are kept until the object includes them.
    pub(super) fn after(before: Option<&Self>, body: &Body) -> Self {
        let seen = body.resource_version().and_then(number);
        let is_ahead = |own: &&OwnWrite| own.version.is_none_or(|version| seen.is_some_and(|seen| seen < version));
        let own = before.into_iter().flat_map(|before| &before.own).filter(is_ahead).cloned();
        Self { body: body.clone(), own: own.collect() }
    }

    /// Tells whether the operator has written the new value of a field.
    pub(super) fn has_written(&self, leaf: &Item) -> bool {
        let is_finalizers = leaf.path == ["metadata", "finalizers"];
        self.own.iter().any(|own| leaf.path.starts_with(&own.path) && (is_finalizers || leaf.new == own.value))
    }

    /// Notes a patch that is sent.
    pub(super) fn patch_sent(&mut self, patch: &Patch) {
        let fields = written_fields(patch);
        self.own.retain(|own| !fields.iter().any(|(path, _)| *path == own.path));
        self.own.extend(fields.into_iter().map(|(path, value)| OwnWrite { path, value, version: None }));
    }

    /// Notes the version that includes a patch; `None` if the patch has changed nothing.
    pub(super) fn patch_stored(&mut self, patch: &Patch, version: Option<&str>) {
        let fields = written_fields(patch);
        let is_of_patch = |own: &OwnWrite| fields.iter().any(|(path, value)| *path == own.path && *value == own.value);
        match version.and_then(number) {
            Some(version) => {
                self.own.iter_mut().filter(|own| is_of_patch(own)).for_each(|own| own.version = Some(version));
            }
            None => self.own.retain(|own| !is_of_patch(own)),
        }
    }

    /// Notes other writes, with the version that includes them.
    pub(super) fn written(&mut self, leaves: impl IntoIterator<Item = Item>, version: &str) {
        let version = number(version);
        self.own.extend(leaves.into_iter().map(|leaf| OwnWrite { path: leaf.path, value: leaf.new, version }));
    }
}

/// Returns the fields that a patch writes, with their values.
fn written_fields(patch: &Patch) -> Vec<(Vec<String>, Value)> {
    let mut fields = Vec::new();
    collect(&patch.merge, &mut Vec::new(), &mut fields);
    let is_finalizers = |one: &Transform| matches!(one, Transform::AddFinalizer(_) | Transform::RemoveFinalizer(_));
    if patch.transforms.iter().any(is_finalizers) {
        fields.push((vec!["metadata".to_owned(), "finalizers".to_owned()], Value::Null));
    }
    if patch.transforms.iter().any(|one| matches!(one, Transform::SetCondition(_))) {
        fields.push((vec!["status".to_owned(), "conditions".to_owned()], Value::Null));
    }
    fields
}

/// Splits a difference into leaves, if a whole mapping was added or removed.
pub(super) fn leaves(item: &Item) -> Vec<Item> {
    let map = match item.op {
        Op::Add => &item.new,
        Op::Remove => &item.old,
        Op::Change => return vec![item.clone()],
    };
    let Some(map) = map.as_object().filter(|map| !map.is_empty()) else { return vec![item.clone()] };
    let mut found = Vec::new();
    collect(map, &mut item.path.clone(), &mut found);
    let part = |(path, value)| match item.op {
        Op::Remove => Item { op: Op::Remove, path, old: value, new: Value::Null },
        op => Item { op, path, old: Value::Null, new: value },
    };
    found.into_iter().map(part).collect()
}

/// Collects the leaves of a mapping with their paths.
pub(super) fn collect(map: &Map<String, Value>, keys: &mut Vec<String>, leaves: &mut Vec<(Vec<String>, Value)>) {
    for (key, value) in map {
        keys.push(key.clone());
        match value {
            Value::Object(child) if !child.is_empty() => collect(child, keys, leaves),
            _ => leaves.push((keys.clone(), value.clone())),
        }
        keys.pop();
    }
}

/// Returns the number of a version. The embedded server uses numbers; a suffix after the number marks a version without
/// an event.
fn number(version: &str) -> Option<u64> {
    version.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}
