//! Reads typed values from a tree. Errors are collected and do not stop the reading.

use std::cell::RefCell;
use std::collections::HashSet;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use regex::Regex;

use crate::kit::duration::{self, ParseError};

use super::diagnostic::{Diagnostic, Severity};
use super::source::Source;
use super::suggest::{nearest, one_of};
use super::tree::{Entry, Kind, MERGE, Mistake, Node, SourceSpan, Text};
use super::values::{self, MAX_DURATION, shown};

/// Limit of diagnostics for one file: more are not readable, and a hostile file must not fill the memory.
const MAX_DIAGNOSTICS: usize = 1_000;

/// A file and its diagnostics so far.
#[derive(Debug)]
pub struct Reader {
    /// The file.
    pub source: Source,
    found: RefCell<Vec<Diagnostic>>,
}

/// A value with its path.
#[derive(Debug, Clone)]
pub struct Item<'a> {
    /// The value.
    pub node: &'a Node,
    /// The path in the YAML.
    pub path: String,
    /// The position of its key; in a list, of the value.
    pub key: SourceSpan,
}

/// The entries of a mapping with a fixed set of keys.
#[derive(Debug)]
pub struct Fields<'a> {
    /// The mapping.
    pub item: Item<'a>,
    /// The name of the mapping, for messages.
    pub noun: &'static str,
    entries: &'a [Entry],
    misspelt: Vec<&'static str>,
}

impl<'a> Item<'a> {
    /// Returns the key of the value, for messages.
    pub fn name(&self) -> &str {
        self.path.rsplit('.').next().unwrap_or(&self.path)
    }

    /// Returns the position of the value, or of its key if the value is empty.
    pub fn spot(&self) -> SourceSpan {
        if self.node.is_null() { self.key } else { self.node.spot }
    }

    /// Returns the items of a list, if it is one.
    pub fn items(&self) -> Option<Vec<Item<'a>>> {
        let Kind::List(nodes) = &self.node.kind else { return None };
        let item =
            |(index, node): (usize, &'a Node)| Item { node, path: format!("{}[{index}]", self.path), key: node.spot };
        Some(nodes.iter().enumerate().map(item).collect())
    }

    /// Returns the entries of a mapping, if it is one.
    pub fn entries(&self) -> Option<Vec<(&'a str, Item<'a>)>> {
        let Kind::Map(entries) = &self.node.kind else { return None };
        Some(entries.iter().map(|entry| (entry.key.as_str(), self.child(entry))).collect())
    }

    fn child(&self, entry: &'a Entry) -> Item<'a> {
        let path = if self.path.is_empty() { entry.key.clone() } else { format!("{}.{}", self.path, entry.key) };
        Item { node: &entry.value, path, key: entry.spot }
    }
}

impl<'a> Fields<'a> {
    /// Returns the value of a key; null counts as absent.
    pub fn get(&self, key: &str) -> Option<Item<'a>> {
        self.raw(key).filter(|item| !item.node.is_null())
    }

    /// Returns the value of a key, including null.
    pub fn raw(&self, key: &str) -> Option<Item<'a>> {
        self.entries.iter().find(|entry| entry.key == key).map(|entry| self.item.child(entry))
    }

    /// Tells whether a key exists, or was probably meant by a misspelt one.
    pub fn mentions(&self, key: &str) -> bool {
        self.get(key).is_some() || self.misspelt.contains(&key)
    }
}

impl Reader {
    /// Returns a reader of a file.
    pub fn new(source: Source) -> Self {
        Self { source, found: RefCell::default() }
    }

    /// Returns the diagnostics without duplicates.
    pub fn finish(self) -> Vec<Diagnostic> {
        let mut seen = HashSet::new();
        let mut found = self.found.into_inner();
        found.retain(|one| seen.insert((one.place.clone(), one.message.clone())));
        found
    }

