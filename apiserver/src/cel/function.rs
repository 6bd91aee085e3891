//! What a function of expressions is.

use super::error::Error;
use super::value::Value;

/// What a function returns.
pub(super) type Outcome = Result<Value, Error>;
/// A function: the value on which it is called is the first argument.
pub(super) type Function = fn(&[Value]) -> Outcome;

/// Returns a size or a position as a value.
pub(super) fn whole(number: usize) -> Value {
    Value::Int(i64::try_from(number).unwrap_or(i64::MAX))
}
