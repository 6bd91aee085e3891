//! Reads objects of built-in kinds by the types of their fields, like Go's decoder: unknown fields are dropped and
//! reported, nulls count as absent, and values of other types are refused.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use regex::Regex;
use serde_json::{Map, Value, json};

use crate::http::json;
use crate::kinds::kind::Kind;
use crate::kinds::messages::{self, Field, Form, Message, Zero};
use crate::schema::field_error::FieldPath;
use kopfd_base::equality::is_falsy;
use kopfd_base::quantity;

/// Times of leases and events have a fraction of exactly six digits.
static MICRO_TIME: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}[.]\d{6}(Z|[+-]\d{2}:\d{2})$").expect("the pattern is valid")
});

/// Reads an object, without its metadata. Returns the paths of dropped fields.
///
/// # Errors
/// Go's message about the first value of a wrong type. The object may then be partly read.
pub(super) fn read(kind: &Kind, object: &mut Value) -> Result<Vec<String>, String> {
    let mut reading = Reading { dropped: Vec::new() };
    let Value::Object(members) = object else { return Err(wrong(object, &FieldPath::Root, &kind.kind)) };
    let metadata = members.remove("metadata");
    let read = if let Some(message) = messages::of_kind(&kind.group, &kind.version, &kind.kind) {
        reading.members(message, members, &FieldPath::Root)
    } else {
        reading.keep(members, &FieldPath::Root, |name| ["apiVersion", "kind", "spec", "status"].contains(&name));
        Ok(())
    };
    members.extend(metadata.map(|metadata| ("metadata".to_owned(), metadata)));
    read.map(|()| reading.dropped)
}

/// Truncates numbers to 32 bits, as an apply does.
pub(crate) fn wrap_numbers(kind: &Kind, object: &mut Value) {
    if let (Some(message), Value::Object(members)) = (messages::of_kind(&kind.group, &kind.version, &kind.kind), object)
    {
        wrap_members(message, members);
    }
}

fn wrap_members(message: &Message, members: &mut Map<String, Value>) {
    for (name, value) in members.iter_mut() {
        let Some(field) = message.member(name) else { continue };
        match (field.form, value) {
            (Form::List, Value::Array(items)) => items.iter_mut().for_each(|item| wrap(field.of, item)),
            (Form::Map, Value::Object(members)) => members.values_mut().for_each(|member| wrap(field.of, member)),
            (_, value) => wrap(field.of, value),
        }
    }
}

fn wrap(of: &str, value: &mut Value) {
    match (of, value.as_i64()) {
        ("int32", Some(number)) => *value = json!(number as i32),
        _ => {
            if let (Some(message), Value::Object(members)) = (messages::find(of), value) {
                wrap_members(message, members);
            }
        }
    }
}

struct Reading {
    dropped: Vec<String>,
}

impl Reading {
    fn keep(&mut self, members: &mut Map<String, Value>, field_path: &FieldPath<'_>, is_known: impl Fn(&str) -> bool) {
        members.retain(|name, _| {
            let is_kept = is_known(name);
            if !is_kept {
                self.dropped.push(field_path.member(name).to_string());
            }
            is_kept
        });
    }

    fn members(
        &mut self,
        message: &Message,
        members: &mut Map<String, Value>,
        field_path: &FieldPath<'_>,
    ) -> Result<(), String> {
        let is_type = |name: &str| message.has_type() && ["apiVersion", "kind"].contains(&name);
        self.keep(members, field_path, |name| is_type(name) || message.member(name).is_some());
        members.retain(|_, value| !value.is_null());
        for (name, value) in members.iter_mut() {
            if let Some(field) = message.member(name) {
                self.field(field, value, &field_path.member(name))?;
            } else if !value.is_string() {
                return Err(wrong(value, &field_path.member(name), "string"));
            }
        }
        // An empty value is stored as absent.
        members.retain(|name, value| {
            let Some(field) = message.member(name).filter(|_| is_falsy(value)) else { return true };
            let is_container = field.form != Form::One;
            !(field.when_zero == Zero::Dropped || field.when_zero == Zero::Written && is_container)
        });
        message.complete(members);
        Ok(())
    }

