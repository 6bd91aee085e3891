//! What functions and operators do: found by name, they look at the types of their arguments themselves.

pub(crate) mod authorizer;
mod convert;
pub(super) mod format;
mod format_text;
mod lists;
pub(super) mod net;
mod operators;
mod optional;
mod pattern;
pub(super) mod quantity;
mod semantic_version;
mod text;
pub(crate) mod time;
mod url;

pub(super) use format_text::mistake as format_mistake;
pub(super) use operators::accumulate;

use super::evaluate::Error;
use super::value::Value;

/// What a function returns.
type Outcome = Result<Value, Error>;
/// A function: the value on which it is called is the first argument.
pub(super) type Function = fn(&[Value]) -> Outcome;

/// Returns the function of a name.
pub(super) fn of_name(name: &str) -> Option<Function> {
    operators::of_name(name)
        .or_else(|| convert::of_name(name))
        .or_else(|| text::of_name(name))
        .or_else(|| pattern::of_name(name))
        .or_else(|| time::of_name(name))
        .or_else(|| optional::of_name(name))
        .or_else(|| lists::of_name(name))
        .or_else(|| semantic_version::of_name(name))
        .or_else(|| net::of_name(name))
        .or_else(|| url::of_name(name))
        .or_else(|| format::of_name(name))
        .or_else(|| authorizer::of_name(name))
}

/// The error of a call with values that it is not for, which only happens where types are not known before.
pub(super) fn no_such_overload() -> Error {
    Error::new("no such overload")
}

fn failed(text: impl Into<String>) -> Error {
    Error::new(text.into())
}

fn whole(number: usize) -> Value {
    Value::Int(i64::try_from(number).unwrap_or(i64::MAX))
}
