//! Converts JSON to the interpreter's values and back, strictly: values without a JSON form are errors. Values of the
//! host's own types are converted by a function of the caller.

use rhai::{Array, Dynamic, Map};
use serde_json::{Number, Value};

use super::titles;
use crate::script::limits::allocator;

/// Limit of nesting levels. Each takes native stack, also when the value is dropped or compared.
pub(crate) const MAX_NESTING: usize = 200;

/// Returns the JSON form of a value of a host's type, if it has one.
pub(crate) type Host = fn(&Dynamic) -> Option<Value>;

/// Returns the plain value of JSON. Numbers beyond 64-bit integers become floats.
pub(crate) fn to_dynamic(value: &Value) -> Dynamic {
    match value {
        Value::Null => Dynamic::UNIT,
        Value::Bool(flag) => (*flag).into(),
        Value::Number(number) => number.as_i64().map_or_else(|| number.as_f64().unwrap_or(f64::NAN).into(), Into::into),
        Value::String(text) => text.as_str().into(),
        Value::Array(items) => items.iter().map(to_dynamic).collect::<Array>().into(),
        Value::Object(entries) => {
            entries.iter().map(|(key, value)| (key.as_str().into(), to_dynamic(value))).collect::<Map>().into()
        }
    }
}

/// A part of a value has no JSON form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} has no JSON form{}", at(.path))]
pub(crate) struct NotJson {
    /// The type of the part.
    pub what: String,
    /// Its path, from the outside to the inside.
    pub path: Vec<String>,
}

fn at(path: &[String]) -> String {
    if path.is_empty() { String::new() } else { format!(" (at {})", path.join(".")) }
}

impl NotJson {
    fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), path: Vec::new() }
    }

    pub(crate) fn below(mut self, key: impl Into<String>) -> Self {
        self.path.insert(0, key.into());
        self
    }
}

/// Returns the JSON form of a value.
///
/// # Errors
/// If it contains a function, NaN or an infinite float, or another value without a JSON form.
pub(crate) fn to_json(value: &Dynamic, host: Host) -> Result<Value, NotJson> {
    nested(value, 0, host)
}

fn nested(value: &Dynamic, level: usize, host: Host) -> Result<Value, NotJson> {
    if level > MAX_NESTING {
        return Err(too_deep());
    }
    if value.is_unit() {
        return Ok(Value::Null);
    }
    if let Ok(flag) = value.as_bool() {
        return Ok(Value::Bool(flag));
    }
    if let Ok(integer) = value.as_int() {
        return Ok(Value::Number(integer.into()));
    }
    if let Ok(float) = value.as_float() {
        return Number::from_f64(float).map(Value::Number).ok_or_else(|| NotJson::new(format!("the float {float}")));
    }
    if let Ok(text) = value.as_immutable_string_ref() {
        // Values of the interpreter share their texts.
        fits(text.len())?;
        return Ok(Value::String(text.to_string()));
    }
    if let Ok(c) = value.as_char() {
        return Ok(Value::String(c.to_string()));
    }
    if let Ok(items) = value.as_array_ref() {
        let items = items
            .iter()
            .enumerate()
            .map(|(index, item)| nested(item, level + 1, host).map_err(|error| error.below(index.to_string())));
        return items.collect::<Result<_, _>>().map(Value::Array);
    }
    if let Ok(entries) = value.as_map_ref() {
        let entries = entries.iter().map(|(key, item)| match nested(item, level + 1, host) {
            Ok(item) => Ok((key.to_string(), item)),
            Err(error) => Err(error.below(key.as_str())),
        });
        return entries.collect::<Result<_, _>>().map(Value::Object);
    }
    if let Some(value) = host(value) {
        return if level + nesting(&value) > MAX_NESTING { Err(too_deep()) } else { Ok(value) };
    }
    Err(NotJson::new(titles::of_value(value)))
}

fn fits(bytes: usize) -> Result<(), NotJson> {
    if allocator::reserve(bytes) {
        Ok(())
    } else {
        Err(NotJson::new("a value that is larger than the call's limit of memory"))
    }
}

fn too_deep() -> NotJson {
    NotJson::new(format!("a value of more than {MAX_NESTING} levels"))
}

/// Returns a copy of a value, unless it is larger than the call may hold.
pub(crate) fn copy(value: &Value) -> Option<Value> {
    allocator::reserve(size(value)).then(|| value.clone())
}

/// Returns the bytes that a copy of a value takes, approximately.
pub(crate) fn size(value: &Value) -> usize {
    let inner = match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(size).sum(),
        Value::Object(entries) => {
            entries.iter().map(|(key, value)| key.len() + size_of::<String>() + size(value)).sum()
        }
        _ => 0,
    };
    size_of::<Value>() + inner
}

/// Returns the levels of lists and maps in a value.
pub(crate) fn nesting(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(nesting).max().unwrap_or_default(),
        Value::Object(entries) => 1 + entries.values().map(nesting).max().unwrap_or_default(),
        _ => 0,
    }
}
