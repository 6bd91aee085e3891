//! Pending handlers: running, or waiting for their next attempt.

use std::collections::BTreeMap;
use std::fmt;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;

use crate::handling::{Handler, Outcome};
use crate::object::{Body, ObjectKey};

/// The pending handlers of all objects.
#[derive(Debug, Default)]
pub struct PendingHandlers {
    /// By the unique id of the object, or its substitute, and the id of the handler.
    all: Mutex<BTreeMap<(String, String), Pending>>,
}

/// A pending handler.
#[derive(Debug, Clone, PartialEq)]
pub struct Pending {
    /// Its id.
    pub handler: String,
    /// The kind, the namespace and the name of the object.
    pub object: String,
    state: State,
}

#[derive(Debug, Clone, PartialEq)]
enum State {
    Running { since: Instant },
    Retrying { at: Instant, error: Option<String> },
}

impl PendingHandlers {
    /// Records a call.
    pub fn called(&self, handler: &Handler, body: &Body) {
        self.set(handler, body, State::Running { since: Instant::now() });
    }

    /// Records the end of a call; only the outcome decides whether another attempt follows.
    pub fn returned(&self, handler: &Handler, body: &Body) {
        self.all.lock().remove(&key(handler, body));
    }

    /// Records the outcome of an attempt.
    pub fn concluded(&self, handler: &Handler, body: &Body, outcome: &Outcome) {
        if outcome.is_final {
            self.returned(handler, body);
            return;
        }
        let at = Instant::now().checked_add(outcome.delay.unwrap_or_default()).unwrap_or_else(Instant::now);
        self.set(handler, body, State::Retrying { at, error: outcome.error.clone() });
    }

    /// Removes the handlers of an object that is deleted or no longer served.
    pub fn gone(&self, uid: &str) {
        self.all.lock().retain(|key, _| key.0 != uid);
    }

    /// Returns the pending handlers.
    pub fn all(&self) -> Vec<Pending> {
        self.all.lock().values().cloned().collect()
    }

    fn set(&self, handler: &Handler, body: &Body, state: State) {
        let pending = Pending { handler: handler.id.clone(), object: named(body), state };
        self.all.lock().insert(key(handler, body), pending);
    }
}

/// Returns the kind, namespace and name of an object as text.
pub(super) fn named(body: &Body) -> String {
    format!("{} {}", body.get("kind").and_then(Value::as_str).unwrap_or("object"), ObjectKey::of(body))
}

fn key(handler: &Handler, body: &Body) -> (String, String) {
    (ObjectKey::of(body).uid, handler.id.clone())
}

impl fmt::Display for Pending {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { handler, object, state } = self;
        let now = Instant::now();
        match state {
            State::Running { since } => {
                let running = (now - *since).as_secs_f64().round();
                write!(formatter, "'{handler}' of {object} has been running for {running} seconds")
            }
            State::Retrying { at, error } => {
                let left = at.saturating_duration_since(now).as_secs_f64().round();
                write!(formatter, "'{handler}' of {object} is retried in {left} seconds")?;
                match error.as_deref().and_then(|error| error.lines().next()) {
                    Some(error) => write!(formatter, " ({error})"),
                    None => Ok(()),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handling::On;
    use serde_json::json;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn a_handler_is_pending_from_its_call_to_its_last_outcome() {
        let (pending, handler) = (PendingHandlers::default(), Handler::simple("make", On::Create));
        let body = Body::from(json!({"kind": "Pod", "metadata": {"uid": "u", "name": "p", "namespace": "n"}}));
        let states = || pending.all().iter().map(ToString::to_string).collect::<Vec<_>>();
        pending.called(&handler, &body);
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(states(), ["'make' of Pod n/p has been running for 3 seconds"]);
        let retried = Outcome { delay: Some(Duration::from_mins(1)), error: Some("not yet\nat a.rhai:1".to_owned()), ..Outcome::default() };
        pending.concluded(&handler, &body, &retried);
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(states(), ["'make' of Pod n/p is retried in 50 seconds (not yet)"]);
        pending.concluded(&handler, &body, &Outcome { is_final: true, ..Outcome::default() });
        assert!(states().is_empty());
        pending.called(&handler, &body);
        let without_uid = Body::from(json!({"kind": "Pod", "metadata": {"name": "q"}}));
        pending.called(&handler, &without_uid);
        pending.gone("u");
        assert_eq!(states(), ["'make' of Pod q has been running for 0 seconds"]);
        pending.gone(&ObjectKey::of(&without_uid).uid);
        assert!(states().is_empty());
    }
}
