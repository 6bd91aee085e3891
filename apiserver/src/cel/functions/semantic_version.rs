//! Semantic versions, and the functions that quantities share with them.

use std::cmp::Ordering;
use std::sync::Arc;

use semver::Version;

use super::quantity;
use crate::cel::error::{Error, failed, no_such_overload};
use crate::cel::function::{Function, Outcome};
use crate::cel::value::Value;

pub(super) fn of_name(name: &str) -> Option<Function> {
    Some(match name {
        "semver" => |arguments| Ok(Value::Semver(Arc::new(parse(arguments)?))),
        "isSemver" => |arguments| match arguments {
            [Value::String(_)] | [Value::String(_), Value::Bool(_)] => Ok(Value::Bool(parse(arguments).is_ok())),
            _ => Err(no_such_overload()),
        },
        "major" => |arguments| number(arguments, |version| version.major),
        "minor" => |arguments| number(arguments, |version| version.minor),
        "patch" => |arguments| number(arguments, |version| version.patch),
        "isGreaterThan" => |arguments| compare(arguments).map(|order| Value::Bool(order.is_gt())),
        "isLessThan" => |arguments| compare(arguments).map(|order| Value::Bool(order.is_lt())),
        "compareTo" => |arguments| compare(arguments).map(|order| Value::Int(order as i64)),
        _ => return quantity::of_name(name),
    })
}

fn parse(arguments: &[Value]) -> Result<Version, Error> {
    let (text, normalizes) = match arguments {
        [Value::String(text)] => (text, false),
        [Value::String(text), Value::Bool(normalizes)] => (text, *normalizes),
        _ => return Err(no_such_overload()),
    };
    let text = if normalizes { normalized(text)? } else { text.to_string() };
    Version::parse(&text).map_err(|error| failed(error.to_string()))
}

/// Removes a leading `v` and leading zeros, and adds missing numbers.
fn normalized(text: &str) -> Result<String, Error> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let mut parts: Vec<String> = text.splitn(3, '.').map(without_zeros).collect();
    if parts.len() < 3 && parts.last().is_some_and(|last| last.contains(['+', '-'])) {
        return Err(failed("short version cannot contain PreRelease/Build meta data"));
    }
    parts.resize(3, "0".to_owned());
    Ok(parts.join("."))
}

fn without_zeros(part: &str) -> String {
    if part.len() < 2 {
        return part.to_owned();
    }
    let trimmed = part.trim_start_matches('0');
    if trimmed.starts_with(|c: char| c.is_ascii_digit()) { trimmed.to_owned() } else { format!("0{trimmed}") }
}

fn number(arguments: &[Value], number: fn(&Version) -> u64) -> Outcome {
    match arguments {
        [Value::Semver(version)] => Ok(Value::Int(number(version) as i64)),
        _ => Err(no_such_overload()),
    }
}

fn compare(arguments: &[Value]) -> Result<Ordering, Error> {
    match arguments {
        [Value::Semver(one), Value::Semver(other)] => Ok(one.cmp_precedence(other)),
        [Value::Quantity(one), Value::Quantity(other)] => Ok(one.compare(*other)),
        _ => Err(no_such_overload()),
    }
}
