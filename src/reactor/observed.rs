//! The watches of definitions and namespaces, from which an observer learns the served kinds.

use tokio::sync::mpsc;
use tracing::warn;

use crate::cluster::{self, Seen, Sink};
use crate::object::{Body, EventKind, Resource};

/// Capacity of the queue of observations; the watches wait while it is full.
pub(super) const QUEUE_CAPACITY: usize = 64;

/// An observation.
pub(super) enum Observed {
    /// The kinds of a group may have changed; of all groups if `None`.
    Kinds(Option<String>),
    /// A namespace was seen.
    Namespace(EventKind, Body),
    /// The namespaces were listed completely.
    NamespacesListed,
    /// Listing namespaces is forbidden.
    NamespacesForbidden,
}

/// Returns a kind that the observer itself watches; these kinds are the same in every cluster.
pub(super) fn backbone(group: &str, plural: &str, kind: &str) -> Resource {
    Resource {
        group: group.to_owned(),
        version: "v1".to_owned(),
        plural: plural.to_owned(),
        kind: kind.to_owned(),
        preferred: true,
        ..Resource::default()
    }
}

/// The subject of an observation.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Subject {
    /// The definitions of kinds.
    Kinds,
    /// The namespaces.
    Namespaces,
}

/// Passes observations on.
pub(super) struct ObservationSink {
    subject: Subject,
    sender: mpsc::Sender<Observed>,
    lists: usize,
    is_refused: bool,
}

impl ObservationSink {
    /// Returns a sink that has seen nothing.
    pub(super) fn new(subject: Subject, sender: mpsc::Sender<Observed>) -> Self {
        Self { subject, sender, lists: 0, is_refused: false }
    }

    async fn send(&self, observed: Observed) {
        // The receiver is gone only when everything stops.
        let _ = self.sender.send(observed).await;
    }
}

impl Sink for ObservationSink {
    async fn seen(&mut self, seen: Seen<'_>) {
        let Ok(body) = seen.body() else { return };
        match self.subject {
            Subject::Namespaces => self.send(Observed::Namespace(seen.event_kind, body)).await,
            // Existing definitions are known from the scan.
            Subject::Kinds if seen.event_kind == EventKind::Listed => {}
            Subject::Kinds => {
                let group = body.pointer("/spec/group").and_then(serde_json::Value::as_str).map(str::to_owned);
                self.send(Observed::Kinds(group)).await;
            }
        }
    }

    async fn listed(&mut self) {
        self.lists += 1;
        match self.subject {
            Subject::Namespaces => self.send(Observed::NamespacesListed).await,
            Subject::Kinds if self.lists > 1 => self.send(Observed::Kinds(None)).await,
            Subject::Kinds => {}
        }
    }

    fn request_failed(&mut self, error: &cluster::Error) {
        if error.status() == Some(403) && !self.is_refused {
            self.is_refused = true;
            let (what, effect) = match self.subject {
                Subject::Kinds => ("resource definitions", "New kinds are not noticed"),
                Subject::Namespaces => ("namespaces", "Only namespaces with exact names are served, as if they exist"),
            };
            warn!(target: "kopfd::reactor", "Not enough permissions to watch for {what}. {effect}.");
            if self.subject == Subject::Namespaces {
                let _ = self.sender.try_send(Observed::NamespacesForbidden);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry;
    use crate::wire::PartialMetadata;
    use serde_json::{Value, json};

    /// A sink, and the state that it passes on.
    fn sink(subject: Subject) -> (ObservationSink, impl FnMut() -> Vec<String>) {
        let (sender, mut receiver) = mpsc::channel(QUEUE_CAPACITY);
        let taken = move || {
            let observed = std::iter::from_fn(|| receiver.try_recv().ok());
            observed
                .map(|observed| match observed {
                    Observed::Kinds(None) => "all kinds".to_owned(),
                    Observed::Kinds(Some(group)) => format!("kinds of {group}"),
                    Observed::Namespace(event_kind, body) => format!("{event_kind:?} {}", body.name()),
                    Observed::NamespacesListed => "namespaces listed".to_owned(),
                    Observed::NamespacesForbidden => "namespaces forbidden".to_owned(),
                })
                .collect()
        };
        (ObservationSink::new(subject, sender), taken)
    }

    async fn see(sink: &mut ObservationSink, event_kind: EventKind, object: Value) {
        let (text, resource) = (object.to_string(), Resource::default());
        let head = PartialMetadata::of(&text).unwrap();
        sink.seen(Seen { event_kind, head: &head, text: &text, resource: &resource }).await;
    }

    #[tokio::test]
    async fn kinds_are_looked_at_after_changes_of_definitions_and_after_lists_that_may_have_missed_some() {
        let (mut sink, mut taken) = sink(Subject::Kinds);
        let definition = || json!({"metadata": {"name": "things.example.com"}, "spec": {"group": "example.com"}});
        see(&mut sink, EventKind::Listed, definition()).await;
        sink.listed().await;
        assert!(taken().is_empty(), "the kinds were looked at when the operator started");
        for event_kind in [EventKind::Added, EventKind::Modified, EventKind::Deleted] {
            see(&mut sink, event_kind, definition()).await;
        }
        assert_eq!(taken(), ["kinds of example.com"; 3]);
        sink.listed().await;
        sink.listed().await;
        assert_eq!(taken(), ["all kinds"; 2]);
    }

    #[tokio::test]
    async fn namespaces_are_passed_on_with_the_end_of_each_list() {
        let (mut sink, mut taken) = sink(Subject::Namespaces);
        see(&mut sink, EventKind::Listed, json!({"metadata": {"name": "a"}})).await;
        sink.listed().await;
        see(&mut sink, EventKind::Deleted, json!({"metadata": {"name": "a"}})).await;
        assert_eq!(taken(), ["Listed a", "namespaces listed", "Deleted a"]);
    }

    #[test]
    fn missing_permissions_are_told_once_and_only_those_for_namespaces_change_what_is_served() {
        let (messages, _guard) = telemetry::collect_messages(tracing::Level::WARN);
        let told = |subject| {
            let (mut sink, mut taken) = sink(subject);
            sink.request_failed(&cluster::Error::of_answer(500, None, b""));
            assert!(taken().is_empty() && messages.lock().is_empty());
            for _ in 0..2 {
                sink.request_failed(&cluster::Error::of_answer(403, None, b""));
            }
            (taken(), std::mem::take(&mut *messages.lock()))
        };
        let (passed_on, lines) = told(Subject::Kinds);
        assert!(passed_on.is_empty());
        assert_eq!(lines, ["Not enough permissions to watch for resource definitions. New kinds are not noticed."]);
        let (passed_on, lines) = told(Subject::Namespaces);
        assert_eq!(passed_on, ["namespaces forbidden"]);
        assert_eq!(lines.len(), 1, "{lines:?}");
    }
}
