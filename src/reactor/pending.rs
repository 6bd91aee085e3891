//! Pending handlers: running, or waiting for their next attempt.

use std::collections::BTreeMap;
use std::fmt;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;

use crate::engines::activities::title;
use crate::handling::{Handler, Outcome};
use crate::manifest::operator::Moment;
use crate::object::{Body, ObjectKey};

/// Stands for the object of a schedule.
pub(super) const SCHEDULES: &str = "the schedules";

/// The pending handlers of all operators.
#[derive(Debug, Default)]
pub struct PendingHandlers {
    all: Mutex<BTreeMap<Key, Pending>>,
}

/// A handler of an operator, and the subject of its call.
#[derive(Debug, Clone, Copy)]
pub struct Called<'a> {
    /// The name of the operator.
    pub operator: &'a str,
    /// The handler.
    pub handler: &'a Handler,
    /// The subject of the call.
    pub subject: Subject<'a>,
}

/// The subject of a call: an activity, a schedule, or an object.
#[derive(Debug, Clone, Copy)]
pub enum Subject<'a> {
    /// An activity of the operator.
    Activity(Moment),
    /// The ticks of a schedule.
    Ticks,
    /// An object.
    Object(&'a Body),
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    owner: Owner,
    operator: String,
    handler: String,
}

/// Activities come first: nothing else begins before the end of the startup and of the login.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Owner {
    Activity(&'static str),
    Schedules,
    /// By the unique id, or its substitute.
    Object(String),
}

/// A pending handler.
#[derive(Debug, Clone, PartialEq)]
pub struct Pending {
    handler: String,
    /// The kind, the namespace and the name of the object, or the subject without an object.
    subject: String,
    state: State,
}

#[derive(Debug, Clone, PartialEq)]
enum State {
    Running { since: Instant },
    Retrying { at: Instant, error: Option<String> },
}

impl PendingHandlers {
    /// Records a call.
    pub fn called(&self, called: Called<'_>) {
        self.set(called, State::Running { since: Instant::now() });
    }

    /// Records the end of a call; only the outcome decides whether another attempt follows.
    pub fn returned(&self, called: Called<'_>) {
        self.all.lock().remove(&called.key());
    }

    /// Records the outcome of an attempt.
    pub fn concluded(&self, called: Called<'_>, outcome: &Outcome) {
        if outcome.is_final {
            self.returned(called);
            return;
        }
        let at = Instant::now().checked_add(outcome.delay.unwrap_or_default()).unwrap_or_else(Instant::now);
        self.set(called, State::Retrying { at, error: outcome.error.clone() });
    }

    /// Removes an operator's handlers of an object that is deleted or no longer served.
    pub fn gone(&self, operator: &str, uid: &str) {
        self.remove(operator, &Owner::Object(uid.to_owned()));
    }

    /// Removes an operator's handlers of an activity that has ended.
    pub fn ended(&self, operator: &str, activity: Moment) {
        self.remove(operator, &Owner::Activity(title(activity)));
    }

    /// Returns the pending handlers.
    pub fn all(&self) -> Vec<Pending> {
        self.all.lock().values().cloned().collect()
    }

    fn set(&self, called: Called<'_>, state: State) {
        let pending = Pending { handler: called.handler.id.clone(), subject: called.subject_name(), state };
        self.all.lock().insert(called.key(), pending);
    }

    fn remove(&self, operator: &str, owner: &Owner) {
        self.all.lock().retain(|key, _| key.operator != operator || key.owner != *owner);
    }
}

impl Called<'_> {
    fn key(&self) -> Key {
        let owner = match self.subject {
            Subject::Activity(moment) => Owner::Activity(title(moment)),
            Subject::Ticks => Owner::Schedules,
            Subject::Object(body) => Owner::Object(ObjectKey::of(body).uid),
        };
        Key { owner, operator: self.operator.to_owned(), handler: self.handler.id.clone() }
    }

    /// Several operators may have activities and schedules with the same ids.
    fn subject_name(&self) -> String {
        match self.subject {
            Subject::Activity(moment) => format!("{} of operator '{}'", title(moment), self.operator),
            Subject::Ticks => format!("{SCHEDULES} of operator '{}'", self.operator),
            Subject::Object(body) => named(body),
        }
    }
}

