//! The options of sub-handlers in scripts: the same keys and matchers as in manifests.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use regex::Regex;
use rhai::{Dynamic, FnPtr, ImmutableString, Map};
use serde_json::Value;

use crate::handling::{ErrorMode, Filters, Matcher, Policy, Predicate};
use crate::object::FieldPath;
use crate::script::language::convert;
use crate::script::runtime::function::{Closure, Function};
use crate::script::values::script_error::Failure;
use crate::script::values::time;

/// The known options.
const WORDS: [&str; 12] = [
    "param",
    "errors",
    "retries",
    "timeout",
    "backoff",
    "labels",
    "annotations",
    "field",
    "value",
    "old",
    "new",
    "when",
];

/// The known matchers.
const MATCHERS: [&str; 6] = ["equals", "present", "in", "notIn", "matches", "when"];

/// A filter that needs an evaluation.
#[derive(Clone)]
pub(super) enum Condition {
    /// An expression, written as a text.
    Expression(Rc<Function>),
    /// A closure.
    Closure(Closure),
}

/// The options of one sub-handler.
pub(super) struct Options {
    /// The value of `param`.
    pub param: Value,
    /// The error policy.
    pub policy: Policy,
    /// The field, relative to the parent's.
    pub field: Option<FieldPath>,
    /// The filters.
    pub filters: Filters,
    /// All conditions of the registry, with those of this sub-handler.
    pub conditions: Vec<Condition>,
}

/// Options as written in a script.
pub(super) struct Written<'a> {
    /// The map.
    pub options: Map,
    /// The existing conditions.
    pub conditions: Vec<Condition>,
    /// Compiles a condition, with or without a `value`.
    pub compile: &'a mut dyn FnMut(&Dynamic, bool) -> Result<Condition, Failure>,
}

