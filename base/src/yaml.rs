//! Reads YAML into plain JSON values within limits, and writes it.
//!
//! Manifests, which need the position of every value, have their own reader.

use serde::de::{Deserialize, DeserializeOwned, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use serde_saphyr::Spanned;
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::options::{DuplicateKeyPolicy, NonFiniteFloatPolicy};

/// Texts larger than this are refused before they are parsed.
const MAX_BYTES: usize = 16 << 20;
/// Limit of the parts of values that aliases repeat.
const MAX_REPEATED: usize = 250_000;
/// Limit of nesting, because all functions over values recurse.
const MAX_DEPTH: usize = 64;

/// The reason why a text is not accepted as YAML, or a value cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The text is too large.
    #[error("the YAML has {0} bytes, at most {MAX_BYTES} are read")]
    Size(usize),
    /// The text cannot be read.
    #[error("{message} (line {line}, column {column})")]
    Syntax {
        /// The error.
        message: String,
        /// The line, from 1.
        line: usize,
        /// The column, from 1, in characters.
        column: usize,
    },
    /// The value cannot be written.
    #[error("{0}")]
    Dump(String),
}

/// Returns the values of all documents, except empty ones and nulls.
///
/// `yes` and `on` are texts, as in YAML 1.2; numbers with a leading zero are octal, as in Kubernetes for file modes.
///
/// # Errors
/// If the text is not YAML, has duplicate keys, is nested too deeply, or grows too large by its aliases.
pub fn parse(text: &str) -> Result<Vec<Value>, Error> {
    read(text, DuplicateKeyPolicy::Error)
}

/// Returns the values of all documents in another form than that of `serde_json`, which decides about empty documents.
///
/// # Errors
/// As for [`parse`], and the errors of the form.
pub fn parse_as<T: DeserializeOwned>(text: &str) -> Result<Vec<T>, Error> {
    read(text, DuplicateKeyPolicy::Error)
}

/// A document that may have duplicate keys: the last one is used.
#[derive(Debug, Clone, PartialEq)]
pub struct Lenient {
    /// The value.
    pub value: Value,
    /// The duplicate keys, with their lines, from 1.
    pub repeated: Vec<(u64, String)>,
}

/// Returns the first document of a text, if there is one, like [`parse`], but with duplicate keys allowed.
///
/// # Errors
/// As for [`parse`].
pub fn parse_leniently(text: &str) -> Result<Option<Lenient>, Error> {
    let mut documents: Vec<Lenient> = read(text, DuplicateKeyPolicy::PassThrough)?;
    documents.truncate(1);
    Ok(documents.pop())
}

fn read<T: DeserializeOwned>(text: &str, duplicate_keys: DuplicateKeyPolicy) -> Result<Vec<T>, Error> {
    if text.len() > MAX_BYTES {
        return Err(Error::Size(text.len()));
    }
    let options = serde_saphyr::options! {
        // The size of the text bounds the values that are written in it, and the options for aliases bound the repeated
        // ones.
        budget: serde_saphyr::budget! { max_depth: MAX_DEPTH, max_documents: usize::MAX, max_nodes: usize::MAX, max_events: usize::MAX },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: MAX_REPEATED },
        duplicate_keys: duplicate_keys,
        strict_booleans: true,
        legacy_octal_numbers: true,
        reject_unsupported_tags: true,
        non_finite_float_policy: NonFiniteFloatPolicy::Reject,
        with_snippet: false,
    };
    serde_saphyr::from_multiple_with_options(text, options).map_err(|error| syntax(&error))
}

impl<'de> Deserialize<'de> for Lenient {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reading)
    }
}

impl Lenient {
    fn plain(value: impl Into<Value>) -> Self {
        Self { value: value.into(), repeated: Vec::new() }
    }
}

struct Reading;

