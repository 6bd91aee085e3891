//! Pruning: drops unknown fields.

use serde_json::{Map, Value};

use super::node::{Additional, Node};
use crate::schema::field_error::Place;
use crate::schema::metadata;

/// The dropped fields of an object.
#[derive(Default)]
pub(super) struct Pruning {
    /// Whether objects without any declared fields are kept unchanged.
    spares_bare_objects: bool,
    dropped: Vec<String>,
}

impl Pruning {
    /// Returns a pruning that keeps objects without any declared fields unchanged.
    pub(super) fn sparing_bare_objects() -> Self {
        Self { spares_bare_objects: true, dropped: Vec::new() }
    }

    /// Drops the unknown fields of a whole object. Returns their paths in order.
    pub(super) fn root(mut self, node: &Node, object: &mut Value) -> Vec<String> {
        if let Value::Object(members) = object {
            self.members(node, members, true, &Place::Root);
        }
        self.dropped.sort();
        self.dropped
    }

    /// Drops the unknown fields of a part of an object. Returns their paths in order.
    pub(super) fn part(mut self, node: &Node, value: &mut Value) -> Vec<String> {
        self.value(node, value, &Place::Root);
        self.dropped.sort();
        self.dropped
    }

    fn value(&mut self, node: &Node, value: &mut Value, place: &Place<'_>) {
        match value {
            Value::Object(members) => {
                self.members(node, members, node.is_embedded, place);
                if node.is_embedded
                    && let Some(meta) = members.get_mut("metadata")
                {
                    self.dropped.extend(metadata::clean(meta, &place.member("metadata")));
                }
            }
            Value::Array(items) => {
                let Some(schema) = &node.items else { return };
                for (index, item) in items.iter_mut().enumerate() {
                    self.value(schema, item, &place.item(index));
                }
            }
            _ => {}
        }
    }

    fn members(&mut self, node: &Node, members: &mut Map<String, Value>, is_object: bool, place: &Place<'_>) {
        let keeps_unknown = node.keeps_unknown || self.spares_bare_objects && node.properties.is_empty();
        members.retain(|name, value| {
            if is_object && ["apiVersion", "kind", "metadata"].contains(&name.as_str()) {
                return true;
            }
            match (node.properties.get(name), &node.additional) {
                (Some(schema), _) => self.value(schema, value, &place.member(name)),
                (None, Additional::Of(schema)) => self.value(schema, value, &place.member(name)),
                (None, Additional::Anything) => {}
                (None, Additional::Nothing) if keeps_unknown => {}
                (None, Additional::Nothing) => {
                    self.dropped.push(place.member(name).to_string());
                    return false;
                }
            }
            true
        });
    }
}
