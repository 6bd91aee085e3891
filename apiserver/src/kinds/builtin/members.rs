//! Fills in members of objects.

use serde_json::{Map, Value, json};

/// Sets a missing member.
pub(super) fn put(object: &mut Value, name: &str, value: Value) {
    let members = members(object);
    if members.get(name).is_none_or(Value::is_null) {
        members.insert(name.into(), value);
    }
}

/// Returns the members of a value, which becomes an object if it is not one.
pub(super) fn members(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = json!({});
    }
    value.as_object_mut().expect("the value was just made an object")
}

/// Sets missing members.
pub(super) fn put_all<const N: usize>(object: &mut Value, values: [(&str, Value); N]) {
    for (name, value) in values {
        put(object, name, value);
    }
}

/// Returns the items of a list.
pub(super) fn items<'a>(value: &'a mut Value, name: &str) -> impl Iterator<Item = &'a mut Value> {
    value.get_mut(name).and_then(Value::as_array_mut).into_iter().flatten()
}
