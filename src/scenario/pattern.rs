//! Patterns of values: expected parts of an object, with the matchers of filters.

use std::cell::RefCell;
use std::convert::Infallible;

use serde_json::Value;

use crate::handling::matcher::Subject;
use crate::handling::{Matcher, Predicate};
use crate::manifest::reader::{Item, Reader};
use crate::manifest::tree::{Kind, SourceSpan};
use crate::object::equality::equal;
use crate::script::{BindingKind, Expression};

/// The matchers of filters.
pub(super) const MATCHERS: [&str; 6] = ["equals", "present", "in", "notIn", "matches", "when"];

/// Evaluates an expression for a value.
pub(super) type EvaluatePredicate<'a> = &'a mut dyn FnMut(Predicate, Option<&Value>) -> bool;

/// A pattern of a value.
#[derive(Debug, Clone)]
pub struct Pattern {
    pub spot: SourceSpan,
    pub kind: PatternKind,
}

/// The kinds of patterns.
#[derive(Debug, Clone)]
pub enum PatternKind {
    /// A mapping with at least these members.
    Members(Vec<(String, Pattern)>),
    /// A list with exactly these items.
    Items(Vec<Pattern>),
    /// An equal value; null also matches an absent one.
    Value(Value),
    /// A matcher, with its text in the file.
    Matcher(Matcher, String),
}

/// A part of a value that does not match.
#[derive(Debug, Clone, PartialEq)]
pub struct Mismatch {
    pub path: String,
    /// Position of the pattern.
    pub spot: SourceSpan,
    /// The expectation in words.
    pub wanted: String,
    /// The actual value; `None` if it is absent.
    pub found: Option<Value>,
    /// Whether `--update` can replace the pattern by the actual value.
    pub is_plain: bool,
}

impl Pattern {
    /// Reads a pattern, and adds its expressions to `expressions`.
    pub fn read(reader: &Reader, expressions: &RefCell<Vec<Expression>>, item: &Item<'_>) -> Option<Self> {
        let kind = match &item.node.kind {
            Kind::Map(entries) if is_matcher(entries.iter().map(|entry| entry.key.as_str())) => {
                PatternKind::Matcher(matcher(reader, expressions, item)?, item.node.to_value().to_string())
            }
            Kind::Map(_) => {
                let members = item.entries().unwrap_or_default();
                let read =
                    |(key, item): (&str, Item<'_>)| Some((key.to_owned(), Self::read(reader, expressions, &item)?));
                PatternKind::Members(members.into_iter().map(read).collect::<Option<_>>()?)
            }
            Kind::List(_) => {
                let items = item.items().unwrap_or_default();
                PatternKind::Items(
                    items.iter().map(|item| Self::read(reader, expressions, item)).collect::<Option<_>>()?,
                )
            }
            _ => PatternKind::Value(item.node.to_value()),
        };
        Some(Self { spot: item.node.spot, kind })
    }

    /// Tells whether a value matches.
    pub fn passes(&self, value: &Value, ask: EvaluatePredicate<'_>) -> bool {
        let mut mismatches = Vec::new();
        self.compare(Some(value), "", &mut mismatches, ask);
        mismatches.is_empty()
    }

    /// Adds all mismatches to `mismatches`.
    pub fn compare(
        &self,
        found: Option<&Value>,
        path: &str,
        mismatches: &mut Vec<Mismatch>,
        ask: EvaluatePredicate<'_>,
    ) {
        let mut miss = |wanted: String, is_plain: bool| {
            mismatches.push(Mismatch {
                path: path.to_owned(),
                spot: self.spot,
                wanted,
                found: found.cloned(),
                is_plain,
            });
        };
        match (&self.kind, found) {
            (PatternKind::Value(Value::Null), None | Some(Value::Null)) => {}
            (PatternKind::Value(Value::Null), Some(_)) => miss("nothing".to_owned(), false),
            (PatternKind::Value(wanted), found) => {
                if !found.is_some_and(|found| equal(found, wanted)) {
                    miss(wanted.to_string(), found.is_some_and(is_scalar));
                }
            }
            (PatternKind::Matcher(matcher, words), found) => {
                let subject = Subject { value: found, is_query: false };
                let mut answer =
                    |predicate: Predicate, value: Option<&Value>| Ok::<bool, Infallible>(ask(predicate, value));
                let Ok(passes) = matcher.passes(subject, &mut answer);
                if !passes {
                    miss(words.clone(), false);
                }
            }
            (PatternKind::Members(members), Some(Value::Object(map))) => {
                for (key, pattern) in members {
                    let below = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                    pattern.compare(map.get(key), &below, mismatches, ask);
                }
            }
            (PatternKind::Members(members), None) => {
                // An absent mapping matches if all its members may be absent.
                for (key, pattern) in members {
                    let below = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                    pattern.compare(None, &below, mismatches, ask);
                }
            }
            (PatternKind::Items(items), Some(Value::Array(list))) if items.len() == list.len() => {
                for (index, (pattern, value)) in items.iter().zip(list).enumerate() {
                    pattern.compare(Some(value), &format!("{path}[{index}]"), mismatches, ask);
                }
            }
            (PatternKind::Items(items), _) => {
                let number = if items.len() == 1 { "one item".to_owned() } else { format!("{} items", items.len()) };
                miss(format!("a list of {number}"), false);
            }
            (PatternKind::Members(_), Some(_)) => miss("a mapping".to_owned(), false),
        }
    }
}

fn is_scalar(value: &Value) -> bool {
    !matches!(value, Value::Object(_) | Value::Array(_) | Value::Null)
}

fn is_matcher<'a>(mut keys: impl Iterator<Item = &'a str>) -> bool {
    let mut count = 0;
    let are_known = keys.all(|key| {
        count += 1;
        MATCHERS.contains(&key)
    });
    are_known && count > 0
}

