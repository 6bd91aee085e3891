//! JSON to the interpreter's values and back, strictly: what has no JSON form is an error, not a text.

use rhai::{Array, Dynamic, FnPtr, ImmutableString, Map};
use serde_json::{Number, Value};

use super::memo::Memo;
use super::patch_handle::PatchHandle;
use super::settings_handle::SettingsHandle;
use super::throwing::Failure;
use super::time::Time;
use super::view::View;

/// The levels of nesting that are converted. Each takes native stack, also when the value is dropped or compared.
const MAX_NESTING: usize = 200;

/// Returns the plain value of JSON. Numbers beyond 64-bit integers become floats.
pub fn to_dynamic(value: &Value) -> Dynamic {
    match value {
        Value::Null => Dynamic::UNIT,
        Value::Bool(flag) => (*flag).into(),
        Value::Number(number) => number.as_i64().map_or_else(|| number.as_f64().unwrap_or(f64::NAN).into(), Into::into),
        Value::String(text) => text.as_str().into(),
        Value::Array(items) => items.iter().map(to_dynamic).collect::<Array>().into(),
        Value::Object(entries) => entries.iter().map(|(key, value)| (key.as_str().into(), to_dynamic(value))).collect::<Map>().into(),
    }
}

/// Something in a value has no JSON form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} has no JSON form{}", at(.path))]
pub struct NotJson {
    /// What it is.
    pub what: String,
    /// Where it is, from the outside to the inside.
    pub path: Vec<String>,
}

fn at(path: &[String]) -> String {
    if path.is_empty() { String::new() } else { format!(" (at {})", path.join(".")) }
}

impl NotJson {
    fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), path: Vec::new() }
    }

    fn below(mut self, key: impl Into<String>) -> Self {
        self.path.insert(0, key.into());
        self
    }
}

/// Returns the JSON form of a value.
///
/// # Errors
/// If it contains a function, a float that is no number, or another thing without a JSON form.
pub fn to_json(value: &Dynamic) -> Result<Value, NotJson> {
    nested(value, 0)
}

fn nested(value: &Dynamic, level: usize) -> Result<Value, NotJson> {
    if level > MAX_NESTING {
        return Err(NotJson::new(format!("a value of more than {MAX_NESTING} levels")));
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
        return Ok(Value::String(text.to_string()));
    }
    if let Ok(c) = value.as_char() {
        return Ok(Value::String(c.to_string()));
    }
    if let Ok(items) = value.as_array_ref() {
        let items = items.iter().enumerate().map(|(index, item)| nested(item, level + 1).map_err(|error| error.below(index.to_string())));
        return items.collect::<Result<_, _>>().map(Value::Array);
    }
    if let Ok(entries) = value.as_map_ref() {
        let entries = entries.iter().map(|(key, item)| match nested(item, level + 1) {
            Ok(item) => Ok((key.to_string(), item)),
            Err(error) => Err(error.below(key.as_str())),
        });
        return entries.collect::<Result<_, _>>().map(Value::Object);
    }
    host_value(value).ok_or_else(|| NotJson::new(title_of(value)))
}

/// Returns the JSON form of the host's own types.
fn host_value(value: &Dynamic) -> Option<Value> {
    if let Some(view) = value.read_lock::<View>() {
        return Some(view.value().clone());
    }
    if let Some(time) = value.read_lock::<Time>() {
        return Some(Value::String(time.to_string()));
    }
    if let Some(handle) = value.read_lock::<PatchHandle>() {
        return Some(handle.snapshot());
    }
    if let Some(memo) = value.read_lock::<Memo>() {
        return to_json(&memo.snapshot()).ok();
    }
    if let Some(settings) = value.read_lock::<SettingsHandle>() {
        return Some(settings.snapshot());
    }
    let failure = value.read_lock::<Failure>()?;
    Some(serde_json::json!({ "kind": failure.kind(), "message": failure.message, "status": failure.status, "reason": failure.reason }))
}

fn title_of(value: &Dynamic) -> String {
    match value.type_name() {
        name if value.is::<FnPtr>() || name.starts_with("Fn") => "a function".to_owned(),
        name => format!("a value of the type {}", name.rsplit("::").next().unwrap_or(name)),
    }
}

/// Returns the plain form of a value: views and handles are copied, so that nothing in it refers to anything outside.
///
/// # Errors
/// If something in it has no JSON form.
pub fn to_plain(value: &Dynamic) -> Result<Dynamic, NotJson> {
    if value.is_shared() || value.is_array() || value.is_map() || value.is_variant_of_host() {
        return to_json(value).map(|value| to_dynamic(&value));
    }
    nested(value, 0)?;
    Ok(value.clone())
}

trait Variety {
    fn is_variant_of_host(&self) -> bool;
}

impl Variety for Dynamic {
    fn is_variant_of_host(&self) -> bool {
        !(self.is_unit() || self.is_bool() || self.is_int() || self.is_float() || self.is_string() || self.is_char())
    }
}

/// Returns the text of an error: a string itself, a map's `message`, else its JSON.
pub fn text_of(value: &Dynamic) -> String {
    if value.is_unit() {
        return String::new();
    }
    if let Ok(text) = value.as_immutable_string_ref() {
        return text.to_string();
    }
    if let Some(failure) = value.read_lock::<Failure>() {
        return failure.message.clone();
    }
    match to_json(value) {
        Ok(Value::Object(entries)) if entries.contains_key("message") => match &entries["message"] {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        },
        Ok(json) => json.to_string(),
        Err(_) => value.to_string(),
    }
}

/// Returns the text of a value as `print` and the logger show it.
pub fn shown(value: &Dynamic) -> String {
    match value.as_immutable_string_ref() {
        Ok(text) => text.to_string(),
        Err(_) if value.is_unit() => "()".to_owned(),
        Err(_) if value.is_char() => value.to_string(),
        Err(_) => to_json(value).map_or_else(|_| value.to_string(), |value| value.to_string()),
    }
}

/// Returns the key that a script means by a value: a text, or something that can be written as one.
pub fn key_of(value: &Dynamic) -> Option<ImmutableString> {
    value.as_immutable_string_ref().ok().map(|text| text.clone())
}
