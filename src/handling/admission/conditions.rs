//! Match conditions of filters: the filters of an object as expressions in CEL, which the API server evaluates.
//!
//! The webhook checks its filters itself, too. So a condition may let requests through that the filter refuses, but
//! never the other way round, and it must not fail for any object: a filter that has no such expression has no
//! condition.

use serde_json::Value;

use crate::handling::handler::Handler;
use crate::handling::matcher::Matcher;
use crate::object::FieldPath;

/// The object of the review: the old one if it is deleted.
const OBJECT: &str = "(object == null ? oldObject : object)";

/// Integers up to this are the same in JSON, in the API server, and here.
const MAX_INTEGER: i64 = 1 << 53;

/// Returns the conditions of a handler's filters by their names. Labels are left to the object selector.
pub(super) fn of(handler: &Handler) -> Vec<(String, String)> {
    let of_annotation = |(number, (key, matcher)): (usize, &(String, Matcher))| {
        let keys = ["metadata".to_owned(), "annotations".to_owned(), key.clone()];
        Some((format!("kopfd.dev/annotation-{}", number + 1), of_value(&keys, matcher)?))
    };
    let mut conditions: Vec<(String, String)> =
        handler.filters.annotations.iter().enumerate().filter_map(of_annotation).collect();
    if let Some(expression) = handler.field.as_ref().and_then(|field| of_field(field, handler.filters.value.as_ref())) {
        conditions.push(("kopfd.dev/field".to_owned(), expression));
    }
    conditions
}

fn of_field(field: &FieldPath, value: Option<&Matcher>) -> Option<String> {
    if field.is_query() {
        return None;
    }
    // Without a value, the field must be present.
    of_value(field.prefix(), value.unwrap_or(&Matcher::Present))
}

fn of_value(keys: &[String], matcher: &Matcher) -> Option<String> {
    let (is_present, value) = (presence(keys), access(keys));
    let listed = |values: &[Value]| {
        let all: Option<Vec<String>> = values.iter().map(|wanted| equality(&value, wanted)).collect();
        all.filter(|all| !all.is_empty()).map(|all| all.join(" || "))
    };
    match matcher {
        Matcher::Present => Some(is_present),
        Matcher::Absent => Some(format!("!({is_present})")),
        Matcher::Equals(wanted) => {
            listed(std::slice::from_ref(wanted)).map(|equal| format!("{is_present} && ({equal})"))
        }
        Matcher::In(wanted) => listed(wanted).map(|equal| format!("{is_present} && ({equal})")),
        Matcher::NotIn(unwanted) => listed(unwanted).map(|equal| format!("!({is_present} && ({equal}))")),
        Matcher::Matches(_) | Matcher::When(_) => None,
        Matcher::All(matchers) => {
            let all: Vec<String> =
                matchers.iter().filter_map(|matcher| of_value(keys, matcher)).map(|one| format!("({one})")).collect();
            (!all.is_empty()).then(|| all.join(" && "))
        }
    }
}

/// Returns the expression that a field is present. Each parent is checked before it is used, so that no object makes it
/// fail.
fn presence(keys: &[String]) -> String {
    let checks = (0..keys.len()).map(|depth| {
        let parent = access(&keys[..depth]);
        format!("type({parent}) == map && {} in {parent}", literal(&keys[depth]))
    });
    checks.collect::<Vec<_>>().join(" && ")
}

fn access(keys: &[String]) -> String {
    keys.iter().fold(OBJECT.to_owned(), |parent, key| format!("{parent}[{}]", literal(key)))
}

/// Returns the expression that a value is loosely equal to a text, an integer, or a boolean. `true` equals 1, and
/// `false` 0.
fn equality(value: &str, wanted: &Value) -> Option<String> {
    match wanted {
        Value::String(text) => Some(format!("{value} == {}", literal(text))),
        Value::Bool(flag) => Some(format!("{value} == {flag} || {value} == {}", i64::from(*flag))),
        Value::Number(number) => {
            let integer = number.as_i64().filter(|integer| integer.abs() <= MAX_INTEGER)?;
            Some(match integer {
                0 | 1 => format!("{value} == {} || {value} == {integer}", integer == 1),
                _ => format!("{value} == {integer}"),
            })
        }
        _ => None,
    }
}

/// Returns a text as a literal. The escapes of JSON are also those of CEL.
fn literal(text: &str) -> String {
    Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use regex::Regex;
    use serde_json::json;

    use super::*;
    use crate::handling::matcher::Predicate;
    use crate::handling::{Filters, On};

    fn handler(field: Option<FieldPath>, filters: Filters) -> Handler {
        Handler { field, filters, ..Handler::simple("fn", On::Review) }
    }

    fn of_matcher(matcher: Matcher) -> Vec<(String, String)> {
        of(&handler(Some(FieldPath::dotted("spec.x")), Filters { value: Some(matcher), ..Filters::default() }))
    }

    #[test]
    fn filters_without_the_same_meaning_on_the_api_server_have_no_condition() {
        let pattern = Arc::new(Regex::new("^a").unwrap());
        let others = [
            Matcher::Matches(pattern),
            Matcher::When(Predicate(1)),
            Matcher::Equals(json!([1])),
            Matcher::Equals(json!({"a": 1})),
            Matcher::Equals(json!(1.5)),
            Matcher::Equals(json!(1_u64 << 60)),
            Matcher::In(vec![json!("a"), json!([])]),
            Matcher::All(vec![Matcher::When(Predicate(1))]),
        ];
        for matcher in others {
            assert_eq!(of_matcher(matcher.clone()), [], "{matcher:?}");
        }
        let query = FieldPath::json_path("$.spec.items[*].name").unwrap();
        assert_eq!(of(&handler(Some(query), Filters::default())), []);
        assert_eq!(of(&handler(None, Filters { when: Some(Predicate(1)), ..Filters::default() })), []);
    }

    #[test]
    fn of_several_matchers_those_with_a_condition_are_kept() {
        let conditions = of_matcher(Matcher::All(vec![Matcher::When(Predicate(1)), Matcher::Present]));
        let object = OBJECT;
        let expected = format!(
            r#"(type({object}) == map && "spec" in {object} && type({object}["spec"]) == map && "x" in {object}["spec"])"#
        );
        assert_eq!(conditions, [("kopfd.dev/field".to_owned(), expected)]);
    }

    #[test]
    fn texts_are_escaped() {
        assert_eq!(literal("a\"b\\c\n\u{1}é"), r#""a\"b\\c\n\u0001é""#);
    }
}