    /// Tells whether there is an error about a value or its contents.
    pub fn has_errors_in(&self, path: &str) -> bool {
        let is_in =
            |found: &str| found.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']));
        self.found.borrow().iter().any(|one| one.is_error() && one.path.as_deref().is_some_and(is_in))
    }

    /// Tells whether there is an error so far.
    pub fn has_errors(&self) -> bool {
        self.found.borrow().iter().any(Diagnostic::is_error)
    }

    /// Adds a diagnostic with a position.
    pub fn report(&self, severity: Severity, spot: SourceSpan, path: &str, message: String, hint: Option<String>) {
        if self.is_full() {
            return;
        }
        self.found.borrow_mut().push(self.source.diagnostic(severity, spot, message, hint).at_path(path));
    }

    fn is_full(&self) -> bool {
        self.found.borrow().len() >= MAX_DIAGNOSTICS
    }

    /// Adds a YAML error.
    pub fn take(&self, mistake: Mistake) {
        self.report(
            Severity::Error,
            mistake.spot,
            mistake.path.as_deref().unwrap_or_default(),
            mistake.message,
            mistake.hint,
        );
    }

    /// Adds an error about a value, with a hint.
    pub fn error_with(&self, item: &Item<'_>, message: impl Into<String>, hint: impl Into<String>) {
        self.report(Severity::Error, item.spot(), &item.path, message.into(), Some(hint.into()));
    }

    /// Adds an error about a key, with a hint.
    pub fn key_error(&self, item: &Item<'_>, message: impl Into<String>, hint: impl Into<String>) {
        self.report(Severity::Error, item.key, &item.path, message.into(), Some(hint.into()));
    }

    /// Adds a warning about a value.
    pub fn warn(&self, item: &Item<'_>, message: impl Into<String>, hint: impl Into<String>) {
        self.report(Severity::Warning, item.spot(), &item.path, message.into(), Some(hint.into()));
    }

    /// Adds a hint about a value.
    pub fn hint(&self, item: &Item<'_>, message: impl Into<String>, hint: impl Into<String>) {
        self.report(Severity::Hint, item.spot(), &item.path, message.into(), Some(hint.into()));
    }

    /// Adds an error about a value of a wrong type.
    pub fn mistyped(&self, item: &Item<'_>, wanted: &str, hint: impl Into<String>) {
        self.error_with(item, format!("`{}` must be {wanted}, not {}", item.name(), item.node.noun()), hint);
    }

