//! Pruning: drops unknown fields.

use serde_json::{Map, Value};

use super::node::{Additional, Node};
use crate::schema::field_error::FieldPath;
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
            self.members(node, members, true, &FieldPath::Root);
        }
        self.dropped.sort();
        self.dropped
    }

    /// Drops the unknown fields of a part of an object. Returns their paths in order.
    pub(super) fn part(mut self, node: &Node, value: &mut Value) -> Vec<String> {
        self.value(node, value, &FieldPath::Root);
        self.dropped.sort();
        self.dropped
    }

    fn value(&mut self, node: &Node, value: &mut Value, field_path: &FieldPath<'_>) {
        match value {
            Value::Object(members) => {
                self.members(node, members, node.is_embedded, field_path);
                if node.is_embedded
                    && let Some(meta) = members.get_mut("metadata")
                {
                    self.dropped.extend(metadata::clean(meta, &field_path.member("metadata")));
                }
            }
            Value::Array(items) => {
                let Some(schema) = &node.items else { return };
                for (index, item) in items.iter_mut().enumerate() {
                    self.value(schema, item, &field_path.item(index));
                }
            }
            _ => {}
        }
    }

    fn members(&mut self, node: &Node, members: &mut Map<String, Value>, is_object: bool, field_path: &FieldPath<'_>) {
        let keeps_unknown = node.keeps_unknown || self.spares_bare_objects && node.properties.is_empty();
        members.retain(|name, value| {
            if is_object && ["apiVersion", "kind", "metadata"].contains(&name.as_str()) {
                return true;
            }
            match (node.properties.get(name), &node.additional) {
                (Some(schema), _) => self.value(schema, value, &field_path.member(name)),
                (None, Additional::Of(schema)) => self.value(schema, value, &field_path.member(name)),
                (None, Additional::Anything) => {}
                (None, Additional::Nothing) if keeps_unknown => {}
                (None, Additional::Nothing) => {
                    self.dropped.push(field_path.member(name).to_string());
                    return false;
                }
            }
            true
        });
    }
}
