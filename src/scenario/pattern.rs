//! Patterns of values: parts of an object as it must be, with the matchers of filters where a plain value is not enough.

use serde_json::Value;

use crate::handling::Matcher;
use crate::handling::matcher::Subject;
use crate::manifest::reader::{Item, Reader};
use crate::manifest::tree::{Kind, Spot};
use crate::object::equality::equal;

/// The matchers, which are those of filters but for expressions.
const MATCHERS: [&str; 5] = ["equals", "present", "in", "notIn", "matches"];

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
    /// Reads a pattern.
    pub fn read(reader: &Reader, item: &Item<'_>) -> Option<Self> {
        let says = match &item.node.kind {
            Kind::Map(entries) if is_matcher(entries.iter().map(|entry| entry.key.as_str())) => {
                Says::Matcher(matcher(reader, item)?, item.node.to_value().to_string())
            }
            Kind::Map(_) => {
                let members = item.entries().unwrap_or_default();
                let read = |(key, item): (&str, Item<'_>)| Some((key.to_owned(), Self::read(reader, &item)?));
                Says::Members(members.into_iter().map(read).collect::<Option<_>>()?)
            }
            Kind::List(_) => {
                let items = item.items().unwrap_or_default();
                Says::Items(items.iter().map(|item| Self::read(reader, item)).collect::<Option<_>>()?)
            }
            _ => Says::Value(item.node.to_value()),
        };
        Some(Self { spot: item.node.spot, says })
    }

    /// Tells whether a value is as it must be.
    pub fn passes(&self, value: &Value) -> bool {
        let mut mismatches = Vec::new();
        self.compare(Some(value), "", &mut mismatches);
        mismatches.is_empty()
    }

    /// Gathers everything that is not as it must be.
    pub fn compare(&self, found: Option<&Value>, path: &str, mismatches: &mut Vec<Mismatch>) {
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
                if !matcher.passes(subject, &mut |_, _| Err(())).unwrap_or(false) {
                    miss(words.clone(), false);
                }
            }
            (Says::Members(members), Some(Value::Object(map))) => {
                for (key, pattern) in members {
                    let below = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                    pattern.compare(map.get(key), &below, mismatches);
                }
            }
            (Says::Members(members), None) => {
                // Only what must be absent is as it should be.
                for (key, pattern) in members {
                    let below = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                    pattern.compare(None, &below, mismatches);
                }
            }
            (Says::Items(items), Some(Value::Array(list))) if items.len() == list.len() => {
                for (index, (pattern, value)) in items.iter().zip(list).enumerate() {
                    pattern.compare(Some(value), &format!("{path}[{index}]"), mismatches);
                }
            }
            (Says::Items(items), _) => {
                miss(if items.len() == 1 { "a list of one item".to_owned() } else { format!("a list of {} items", items.len()) }, false)
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

fn matcher(reader: &Reader, item: &Item<'_>) -> Option<Matcher> {
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
        let pattern = Pattern::read(&reader, &item).expect("the pattern has no mistakes");
        let mut found = Vec::new();
        pattern.compare(Some(value), "", &mut found);
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
        assert_eq!(mismatches("{b: {present: false}}", &value), [r#"b: {"present":false} / "x""#]);
        assert_eq!(mismatches("{d: {x: {present: false}, y: 1}}", &value), ["d.y: 1 / nothing"]);
    }
}
