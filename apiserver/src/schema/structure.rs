//! What is checked besides the values: lists whose items must differ, and embedded objects.

use serde_json::{Map, Value};

use super::node::{ListType, Node};
use crate::http::api_error::Cause;
use crate::schema::field_error::{self, Place};

/// Checks that the items of sets and map lists differ.
pub(super) fn check_lists(node: &Node, new: &Value, old: Option<&Value>, place: &Place<'_>, causes: &mut Vec<Cause>) {
    if old == Some(new) {
        return;
    }
    if let Value::Array(items) = new {
        let identities: Option<Vec<Value>> = match &node.list_type {
            ListType::Atomic => None,
            ListType::Set => Some(items.clone()),
            ListType::Map(keys) => Some(items.iter().map(|item| identity(item, keys)).collect()),
        };
        for (index, one) in identities.iter().flatten().enumerate() {
            // However often something is there, it is told once.
            if identities.iter().flatten().take(index).filter(|earlier| *earlier == one).count() == 1 {
                causes.push(field_error::duplicate(place.item(index), one));
            }
        }
    }
    walk(node, new, old, place, &mut |node, new, old, place| check_lists(node, new, old, place, causes));
}

/// Checks that embedded objects tell what they are.
pub(super) fn check_embedded(node: &Node, new: &Value, old: Option<&Value>, place: &Place<'_>, causes: &mut Vec<Cause>) {
    if old == Some(new) {
        return;
    }
    if node.is_embedded
        && let Value::Object(members) = new
    {
        for name in ["apiVersion", "kind"] {
            match members.get(name) {
                None => causes.push(field_error::required(place.member(name), "must not be empty")),
                Some(Value::String(text)) if text.is_empty() => causes.push(field_error::required(place.member(name), "must not be empty")),
                Some(Value::String(text)) if name == "apiVersion" && text.split('/').count() > 2 => {
                    causes.push(field_error::invalid(place.member(name), &Value::from(text.as_str()), "unexpected GroupVersion string"));
                }
                Some(Value::String(_)) => {}
                Some(other) => causes.push(field_error::invalid(place.member(name), other, "must be a string")),
            }
        }
    }
    walk(node, new, old, place, &mut |node, new, old, place| check_embedded(node, new, old, place, causes));
}

/// What is done with a node, its value, its old value, and its place.
type Visit<'a> = dyn FnMut(&Node, &Value, Option<&Value>, &Place<'_>) + 'a;

/// Goes one step down, with the old value beside the new one where it can be found.
pub(super) fn walk(node: &Node, new: &Value, old: Option<&Value>, place: &Place<'_>, visit: &mut Visit<'_>) {
    match new {
        Value::Object(members) => {
            for (name, member) in members {
                if let Some(schema) = node.member(name) {
                    visit(schema, member, old.and_then(|old| old.get(name)), &place.member(name));
                }
            }
        }
        Value::Array(items) => {
            let Some(schema) = &node.items else { return };
            for (index, item) in items.iter().enumerate() {
                visit(schema, item, node.old_item(old, item), &place.item(index));
            }
        }
        _ => {}
    }
}

fn identity(item: &Value, keys: &[String]) -> Value {
    let members: Map<String, Value> = keys.iter().filter_map(|key| Some((key.clone(), item.get(key)?.clone()))).collect();
    Value::Object(members)
}