    fn field(&mut self, field: &Field, value: &mut Value, field_path: &FieldPath<'_>) -> Result<(), String> {
        match (field.form, value) {
            (Form::One, value) => self.value(field.of, value, field_path),
            (Form::List, Value::Array(items)) => {
                let mut items = items.iter_mut().enumerate();
                items.try_for_each(|(index, item)| self.value_or_zero(field.of, item, &field_path.item(index)))
            }
            (Form::Map, Value::Object(members)) => members
                .iter_mut()
                .try_for_each(|(name, value)| self.value_or_zero(field.of, value, &field_path.member(name))),
            (Form::List, value) => Err(wrong(value, field_path, &format!("[]{}", field.of))),
            (Form::Map, value) => Err(wrong(value, field_path, &format!("map[string]{}", field.of))),
        }
    }

    /// In lists and maps, null is the zero value of the type.
    fn value_or_zero(&mut self, of: &str, value: &mut Value, field_path: &FieldPath<'_>) -> Result<(), String> {
        if value.is_null() {
            *value = match of {
                "string" | "bytes" => json!(""),
                "bool" => json!(false),
                "int32" | "int64" => json!(0),
                _ => json!({}),
            };
        }
        self.value(of, value, field_path)
    }

    fn value(&mut self, of: &str, value: &mut Value, field_path: &FieldPath<'_>) -> Result<(), String> {
        let fits = match of {
            "string" => value.is_string(),
            "bool" => value.is_boolean(),
            "int32" => value.as_i64().is_some_and(|number| i32::try_from(number).is_ok()),
            "int64" => value.is_i64(),
            "bytes" => match value.as_str() {
                Some(text) if STANDARD.decode(text).is_err() => {
                    return Err(format!("{field_path}: illegal base64 data"));
                }
                text => text.is_some(),
            },
            "meta.Time" => return read_time(value, "%Y-%m-%dT%H:%M:%SZ").ok_or_else(|| wrong(value, field_path, of)),
            "meta.MicroTime" => match value.as_str() {
                Some(text) if !MICRO_TIME.is_match(text) => {
                    return Err(format!("{field_path}: parsing time {text:?} as \"2006-01-02T15:04:05.000000Z07:00\""));
                }
                _ => return read_time(value, "%Y-%m-%dT%H:%M:%S.%6fZ").ok_or_else(|| wrong(value, field_path, of)),
            },
            "resource.Quantity" => return read_quantity(value, field_path),
            "util.intstr.IntOrString" => {
                value.is_string() || value.as_i64().is_some_and(|number| i32::try_from(number).is_ok())
            }
            "meta.FieldsV1" | "runtime.RawExtension" => true,
            _ if of.ends_with(".ExtraValue") => {
                value.as_array().is_some_and(|items| items.iter().all(Value::is_string))
            }
            _ => match (value, messages::find(of)) {
                (Value::Object(members), Some(message)) => return self.members(message, members, field_path),
                (value, _) => return Err(wrong(value, field_path, of)),
            },
        };
        if fits { Ok(()) } else { Err(wrong(value, field_path, of)) }
    }
}

/// Times are stored as texts in UTC.
fn read_time(value: &mut Value, form: &str) -> Option<()> {
    let moment: Timestamp = value.as_str()?.parse().ok()?;
    *value = Value::String(moment.strftime(form).to_string());
    Some(())
}

/// Quantities are stored as texts in their canonical form.
fn read_quantity(value: &mut Value, field_path: &FieldPath<'_>) -> Result<(), String> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return Err(wrong(value, field_path, "resource.Quantity")),
    };
    let canonical = quantity::canonical(&text).map_err(|error| format!("{field_path}: {error}"))?;
    *value = Value::String(canonical);
    Ok(())
}

fn wrong(value: &Value, field_path: &FieldPath<'_>, of: &str) -> String {
    let given = json::type_name(value);
    format!("json: cannot unmarshal {given} into Go struct field {field_path} of type {of}")
}
