//! The map of options that is the last argument of many host functions. Unknown options are errors.

use rhai::{Dynamic, EvalAltResult, NativeCallContext};
use serde_json::{Map, Value};

use crate::script::language::convert;
use crate::script::runtime::bounded;
use crate::script::values::script_error::Failure;

type Thrown = Box<EvalAltResult>;

/// The options of one call of a host function.
pub(super) struct Options {
    function: &'static str,
    known: &'static [&'static str],
    entries: Map<String, Value>,
}

impl Options {
    /// Returns the options of a call; without a map there are none.
    ///
    /// # Errors
    /// If it is not a map, or has a key that is not an option of the function.
    pub(super) fn read(
        function: &'static str,
        known: &'static [&'static str],
        given: Option<&Dynamic>,
    ) -> Result<Self, Thrown> {
        let entries = match given.map(|given| json(function, given)).transpose()? {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(entries)) => entries,
            Some(_) => return Err(Failure::argument(format!("the options of `{function}` must be a map")).into()),
        };
        match entries.keys().find(|key| !known.contains(&key.as_str())) {
            None => Ok(Self { function, known, entries }),
            Some(unknown) => {
                let known = known.join(", ");
                Err(Failure::argument(format!("`{function}` has no option `{unknown}`: there are {known}")).into())
            }
        }
    }

    /// Returns an option; `()` is null, which differs from an absent option.
    pub(super) fn value(&self, key: &str) -> Option<&Value> {
        debug_assert!(self.known.contains(&key), "{key} is an option");
        self.entries.get(key)
    }

    /// Returns a boolean option.
    ///
    /// # Errors
    /// If it is not a boolean.
    pub(super) fn switch(&self, key: &str, default: bool) -> Result<bool, Thrown> {
        match self.value(key) {
            None | Some(Value::Null) => Ok(default),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(_) => Err(self.wrong(key, "a boolean")),
        }
    }

    /// Returns a text option.
    ///
    /// # Errors
    /// If it is not a text.
    pub(super) fn text(&self, key: &str) -> Result<Option<&str>, Thrown> {
        match self.value(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.wrong(key, "a text")),
        }
    }

    /// Returns the error about an option of a wrong type.
    pub(super) fn wrong(&self, key: &str, expected: &str) -> Thrown {
        Failure::argument(format!("the option `{key}` of `{}` must be {expected}", self.function)).into()
    }
}

/// Returns an option as the script has given it, for what has no JSON form: bytes, and durations with their own rules.
pub(super) fn as_given(options: Option<&Dynamic>, key: &str) -> Option<Dynamic> {
    let value = options?.as_map_ref().ok()?.get(key).cloned();
    value.filter(|value| !value.is_unit())
}

/// Adds the position of the call to an error without one: the interpreter does so only for functions outside of
/// modules.
///
/// # Errors
/// The given error.
pub(super) fn placed<T>(native: &NativeCallContext<'_>, result: Result<T, Thrown>) -> Result<T, Thrown> {
    result.map_err(|mut error| {
        if error.position().is_none() {
            error.set_position(native.call_position());
        }
        error
    })
}

/// Returns the JSON form of an argument.
///
/// # Errors
/// If it has none.
pub(super) fn json(function: &str, value: &Dynamic) -> Result<Value, Thrown> {
    convert::to_json(value).map_err(|error| Failure::argument(format!("`{function}`: {error}")).into())
}

/// Returns a text argument.
///
/// # Errors
/// If it is not a text.
pub(super) fn text(function: &str, what: &str, value: &Dynamic) -> Result<String, Thrown> {
    match value.as_immutable_string_ref() {
        Ok(text) => Ok(text.to_string()),
        Err(_) => Err(Failure::argument(format!(
            "`{function}`: {what} must be a text, not {}",
            bounded::shortened(&convert::shown(value))
        ))
        .into()),
    }
}
