//! An API server with one object: it patches, counts versions, deletes, and sends events; or it delegates all that to
//! the embedded server.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use kopfd::cluster::apply::MERGE_PATCH;
use kopfd::cluster::{Error, Requests};
use kopfd::object::EventKind;
use kopfd::reactor::{Event, Mailbox};
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::{Map, Value, json};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::declare;
use super::embedded::Embedded;
use super::timeline::{Entry, Timeline};

/// Number of scheduler turns that a watch needs to open.
const TURNS: usize = 100;

/// The deletion timestamp of a blocked object.
const DELETED_AT: &str = "2020-01-01T00:00:00Z";

/// An API server with one object.
pub(crate) struct Server {
    timeline: Arc<Timeline>,
    state: Mutex<State>,
    /// The embedded server, if it has the object.
    embedded: Option<Embedded>,
    /// Requests that fail, by their numbers from one.
    failures: Vec<(u64, u16)>,
    pruned: Vec<Vec<String>>,
    has_status: bool,
    latency: Duration,
    events: Mutex<VecDeque<(Instant, Event)>>,
    sent: Notify,
    trouble: Mutex<Option<Trouble>>,
    crashed: Notify,
    forgotten: Mutex<Option<Forgotten>>,
}

/// Tells whether the operator omits an annotation from its patches, by key and value.
pub(crate) type Forgotten = fn(&str, &Value) -> bool;

/// The failure of the next request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The server refuses it with this status.
    Fail(u16),
    /// The operator is killed before the server receives it.
    CrashBefore,
    /// The operator is killed after the server has carried it out, before the answer.
    CrashAfter,
}

struct State {
    object: Value,
    is_gone: bool,
    requests: u64,
}

impl Server {
    /// Returns the server of a case, with this object.
    pub(crate) fn of(input: &Value, object: Value, timeline: Arc<Timeline>) -> Self {
        let failures = input.get("fail_requests").or(input.get("fail")).and_then(Value::as_array).into_iter().flatten();
        let failure =
            |failure: &Value| (failure["nth"].as_u64().unwrap_or(0), failure["status"].as_u64().unwrap_or(500) as u16);
        let subresources = input["subresources"].as_array().into_iter().flatten();
        Self {
            timeline,
            state: Mutex::new(State { object, is_gone: false, requests: 0 }),
            embedded: None,
            failures: failures.map(failure).collect(),
            pruned: input["server_prunes"].as_array().into_iter().flatten().map(declare::keys).collect(),
            has_status: subresources.into_iter().any(|name| name == "status"),
            latency: Duration::from_secs_f64(input["event_latency"].as_f64().unwrap_or(0.0)),
            events: Mutex::default(),
            sent: Notify::new(),
            trouble: Mutex::default(),
            crashed: Notify::new(),
            forgotten: Mutex::default(),
        }
    }

    /// Removes annotations from the patches of the operator, as if it had not written them.
    pub(crate) fn forget(&self, is_forgotten: Forgotten) {
        *self.forgotten.lock() = Some(is_forgotten);
    }