    /// Returns the entries of a mapping with these known keys.
    pub fn fields<'a>(&self, item: &Item<'a>, noun: &'static str, known: &[&'static str]) -> Option<Fields<'a>> {
        self.fields_but(item, noun, known, |_| None)
    }

    /// Returns the entries of a mapping; `special` returns a message and a hint for particular unknown keys.
    pub fn fields_but<'a>(
        &self,
        item: &Item<'a>,
        noun: &'static str,
        known: &[&'static str],
        special: impl Fn(&str) -> Option<(String, String)>,
    ) -> Option<Fields<'a>> {
        let Kind::Map(entries) = &item.node.kind else {
            let place = if item.path.is_empty() { noun.to_owned() } else { format!("`{}`", item.name()) };
            let message = format!("{place} must be a mapping, not {}", item.node.noun());
            let hint = match &item.node.kind {
                Kind::List(_) => "write its keys directly, without `- ` and `[…]`",
                _ => "write keys with values: `key: value`",
            };
            self.report(Severity::Error, item.spot(), &item.path, message, Some(hint.to_owned()));
            return None;
        };
        // An existing key was not meant by an unknown one.
        let is_free = |known: &&&'static str| !entries.iter().any(|entry| entry.key == **known);
        let free: Vec<&'static str> = known.iter().filter(is_free).copied().collect();
        let mut misspelt = Vec::new();
        for entry in entries.iter().filter(|entry| !known.contains(&entry.key.as_str())) {
            if self.is_full() {
                break;
            }
            if entry.key == MERGE {
                // Merge keys were reported already, and could contain any key.
                misspelt.extend(known);
                continue;
            }
            let child = item.child(entry);
            if let Some((message, hint)) = special(&entry.key) {
                self.key_error(&child, message, hint);
                continue;
            }
            let hint = match nearest(&entry.key, free.iter().copied()) {
                Some(suggestion) => {
                    misspelt.extend(known.iter().copied().filter(|known| *known == suggestion));
                    format!("did you mean `{suggestion}`?")
                }
                None => format!("known are {}", one_of(known).replace(" or ", " and ")),
            };
            self.key_error(&child, format!("unknown field `{}` in {noun}", entry.key), hint);
        }
        Some(Fields { item: item.clone(), noun, entries, misspelt })
    }

    /// Returns a required value; if it is missing, reports an error, unless a misspelt key explains it.
    pub fn required<'a>(&self, fields: &Fields<'a>, key: &'static str, hint: &str) -> Option<Item<'a>> {
        let found = fields.get(key);
        if found.is_none() && !fields.misspelt.contains(&key) {
            let message = format!("{} needs `{key}`", fields.noun);
            let spot = fields.raw(key).map_or(fields.item.spot(), |null| null.key);
            self.report(
                Severity::Error,
                SourceSpan { length: spot.length.min(1), ..spot },
                &fields.item.path,
                message,
                Some(hint.to_owned()),
            );
        }
        found
    }

    /// Returns the items of a list.
    pub fn list<'a>(&self, item: &Item<'a>) -> Vec<Item<'a>> {
        item.items().unwrap_or_else(|| {
            self.mistyped(item, "a list", "put it in a list: `- …` or `[…]`");
            Vec::new()
        })
    }

    /// Returns the items of a list that may be absent.
    pub fn list_of<'a>(&self, fields: &Fields<'a>, key: &str) -> Vec<Item<'a>> {
        fields.get(key).map(|item| self.list(&item)).unwrap_or_default()
    }

    /// Returns a non-empty string.
    pub fn text<'a>(&self, item: &Item<'a>) -> Option<&'a Text> {
        match &item.node.kind {
            Kind::Text(text) if text.value.is_empty() => {
                self.error_with(item, format!("`{}` is empty", item.name()), "fill it in, or leave it out");
                None
            }
            Kind::Text(text) => Some(text),
            Kind::Number(_) | Kind::Bool(_) => {
                self.mistyped(item, "a string", "put it in quotes");
                None
            }
            _ => {
                let marks =
                    if matches!(item.node.kind, Kind::List(_)) { "`- ` and `[…]`" } else { "keys and `{…}`" };
                self.mistyped(item, "a string", format!("write a single value, without {marks}"));
                None
            }
        }
    }

    /// Returns an owned, non-empty string, if the key exists.
    pub fn string(&self, fields: &Fields<'_>, key: &str) -> Option<String> {
        fields.get(key).and_then(|item| self.text(&item)).map(|text| text.value.clone())
    }

    /// Returns a boolean.
    pub fn boolean(&self, item: &Item<'_>) -> Option<bool> {
        match &item.node.kind {
            Kind::Bool(value) => Some(*value),
            Kind::Text(text)
                if !text.is_quoted
                    && matches!(text.value.to_lowercase().as_str(), "yes" | "on" | "y" | "no" | "off" | "n") =>
            {
                let suggestion = matches!(text.value.to_lowercase().as_str(), "yes" | "on" | "y");
                self.mistyped(
                    item,
                    "`true` or `false`",
                    format!("in YAML 1.2 `{}` is a string: write `{suggestion}`", text.value),
                );
                None
            }
            _ => {
                let is_quoted = item.node.text().is_some_and(|text| matches!(text, "true" | "false"));
                self.mistyped(
                    item,
                    "`true` or `false`",
                    if is_quoted { "leave out the quotes" } else { "write `true` or `false`" },
                );
                None
            }
        }
    }

    /// Returns a boolean, if the key exists.
    pub fn flag(&self, fields: &Fields<'_>, key: &str) -> Option<bool> {
        fields.get(key).and_then(|item| self.boolean(&item))
    }

    /// Returns an integer with a minimum.
    pub fn whole(&self, item: &Item<'_>, least: i64) -> Option<i64> {
        let hint = if least == i64::MIN {
            "write a whole number".to_owned()
        } else {
            format!("write a whole number, {least} or more")
        };
        self.whole_in(item, &(least..=i64::MAX), &hint)
    }

    /// Returns an integer of a range.
    pub fn whole_in(&self, item: &Item<'_>, range: &RangeInclusive<i64>, hint: &str) -> Option<i64> {
        let Kind::Number(number) = &item.node.kind else {
            let is_digits = item.node.text().is_some_and(|text| text.parse::<i64>().is_ok());
            self.mistyped(item, "a whole number", if is_digits { "leave out the quotes" } else { hint });
            return None;
        };
        let value = number.as_i64();
        if value.is_some_and(|value| range.contains(&value)) {
            return value;
        }
        let message = if value.is_some() || number.is_u64() {
            format!("`{}` must be from {} to {}", item.name(), range.start(), range.end())
        } else {
            format!("`{}` must be a whole number, not {number}", item.name())
        };
        self.error_with(item, message, hint);
        None
    }

    /// Sets a value if the key exists and is not null.
    pub fn set<T>(
        &self,
        fields: &Fields<'_>,
        key: &str,
        target: &mut T,
        read: impl FnOnce(&Self, &Item<'_>) -> Option<T>,
    ) {
        let Some(item) = fields.raw(key) else { return };
        if item.node.is_null() {
            self.error_with(&item, format!("`{key}` cannot be null"), "leave the key out for the default");
        } else if let Some(value) = read(self, &item) {
            *target = value;
        }
    }

    /// Sets a value if the key exists; null means `None`.
    pub fn set_option<T>(
        &self,
        fields: &Fields<'_>,
        key: &str,
        target: &mut Option<T>,
        read: impl FnOnce(&Self, &Item<'_>) -> Option<T>,
    ) {
        let Some(item) = fields.raw(key) else { return };
        if item.node.is_null() {
            *target = None;
        } else if let Some(value) = read(self, &item) {
            *target = Some(value);
        }
    }

    /// Returns an owned, non-empty string.
    pub fn owned(&self, item: &Item<'_>) -> Option<String> {
        self.text(item).map(|text| text.value.clone())
    }

    /// Returns a duration: seconds as a number, or a string with units.
    pub fn duration(&self, item: &Item<'_>) -> Option<Duration> {
        let (zero, year) = ("write zero or more", "leave it out, or write what is meant, such as `365d`");
        let hint = |error| if error == ParseError::Negative { zero } else { year };
        self.ranged(item, |error| (format!("from {} to {}", shown(Duration::ZERO), shown(MAX_DURATION)), hint(error)))
    }

    /// Returns a duration of a range.
    pub fn duration_in(&self, item: &Item<'_>, range: &RangeInclusive<Duration>, hint: &str) -> Option<Duration> {
        let words = || format!("from {} to {}", shown(*range.start()), shown(*range.end()));
        let duration = self.ranged(item, |_| (words(), hint))?;
        if range.contains(&duration) {
            return Some(duration);
        }
        self.error_with(item, format!("`{}` must be {}", item.name(), words()), hint);
        None
    }

    /// Returns a duration that is not zero.
    pub fn duration_above_zero(&self, item: &Item<'_>, hint: &str) -> Option<Duration> {
        let words = || format!("more than {}, and at most {}", shown(Duration::ZERO), shown(MAX_DURATION));
        let duration = self.ranged(item, |_| (words(), hint))?;
        if !duration.is_zero() {
            return Some(duration);
        }
        self.error_with(item, format!("`{}` must be {}", item.name(), words()), hint);
        None
    }

    /// Returns a duration from zero to the longest one. `of_range` gives the words and the hint for one that is not.
    fn ranged<'h>(&self, item: &Item<'_>, of_range: impl FnOnce(ParseError) -> (String, &'h str)) -> Option<Duration> {
        let parsed = match &item.node.kind {
            Kind::Number(number) => match number.as_f64() {
                Some(seconds) if seconds >= 0.0 => {
                    Duration::try_from_secs_f64(seconds).map_err(|_| ParseError::TooLong)
                }
                _ => Err(ParseError::Negative),
            },
            Kind::Text(text) => duration::parse(&text.value),
            _ => {
                self.mistyped(
                    item,
                    "a duration",
                    "write seconds as a number, or such as `500ms`, `30s`, `1h30m`, `2d`",
                );
                return None;
            }
        };
        let in_range =
            |duration: Duration| if duration <= MAX_DURATION { Ok(duration) } else { Err(ParseError::TooLong) };
        match parsed.and_then(in_range) {
            Ok(duration) => Some(duration),
            Err(error @ (ParseError::Negative | ParseError::TooLong)) => {
                let (range, hint) = of_range(error);
                self.error_with(item, format!("`{}` must be {range}", item.name()), hint);
                None
            }
            Err(error) => {
                let hint = match (error, item.node.text()) {
                    (ParseError::NoUnit, Some(text)) => format!("write `{text}s`, or the number without quotes"),
                    _ => "write seconds as a number, or such as `500ms`, `30s`, `1h30m`, `2d`".to_owned(),
                };
                self.error_with(item, format!("bad duration in `{}`: {error}", item.name()), hint);
                None
            }
        }
    }

    /// Returns bytes: a number, or a quantity.
    pub fn size(&self, item: &Item<'_>) -> Option<u64> {
        self.size_up_to(item, values::MAX_SIZE, "write bytes as a number, or such as `64Mi`")
    }

    /// Returns bytes with a maximum.
    pub fn size_up_to(&self, item: &Item<'_>, most: u64, hint: &str) -> Option<u64> {
        let size = match &item.node.kind {
            Kind::Number(number) => number.as_u64(),
            Kind::Text(text) => values::size(&text.value),
            _ => None,
        };
        let size = size.filter(|size| (1..=most).contains(size));
        if size.is_none() {
            self.error_with(
                item,
                format!("`{}` must be a size from 1 byte to {}", item.name(), values::shown_size(most)),
                hint,
            );
        }
        size
    }

    /// Returns a regular expression.
    pub fn regex(&self, item: &Item<'_>) -> Option<Arc<Regex>> {
        let text = &self.text(item)?.value;
        match Regex::new(text) {
            Ok(regex) => Some(Arc::new(regex)),
            Err(error) => {
                let words = error.to_string();
                let reason = words.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
                let hint = if reason.contains("not supported") {
                    "expressions take linear time, so that there is neither look-around nor a back-reference"
                } else {
                    "a sign that is meant as it is takes a backslash before it; in single quotes YAML leaves it alone"
                };
                self.error_with(item, format!("bad regular expression: {reason}"), hint);
                None
            }
        }
    }

    /// Returns one of these words.
    pub fn word<'w>(&self, item: &Item<'_>, known: &[&'w str]) -> Option<&'w str> {
        if matches!(item.node.kind, Kind::Number(_) | Kind::Bool(_)) {
            self.mistyped(item, "a string", format!("write {}", one_of(known)));
            return None;
        }
        let text = &self.text(item)?.value;
        let found = known.iter().copied().find(|word| word == text);
        if found.is_none() {
            let hint = nearest(text, known.iter().copied()).map_or_else(
                || format!("write {}", one_of(known)),
                |suggestion| format!("did you mean `{suggestion}`?"),
            );
            self.error_with(item, format!("unknown value `{text}` of `{}`", item.name()), hint);
        }
        found
    }
}
