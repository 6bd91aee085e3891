//! Filters of templates beyond those of Jinja: `to_yaml`, `to_json`, `b64encode`, `b64decode`, `urlencode`, `quote`,
//! `nindent`, `sha256`. As all filters, they know the size of their result before they make it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use minijinja::value::ValueKind;
use minijinja::{Environment, Error, ErrorKind, Value};
use percent_encoding::utf8_percent_encode;

use super::library::RESERVED;
use super::template_limits::{MAX_NESTING, check, fits, size};
use crate::object::yaml;
use crate::script::sources::digest;

type Filtered = Result<Value, Error>;
type Filter = fn(&Value) -> Filtered;

/// Adds the filters.
pub(super) fn add(environment: &mut Environment<'_>) {
    let filters: [(&'static str, Filter); 7] = [
        ("to_yaml", to_yaml),
        ("to_json", to_json),
        ("b64encode", b64encode),
        ("b64decode", b64decode),
        ("urlencode", urlencode),
        ("quote", quote),
        ("sha256", sha256),
    ];
    for (name, filter) in filters {
        environment.add_filter(name, move |value: Value| {
            check()?;
            if value.is_undefined() {
                return Err(Error::from(ErrorKind::UndefinedError));
            }
            filter(&value)
        });
    }
    environment.add_filter("nindent", |value: Value, width: usize| {
        check()?;
        nindent(&value, width)
    });
}

/// Returns the text of a value.
fn text(value: &Value) -> Result<String, Error> {
    if let Some(text) = value.as_str() {
        fits(text.len().saturating_mul(2))?;
        return Ok(text.to_owned());
    }
    fits(size(value, 0).saturating_mul(4))?;
    Ok(value.to_string())
}

fn json(value: &Value) -> Result<serde_json::Value, Error> {
    // JSON escapes a control character by six bytes.
    fits(size(value, 0).saturating_mul(6))?;
    nested(value, 0)
}

fn nested(value: &Value, level: usize) -> Result<serde_json::Value, Error> {
    if level > MAX_NESTING {
        return Err(wrong(&format!("the value has more than {MAX_NESTING} levels")));
    }
    Ok(match value.kind() {
        ValueKind::Undefined | ValueKind::None => serde_json::Value::Null,
        ValueKind::Bool => value.is_true().into(),
        ValueKind::Number => match value.as_i64() {
            Some(integer) => integer.into(),
            None => f64::try_from(value.clone()).map_or(serde_json::Value::Null, Into::into),
        },
        ValueKind::String => value.as_str().unwrap_or_default().into(),
        ValueKind::Seq | ValueKind::Iterable => {
            value.try_iter()?.map(|item| nested(&item, level + 1)).collect::<Result<Vec<_>, _>>().map(Into::into)?
        }
        ValueKind::Map => {
            let entry = |key: Value| Ok((key.to_string(), nested(&value.get_item(&key)?, level + 1)?));
            serde_json::Value::Object(value.try_iter()?.map(entry).collect::<Result<_, Error>>()?)
        }
        _ => return Err(wrong(&format!("a value of the type {} has no JSON form", value.kind()))),
    })
}

fn wrong(error: &dyn std::fmt::Display) -> Error {
    Error::new(ErrorKind::InvalidOperation, error.to_string())
}

/// The value as YAML, without a line break at the end.
fn to_yaml(value: &Value) -> Filtered {
    let dumped = yaml::dump(&json(value)?).map_err(|error| wrong(&error))?;
    Ok(dumped.trim_end().into())
}

/// The value as JSON, on one line. Unlike `tojson`, it escapes nothing for HTML.
fn to_json(value: &Value) -> Filtered {
    Ok(json(value)?.to_string().into())
}

fn b64encode(value: &Value) -> Filtered {
    Ok(STANDARD.encode(text(value)?).into())
}

fn b64decode(value: &Value) -> Filtered {
    let bytes = STANDARD.decode(text(value)?.trim()).map_err(|error| wrong(&error))?;
    String::from_utf8(bytes).map(Into::into).map_err(|_| wrong(&"the bytes are not UTF-8 text"))
}

fn urlencode(value: &Value) -> Filtered {
    let text = text(value)?;
    fits(text.len().saturating_mul(3))?;
    Ok(utf8_percent_encode(&text, RESERVED).to_string().into())
}

/// The text of the value in double quotes, which YAML and JSON read as the same text.
fn quote(value: &Value) -> Filtered {
    let text = text(value)?;
    fits(text.len().saturating_mul(6))?;
    Ok(serde_json::Value::String(text).to_string().into())
}

fn sha256(value: &Value) -> Filtered {
    Ok(digest::sha256([text(value)?.as_str()]).into())
}

/// A new line, and the text with spaces before each line, as in Helm.
fn nindent(value: &Value, width: usize) -> Filtered {
    let text = text(value)?;
    fits(
        text.lines()
            .count()
            .saturating_add(1)
            .saturating_mul(width.saturating_add(1))
            .saturating_add(text.len().saturating_mul(2)),
    )?;
    let indented: Vec<String> = text.lines().map(|line| format!("{:width$}{line}", "")).collect();
    Ok(format!("\n{}", indented.join("\n")).into())
}