    /// Returns a patch without the omitted annotations.
    fn spoiled(&self, payload: &Value) -> Value {
        let mut payload = payload.clone();
        let annotations = payload.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut);
        if let (Some(is_forgotten), Some(annotations)) = (*self.forgotten.lock(), annotations) {
            annotations.retain(|key, value| !is_forgotten(key, value));
        }
        payload
    }

    /// Returns the server with its object in the embedded one.
    pub(crate) fn embedded_in(self, embedded: Embedded) -> Self {
        Self { embedded: Some(embedded), ..self }
    }

    /// Returns the object, or its last state.
    pub(crate) fn object(&self) -> Value {
        self.embedded.as_ref().map_or_else(|| self.state.lock().object.clone(), Embedded::object)
    }

    /// Tells whether the object is removed.
    pub(crate) fn is_gone(&self) -> bool {
        self.embedded.as_ref().map_or_else(|| self.state.lock().is_gone, Embedded::is_gone)
    }

    /// Creates the object: as listed, or as added.
    pub(crate) async fn begin(&self, is_listed: bool) {
        let Some(embedded) = &self.embedded else {
            return self.announce(if is_listed { EventKind::Listed } else { EventKind::Added });
        };
        if !is_listed {
            // The watch opens before the object is created, without passing of time.
            for _ in 0..TURNS {
                tokio::task::yield_now().await;
            }
        }
        Box::pin(embedded.create()).await;
    }

    /// Passes on the events of the embedded server endlessly.
    pub(crate) async fn follow(&self) {
        match &self.embedded {
            Some(embedded) => Box::pin(embedded.follow(|event_kind, raw| self.send(Event::new(event_kind, raw)))).await,
            None => std::future::pending().await,
        }
    }

    /// Sends the current state as an event.
    pub(crate) fn announce(&self, event_kind: EventKind) {
        let raw = Arc::from(self.object().to_string());
        self.send(Event::new(event_kind, raw));
    }

    fn send(&self, event: Event) {
        self.events.lock().push_back((Instant::now() + self.latency, event));
        self.sent.notify_one();
    }

    /// Delivers events endlessly, each after the latency.
    pub(crate) async fn deliver(&self, mailbox: &Mailbox) {
        loop {
            mailbox.put(self.next_event().await);
        }
    }

    /// Waits until the latency of the next event is over, and returns it.
    pub(crate) async fn next_event(&self) -> Event {
        loop {
            let next = self.events.lock().front().map(|(due, _)| *due);
            match next {
                None => self.sent.notified().await,
                Some(due) => {
                    tokio::time::sleep_until(due).await;
                    if let Some((_, event)) = self.events.lock().pop_front() {
                        return event;
                    }
                }
            }
        }
    }

    /// Drops the undelivered events, as the end of a connection does.
    pub(crate) fn disconnect(&self) {
        self.events.lock().clear();
    }

    /// Sets the failure of the next request, or none.
    pub(crate) fn trouble(&self, trouble: Option<Trouble>) {
        *self.trouble.lock() = trouble;
    }

    /// Waits until a failure kills the operator.
    pub(crate) async fn crashed(&self) {
        self.crashed.notified().await;
    }

    async fn crash(&self) -> ! {
        self.crashed.notify_one();
        std::future::pending().await
    }

    /// Changes the object as another client.
    pub(crate) async fn merge(&self, payload: &Value) {
        if let Some(embedded) = &self.embedded {
            return Box::pin(embedded.merge(payload)).await;
        }
        let object = self.object();
        let mut patched = object.clone();
        json_patch::merge(&mut patched, payload);
        if !self.is_gone() {
            self.replace(&object, patched);
        }
    }

    /// Deletes the object, or marks it if it is blocked.
    pub(crate) async fn delete(&self) {
        if let Some(embedded) = &self.embedded {
            return Box::pin(embedded.delete()).await;
        }
        let mut object = self.object();
        if self.is_gone() {
            return;
        }
        let is_held =
            object.pointer("/metadata/finalizers").and_then(Value::as_array).is_some_and(|held| !held.is_empty());
        if !is_held {
            self.state.lock().is_gone = true;
            self.announce(EventKind::Deleted);
        } else if object["metadata"].get("deletionTimestamp").is_none() {
            let before = object.clone();
            object["metadata"]["deletionTimestamp"] = json!(DELETED_AT);
            self.replace(&before, object);
        }
    }

    /// Stores a new state, if it has changed, and sends its event.
    fn replace(&self, before: &Value, mut after: Value) -> Value {
        self.pruned.iter().for_each(|path| prune(&mut after, path));
        for stanza in ["annotations", "labels", "finalizers"] {
            let is_empty = |value: &Value| {
                value.as_array().is_some_and(Vec::is_empty) || value.as_object().is_some_and(serde_json::Map::is_empty)
            };
            if after["metadata"].get(stanza).is_some_and(is_empty) {
                prune(&mut after, &["metadata".to_owned(), stanza.to_owned()]);
            }
        }
        if after == *before {
            return after;
        }
        after["metadata"]["resourceVersion"] = json!((version(before).unwrap_or(0) + 1).to_string());
        let is_released =
            after["metadata"].get("deletionTimestamp").is_some() && after["metadata"].get("finalizers").is_none();
        {
            let mut state = self.state.lock();
            state.object = after.clone();
            state.is_gone = is_released;
        }
        self.announce(if is_released { EventKind::Deleted } else { EventKind::Modified });
        after
    }

    fn patched(&self, content_type: &str, is_status: bool, payload: &Value) -> Result<Value, Error> {
        if self.is_gone() {
            return Err(failure(404));
        }
        let before = self.object();
        let mut patched = before.clone();
        if content_type == MERGE_PATCH {
            json_patch::merge(&mut patched, payload);
        } else {
            let operations: json_patch::Patch = serde_json::from_value(payload.clone()).map_err(|_| failure(400))?;
            json_patch::patch(&mut patched, &operations).map_err(|_| failure(422))?;
        }
        if self.has_status {
            let (mut kept, status) = if is_status { (before.clone(), patched) } else { (patched, before.clone()) };
            match status.get("status") {
                Some(status) => kept["status"] = status.clone(),
                None => prune(&mut kept, &["status".to_owned()]),
            }
            patched = kept;
        }
        Ok(self.replace(&before, patched))
    }
}

