//! Contradictions: declarations of handlers that kopf refuses, because no event could match them.

use serde_json::Value;

use super::handler::Handler;
use super::matcher::Matcher;

/// A contradiction in a declaration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Contradiction {
    /// A filter of a field's values without a field.
    #[error("`{0}` needs a `field`")]
    NoField(&'static str),
    /// `value` together with `old` or `new`.
    #[error("`value` cannot be combined with `old` or `new`")]
    ValueWithSides,
    /// A filter of one side of a change, for a handler that does not need a change.
    #[error("`{0}` needs a handler of updates or of a field")]
    NoChange(&'static str),
    /// A null for a label or an annotation, which are always strings.
    #[error("`{0}` cannot be null: say whether it is to be present or absent")]
    NullPattern(String),
}

/// Returns the first contradiction of a declaration.
pub fn find(handler: &Handler) -> Option<Contradiction> {
    let filters = &handler.filters;
    let given = |name, matcher: &Option<Matcher>| matcher.is_some().then_some(name);
    let sides = given("old", &filters.old).or(given("new", &filters.new));
    let any = given("value", &filters.value).or(sides);
    let is_null = |matcher: &Matcher| matches!(matcher, Matcher::Equals(Value::Null));
    let null = filters.labels.iter().chain(&filters.annotations).find(|(_, matcher)| is_null(matcher));
    if let Some((key, _)) = null {
        return Some(Contradiction::NullPattern(key.clone()));
    }
    match (any, sides) {
        (Some(name), _) if handler.field.is_none() => Some(Contradiction::NoField(name)),
        (_, Some(_)) if filters.value.is_some() => Some(Contradiction::ValueWithSides),
        (_, Some(name)) if !handler.on.needs_change() => Some(Contradiction::NoChange(name)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handling::{Filters, On};
    use crate::object::FieldPath;

    fn found(on: On, field: Option<&str>, filters: Filters) -> Option<Contradiction> {
        find(&Handler { field: field.map(FieldPath::dotted), filters, ..Handler::simple("fn", on) })
    }

    fn is(value: i64) -> Matcher {
        Matcher::Equals(value.into())
    }

    #[test]
    fn filters_of_values_need_a_field() {
        assert_eq!(
            found(On::Create, None, Filters { value: Some(is(1)), ..Filters::default() }),
            Some(Contradiction::NoField("value"))
        );
        assert_eq!(
            found(On::Update, None, Filters { new: Some(is(1)), ..Filters::default() }),
            Some(Contradiction::NoField("new"))
        );
        assert_eq!(found(On::Create, Some("spec.x"), Filters { value: Some(is(1)), ..Filters::default() }), None);
    }

    #[test]
    fn sides_of_a_change_need_a_change_and_exclude_the_value() {
        let sides = Filters { old: Some(is(1)), new: Some(is(2)), ..Filters::default() };
        assert_eq!(found(On::Field, Some("spec.x"), sides.clone()), None);
        assert_eq!(
            found(On::Sub { needs_change: false }, Some("x"), sides.clone()),
            Some(Contradiction::NoChange("old"))
        );
        assert_eq!(
            found(On::Update, Some("x"), Filters { value: Some(is(1)), ..sides }),
            Some(Contradiction::ValueWithSides)
        );
    }
}
