//! The options of a request, as the script has given them. Unlike those of other functions they may be bytes.

use std::time::Duration;

use rhai::{Dynamic, Map};

use super::hosts::Thrown;
use crate::object::quantity::Quantity;
use crate::script::functions::options::json;
use crate::script::language::bytes::Bytes;
use crate::script::language::convert;
use crate::script::values::script_error::Failure;
use crate::script::values::time;

/// A map of options.
pub(super) struct Given {
    function: String,
    /// The name of the map in messages: `option` or the name of an option.
    noun: String,
    entries: Map,
}

impl Given {
    /// Returns the options of a call; without a map there are none.
    ///
    /// # Errors
    /// If it is not a map, or has a key that is not an option of the function.
    pub(super) fn options(function: &str, known: &[&str], given: Option<&Dynamic>) -> Result<Self, Thrown> {
        let entries = match given.filter(|given| !given.is_unit()) {
            None => Map::new(),
            Some(given) => map_of(function, "the options", given)?,
        };
        Self { function: function.to_owned(), noun: String::new(), entries }.with_known(known)
    }

    /// Returns the map of an option, with known keys.
    ///
    /// # Errors
    /// If it has another type.
    pub(super) fn part(&self, key: &str, known: &[&str]) -> Result<Option<Self>, Thrown> {
        let Some(entries) = self.map(key)? else { return Ok(None) };
        Self { function: self.function.clone(), noun: format!("{}{key}.", self.noun), entries }
            .with_known(known)
            .map(Some)
    }

    /// Returns the map of an option, with any keys.
    ///
    /// # Errors
    /// If it has another type.
    pub(super) fn part_of_any(&self, key: &str) -> Result<Option<Self>, Thrown> {
        let Some(entries) = self.map(key)? else { return Ok(None) };
        Ok(Some(Self { function: self.function.clone(), noun: format!("{}{key}.", self.noun), entries }))
    }

    fn with_known(self, known: &[&str]) -> Result<Self, Thrown> {
        match self.entries.keys().find(|key| !known.contains(&key.as_str())) {
            None => Ok(self),
            Some(unknown) => {
                let text = format!(
                    "`{}` has no option `{}{unknown}`: there are {}",
                    self.function,
                    self.noun,
                    known.join(", ")
                );
                Err(Failure::argument(text).into())
            }
        }
    }

    /// Returns an option; `()` counts as missing.
    pub(super) fn value(&self, key: &str) -> Option<&Dynamic> {
        self.entries.get(key).filter(|value| !value.is_unit())
    }

