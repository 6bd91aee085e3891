//! Values of objects for expressions: typed by the schema.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map as Members, Value as Json};

use super::declaration::properties;
use super::names::escape;
use crate::cel::{self, Items, Key, List, Map, Value};
use crate::schema::node::{Additional, ListType, Node, Type};

/// Returns a value for expressions. Values of wrong types fail when used.
pub(super) fn convert(node: &Node, value: &Json, is_resource: bool) -> Value {
    if value.is_null() {
        return if node.is_nullable {
            Value::Null
        } else {
            failed("invalid data, got null for schema with nullable=false")
        };
    }
    if node.is_int_or_string {
        return match value {
            Json::String(text) => Value::text(text),
            Json::Number(number) if number.is_i64() => Value::Int(number.as_i64().unwrap_or_default()),
            _ => failed("invalid data, expected XIntOrString value to be either a string or integer"),
        };
    }
    match (node.kind, value) {
        (Some(Type::Object), Json::Object(members)) => object(node, members, is_resource || node.is_embedded),
        (Some(Type::Array), Json::Array(items)) => array(node, items),
        (Some(Type::String), Json::String(text)) => self::text(node.limits.format.as_deref(), text),
        (Some(Type::Number), Json::Number(number)) => Value::Double(number.as_f64().unwrap_or_default()),
        (Some(Type::Integer), Json::Number(number)) => {
            // 1.0 is an integer in JSON.
            Value::Int(number.as_i64().unwrap_or_else(|| number.as_f64().unwrap_or_default() as i64))
        }
        (Some(Type::Boolean), Json::Bool(value)) => Value::Bool(*value),
        (Some(kind), _) => failed(&format!("invalid data, expected {}", kind.name())),
        (None, _) => Value::of_json(value),
    }
}

fn failed(text: &str) -> Value {
    Value::Failed(text.into())
}

fn text(format: Option<&str>, text: &str) -> Value {
    match format {
        Some("duration") => {
            cel::duration(text).map_or_else(|| failed(&format!("Invalid duration {text}")), Value::Duration)
        }
        Some("date") => {
            cel::date(text).map_or_else(|| failed(&format!("Invalid date formatted string {text}")), Value::Timestamp)
        }
        Some("date-time") => cel::moment(text)
            .map_or_else(|| failed(&format!("Invalid date-time formatted string {text}")), Value::Timestamp),
        Some("byte") => STANDARD.decode(text).map_or_else(
            |_| failed(&format!("Invalid byte formatted string {text}")),
            |bytes| Value::Bytes(bytes.into()),
        ),
        _ => Value::text(text),
    }
}

fn array(node: &Node, items: &[Json]) -> Value {
    let Some(schema) = &node.items else { return failed("invalid array type, expected Items with a non-empty Schema") };
    let kind = match &node.list_type {
        ListType::Atomic => Items::Ordered,
        ListType::Set => Items::Set,
        ListType::Map(keys) => {
            Items::Keyed(keys.iter().map(|key| escape(key).unwrap_or_else(|| key.clone()).into()).collect())
        }
    };
    let items = items.iter().map(|item| convert(schema, item, schema.is_embedded)).collect();
    Value::List(Arc::new(List { items, kind }))
}

fn object(node: &Node, members: &Members<String, Json>, is_resource: bool) -> Value {
    if let (Additional::Of(values), false) = (&node.additional, is_resource) {
        let entries =
            members.iter().map(|(name, member)| (name.as_str().into(), convert(values, member, values.is_embedded)));
        return Value::map(entries);
    }
    let properties = properties(node, is_resource);
    let mut map = Map { entries: BTreeMap::new(), hidden: BTreeMap::new() };
    for (name, member) in members {
        // A null member counts as absent.
        match (properties.get(name), escape(name)) {
            (Some(schema), Some(escaped)) if !member.is_null() => {
                map.entries.insert(Key::String(escaped.into()), convert(schema, member, schema.is_embedded));
            }
            _ => {
                map.hidden.insert(name.clone(), member.clone());
            }
        }
    }
    Value::Map(Arc::new(map))
}