impl<'de> Visitor<'de> for Reading {
    type Value = Lenient;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a YAML value")
    }

    fn visit_unit<E>(self) -> Result<Lenient, E> {
        Ok(Lenient::plain(Value::Null))
    }

    fn visit_none<E>(self) -> Result<Lenient, E> {
        Ok(Lenient::plain(Value::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Lenient, E> {
        Ok(Lenient::plain(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Lenient, E> {
        Ok(Lenient::plain(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Lenient, E> {
        Ok(Lenient::plain(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Lenient, E> {
        Ok(Lenient::plain(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Lenient, E> {
        Ok(Lenient::plain(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Lenient, A::Error> {
        let (mut list, mut repeated) = (Vec::new(), Vec::new());
        while let Some(item) = items.next_element::<Lenient>()? {
            list.push(item.value);
            repeated.extend(item.repeated);
        }
        Ok(Lenient { value: Value::Array(list), repeated })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Lenient, A::Error> {
        let (mut map, mut repeated) = (Map::new(), Vec::new());
        while let Some(key) = members.next_key::<Spanned<String>>()? {
            let member: Lenient = members.next_value()?;
            repeated.extend(member.repeated);
            if map.insert(key.value.clone(), member.value).is_some() {
                repeated.push((key.referenced.line(), key.value));
            }
        }
        Ok(Lenient { value: Value::Object(map), repeated })
    }
}

/// Returns a value as one YAML document.
///
/// # Errors
/// If the value cannot be written as YAML.
pub fn dump(value: &Value) -> Result<String, Error> {
    let options = serde_saphyr::ser_options! { compact_list_indent: true };
    serde_saphyr::to_string_with_options(value, options).map_err(|error| Error::Dump(error.to_string()))
}

fn syntax(error: &serde_saphyr::Error) -> Error {
    let (line, column) = error.location().map_or((1, 1), |place| (place.line() as usize, place.column() as usize));
    let mut cause = error;
    while let serde_saphyr::Error::AliasError { error, .. } = cause {
        cause = error;
    }
    let message = match cause {
        serde_saphyr::Error::Budget { breach: BudgetBreach::Depth { .. }, .. } => {
            format!("the YAML is nested deeper than {MAX_DEPTH} levels")
        }
        serde_saphyr::Error::Budget { .. } | serde_saphyr::Error::AliasReplayLimitExceeded { .. } => {
            "the YAML grows too large by its aliases".to_owned()
        }
        _ => error.to_string(),
    };
    // The parser's messages end with the position, or with advice for programmers.
    let end = [" at line ", ", set DuplicateKeyPolicy", " rejected by the configured"]
        .iter()
        .filter_map(|mark| message.find(mark))
        .min();
    Error::Syntax { message: message[..end.unwrap_or(message.len())].to_owned(), line, column }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;
    use serde_json::json;

    #[test]
    fn documents_become_values_and_empty_ones_vanish() {
        assert_eq!(parse("a: 1\n---\n---\nnull\n---\n- b\n").unwrap(), [json!({"a": 1}), json!(["b"])]);
        assert_eq!(parse("").unwrap(), [] as [Value; 0]);
    }

    #[test]
    fn scalars_are_those_of_kubernetes() {
        let text = "{yes: yes, on: on, t: true, mode: 0644, f: 1.5, e: 1e3, n: ~, q: '1', 1: x}";
        let expected = json!({"yes": "yes", "on": "on", "t": true, "mode": 420, "f": 1.5, "e": 1000.0, "n": null, "q": "1", "1": "x"});
        assert_eq!(parse(text).unwrap(), [expected]);
    }

    #[test]
    fn duplicate_keys_are_allowed_by_the_lenient_parser() {
        let read =
            parse_leniently("a: 1\nb: {x: 1, x: 2.5}\n1: y\na: [{z: ~, z: true}]\n---\nc: 1\n").unwrap().unwrap();
        assert_eq!(read.value, json!({"a": [{"z": true}], "b": {"x": 2.5}, "1": "y"}));
        assert_eq!(read.repeated, [(2, "x".to_owned()), (4, "z".to_owned()), (4, "a".to_owned())]);
        assert_eq!(parse_leniently("").unwrap(), None);
        assert!(parse_leniently("a: [").is_err());
    }

    #[test]
    fn mistakes_have_a_position() {
        let refused = |text: &str| parse(text).unwrap_err().to_string();
        assert_eq!(refused("a: 1\na: 2\n"), "duplicate mapping key: a (line 2, column 1)");
        assert_eq!(refused("- a\n b: c\n"), "mapping values are not allowed in this context (line 2, column 3)");
        assert_eq!(refused("a: !thing 2\n"), "unsupported tag `!thing` (line 1, column 11)");
        assert_eq!(refused("a: .nan\n"), "non-finite float `.nan` (line 1, column 4)");
        assert_eq!(refused("a: *b\n"), "alias references unknown anchor (line 1, column 4)");
        assert!(refused(&"- ".repeat(100)).starts_with("the YAML is nested deeper than 64 levels"));
    }

    #[test]
    fn many_documents_and_values_are_read() {
        assert_eq!(parse(&"---\na: {b: [1, 2]}\n".repeat(5_000)).unwrap().len(), 5_000);
        assert_eq!(parse(&"- 1\n".repeat(300_000)).unwrap()[0].as_array().map(Vec::len), Some(300_000));
    }

    #[test]
    fn bombs_are_defused() {
        let mut bomb = "a: &a [x, x, x, x, x, x, x, x, x]\n".to_owned();
        for (name, before) in ('b'..='j').zip('a'..) {
            let aliases = vec![format!("*{before}"); 9].join(", ");
            writeln!(bomb, "{name}: &{name} [{aliases}]").unwrap();
        }
        let refused = parse(&bomb).unwrap_err().to_string();
        assert!(refused.starts_with("the YAML grows too large by its aliases"), "{refused}");
        assert!(parse(&"- ".repeat(MAX_DEPTH)).is_ok() && parse(&"- ".repeat(MAX_DEPTH + 1)).is_err());
        assert!(parse(&"[".repeat(100_000)).is_err());
        assert!(parse(&"- ".repeat(100_000)).is_err());
        assert_eq!(parse(&" ".repeat(MAX_BYTES + 1)), Err(Error::Size(MAX_BYTES + 1)));
    }

    #[test]
    fn dumped_values_parse_to_the_same() {
        let value = json!({"a": [1, {"b": "yes"}, []], "text": "two\nlines\n", "on": "0644", "n": null, "empty": {}, "f": 1.0, "date": "2020-01-01"});
        assert_eq!(parse(&dump(&value).unwrap()).unwrap(), [value]);
    }
}
