//! Pruning: fields that no schema knows are dropped.

use serde_json::{Map, Value};

use super::node::{Additional, Node};
use crate::devserver::causes::Place;
use crate::devserver::metadata;

/// Drops the unknown fields of a whole object.
pub(super) fn prune_root(node: &Node, object: &mut Value, dropped: &mut Vec<String>) {
    let Value::Object(members) = object else { return };
    prune_members(node, members, true, &Place::Root, dropped);
}

/// Drops the unknown fields below a value.
pub(super) fn prune(node: &Node, value: &mut Value, place: &Place<'_>, dropped: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            prune_members(node, members, node.is_embedded, place, dropped);
            if node.is_embedded
                && let Some(meta) = members.get_mut("metadata")
            {
                dropped.extend(metadata::clean(meta, &place.member("metadata")));
            }
        }
        Value::Array(items) => {
            let Some(schema) = &node.items else { return };
            for (index, item) in items.iter_mut().enumerate() {
                prune(schema, item, &place.item(index), dropped);
            }
        }
        _ => {}
    }
}

fn prune_members(node: &Node, members: &mut Map<String, Value>, is_object: bool, place: &Place<'_>, dropped: &mut Vec<String>) {
    members.retain(|name, value| {
        if is_object && ["apiVersion", "kind", "metadata"].contains(&name.as_str()) {
            return true;
        }
        match (node.properties.get(name), &node.additional) {
            (Some(schema), _) => prune(schema, value, &place.member(name), dropped),
            (None, Additional::Of(schema)) => prune(schema, value, &place.member(name), dropped),
            (None, Additional::Anything) => {}
            (None, Additional::Nothing) if node.keeps_unknown => {}
            (None, Additional::Nothing) => {
                dropped.push(place.member(name).to_string());
                return false;
            }
        }
        true
    });
}