fn matcher(reader: &Reader, expressions: &RefCell<Vec<Expression>>, item: &Item<'_>) -> Option<Matcher> {
    let mut matchers = Vec::new();
    for (key, item) in item.entries().unwrap_or_default() {
        matchers.push(match key {
            "equals" => Matcher::Equals(item.node.to_value()),
            "present" => {
                if reader.boolean(&item)? {
                    Matcher::Present
                } else {
                    Matcher::Absent
                }
            }
            "matches" => Matcher::Matches(reader.regex(&item)?),
            "when" => {
                let text = reader.text(&item)?;
                let place = text.start.in_file(&reader.source.name);
                let mut expressions = expressions.borrow_mut();
                let (text, kind) = (text.value.clone(), BindingKind::Change);
                expressions.push(Expression { text, place, kind, has_value: true, file: None, is_delay: false });
                Matcher::When(Predicate(expressions.len() - 1))
            }
            _ => {
                let values = reader.list(&item).iter().map(|item| item.node.to_value()).collect();
                if key == "in" { Matcher::In(values) } else { Matcher::NotIn(values) }
            }
        });
    }
    Some(if matchers.len() == 1 { matchers.swap_remove(0) } else { Matcher::All(matchers) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::source::Source;
    use crate::manifest::tree;
    use serde_json::json;

    fn mismatches(pattern: &str, value: &Value) -> Vec<String> {
        let reader = Reader::new(Source::new("a.yaml", pattern));
        let document = tree::parse(&reader.source).unwrap().remove(0);
        let item = Item { node: &document.root, path: String::new(), key: document.root.spot };
        let pattern = Pattern::read(&reader, &RefCell::default(), &item).expect("the pattern has no mistakes");
        let mut found = Vec::new();
        // The expression of the test is `value > 2`.
        let mut ask = |_, value: Option<&Value>| value.and_then(Value::as_i64).is_some_and(|number| number > 2);
        pattern.compare(Some(value), "", &mut found, &mut ask);
        let shown = |found: Option<Value>| found.map_or("nothing".to_owned(), |found| found.to_string());
        found.into_iter().map(|one| format!("{}: {} / {}", one.path, one.wanted, shown(one.found))).collect()
    }

    #[test]
    fn a_mapping_may_have_more_members_and_a_list_may_not_have_more_items() {
        let value = json!({"spec": {"size": 1, "tags": ["a", "b"]}, "status": {"state": "Ready"}});
        assert!(mismatches("{spec: {size: 1.0}, status: {}}", &value).is_empty());
        assert!(mismatches("{spec: {tags: [a, {matches: '^b'}]}, gone: null}", &value).is_empty());
        assert_eq!(mismatches("{spec: {tags: [a]}}", &value), [r#"spec.tags: a list of one item / ["a","b"]"#]);
        assert_eq!(mismatches("{status: {state: Failed}}", &value), [r#"status.state: "Failed" / "Ready""#]);
        assert_eq!(mismatches("{status: {error: {code: 1}}}", &value), ["status.error.code: 1 / nothing"]);
    }

    #[test]
    fn matchers_are_those_of_filters() {
        let value = json!({"a": 3, "b": "x"});
        assert!(
            mismatches("{a: {in: [1, 3]}, b: {notIn: [y], present: true}, c: {present: false}}", &value).is_empty()
        );
        assert!(mismatches("{a: {when: 'value > 2'}}", &value).is_empty());
        assert_eq!(
            mismatches("{b: {when: 'value > 2', present: true}}", &value),
            [r#"b: {"present":true,"when":"value > 2"} / "x""#]
        );
        assert_eq!(mismatches("{b: {present: false}}", &value), [r#"b: {"present":false} / "x""#]);
        assert_eq!(mismatches("{d: {x: {present: false}, y: 1}}", &value), ["d.y: 1 / nothing"]);
    }
}