/// Returns the kind, namespace and name of an object as text.
pub(super) fn named(body: &Body) -> String {
    format!("{} {}", body.get("kind").and_then(Value::as_str).unwrap_or("object"), ObjectKey::of(body))
}

impl fmt::Display for Pending {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { handler, subject, state } = self;
        let now = Instant::now();
        match state {
            State::Running { since } => {
                let running = (now - *since).as_secs_f64().round();
                write!(formatter, "'{handler}' of {subject} has been running for {running} seconds")
            }
            State::Retrying { at, error } => {
                let left = at.saturating_duration_since(now).as_secs_f64().round();
                write!(formatter, "'{handler}' of {subject} is retried in {left} seconds")?;
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
        let for_object = |body| Called { operator: "tested", handler: &handler, subject: Subject::Object(body) };
        let called = for_object(&body);
        pending.called(called);
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(states(), ["'make' of Pod n/p has been running for 3 seconds"]);
        let retried = Outcome {
            delay: Some(Duration::from_mins(1)),
            error: Some("not yet\nat a.rhai:1".to_owned()),
            ..Outcome::default()
        };
        pending.concluded(called, &retried);
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(states(), ["'make' of Pod n/p is retried in 50 seconds (not yet)"]);
        pending.concluded(called, &Outcome { is_final: true, ..Outcome::default() });
        assert!(states().is_empty());
        pending.called(called);
        let without_uid = Body::from(json!({"kind": "Pod", "metadata": {"name": "q"}}));
        pending.called(for_object(&without_uid));
        pending.gone("another", "u");
        assert_eq!(states().len(), 2, "each operator forgets its own handlers");
        pending.gone("tested", "u");
        assert_eq!(states(), ["'make' of Pod q has been running for 0 seconds"]);
        pending.gone("tested", &ObjectKey::of(&without_uid).uid);
        assert!(states().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn activities_and_schedules_are_pending_under_their_ids_before_the_handlers_of_objects() {
        let (pending, handler) = (PendingHandlers::default(), Handler::simple("begin", On::Activity));
        let body = Body::from(json!({"kind": "Pod", "metadata": {"uid": "u", "name": "p", "namespace": "n"}}));
        let states = || pending.all().iter().map(ToString::to_string).collect::<Vec<_>>();
        let called = |operator, subject| Called { operator, handler: &handler, subject };
        pending.called(called("a", Subject::Object(&body)));
        pending.called(called("a", Subject::Ticks));
        pending.called(called("b", Subject::Activity(Moment::Login)));
        for operator in ["b", "a"] {
            let retried = Outcome {
                delay: Some(Duration::from_mins(1)),
                error: Some("not yet".to_owned()),
                ..Outcome::default()
            };
            pending.concluded(called(operator, Subject::Activity(Moment::Startup)), &retried);
        }
        let login = "'begin' of the login activity of operator 'b' has been running for 0 seconds";
        let schedule = "'begin' of the schedules of operator 'a' has been running for 0 seconds";
        let object = "'begin' of Pod n/p has been running for 0 seconds";
        let startup = |operator| {
            format!("'begin' of the startup activity of operator '{operator}' is retried in 60 seconds (not yet)")
        };
        assert_eq!(states(), [login, &startup("a"), &startup("b"), schedule, object]);
        pending.ended("a", Moment::Startup);
        pending.ended("b", Moment::Login);
        assert_eq!(states(), [&startup("b"), schedule, object]);
        pending.concluded(
            called("b", Subject::Activity(Moment::Startup)),
            &Outcome { is_final: true, ..Outcome::default() },
        );
        pending.returned(called("a", Subject::Ticks));
        assert_eq!(states(), [object]);
    }
}