    /// Returns the keys.
    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(AsRef::as_ref)
    }

    /// Returns a text.
    ///
    /// # Errors
    /// If it has another type.
    pub(super) fn text(&self, key: &str) -> Result<Option<String>, Thrown> {
        let Some(value) = self.value(key) else { return Ok(None) };
        value.as_immutable_string_ref().map(|text| Some(text.to_string())).map_err(|_| self.wrong(key, "a text"))
    }

    /// Returns the text of a plain value.
    ///
    /// # Errors
    /// If it has another type.
    pub(super) fn plain(&self, key: &str) -> Result<Option<String>, Thrown> {
        let Some(value) = self.value(key) else { return Ok(None) };
        if value.is_map() || value.is_array() {
            return Err(self.wrong(key, "a plain value"));
        }
        if value.is::<Bytes>() { self.secret(key) } else { Ok(Some(convert::shown(value))) }
    }

    /// Returns a text that must be given.
    ///
    /// # Errors
    /// If it is missing, or has another type.
    pub(super) fn required(&self, key: &str) -> Result<String, Thrown> {
        self.secret(key)?.ok_or_else(|| self.wrong(key, "given"))
    }

    /// Returns a text, which may be given as bytes.
    ///
    /// # Errors
    /// If it has another type, or the bytes are not UTF-8.
    pub(super) fn secret(&self, key: &str) -> Result<Option<String>, Thrown> {
        let Some(bytes) = self.bytes(key)? else { return Ok(None) };
        String::from_utf8(bytes).map(Some).map_err(|_| self.wrong(key, "UTF-8 text"))
    }

    /// Returns the bytes of a text or of bytes.
    ///
    /// # Errors
    /// If it has another type.
    pub(super) fn bytes(&self, key: &str) -> Result<Option<Vec<u8>>, Thrown> {
        let Some(value) = self.value(key) else { return Ok(None) };
        Bytes::of(&self.function, &format!("the option `{}{key}`", self.noun), value)
            .map(|bytes| Some(bytes.0.to_vec()))
    }

    /// Returns a boolean.
    ///
    /// # Errors
    /// If it has another type.
    pub(super) fn flag(&self, key: &str, default: bool) -> Result<bool, Thrown> {
        self.value(key).map_or(Ok(default), |value| value.as_bool().map_err(|_| self.wrong(key, "a boolean")))
    }

    /// Returns an integer between zero and a limit.
    ///
    /// # Errors
    /// If it has another type.
    pub(super) fn count(&self, key: &str, default: usize, max: usize) -> Result<usize, Thrown> {
        let Some(value) = self.value(key) else { return Ok(default) };
        let number =
            value.as_int().ok().and_then(|number| usize::try_from(number).ok()).filter(|number| *number <= max);
        number.ok_or_else(|| self.wrong(key, &format!("an integer from 0 to {max}")))
    }

    /// Returns a duration: seconds, or a text.
    ///
    /// # Errors
    /// If it has another type.
    pub(super) fn duration(&self, key: &str) -> Result<Option<Duration>, Thrown> {
        let Some(value) = self.value(key) else { return Ok(None) };
        time::duration(value).map(Some).map_err(|_| self.wrong(key, "seconds, or a text such as \"30s\""))
    }

    /// Returns a size: a number of bytes, or a text such as `"8Mi"`.
    ///
    /// # Errors
    /// If it has another type.
    pub(super) fn size(&self, key: &str) -> Result<Option<usize>, Thrown> {
        let Some(value) = self.value(key) else { return Ok(None) };
        let bytes = match value.as_int() {
            Ok(bytes) => Some(bytes as f64),
            Err(_) => {
                value.as_immutable_string_ref().ok().and_then(|text| Quantity::parse(&text).ok()).map(Quantity::as_f64)
            }
        };
        let bytes = bytes.filter(|bytes| *bytes >= 0.0).map(|bytes| bytes as usize);
        bytes.map(Some).ok_or_else(|| self.wrong(key, "a number of bytes, or a text such as \"8Mi\""))
    }

    /// Returns a map.
    ///
    /// # Errors
    /// If it has another type.
    pub(super) fn map(&self, key: &str) -> Result<Option<Map>, Thrown> {
        let Some(value) = self.value(key) else { return Ok(None) };
        map_of(&self.function, &format!("the option `{}{key}`", self.noun), value).map(Some)
    }

    /// Returns the bytes of an item of an option: of a text or of bytes.
    ///
    /// # Errors
    /// If it has another type.
    pub(super) fn item(&self, key: &str, item: &Dynamic) -> Result<Vec<u8>, Thrown> {
        Bytes::of(&self.function, &format!("each item of `{}{key}`", self.noun), item).map(|bytes| bytes.0.to_vec())
    }

    /// Returns the error about an option of a wrong type. Values may be secrets, and are not shown.
    pub(super) fn wrong(&self, key: &str, expected: &str) -> Thrown {
        Failure::argument(format!("the option `{}{key}` of `{}` must be {expected}", self.noun, self.function)).into()
    }
}

fn map_of(function: &str, what: &str, value: &Dynamic) -> Result<Map, Thrown> {
    if let Ok(map) = value.as_map_ref() {
        return Ok(map.clone());
    }
    let wrong = || Failure::argument(format!("`{function}`: {what} must be a map")).into();
    convert::to_dynamic(&json(function, value)?).try_cast::<Map>().ok_or_else(wrong)
}
