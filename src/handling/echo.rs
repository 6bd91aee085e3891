//! Echoes: events of the operator's own patches. If no handler depends on them, they need no cycle.

use super::handler::{Handler, On};
use super::matcher::Matcher;

/// Tells whether a handler certainly ignores an event that shows only the operator's own patch at the end of a cause,
/// which changes annotations of operators and the status.
///
/// Handlers of raw events and indexes take every event, and timers and daemons follow the object. A handler with a
/// field makes it part of the essence. A mandatory deletion handler decides about the finalizer at every event, by its
/// filters.
pub(crate) fn ignores_echoes(handler: &Handler) -> bool {
    let is_of_changes = match handler.on {
        On::Delete { optional: false } => depends_on_labels_alone(handler),
        on => on.is_changing(),
    };
    let is_field_unaffected = handler.field.as_ref().is_none_or(|field| match field.prefix() {
        [first, second, ..] if first == "metadata" => second == "labels",
        [first, ..] => first != "status" && first != "metadata",
        [] => false,
    });
    is_of_changes && is_field_unaffected
}

fn depends_on_labels_alone(handler: &Handler) -> bool {
    let filters = &handler.filters;
    let of_values = [&filters.value, &filters.old, &filters.new];
    filters.when.is_none()
        && filters.annotations.is_empty()
        && of_values.iter().all(|filter| filter.is_none())
        && handler.field.is_none()
        && !filters.labels.iter().any(|(_, matcher)| asks(matcher))
}

/// Tells whether an expression takes part, which may read any field.
fn asks(matcher: &Matcher) -> bool {
    match matcher {
        Matcher::When(_) => true,
        Matcher::All(matchers) => matchers.iter().any(asks),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handling::Predicate;
    use crate::object::FieldPath;

    fn with_field(on: On, field: &str) -> Handler {
        Handler { field: Some(FieldPath::dotted(field)), ..Handler::simple("it", on) }
    }

    #[test]
    fn handlers_that_follow_every_event_are_not_passed_over() {
        for on in [On::Event, On::Index, On::Timer, On::Daemon] {
            assert!(!ignores_echoes(&Handler::simple("it", on)), "{on:?}");
        }
        for on in [On::Create, On::Update, On::Field, On::Resume { deleted: false }, On::Delete { optional: false }] {
            assert!(ignores_echoes(&Handler::simple("it", on)), "{on:?}");
        }
    }

    #[test]
    fn fields_of_the_status_and_of_most_metadata_may_change_with_the_own_patch() {
        for (field, expected) in [
            ("spec.size", true),
            ("metadata.labels.a", true),
            ("metadata.annotations", false),
            ("metadata", false),
            ("status.phase", false),
        ] {
            assert_eq!(ignores_echoes(&with_field(On::Field, field)), expected, "{field}");
        }
    }

    #[test]
    fn the_finalizer_may_depend_on_filters_of_deletions() {
        let deletion = || Handler::simple("it", On::Delete { optional: false });
        let mut by_expression = deletion();
        by_expression.filters.when = Some(Predicate(0));
        assert!(!ignores_echoes(&by_expression));
        let mut by_label = deletion();
        by_label.filters.labels = vec![("a".to_owned(), Matcher::Present)];
        assert!(ignores_echoes(&by_label));
        by_label.filters.labels =
            vec![("a".to_owned(), Matcher::All(vec![Matcher::Present, Matcher::When(Predicate(0))]))];
        assert!(!ignores_echoes(&by_label));
        assert!(!ignores_echoes(&with_field(On::Delete { optional: false }, "spec.size")));
        let mut by_expression = Handler::simple("it", On::Delete { optional: true });
        by_expression.filters.when = Some(Predicate(0));
        assert!(ignores_echoes(&by_expression), "nothing is decided about the finalizer");
    }
}