impl Written<'_> {
    /// Returns the options.
    ///
    /// # Errors
    /// If there are unknown options or invalid values.
    pub(super) fn read(mut self) -> Result<Options, Failure> {
        if let Some(unknown) = self.options.keys().find(|key| !WORDS.contains(&key.as_str())) {
            return Err(Failure::argument(format!(
                "unknown option `{unknown}` of a sub-handler; there are {}",
                WORDS.join(", ")
            )));
        }
        let param = json("param", &self.take("param"))?;
        let policy = self.policy()?;
        let field = self.field()?;
        let filters = self.filters(field.is_some())?;
        Ok(Options { param, policy, field, filters, conditions: self.conditions })
    }

    fn take(&mut self, word: &str) -> Dynamic {
        self.options.remove(word).unwrap_or_default()
    }

    fn policy(&mut self) -> Result<Policy, Failure> {
        let retries = self.take("retries");
        let retries = if retries.is_unit() { None } else { Some(count(&retries)?) };
        let timeout = self.duration("timeout")?;
        let backoff = self.duration("backoff")?;
        let errors = match self.take("errors") {
            value if value.is_unit() => None,
            value => Some(match convert::shown(&value).as_str() {
                "temporary" => ErrorMode::Temporary,
                "permanent" => ErrorMode::Permanent,
                "ignored" => ErrorMode::Ignored,
                other => {
                    return Err(Failure::argument(format!("`errors` is temporary, permanent or ignored, not {other}")));
                }
            }),
        };
        Ok(Policy { retries, timeout, backoff, errors })
    }

    fn duration(&mut self, word: &str) -> Result<Option<Duration>, Failure> {
        let value = self.take(word);
        if value.is_unit() { Ok(None) } else { time::duration(&value).map(Some) }
    }

    fn field(&mut self) -> Result<Option<FieldPath>, Failure> {
        Ok(match json("field", &self.take("field"))? {
            Value::Null => None,
            Value::String(text) if text.starts_with('$') => {
                Some(FieldPath::json_path(&text).map_err(|error| Failure::argument(format!("`field` is {error}")))?)
            }
            Value::String(text) => Some(FieldPath::dotted(&text)),
            Value::Array(keys) => Some(FieldPath::of_keys(
                keys.iter().map(|key| key.as_str().map_or_else(|| key.to_string(), str::to_owned)).collect(),
            )),
            _ => return Err(Failure::argument("`field` is a dotted text, a JSONPath, or a list of keys")),
        })
    }

    fn filters(&mut self, has_field: bool) -> Result<Filters, Failure> {
        let labels = self.texts("labels")?;
        let annotations = self.texts("annotations")?;
        let mut sides = [None, None, None];
        for (side, word) in sides.iter_mut().zip(["value", "old", "new"]) {
            if let Some(value) = self.options.remove(word) {
                if !has_field {
                    return Err(Failure::argument(format!("`{word}` needs a `field`")));
                }
                *side = Some(self.matcher(word, &value)?);
            }
        }
        let [value, old, new] = sides;
        if value.is_some() && (old.is_some() || new.is_some()) {
            return Err(Failure::argument("`value` excludes `old` and `new`"));
        }
        let when = self.take("when");
        let when = if when.is_unit() { None } else { Some(self.condition(&when, false)?) };
        Ok(Filters { labels, annotations, value, old, new, when })
    }

    fn texts(&mut self, word: &str) -> Result<Vec<(String, Matcher)>, Failure> {
        let value = self.take(word);
        if value.is_unit() {
            return Ok(Vec::new());
        }
        let entries = value.try_cast::<Map>().ok_or_else(|| Failure::argument(format!("`{word}` is a map")))?;
        let mut matchers = Vec::new();
        for (key, value) in entries {
            if !(value.is_string() || value.is_map()) {
                return Err(Failure::argument(format!("`{word}` are texts: write the pattern of `{key}` in quotes")));
            }
            matchers.push((key.to_string(), self.matcher(word, &value)?));
        }
        Ok(matchers)
    }

    fn condition(&mut self, value: &Dynamic, has_value: bool) -> Result<Predicate, Failure> {
        // A constant condition may be written as a boolean.
        let value = if value.is_bool() { Dynamic::from(value.to_string()) } else { value.clone() };
        let condition = (self.compile)(&value, has_value)?;
        self.conditions.push(condition);
        Ok(Predicate(self.conditions.len() - 1))
    }

    fn matcher(&mut self, word: &str, value: &Dynamic) -> Result<Matcher, Failure> {
        if value.is_unit() {
            return Err(Failure::argument(format!("`{word}` cannot be `()`: write #{{present: false}}")));
        }
        if value.is::<FnPtr>() {
            return Ok(Matcher::When(self.condition(value, true)?));
        }
        let Some(entries) = value.read_lock::<Map>() else { return Ok(Matcher::Equals(json(word, value)?)) };
        let mut matchers = Vec::new();
        for (key, value) in &*entries {
            matchers.push(match key.as_str() {
                "equals" => Matcher::Equals(json(word, value)?),
                "present" if value.as_bool() == Ok(true) => Matcher::Present,
                "present" if value.as_bool() == Ok(false) => Matcher::Absent,
                "in" => Matcher::In(list(word, value)?),
                "notIn" => Matcher::NotIn(list(word, value)?),
                "matches" => Matcher::Matches(Arc::new(pattern(value)?)),
                "when" => Matcher::When(self.condition(value, true)?),
                other => {
                    let known = MATCHERS.join(", ");
                    return Err(Failure::argument(format!(
                        "{other} is no matcher of `{word}`: there are {known}; a map is written in `equals`"
                    )));
                }
            });
        }
        match matchers.len() {
            0 => Err(Failure::argument(format!("the matcher of `{word}` is empty"))),
            1 => Ok(matchers.remove(0)),
            _ => Ok(Matcher::All(matchers)),
        }
    }
}

fn json(word: &str, value: &Dynamic) -> Result<Value, Failure> {
    convert::to_json(value).map_err(|error| Failure::argument(format!("`{word}`: {error}")))
}

fn list(word: &str, value: &Dynamic) -> Result<Vec<Value>, Failure> {
    match json(word, value)? {
        Value::Array(items) => Ok(items),
        _ => Err(Failure::argument(format!("`in` and `notIn` of `{word}` are lists"))),
    }
}

fn pattern(value: &Dynamic) -> Result<Regex, Failure> {
    let text = value.read_lock::<ImmutableString>().map(|text| text.to_string());
    let text = text.ok_or_else(|| Failure::argument("`matches` is a regular expression in a text"))?;
    Regex::new(&text).map_err(|error| Failure::argument(format!("`matches` is no regular expression: {error}")))
}

fn count(value: &Dynamic) -> Result<u64, Failure> {
    let count = value.as_int().ok().and_then(|count| u64::try_from(count).ok());
    count.ok_or_else(|| Failure::argument("`retries` is a number of attempts"))
}
