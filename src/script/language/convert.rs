//! Converts JSON to the interpreter's values and back, including the views and handles of scripts.

use rhai::{Dynamic, ImmutableString};
use serde_json::Value;

use super::bytes::Bytes;
use super::memo::Memo;
use super::patch_handle::PatchHandle;
use super::settings_handle::SettingsHandle;
use super::view::View;
use crate::script::limits::allocator;
use crate::script::runtime::bounded;
pub(crate) use crate::script::values::json::to_dynamic;
use crate::script::values::json::{self, NotJson};
use crate::script::values::plain::Plain;
use crate::script::values::script_error::Failure;
use crate::script::values::time::Time;

/// Returns the JSON form of a value.
///
/// # Errors
/// If it contains a function, NaN or an infinite float, or another value without a JSON form.
pub(crate) fn to_json(value: &Dynamic) -> Result<Value, NotJson> {
    json::to_json(value, host_value)
}

/// Returns the JSON form of the host's own types.
fn host_value(value: &Dynamic) -> Option<Value> {
    if let Some(view) = value.read_lock::<View>() {
        return json::copy(view.value());
    }
    if let Some(time) = value.read_lock::<Time>() {
        return Some(Value::String(time.to_string()));
    }
    if let Some(bytes) = value.read_lock::<Bytes>() {
        return bytes.base64().map(Value::String);
    }
    if let Some(handle) = value.read_lock::<PatchHandle>() {
        return handle.look(|value| value.map_or(Some(Value::Null), json::copy));
    }
    if let Some(memo) = value.read_lock::<Memo>() {
        return to_json(&memo.snapshot()).ok();
    }
    if let Some(settings) = value.read_lock::<SettingsHandle>() {
        return Some(settings.snapshot());
    }
    let failure = value.read_lock::<Failure>()?;
    Some(
        serde_json::json!({ "kind": failure.kind(), "message": failure.message, "status": failure.status, "reason": failure.reason }),
    )
}

/// Returns the data of a value, which may leave its thread. Times stay times.
///
/// # Errors
/// If a part of it has no JSON form.
pub(crate) fn to_data(value: &Dynamic) -> Result<Plain, NotJson> {
    Plain::of(value, host_value)
}

/// Returns the plain form of a value: views and handles are copied, so that it has no references. Times stay times.
///
/// # Errors
/// If a part of it has no JSON form.
pub(crate) fn to_plain(value: &Dynamic) -> Result<Dynamic, NotJson> {
    if value.is_shared() || value.is_array() || value.is_map() || value.is_variant_of_host() {
        return to_data(value).map(|data| data.to_dynamic());
    }
    to_json(value)?;
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
pub(crate) fn text_of(value: &Dynamic) -> String {
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
            other => bounded::json_text(other),
        },
        Ok(json) => bounded::json_text(&json),
        Err(_) if allocator::exceeded().is_some() => String::new(),
        Err(_) => value.to_string(),
    }
}

/// Returns the text of a value for `print` and the logger.
pub(crate) fn shown(value: &Dynamic) -> String {
    match value.as_immutable_string_ref() {
        Ok(text) => text.to_string(),
        Err(_) if value.is_unit() => "()".to_owned(),
        Err(_) if value.is_char() => value.to_string(),
        // It may be a secret.
        Err(_) if value.is::<Bytes>() => value.read_lock::<Bytes>().map_or_else(String::new, |bytes| bytes.to_string()),
        Err(_) => match to_json(value) {
            Ok(json) => bounded::json_text(&json),
            // A call that has exceeded its memory is ended: nothing of the value is shown.
            Err(_) if allocator::exceeded().is_some() => String::new(),
            Err(_) => value.to_string(),
        },
    }
}

/// Returns the key for a value: a text, or a value that can be written as one.
pub(crate) fn key_of(value: &Dynamic) -> Option<ImmutableString> {
    value.as_immutable_string_ref().ok().map(|text| text.clone())
}
/// Tells whether a value counts as true, as in kopf: `()`, `false`, `0`, `""`, `[]`, `#{}` do not.
pub(crate) fn is_true(value: &Dynamic) -> bool {
    match to_json(value) {
        Ok(Value::Null) => false,
        Ok(Value::Bool(flag)) => flag,
        Ok(Value::Number(number)) => number.as_f64() != Some(0.0),
        Ok(Value::String(text)) => !text.is_empty(),
        Ok(Value::Array(items)) => !items.is_empty(),
        Ok(Value::Object(entries)) => !entries.is_empty(),
        Err(_) => true,
    }
}
