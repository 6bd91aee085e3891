//! The state of one configuration, from its watch.

use serde_json::Value;
use tokio::sync::watch;
use tracing::warn;

use crate::cluster::{self, Seen, Sink};
use crate::object::EventKind;

/// The last observed state of a configuration.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) enum Observed {
    /// Nothing was seen yet.
    #[default]
    Nothing,
    /// It has this state.
    Present(Value),
    /// It was deleted. The version is that of the deletion, if the server has sent it.
    Gone(Option<String>),
}

impl Observed {
    /// Tells whether it is certainly older than a version. Versions are numbers that grow with each write.
    pub(super) fn is_before(&self, version: &str) -> bool {
        let own = match self {
            Self::Nothing => None,
            Self::Present(object) => object.pointer("/metadata/resourceVersion").and_then(Value::as_str),
            Self::Gone(version) => version.as_deref(),
        };
        let number = |version: &str| version.parse::<u128>().ok();
        own.and_then(number).zip(number(version)).is_some_and(|(own, other)| own < other)
    }
}

/// Passes the last state on.
pub(super) struct ObservedSink {
    /// The receiver gets only the last state.
    pub(super) observed: watch::Sender<Observed>,
    /// The kind and the name, for messages.
    pub(super) title: String,
    /// Whether missing permissions were logged.
    pub(super) is_refused: bool,
}

impl Sink for ObservedSink {
    async fn seen(&mut self, seen: Seen<'_>) {
        let observed = match seen.event_kind {
            EventKind::Deleted => Observed::Gone(seen.head.resource_version().map(str::to_owned)),
            _ => match seen.body() {
                Ok(body) => Observed::Present((*body.shared()).clone()),
                Err(_) => return,
            },
        };
        self.observed.send_replace(observed);
    }

    async fn listed(&mut self) {}

    fn request_failed(&mut self, error: &cluster::Error) {
        if error.status() == Some(403) && !self.is_refused {
            self.is_refused = true;
            let title = &self.title;
            warn!(target: "kopfd::admission", "Not enough permissions to watch the {title}. Changes by others are not noticed.");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn states_before_the_own_write_are_recognised() {
        let present = |version: &str| Observed::Present(json!({"metadata": {"resourceVersion": version}}));
        assert!(present("9").is_before("10") && !present("10").is_before("10") && !present("11").is_before("10"));
        assert!(Observed::Gone(Some("9".into())).is_before("10"));
        let unknown = [Observed::Nothing, Observed::Gone(None), present("x"), Observed::Present(json!({}))];
        assert!(unknown.iter().all(|observed| !observed.is_before("10")));
    }
}
