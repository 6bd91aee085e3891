//! Matchers: conditions on values in filters.

use std::sync::Arc;

use regex::Regex;
use serde_json::Value;

use crate::object::equality::equal;

/// A compiled expression of the operator's scripts, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Predicate(pub usize);

/// A condition on one value.
#[derive(Debug, Clone)]
pub enum Matcher {
    /// Loosely equal to this.
    Equals(Value),
    /// Present, also as a null.
    Present,
    /// Absent.
    Absent,
    /// Loosely equal to one of these.
    In(Vec<Value>),
    /// Loosely equal to none of these.
    NotIn(Vec<Value>),
    /// A string that contains a match of the pattern.
    Matches(Arc<Regex>),
    /// The expression is true for it.
    When(Predicate),
    /// All of these.
    All(Vec<Matcher>),
}

/// The value that a filter checks, or its absence.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// The value; `None` if absent.
    pub value: Option<&'a Value>,
    /// Whether the value is the array of a query's nodes, of which one must pass.
    pub is_query: bool,
}

impl Matcher {
    /// Tells whether the value passes; `ask` evaluates the expressions.
    ///
    /// # Errors
    /// The errors of `ask`.
    pub fn passes<E>(
        &self,
        subject: Subject<'_>,
        ask: &mut impl FnMut(Predicate, Option<&Value>) -> Result<bool, E>,
    ) -> Result<bool, E> {
        Ok(match self {
            Self::Present => subject.value.is_some(),
            Self::Absent => subject.value.is_none(),
            Self::When(predicate) => return ask(*predicate, subject.value),
            Self::All(matchers) => {
                for matcher in matchers {
                    if !matcher.passes(subject, ask)? {
                        return Ok(false);
                    }
                }
                true
            }
            // A list is one value: it is compared with the whole array of nodes.
            Self::Equals(wanted @ Value::Array(_)) => subject.value.is_some_and(|value| equal(value, wanted)),
            Self::Equals(wanted) => any_node(subject, |value| equal(value, wanted)),
            Self::In(wanted) => any_node(subject, |value| wanted.iter().any(|one| equal(value, one))),
            Self::NotIn(unwanted) => {
                subject.value.is_none() || any_node(subject, |value| !unwanted.iter().any(|one| equal(value, one)))
            }
            Self::Matches(pattern) => {
                any_node(subject, |value| value.as_str().is_some_and(|text| pattern.is_match(text)))
            }
        })
    }

    /// Tells whether absent sides of a change are skipped, unless both are absent.
    pub fn skips_absent_sides(&self) -> bool {
        match self {
            Self::NotIn(_) => true,
            Self::All(matchers) => matchers.iter().any(Self::skips_absent_sides),
            _ => false,
        }
    }

    /// Tells whether a text, or its absence, certainly fails, without evaluating expressions.
    pub fn surely_refuses(&self, text: Option<&str>) -> bool {
        match self {
            Self::When(_) => false,
            Self::All(matchers) => matchers.iter().any(|matcher| matcher.surely_refuses(text)),
            _ => {
                let value = text.map(|text| Value::String(text.to_owned()));
                let subject = Subject { value: value.as_ref(), is_query: false };
                self.passes(subject, &mut |_, _| Err(())) == Ok(false)
            }
        }
    }
}

fn any_node(subject: Subject<'_>, passes: impl Fn(&Value) -> bool) -> bool {
    match subject.value {
        Some(Value::Array(nodes)) if subject.is_query => nodes.iter().any(passes),
        Some(value) => passes(value),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Whether a value passes without any expression being asked.
    fn passes(matcher: &Matcher, value: Option<&Value>, is_query: bool) -> bool {
        matcher.passes(Subject { value, is_query }, &mut |_, _| Err(())).unwrap()
    }

    #[test]
    fn one_node_of_a_query_is_enough_but_an_array_of_the_object_is_one_value() {
        let value = json!(["a", "b"]);
        let matcher = Matcher::Equals(json!("b"));
        assert!(passes(&matcher, Some(&value), true));
        assert!(!passes(&matcher, Some(&value), false));
        let whole = Matcher::Equals(json!(["a", "b"]));
        assert!(passes(&whole, Some(&value), true) && passes(&whole, Some(&value), false));
    }

    #[test]
    fn a_label_is_refused_for_sure_where_no_expression_decides() {
        let (equals, asked) = (Matcher::Equals(json!("a")), Matcher::When(Predicate(0)));
        assert!(equals.surely_refuses(Some("b")) && equals.surely_refuses(None) && !equals.surely_refuses(Some("a")));
        assert!(Matcher::Present.surely_refuses(None) && Matcher::Absent.surely_refuses(Some("a")));
        assert!(!asked.surely_refuses(Some("b")) && !asked.surely_refuses(None));
        let both = Matcher::All(vec![asked, equals]);
        assert!(both.surely_refuses(Some("b")), "the expression cannot make it pass");
        assert!(!both.surely_refuses(Some("a")), "the expression is to be asked");
    }

    #[test]
    fn absent_sides_are_skipped_if_any_part_excludes_values() {
        let excludes = || Matcher::NotIn(vec![json!(1)]);
        assert!(excludes().skips_absent_sides() && !Matcher::Absent.skips_absent_sides());
        assert!(Matcher::All(vec![Matcher::Present, excludes()]).skips_absent_sides());
        assert!(!Matcher::All(vec![Matcher::Present]).skips_absent_sides());
    }
}
