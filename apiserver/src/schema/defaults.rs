//! Defaults, filled in from the outside to the inside.

use serde_json::Value;

use super::node::Node;

/// Drops the nulls below a value that are not allowed.
pub(super) fn drop_nulls(node: &Node, value: &mut Value) {
    match value {
        Value::Object(members) => members.retain(|name, member| {
            let Some(schema) = node.member(name) else { return true };
            drop_nulls(schema, member);
            !member.is_null() || schema.is_nullable
        }),
        Value::Array(items) => {
            let Some(schema) = &node.items else { return };
            for item in items {
                drop_nulls(schema, item);
            }
        }
        _ => {}
    }
}

/// Fills in the defaults below a value, also for nulls that are not allowed.
pub(super) fn fill(node: &Node, value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (name, schema) in &node.properties {
                let Some(default) = &schema.default else { continue };
                let is_missing = members.get(name).is_none_or(|present| present.is_null() && !schema.is_nullable);
                if is_missing {
                    members.insert(name.clone(), default.clone());
                }
            }
            for (name, member) in members {
                let Some(schema) = node.member(name) else { continue };
                replace_null(schema, member);
                fill(schema, member);
            }
        }
        Value::Array(items) => {
            let Some(schema) = &node.items else { return };
            for item in items {
                replace_null(schema, item);
                fill(schema, item);
            }
        }
        _ => {}
    }
}

fn replace_null(node: &Node, value: &mut Value) {
    if value.is_null()
        && !node.is_nullable
        && let Some(default) = &node.default
    {
        *value = default.clone();
    }
}
