//! The order and the identity of values: numbers compare with numbers, texts with texts, times with times, and lists
//! item by item.

use std::cmp::Ordering;

use rhai::{Dynamic, ImmutableString};

use crate::script::functions::support::{Thrown, WorkCounter, shown, wrong};
use crate::script::language::convert;
use crate::script::runtime::bounded;
use crate::script::values::time::Time;

/// The part of a value that decides whether it equals another one. As in Python, `1` equals `1.0`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) enum Identity {
    /// A text itself.
    Text(ImmutableString),
    /// The JSON of anything else.
    Json(String),
}

impl Identity {
    /// Returns the identity of a value.
    ///
    /// # Errors
    /// If the value has no JSON form, or the call must end.
    pub(super) fn of(function: &str, value: &Dynamic, work: &mut WorkCounter) -> Result<Self, Thrown> {
        if let Ok(text) = value.as_immutable_string_ref() {
            work.spend(text.len() + size_of::<Self>())?;
            return Ok(Self::Text(text.clone()));
        }
        if let Ok(c) = value.as_char() {
            return Ok(Self::Text(c.to_string().into()));
        }
        if let Some(whole) = value.as_float().ok().filter(|float| is_exact(*float)) {
            return Ok(Self::Json((whole as i64).to_string()));
        }
        let mut json = convert::to_json(value).map_err(|error| wrong(function, error))?;
        make_whole(&mut json);
        let text = bounded::json_text(&json);
        work.spend(text.len() + size_of::<Self>())?;
        Ok(Self::Json(text))
    }
}

/// Tells whether a float is an integer without a loss.
fn is_exact(float: f64) -> bool {
    float.fract() == 0.0 && float.abs() < 9e15
}

fn make_whole(json: &mut serde_json::Value) {
    match json {
        serde_json::Value::Number(number) => {
            if let Some(float) = number.as_f64().filter(|float| number.is_f64() && is_exact(*float)) {
                *number = (float as i64).into();
            }
        }
        serde_json::Value::Array(items) => items.iter_mut().for_each(make_whole),
        serde_json::Value::Object(entries) => entries.values_mut().for_each(make_whole),
        _ => {}
    }
}

/// Compares two values.
///
/// # Errors
/// If they have no common order, as a text and a number, or the call must end.
pub(super) fn compare(function: &str, a: &Dynamic, b: &Dynamic, work: &mut WorkCounter) -> Result<Ordering, Thrown> {
    if let (Ok(a), Ok(b)) = (a.as_immutable_string_ref(), b.as_immutable_string_ref()) {
        // The interpreter shares texts, so that large ones are often the same.
        work.spend(size_of::<Dynamic>() + if std::ptr::eq(a.as_str(), b.as_str()) { 0 } else { a.len().min(b.len()) })?;
        return Ok(if std::ptr::eq(a.as_str(), b.as_str()) { Ordering::Equal } else { a.as_str().cmp(b.as_str()) });
    }
    work.spend(size_of::<Dynamic>())?;
    if let (Ok(a), Ok(b)) = (a.as_array_ref(), b.as_array_ref()) {
        for (a, b) in a.iter().zip(b.iter()) {
            match compare(function, a, b, work)? {
                Ordering::Equal => {}
                different => return Ok(different),
            }
        }
        return Ok(a.len().cmp(&b.len()));
    }
    let found = if let (Ok(a), Ok(b)) = (a.as_int(), b.as_int()) {
        Some(a.cmp(&b))
    } else if let (Some(a), Some(b)) = (number(a), number(b)) {
        a.partial_cmp(&b)
    } else if let (Ok(a), Ok(b)) = (a.as_char(), b.as_char()) {
        Some(a.cmp(&b))
    } else if let (Ok(a), Ok(b)) = (a.as_bool(), b.as_bool()) {
        Some(a.cmp(&b))
    } else if let (Some(a), Some(b)) = (a.read_lock::<Time>(), b.read_lock::<Time>()) {
        a.partial_cmp(&b)
    } else {
        None
    };
    found.ok_or_else(|| wrong(function, format!("{} and {} have no order", shown(a), shown(b))))
}

/// Returns a number as a float.
pub(super) fn number(value: &Dynamic) -> Option<f64> {
    value.as_float().ok().or_else(|| value.as_int().ok().map(|integer| integer as f64))
}

/// Sorts items, and keeps the order of equal ones. Unlike the sorts of the standard library, it stops at an error.
///
/// # Errors
/// Those of the comparison.
pub(super) fn sort<T>(
    items: Vec<T>,
    compare: &mut impl FnMut(&T, &T) -> Result<Ordering, Thrown>,
) -> Result<Vec<T>, Thrown> {
    if items.len() <= 1 {
        return Ok(items);
    }
    let mut left = items;
    let right = left.split_off(left.len() / 2);
    let count = left.len() + right.len();
    let (left, right) = (sort(left, compare)?, sort(right, compare)?);
    let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
    let mut sorted = Vec::with_capacity(count);
    while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
        let next = if compare(a, b)?.is_gt() { right.next() } else { left.next() };
        sorted.extend(next);
    }
    sorted.extend(left.chain(right));
    Ok(sorted)
}
