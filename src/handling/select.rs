//! Selection: which of the declared handlers match a cause.

use std::collections::BTreeSet;

use super::cause::Cause;
use super::filter::{Poll, Predicates, Unsettled, View, matches, prematches};
use super::handler::{Handler, On};
use super::lists::{ChangingHandlers, IndexingHandlers, SpawningHandlers, WatchingHandlers};

/// Returns the change handlers that match a cause, in the order of declaration, each function once per id.
///
/// # Errors
/// If expressions must be evaluated first, or the object is malformed.
pub fn changing<'a>(
    handlers: &'a ChangingHandlers,
    cause: &Cause,
    view: View<'_>,
    predicates: &dyn Predicates,
) -> Result<Vec<&'a Handler>, Unsettled> {
    matching(handlers.iter().filter(|handler| is_for_reason(handler.on, cause, view)), view, predicates)
}

fn is_for_reason(on: On, cause: &Cause, view: View<'_>) -> bool {
    match on {
        On::Resume { deleted } => cause.initial && (deleted || !view.body.is_deleting()),
        _ => on.reason().is_none_or(|reason| reason == cause.reason),
    }
}

/// Returns the handlers of raw events that match an event.
///
/// # Errors
/// If expressions must be evaluated first, or the object is malformed.
pub fn watching<'a>(
    handlers: &'a WatchingHandlers,
    view: View<'_>,
    predicates: &dyn Predicates,
) -> Result<Vec<&'a Handler>, Unsettled> {
    matching(handlers.iter(), view, predicates)
}

/// Returns the handlers that put an object into indexes.
///
/// # Errors
/// If expressions must be evaluated first, or the object is malformed.
pub fn indexing<'a>(
    handlers: &'a IndexingHandlers,
    view: View<'_>,
    predicates: &dyn Predicates,
) -> Result<Vec<&'a Handler>, Unsettled> {
    matching(handlers.iter(), view, predicates)
}

/// Returns the daemons and timers that match an object, without handlers whose task ended on its own.
///
/// # Errors
/// If expressions must be evaluated first, or the object is malformed.
pub fn spawning<'a>(
    handlers: &'a SpawningHandlers,
    ended: &BTreeSet<String>,
    view: View<'_>,
    predicates: &dyn Predicates,
) -> Result<Vec<&'a Handler>, Unsettled> {
    matching(handlers.iter().filter(|handler| !ended.contains(&handler.id)), view, predicates)
}

/// Returns the handlers that match, each function once per id: the first declaration wins.
pub(super) fn matching<'a>(
    handlers: impl Iterator<Item = &'a Handler>,
    view: View<'_>,
    predicates: &dyn Predicates,
) -> Result<Vec<&'a Handler>, Unsettled> {
    let mut poll = Poll::default();
    let mut selected = Vec::new();
    for handler in handlers {
        if poll.take(matches(handler, view, predicates))? {
            selected.push(handler);
        }
    }
    let selected = poll.settle(selected)?;
    Ok(deduplicated(selected))
}

/// Returns the items whose handlers match, also those of one function.
pub(super) fn passing<'a, T>(
    items: impl Iterator<Item = (&'a T, &'a Handler)>,
    view: View<'_>,
    predicates: &dyn Predicates,
) -> Result<Vec<&'a T>, Unsettled> {
    let mut poll = Poll::default();
    let mut selected = Vec::new();
    for (item, handler) in items {
        if poll.take(matches(handler, view, predicates))? {
            selected.push(item);
        }
    }
    poll.settle(selected)
}

/// Tells whether any change handler concerns the object. If none does, the object is in kopf's stealth mode.
///
/// # Errors
/// If expressions must be evaluated first, or the object is malformed.
pub fn is_concerned(
    handlers: &ChangingHandlers,
    view: View<'_>,
    predicates: &dyn Predicates,
) -> Result<bool, Unsettled> {
    any_prematches(handlers.iter(), view, predicates)
}