impl Requests for Server {
    async fn patch(
        &self,
        path: &str,
        content_type: &'static str,
        payload: &(impl Serialize + Sync),
        wanted: Option<&Map<String, Value>>,
    ) -> Result<Value, Error> {
        let is_status = path.ends_with("/status");
        let before = self.object();
        let payload = &self.spoiled(&serde_json::to_value(payload).expect("payloads are plain data"));
        let number = {
            let mut state = self.state.lock();
            state.requests += 1;
            state.requests
        };
        let mut shown = json!({
            "patch": if content_type == MERGE_PATCH { "merge" } else { "json" },
            "subresource": is_status.then_some("status"),
            "payload": payload,
        });
        if let Some(embedded) = &self.embedded {
            // The time of sending is recorded: on the way to the server, other tasks run.
            let place = self.timeline.add(Entry { shown, before, ..Entry::default() });
            let answer = Box::pin(embedded.patch(path, content_type, payload, wanted)).await;
            self.timeline.answered(place, json!(answer.as_ref().map_or_else(Error::status, |_| Some(200))));
            return answer;
        }
        let trouble = self.trouble.lock().take();
        if trouble == Some(Trouble::CrashBefore) {
            self.crash().await;
        }
        let failed = self.failures.iter().find(|(nth, _)| *nth == number);
        let answer = match (failed, trouble) {
            (Some((_, status)), _) => Err(failure(*status)),
            (None, Some(Trouble::Fail(status))) => Err(failure(status)),
            _ => self.patched(content_type, is_status, payload),
        };
        shown["response"] = json!(answer.as_ref().map_or_else(Error::status, |_| Some(200)));
        let version = answer.as_ref().ok().and_then(version);
        self.timeline.add(Entry { shown, before, version, ..Entry::default() });
        if trouble == Some(Trouble::CrashAfter) {
            self.crash().await;
        }
        // A request takes scheduler turns, even without time: other tasks run.
        tokio::task::yield_now().await;
        answer
    }
}

/// Returns the version of an object.
pub(crate) fn version(object: &Value) -> Option<u64> {
    object["metadata"]["resourceVersion"].as_str()?.parse().ok()
}

fn failure(status: u16) -> Error {
    Error::of_answer(status, None, b"")
}

fn prune(object: &mut Value, path: &[String]) {
    let Some((last, parents)) = path.split_last() else { return };
    let parent = parents.iter().try_fold(object, |object, key| object.get_mut(key));
    if let Some(Value::Object(parent)) = parent {
        parent.remove(last);
    }
}
