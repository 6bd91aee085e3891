//! The finalizer: when it is added and removed.

use crate::object::{Body, EventKind};

use super::filter::{Predicates, Unsettled, View};
use super::handler::{Handler, On};
use super::lists::ChangingHandlers;
use super::select;

/// The change of our finalizer at the start of a cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Adjustment {
    /// It is added. Change handlers wait for the event of this patch.
    Add,
    /// It is removed: no handler requires it.
    Remove,
    /// It does not change.
    None,
}

impl Adjustment {
    /// Returns kopf's message about it.
    pub fn message(self) -> Option<&'static str> {
        match self {
            Self::Add => Some("Adding the finalizer, thus preventing the actual deletion."),
            Self::Remove => Some("Removing the finalizer, as there are no handlers requiring it."),
            Self::None => None,
        }
    }
}

/// Kopf's message when the finalizer is removed at the end of a deletion.
pub const RELEASE: &str = "Removing the finalizer, thus allowing the actual deletion.";

/// Returns the necessary change of the finalizer.
pub fn adjust(is_demanded: bool, body: &Body, finalizer: &str) -> Adjustment {
    match (is_demanded, body.has_finalizer(finalizer), body.is_deleting()) {
        (true, false, false) => Adjustment::Add,
        (false, true, _) => Adjustment::Remove,
        _ => Adjustment::None,
    }
}

/// Tells whether a mandatory deletion handler concerns the object, whatever the reason of this cycle.
///
/// # Errors
/// If expressions must be evaluated first, or the object is malformed.
pub fn is_demanded_by_deletion(
    handlers: &ChangingHandlers,
    view: View<'_>,
    predicates: &dyn Predicates,
) -> Result<bool, Unsettled> {
    let is_mandatory = |handler: &&Handler| handler.on == On::Delete { optional: false };
    select::any_prematches(handlers.iter().filter(is_mandatory), view, predicates)
}

/// Tells whether the finalizer may be removed: the object is being deleted, has our finalizer, and no handler is
/// pending.
pub fn is_released(event_kind: EventKind, body: &Body, finalizer: &str, has_delays: bool) -> bool {
    event_kind != EventKind::Deleted && body.is_deleting() && body.has_finalizer(finalizer) && !has_delays
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn body(is_blocked: bool, is_deleting: bool) -> Body {
        let finalizers = if is_blocked { json!(["foreign", "ours"]) } else { json!(["foreign"]) };
        let deletion = is_deleting.then_some("now");
        Body::from(json!({"metadata": {"finalizers": finalizers, "deletionTimestamp": deletion}}))
    }

    #[test]
    fn a_finalizer_is_added_before_a_deletion_and_removed_when_no_handler_needs_it() {
        assert_eq!(adjust(true, &body(false, false), "ours"), Adjustment::Add);
        assert_eq!(adjust(true, &body(false, true), "ours"), Adjustment::None);
        assert_eq!(adjust(false, &body(true, true), "ours"), Adjustment::Remove);
        assert_eq!(adjust(true, &body(true, true), "ours"), Adjustment::None);
    }

    #[test]
    fn an_object_is_released_when_nothing_is_pending() {
        assert!(is_released(EventKind::Modified, &body(true, true), "ours", false));
        assert!(!is_released(EventKind::Modified, &body(true, true), "ours", true));
        assert!(!is_released(EventKind::Deleted, &body(true, true), "ours", false));
        assert!(!is_released(EventKind::Modified, &body(true, false), "ours", false));
    }
}