/// Tells whether any of the handlers concerns the object; after the first match no further expressions are evaluated.
pub(super) fn any_prematches<'a>(
    handlers: impl Iterator<Item = &'a Handler>,
    view: View<'_>,
    predicates: &dyn Predicates,
) -> Result<bool, Unsettled> {
    let mut poll = Poll::default();
    for handler in handlers {
        if poll.take(prematches(handler, view, predicates))? {
            return Ok(true);
        }
    }
    poll.settle(false)
}

/// Returns the handlers with each function once per id.
pub fn deduplicated<'a>(handlers: impl IntoIterator<Item = &'a Handler>) -> Vec<&'a Handler> {
    let mut seen = BTreeSet::new();
    handlers.into_iter().filter(|handler| seen.insert((&handler.function, &handler.id))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handling::{Answers, Filters, Predicate, Reason};
    use crate::object::Body;
    use serde_json::json;
    use std::sync::Arc;

    /// Returns the ids of the handlers that match a cause.
    fn selected(handlers: &[Handler], reason: Reason, initial: bool) -> Vec<String> {
        let metadata = if reason == Reason::Delete { json!({"deletionTimestamp": "now"}) } else { json!({}) };
        let body = Body::from(json!({"metadata": metadata}));
        let cause = Cause { reason, initial, change: Arc::default() };
        let view = View { body: &body, change: Some(&cause.change) };
        let handlers = ChangingHandlers::of(handlers.iter().cloned().map(Arc::new));
        let selected = changing(&handlers, &cause, view, &Answers::default()).unwrap();
        selected.into_iter().map(|handler| handler.id.clone()).collect()
    }

    #[test]
    fn a_function_is_called_once_per_id_and_cause() {
        let twice = [
            Handler::simple("fn", On::Create),
            Handler::simple("fn", On::Resume { deleted: false }),
            Handler::simple("fn", On::Create),
        ];
        assert_eq!(selected(&twice, Reason::Create, false), ["fn"]);
        let other = Handler { function: "other".into(), ..Handler::simple("fn", On::Create) };
        assert_eq!(selected(&[Handler::simple("fn", On::Create), other], Reason::Create, false), ["fn", "fn"]);
    }

    #[test]
    fn resuming_mixes_into_updates_and_into_deletions_only_if_asked() {
        let handlers =
            [Handler::simple("r", On::Resume { deleted: false }), Handler::simple("d", On::Resume { deleted: true })];
        assert_eq!(selected(&handlers, Reason::Update, true), ["r", "d"]);
        assert_eq!(selected(&handlers, Reason::Delete, true), ["d"]);
        assert!(selected(&handlers, Reason::Update, false).is_empty());
    }

    fn asking(id: &str, predicate: usize) -> Handler {
        Handler {
            filters: Filters { when: Some(Predicate(predicate)), ..Filters::default() },
            ..Handler::simple(id, On::Create)
        }
    }

    #[test]
    fn the_expressions_of_all_handlers_are_asked_for_in_one_go() {
        let body = Body::from(json!({}));
        let view = View { body: &body, change: None };
        let handlers = [asking("a", 1), asking("b", 2)];
        let Err(Unsettled::Questions(questions)) = matching(handlers.iter(), view, &Answers::default()) else {
            panic!("nothing is asked")
        };
        assert_eq!(
            questions.iter().map(|question| question.predicate).collect::<Vec<_>>(),
            [Predicate(1), Predicate(2)]
        );
    }

    #[test]
    fn nothing_is_asked_if_another_handler_concerns_the_object_anyway() {
        let body = Body::from(json!({}));
        let view = View { body: &body, change: None };
        let handlers = [asking("a", 1), Handler::simple("b", On::Create)];
        assert_eq!(any_prematches(handlers.iter(), view, &Answers::default()), Ok(true));
        assert!(any_prematches(handlers[..1].iter(), view, &Answers::default()).is_err());
    }
}
