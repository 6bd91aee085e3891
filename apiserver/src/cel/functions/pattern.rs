//! The functions of regular expressions.

use std::collections::HashMap;
use std::sync::LazyLock;

use parking_lot::Mutex;
use regex::Regex;

use crate::cel::error::{Error, failed, no_such_overload};
use crate::cel::function::{Function, Outcome};
use crate::cel::value::Value;
use crate::go;

/// Cache of compiled patterns. Rules have few of them; computed patterns displace each other.
static KNOWN: LazyLock<Mutex<HashMap<String, Regex>>> = LazyLock::new(Mutex::default);
/// Cache size, enough for many definitions; a compiled pattern takes some kilobytes.
const MAX_KNOWN: usize = 512;

pub(super) fn of_name(name: &str) -> Option<Function> {
    Some(match name {
        "matches" => matches,
        "find" => find,
        "findAll" => find_all,
        _ => return None,
    })
}

fn compile(pattern: &str, lead: &str) -> Result<Regex, Error> {
    let mut known = KNOWN.lock();
    if let Some(regex) = known.get(pattern) {
        return Ok(regex.clone());
    }
    let regex = go::regex(pattern).map_err(|error| failed(format!("{lead}{error}")))?;
    if known.len() >= MAX_KNOWN {
        known.clear();
    }
    known.insert(pattern.to_owned(), regex.clone());
    Ok(regex)
}

fn matches(arguments: &[Value]) -> Outcome {
    let [Value::String(text), Value::String(pattern)] = arguments else { return Err(no_such_overload()) };
    Ok(Value::Bool(compile(pattern, "error parsing regexp: ")?.is_match(text)))
}

fn find(arguments: &[Value]) -> Outcome {
    let [Value::String(text), Value::String(pattern)] = arguments else { return Err(no_such_overload()) };
    let regex = compile(pattern, "Illegal regex: error parsing regexp: ")?;
    Ok(Value::text(regex.find(text).map_or("", |found| found.as_str())))
}

fn find_all(arguments: &[Value]) -> Outcome {
    let (text, pattern, limit) = match arguments {
        [Value::String(text), Value::String(pattern)] => (text, pattern, -1),
        [Value::String(text), Value::String(pattern), Value::Int(limit)] => (text, pattern, *limit),
        _ => return Err(no_such_overload()),
    };
    let regex = compile(pattern, "Illegal regex: error parsing regexp: ")?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    Ok(Value::list(regex.find_iter(text).take(limit).map(|found| Value::text(found.as_str())).collect()))
}
