//! Operations on values that fail for wrong types.

use std::cmp::Ordering;

use super::{List, Value};
use crate::cel::error::{Error, no_such_overload};

/// Returns the error of a failed value when it is used.
pub(in crate::cel) fn usable(value: Value) -> Result<Value, Error> {
    match value {
        Value::Failed(text) => Err(Error::Failed(text)),
        value => Ok(value),
    }
}

/// Returns the order of two values, or an error if they are not comparable.
pub(in crate::cel) fn order(one: &Value, other: &Value) -> Result<Ordering, Error> {
    one.compare(other).ok_or_else(|| match (one, other) {
        (Value::Double(_), _) | (_, Value::Double(_)) => Error::new("NaN values cannot be ordered"),
        _ => no_such_overload(),
    })
}

/// Returns an item of a list, by an index that may be an integral number of any type.
pub(in crate::cel) fn item<'a>(list: &'a List, index: &Value) -> Result<Option<&'a Value>, Error> {
    let position = match index {
        Value::Int(index) => usize::try_from(*index).ok(),
        Value::Uint(index) => usize::try_from(*index).ok(),
        Value::Double(index) if index.fract() == 0.0 && *index >= 0.0 => Some(*index as usize),
        Value::Double(_) => None,
        _ => return Err(no_such_overload()),
    };
    Ok(position.and_then(|position| list.items.get(position)))
}
