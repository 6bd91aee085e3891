//! Checks besides the values: unique items of lists, and embedded objects.

use serde_json::{Map, Value};

use super::node::{ListType, Node};
use crate::http::api_error::FieldError;
use crate::schema::field_error::{self, FieldPath};
use crate::schema::metadata::{self, NameRule, name_mistake};

/// Checks that the items of sets and map lists are unique.
pub(super) fn check_lists(
    node: &Node,
    new: &Value,
    old: Option<&Value>,
    field_path: &FieldPath<'_>,
    causes: &mut Vec<FieldError>,
) {
    if old == Some(new) {
        return;
    }
    if let Value::Array(items) = new {
        if let ListType::Map(_) = &node.list_type {
            for (index, item) in items.iter().enumerate().filter(|(_, item)| !item.is_object() && !item.is_null()) {
                causes.push(field_error::invalid(
                    field_path.item(index),
                    item,
                    "must be an object for an item in a list of type map",
                ));
            }
        }
        let identities: Option<Vec<Value>> = match &node.list_type {
            ListType::Atomic => None,
            ListType::Set => Some(items.clone()),
            ListType::Map(keys) => Some(items.iter().map(|item| identity(item, keys)).collect()),
        };
        for (index, one) in identities.iter().flatten().enumerate() {
            // A duplicate is reported once, however often it occurs.
            if identities.iter().flatten().take(index).filter(|earlier| *earlier == one).count() == 1 {
                causes.push(field_error::duplicate(field_path.item(index), one));
            }
        }
    }
    walk(node, new, old, field_path, &mut |node, new, old, field_path| check_lists(node, new, old, field_path, causes));
}

/// Checks that embedded objects have an `apiVersion` and a `kind`.
pub(super) fn check_embedded(
    node: &Node,
    new: &Value,
    old: Option<&Value>,
    field_path: &FieldPath<'_>,
    causes: &mut Vec<FieldError>,
) {
    if old == Some(new) {
        return;
    }
    if node.is_embedded
        && let Value::Object(members) = new
    {
        for name in ["apiVersion", "kind"] {
            match members.get(name) {
                None => causes.push(field_error::required(field_path.member(name), "")),
                Some(value) => {
                    causes.extend(
                        type_mistake(name, value).map(|why| field_error::invalid(field_path.member(name), value, why)),
                    );
                }
            }
        }
        if let Some(Value::Object(meta)) = members.get("metadata") {
            causes.extend(metadata::check_embedded(meta, &field_path.member("metadata")));
        }
    }
    walk(node, new, old, field_path, &mut |node, new, old, field_path| {
        check_embedded(node, new, old, field_path, causes);
    });
}

/// Returns the error of an embedded object's `apiVersion` or `kind`.
fn type_mistake(name: &str, value: &Value) -> Option<String> {
    let Value::String(text) = value else { return Some("must be a string".to_owned()) };
    match name {
        _ if text.is_empty() => Some("must not be empty".to_owned()),
        "apiVersion" => (text.split('/').count() > 2).then(|| format!("unexpected GroupVersion string: {text}")),
        _ => name_mistake(NameRule::OldLabel, &text.to_lowercase(), false)
            .map(|why| format!("may have mixed case, but should otherwise match: {why}")),
    }
}

/// Returns the first error of Go's decoder in embedded objects.
pub(super) fn undecodable(node: &Node, value: &Value, field_path: &FieldPath<'_>) -> Option<String> {
    if node.is_embedded
        && let Value::Object(members) = value
    {
        let is_wrong = |name: &&str| members.get(*name).is_some_and(|value| !value.is_string());
        if let Some(name) = ["apiVersion", "kind"].into_iter().find(is_wrong) {
            return Some(format!("{}: Invalid value: {}: must be a string", field_path.member(name), members[name]));
        }
        if let Some(why) = members.get("metadata").and_then(metadata::type_mistake) {
            return Some(format!("{}: Invalid value: {why}", field_path.member("metadata")));
        }
    }
    let mut found = None;
    walk(node, value, None, field_path, &mut |node, value, _, field_path| {
        if found.is_none() {
            found = undecodable(node, value, field_path);
        }
    });
    found
}

/// A visitor of a node, its value, its old value, and its path.
type Visit<'a> = dyn FnMut(&Node, &Value, Option<&Value>, &FieldPath<'_>) + 'a;

/// Visits the children of a node, with their old values if they can be correlated.
pub(super) fn walk(node: &Node, new: &Value, old: Option<&Value>, field_path: &FieldPath<'_>, visit: &mut Visit<'_>) {
    match new {
        Value::Object(members) => {
            for (name, member) in members {
                if let Some(schema) = node.member(name) {
                    visit(schema, member, old.and_then(|old| old.get(name)), &field_path.member(name));
                }
            }
        }
        Value::Array(items) => {
            let Some(schema) = &node.items else { return };
            for (index, item) in items.iter().enumerate() {
                visit(schema, item, node.old_item(old, item), &field_path.item(index));
            }
        }
        _ => {}
    }
}

fn identity(item: &Value, keys: &[String]) -> Value {
    let members: Map<String, Value> =
        keys.iter().filter_map(|key| Some((key.clone(), item.get(key)?.clone()))).collect();
    Value::Object(members)
}
