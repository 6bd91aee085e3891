//! The type of functions in expressions.

use super::error::Error;
use super::value::Value;

/// The result of a function.
pub(super) type Outcome = Result<Value, Error>;
/// A function: its receiver is the first argument.
pub(super) type Function = fn(&[Value]) -> Outcome;

/// Returns a size or a position as a value.
pub(super) fn whole(number: usize) -> Value {
    Value::Int(i64::try_from(number).unwrap_or(i64::MAX))
}
