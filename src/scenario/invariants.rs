//! What must be so whatever happens: no handler is lost, none is called again after its end was stored, one call at a time for an object.
//!
//! That the objects come to the same end is compared by whoever runs a scenario twice.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::Value;

use crate::devserver::Api;
use crate::handling::{Handler, On, Outcome, Reason, Records as _};
use crate::object::Body;
use crate::persistence::{Storages, Stored, essence};

use super::timeline::Subject;

/// The ends of handlers that were stored, by object and handler.
pub type Ends = BTreeMap<(Subject, String), usize>;

/// Watches over the invariants of one run, over all lives of its operators.
pub struct Invariants {
    api: Api,
    /// Where the operators keep what they remember.
    storages: Vec<Arc<Storages>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The life that calls belong to; what earlier ones had begun is over.
    life: u32,
    running: BTreeMap<Subject, usize>,
    /// Ends that the next write of the object stores.
    pending: BTreeMap<Subject, Vec<String>>,
    /// Ends whose records stand on the object.
    recorded: BTreeMap<Subject, Vec<String>>,
    stored: Ends,
    /// Objects that were written themselves, with a write of their status that may follow.
    half_written: BTreeSet<Subject>,
    lost_statuses: BTreeSet<Subject>,
    violations: Vec<String>,
}

impl State {
    fn enter(&mut self, life: u32) {
        if life > self.life {
            self.life = life;
            self.running.clear();
            self.pending.clear();
            self.lost_statuses.append(&mut self.half_written);
        }
    }
}

impl Invariants {
    /// Returns a watch over operators that keep what they remember here.
    pub fn new(api: Api, storages: Vec<Arc<Storages>>) -> Self {
        Self { api, storages, state: Mutex::default() }
    }

    /// Notes that the operators live again.
    pub fn begun(&self, life: u32) {
        self.state.lock().enter(life);
    }

    /// Notes a call.
    pub fn called(&self, life: u32, subject: &Subject, handler: &Handler, reason: Option<Reason>) {
        let is_finished = reason.is_some() && self.is_finished(subject, handler);
        let mut state = self.state.lock();
        state.enter(life);
        let running = state.running.entry(subject.clone()).or_default();
        *running += 1;
        if *running > 1 {
            let text = format!("{} calls for {subject} at the same time", *running);
            state.violations.push(text);
        }
        if is_finished {
            state.violations.push(format!("`{}` was called for {subject}, though its end is stored on the object", handler.id));
        }
    }

    /// Notes that a call has come back.
    pub fn returned(&self, life: u32, subject: &Subject) {
        let mut state = self.state.lock();
        if life == state.life
            && let Some(running) = state.running.get_mut(subject)
        {
            *running = running.saturating_sub(1);
        }
    }

    /// Notes what an attempt means.
    pub fn concluded(&self, life: u32, subject: &Subject, handler: &Handler, outcome: &Outcome) {
        // Whether an object is resumed depends on the lives of the operator.
        if !outcome.is_final || matches!(handler.on, On::Resume { .. }) {
            return;
        }
        let mut state = self.state.lock();
        state.enter(life);
        if life == state.life {
            state.pending.entry(subject.clone()).or_default().push(handler.id.clone());
        }
    }

    /// Notes that an object was taken up: everything that was to be written before is.
    pub fn sighted(&self, subject: &Subject) {
        self.state.lock().half_written.remove(subject);
    }

    /// Notes that nothing is left to be written.
    pub fn settled(&self) {
        self.state.lock().half_written.clear();
    }

    /// Notes that an operator has written an object, or a subresource.
    pub fn wrote(&self, life: u32, subresource: Option<&str>, before: Option<&Value>, after: Option<&Value>) {
        let Some(object) = after.or(before) else { return };
        let subject = Subject::of(object);
        let is_end = self.storages.iter().any(|storages| is_end_of_cause(storages, before, after));
        let mut state = self.state.lock();
        state.enter(life);
        match subresource {
            None => drop(state.half_written.insert(subject.clone())),
            Some("status") => drop(state.half_written.remove(&subject)),
            Some(_) => {}
        }
        if is_end {
            let recorded = state.recorded.remove(&subject).unwrap_or_default();
            let mut ended = state.pending.remove(&subject).unwrap_or_default();
            ended.extend(recorded);
            ended.sort();
            ended.dedup();
            for handler in ended {
                *state.stored.entry((subject.clone(), handler)).or_default() += 1;
            }
        } else if let Some(after) = after {
            let body = Body::from(after.clone());
            let pending = state.pending.remove(&subject).unwrap_or_default();
            let (stored, left): (Vec<_>, Vec<_>) = pending.into_iter().partition(|id| self.has_end(&body, id));
            state.recorded.entry(subject.clone()).or_default().extend(stored);
            state.pending.insert(subject, left);
        }
    }

    /// Returns the objects whose status may be lost: a patch of an object with a status is two requests, and the operators have died after
    /// the first. It is so in kopf, too.
    pub fn lost_statuses(&self) -> BTreeSet<Subject> {
        self.state.lock().lost_statuses.clone()
    }

