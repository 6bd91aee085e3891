//! Causes: why an object is handled.

use std::sync::Arc;

use serde_json::Value;

use crate::object::{Body, Diff, EventKind, FieldPath, diff};

/// The reason why an object is handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// It was never handled before.
    Create,
    /// Its essence differs from the last handled one.
    Update,
    /// Its deletion was requested, and our finalizer blocks it.
    Delete,
    /// It was handled before, and the operator sees it for the first time.
    Resume,
    /// Its essence is the last handled one.
    Noop,
    /// Its deletion was requested, and our finalizer does not block it.
    Free,
    /// It is deleted.
    Gone,
}

impl Reason {
    /// Returns kopf's name of the reason, which is stored in records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Delete => "delete",
            Self::Resume => "resume",
            Self::Noop => "noop",
            Self::Free => "free",
            Self::Gone => "gone",
        }
    }

    /// Returns the reason with this name.
    pub fn parse(word: &str) -> Option<Self> {
        let all = [Self::Create, Self::Update, Self::Delete, Self::Resume, Self::Noop, Self::Free, Self::Gone];
        all.into_iter().find(|reason| reason.as_str() == word)
    }

    /// Tells whether handlers are called for it.
    pub fn is_handled(self) -> bool {
        matches!(self, Self::Create | Self::Update | Self::Delete | Self::Resume)
    }

    /// Returns the noun for messages.
    pub fn title(self) -> &'static str {
        match self {
            Self::Create => "creation",
            Self::Update => "updating",
            Self::Delete => "deletion",
            Self::Resume => "resuming",
            Self::Noop => "noop",
            Self::Free => "free",
            Self::Gone => "gone",
        }
    }

    /// Returns the noun at the beginning of a sentence.
    pub fn capitalised_title(self) -> String {
        let title = self.title();
        title[..1].to_uppercase() + &title[1..]
    }
}

/// The essences before and after, and their differences.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Change {
    /// The last handled essence; `None` if the object was never handled.
    pub old: Option<Value>,
    /// The current essence; `None` if it lacks the field that the change was reduced to.
    pub new: Option<Value>,
    /// The differences from the old to the new.
    pub diff: Diff,
}

impl Change {
    /// Returns the change from one essence to another.
    pub fn between(old: Option<Value>, new: Option<Value>) -> Self {
        let differences =
            diff::diff(old.as_ref().unwrap_or(&Value::Null), new.as_ref().unwrap_or(&Value::Null), diff::Scope::Full);
        Self { old, new, diff: differences }
    }

    /// Returns the change as a handler with a field sees it.
    pub fn reduced_to(&self, field: &FieldPath) -> Self {
        let at_field = |side: &Option<Value>| {
            side.as_ref().and_then(|value| field.resolve(value)).map(std::borrow::Cow::into_owned)
        };
        let (old, new) = (at_field(&self.old), at_field(&self.new));
        if field.is_query() {
            return Self::between(old, new);
        }
        Self { diff: diff::reduce(&self.diff, field.prefix()), old, new }
    }
}

/// The cause of an event for change handlers.
#[derive(Debug, Clone, PartialEq)]
pub struct Cause {
    /// The reason for handling the object.
    pub reason: Reason,
    /// Whether the object was first seen in a list and never fully handled since: resume handlers take part.
    pub initial: bool,
    /// The essences and their differences, shared with the subjects of calls.
    pub change: Arc<Change>,
}

/// The history of an object in memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Memory {
    /// The object was first seen in a list.
    pub noticed_by_listing: bool,
    /// At least one handling cycle was completed.
    pub fully_handled_once: bool,
}

/// Returns the cause of an event.
pub fn detect(event_kind: EventKind, body: &Body, finalizer: &str, memory: Memory, change: Change) -> Cause {
    let initial = memory.noticed_by_listing && !memory.fully_handled_once;
    let reason = match &change {
        _ if event_kind == EventKind::Deleted => Reason::Gone,
        _ if body.is_deleting() && !body.has_finalizer(finalizer) => Reason::Free,
        _ if body.is_deleting() => Reason::Delete,
        // A resume never mixes with a creation: an object that was never handled has nothing to resume.
        Change { old: None, .. } => Reason::Create,
        Change { diff, .. } if diff.is_empty() && initial => Reason::Resume,
        Change { diff, .. } if diff.is_empty() => Reason::Noop,
        Change { .. } => Reason::Update,
    };
    Cause { reason, initial: initial && reason != Reason::Create, change: Arc::new(change) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const FINALIZER: &str = "kopf.zalando.org/KopfFinalizerMarker";

    /// Returns the reason, and whether resume handlers take part, for an object that was or was not first seen in a
    /// list.
    fn detected(event_kind: EventKind, metadata: Value, old: Option<Value>, is_listed: bool) -> (Reason, bool) {
        let body = Body::from(json!({"metadata": metadata, "spec": {"x": 1}}));
        let memory = Memory { noticed_by_listing: is_listed, fully_handled_once: false };
        let cause = detect(event_kind, &body, FINALIZER, memory, Change::between(old, Some(json!({"spec": {"x": 1}}))));
        (cause.reason, cause.initial)
    }

    #[test]
    fn an_object_that_was_never_handled_is_a_creation_without_resuming() {
        assert_eq!(detected(EventKind::Listed, json!({}), None, true), (Reason::Create, false));
        assert_eq!(detected(EventKind::Modified, json!({}), None, false), (Reason::Create, false));
    }

    #[test]
    fn changes_during_a_downtime_are_an_update_with_resuming() {
        assert_eq!(
            detected(EventKind::Listed, json!({}), Some(json!({"spec": {"x": 0}})), true),
            (Reason::Update, true)
        );
        assert_eq!(
            detected(EventKind::Modified, json!({}), Some(json!({"spec": {"x": 0}})), false),
            (Reason::Update, false)
        );
    }

    #[test]
    fn an_object_that_was_handled_is_resumed_only_if_a_listing_noticed_it() {
        let old = || Some(json!({"spec": {"x": 1}, "null": null}));
        assert_eq!(detected(EventKind::Listed, json!({}), old(), true), (Reason::Resume, true));
        assert_eq!(detected(EventKind::Added, json!({}), old(), false), (Reason::Noop, false));
    }

    #[test]
    fn a_deletion_is_ours_only_while_our_finalizer_holds_it() {
        let deleting = |finalizers: Value| json!({"deletionTimestamp": "", "finalizers": finalizers});
        assert_eq!(detected(EventKind::Modified, deleting(json!([FINALIZER])), None, false).0, Reason::Delete);
        assert_eq!(detected(EventKind::Modified, deleting(json!(["foreign"])), None, false).0, Reason::Free);
        assert_eq!(detected(EventKind::Deleted, deleting(json!([FINALIZER])), None, false).0, Reason::Gone);
    }
}
