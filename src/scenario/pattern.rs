//! Patterns of values: parts of an object as it must be, with the matchers of filters where a plain value is not enough.

use std::cell::RefCell;
use std::convert::Infallible;

use serde_json::Value;

use crate::handling::matcher::Subject;
use crate::handling::{Matcher, Predicate};
use crate::kit::source::SourcePosition;
use crate::manifest::reader::{Item, Reader};
use crate::manifest::tree::{Kind, Spot};
use crate::object::equality::equal;
use crate::script::{BindingKind, Expression};

/// The matchers, which are those of filters.
pub const MATCHERS: [&str; 6] = ["equals", "present", "in", "notIn", "matches", "when"];

/// Answers whether an expression holds for a value.
pub type Ask<'a> = &'a mut dyn FnMut(Predicate, Option<&Value>) -> bool;

/// What a value must be like.
#[derive(Debug, Clone)]
pub struct Pattern {
    /// Where it is written.
    pub spot: Spot,
    /// What it says.
    pub says: Says,
}

/// What a pattern says.
#[derive(Debug, Clone)]
pub enum Says {
    /// A mapping that has at least these members.
    Members(Vec<(String, Pattern)>),
    /// A list of exactly these items.
    Items(Vec<Pattern>),
    /// This value; null stands for an absent one, too.
    Value(Value),
    /// What a matcher lets pass, with the words of the file.
    Matcher(Matcher, String),
}

/// Something that is not as it must be.
#[derive(Debug, Clone, PartialEq)]
pub struct Mismatch {
    /// The way to it.
    pub path: String,
    /// Where the pattern is written.
    pub spot: Spot,
    /// What is expected, in words.
    pub wanted: String,
    /// What is there; none if nothing is.
    pub found: Option<Value>,
    /// Whether the file could say what is there instead, by a plain value at the same place.
    pub is_plain: bool,
}

impl Pattern {
    /// Reads a pattern; its expressions are kept with the others.
    pub fn read(reader: &Reader, expressions: &RefCell<Vec<Expression>>, item: &Item<'_>) -> Option<Self> {
        let says = match &item.node.kind {
            Kind::Map(entries) if is_matcher(entries.iter().map(|entry| entry.key.as_str())) => {
                Says::Matcher(matcher(reader, expressions, item)?, item.node.to_value().to_string())
            }
            Kind::Map(_) => {
                let members = item.entries().unwrap_or_default();
                let read = |(key, item): (&str, Item<'_>)| Some((key.to_owned(), Self::read(reader, expressions, &item)?));
                Says::Members(members.into_iter().map(read).collect::<Option<_>>()?)
            }
            Kind::List(_) => {
                let items = item.items().unwrap_or_default();
                Says::Items(items.iter().map(|item| Self::read(reader, expressions, item)).collect::<Option<_>>()?)
            }
            _ => Says::Value(item.node.to_value()),
        };
        Some(Self { spot: item.node.spot, says })
    }

    /// Tells whether a value is as it must be.
    pub fn passes(&self, value: &Value, ask: Ask<'_>) -> bool {
        let mut mismatches = Vec::new();
        self.compare(Some(value), "", &mut mismatches, ask);
        mismatches.is_empty()
    }

    /// Gathers everything that is not as it must be.
    pub fn compare(&self, found: Option<&Value>, path: &str, mismatches: &mut Vec<Mismatch>, ask: Ask<'_>) {
        let mut miss = |wanted: String, is_plain: bool| {
            mismatches.push(Mismatch { path: path.to_owned(), spot: self.spot, wanted, found: found.cloned(), is_plain });
        };
        match (&self.says, found) {
            (Says::Value(Value::Null), None | Some(Value::Null)) => {}
            (Says::Value(Value::Null), Some(_)) => miss("nothing".to_owned(), false),
            (Says::Value(wanted), found) => {
                if !found.is_some_and(|found| equal(found, wanted)) {
                    miss(wanted.to_string(), found.is_some_and(is_scalar));
                }
            }
            (Says::Matcher(matcher, words), found) => {
                let subject = Subject { value: found, is_query: false };
                let mut answer = |predicate: Predicate, value: Option<&Value>| Ok::<bool, Infallible>(ask(predicate, value));
                let Ok(passes) = matcher.passes(subject, &mut answer);
                if !passes {
                    miss(words.clone(), false);
                }
            }
            (Says::Members(members), Some(Value::Object(map))) => {
                for (key, pattern) in members {
                    let below = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                    pattern.compare(map.get(key), &below, mismatches, ask);
                }
            }
            (Says::Members(members), None) => {
                // Only what must be absent is as it should be.
                for (key, pattern) in members {
                    let below = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                    pattern.compare(None, &below, mismatches, ask);
                }
            }
            (Says::Items(items), Some(Value::Array(list))) if items.len() == list.len() => {
                for (index, (pattern, value)) in items.iter().zip(list).enumerate() {
                    pattern.compare(Some(value), &format!("{path}[{index}]"), mismatches, ask);
                }
            }
            (Says::Items(items), _) => {
                let number = if items.len() == 1 { "one item".to_owned() } else { format!("{} items", items.len()) };
                miss(format!("a list of {number}"), false);
            }
            (Says::Members(_), Some(_)) => miss("a mapping".to_owned(), false),
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
                let place = SourcePosition { file: reader.source.name.clone(), line: text.start.line, column: text.start.column };
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
        // The expression of the test is about numbers above 2.
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
        assert!(mismatches("{a: {in: [1, 3]}, b: {notIn: [y], present: true}, c: {present: false}}", &value).is_empty());
        assert!(mismatches("{a: {when: 'value > 2'}}", &value).is_empty());
        assert_eq!(mismatches("{b: {when: 'value > 2', present: true}}", &value), [r#"b: {"present":true,"when":"value > 2"} / "x""#]);
        assert_eq!(mismatches("{b: {present: false}}", &value), [r#"b: {"present":false} / "x""#]);
        assert_eq!(mismatches("{d: {x: {present: false}, y: 1}}", &value), ["d.y: 1 / nothing"]);
    }
}