    /// Returns the ends that were stored, and what was violated.
    pub fn result(&self) -> (Ends, Vec<String>) {
        let state = self.state.lock();
        (state.stored.clone(), state.violations.clone())
    }

    fn is_finished(&self, subject: &Subject, handler: &Handler) -> bool {
        let found = self.api.with(|inner| {
            let served = inner.registry.all().find(|served| served.kind.group == subject.group && served.kind.kind == subject.kind)?;
            inner.store.get(&served.resource, &(subject.namespace.clone(), subject.name.clone()))
        });
        found.is_some_and(|stored| self.has_end(&Body::from((*stored.value).clone()), &handler.id))
    }

    fn has_end(&self, body: &Body, id: &str) -> bool {
        self.storages.iter().any(|storages| {
            let records = Stored { storages: Arc::clone(storages), body: body.clone(), now: Timestamp::UNIX_EPOCH };
            matches!(records.record(id), Ok(Some(record)) if record.is_finished())
        })
    }
}

/// Tells whether a write ends a cause: another essence counts as handled, or the object is let go.
fn is_end_of_cause(storages: &Storages, before: Option<&Value>, after: Option<&Value>) -> bool {
    let body = |value: Option<&Value>| value.map(|value| Body::from(value.clone()));
    let (before, after) = (body(before), body(after));
    let handled = |body: &Option<Body>| {
        let body = body.as_ref()?;
        essence::change(storages, body, &[]).ok()?.old
    };
    let is_held = |body: &Option<Body>| body.as_ref().is_some_and(|body| body.has_finalizer(&storages.finalizer));
    (after.is_some() && handled(&before) != handled(&after)) || (is_held(&before) && !is_held(&after))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devserver::{Settings, given};
    use crate::kit::Clock;
    use serde_json::json;

    const FINISHED: &str =
        r#"{"started":"2020-01-01T00:00:00.000000+00:00","purpose":"create","retries":1,"success":true,"failure":false}"#;

    async fn watched(annotations: Value) -> (Invariants, Subject, Value) {
        let api = Api::new(Settings { seed: Some(1), ..Settings::default() }, Clock::system());
        let metadata = json!({"name": "one", "namespace": "default", "annotations": annotations});
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
        given::apply(&api, vec![object.clone()]).await.unwrap();
        (Invariants::new(api, vec![Arc::default()]), Subject::of(&object), object)
    }

    fn handler(id: &str) -> Handler {
        Handler::simple(id, On::Create)
    }

    fn success() -> Outcome {
        Outcome { is_final: true, ..Outcome::default() }
    }

    #[tokio::test]
    async fn two_calls_at_a_time_are_too_many_but_a_new_life_begins_with_none() {
        let (invariants, subject, _) = watched(json!({})).await;
        invariants.called(1, &subject, &handler("a"), Some(Reason::Create));
        invariants.called(2, &subject, &handler("a"), Some(Reason::Create));
        assert!(invariants.result().1.is_empty());
        invariants.called(2, &subject, &handler("b"), Some(Reason::Create));
        assert_eq!(invariants.result().1, ["2 calls for ConfigMap default/one at the same time"]);
    }

    #[tokio::test]
    async fn a_handler_whose_end_is_stored_must_not_be_called() {
        let (invariants, subject, _) = watched(json!({"kopf.zalando.org/a": FINISHED})).await;
        invariants.called(1, &subject, &handler("b"), Some(Reason::Create));
        invariants.returned(1, &subject);
        invariants.called(1, &subject, &handler("a"), Some(Reason::Create));
        assert_eq!(invariants.result().1, ["`a` was called for ConfigMap default/one, though its end is stored on the object"]);
    }

    #[tokio::test]
    async fn only_ends_that_were_stored_count() {
        let (invariants, subject, before) = watched(json!({})).await;
        invariants.concluded(1, &subject, &handler("lost"), &success());
        invariants.begun(2);
        invariants.concluded(2, &subject, &handler("recorded"), &success());
        let mut recorded = before.clone();
        recorded["metadata"]["annotations"] = json!({"kopf.zalando.org/recorded": FINISHED});
        invariants.wrote(2, None, Some(&before), Some(&recorded));
        invariants.begun(3);
        invariants.concluded(3, &subject, &handler("last"), &success());
        let mut done = before.clone();
        done["metadata"]["annotations"] = json!({"kopf.zalando.org/last-handled-configuration": "{}"});
        invariants.wrote(3, None, Some(&recorded), Some(&done));
        let ends: Vec<String> = invariants.result().0.into_keys().map(|(_, handler)| handler).collect();
        assert_eq!(ends, ["last", "recorded"]);
    }

    #[tokio::test]
    async fn a_death_between_the_two_requests_of_a_patch_loses_the_status() {
        let (invariants, subject, object) = watched(json!({})).await;
        invariants.wrote(1, None, Some(&object), Some(&object));
        invariants.wrote(1, Some("status"), Some(&object), Some(&object));
        invariants.begun(2);
        assert!(invariants.lost_statuses().is_empty());
        invariants.wrote(2, None, Some(&object), Some(&object));
        invariants.begun(3);
        assert!(invariants.lost_statuses().contains(&subject));
    }
}
