//! The queue of Events, and the task that posts them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::RwLock;
use serde_json::Value;
use tokio::sync::{mpsc, watch};
use tracing::{debug, warn};

use crate::cluster::fence::Fenced;
use crate::cluster::{Client, Error, Fence, Request, address, apply};
use crate::handling::Level;
use crate::kit::{Clock, Stop};
use crate::manifest::settings::Posting;
use crate::object::Resource;
use crate::telemetry::credentials;

use super::aggregation::Posted;
use super::rules::{self, KubernetesEvent};

/// Limit of queued Events: one is posted in some milliseconds, so this bridges some seconds without the API server.
const CAPACITY: usize = 1_000;

/// How long queued Events are posted when the operator stops.
const FLUSH_TIME: Duration = Duration::from_secs(2);

/// The current settings: startup functions may change them.
type Current = Arc<RwLock<Arc<Posting>>>;

/// A handle that queues Events. Cheap to clone; it never waits.
#[derive(Debug, Clone)]
pub struct Poster {
    posting: Current,
    events: mpsc::Sender<Queued>,
    lost: Arc<AtomicU64>,
    pending: watch::Sender<usize>,
    /// Closed while this replica does not lead, for the Events of the leader.
    fence: Option<Fenced>,
}

/// A queued Event.
#[derive(Debug)]
struct Queued {
    event: KubernetesEvent,
    fence: Option<Fenced>,
}

/// The queued Events.
#[derive(Debug)]
pub struct Queue {
    posting: Current,
    events: mpsc::Receiver<Queued>,
    lost: Arc<AtomicU64>,
    pending: watch::Sender<usize>,
}

/// Returns an empty queue and the handle that fills it.
pub fn queue(posting: Posting) -> (Poster, Queue) {
    let posting: Current = Arc::new(RwLock::new(Arc::new(posting)));
    let (sender, events) = mpsc::channel(CAPACITY);
    let (lost, pending) = (Arc::default(), watch::Sender::new(0));
    let poster = Poster {
        posting: Arc::clone(&posting),
        events: sender,
        lost: Arc::clone(&lost),
        pending: pending.clone(),
        fence: None,
    };
    (poster, Queue { posting, events, lost, pending })
}

impl Poster {
    /// Returns the handle for the Events of the leader of several replicas: they are posted only while a fence is open.
    #[must_use]
    pub fn fenced(&self, fence: Arc<dyn Fence>) -> Self {
        Self { fence: Some(Fenced(fence)), ..self.clone() }
    }

    /// Waits until all queued Events are posted, up to a limit.
    pub async fn flush(&self, limit: Duration) {
        let mut pending = self.pending.subscribe();
        // Events that are not posted in time are lost.
        let _ = tokio::time::timeout(limit, pending.wait_for(|count| *count == 0)).await;
    }

    /// Queues an Event, if Events of its level are posted. Without a level, only the main switch counts. If the queue
    /// is full, the Event is lost and counted.
    pub fn post(&self, event: KubernetesEvent, level: Option<Level>) {
        if rules::is_posted(&self.posting.read(), level) {
            self.put(event);
        }
    }

    /// Changes the settings, also of the task that posts.
    pub fn configure(&self, posting: Posting) {
        *self.posting.write() = Arc::new(posting);
    }

    /// Tells whether log messages about objects are posted.
    pub fn posts_logs(&self) -> bool {
        let posting = self.posting.read();
        posting.loggers && posting.enabled
    }

    /// Queues the Event of a log message, if such messages are posted.
    pub fn post_log(&self, object: &Value, level: Level, message: &str) {
        let event = rules::of_log(&self.posting.read(), object, level, message);
        if let Some(event) = event {
            self.put(event);
        }
    }

    fn put(&self, mut event: KubernetesEvent) {
        if self.fence.as_ref().is_some_and(|fence| !fence.0.is_open()) {
            return;
        }
        // More people may read Events than logs.
        event.message = credentials::hide(event.message);
        // A queue of uncut messages could take gigabytes.
        if let Some(cut) = rules::cut(&event.message) {
            event.message = cut;
        }
        self.pending.send_modify(|count| *count += 1);
        if self.events.try_send(Queued { event, fence: self.fence.clone() }).is_err() {
            self.pending.send_modify(|count| *count -= 1);
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Posts Events to one cluster.
struct Task {
    client: Client,
    clock: Clock,
    posting: Arc<Posting>,
    component: String,
    posted: Posted,
}

impl Queue {
    /// Changes the settings, also of the handles.
    pub fn configure(&self, posting: Posting) {
        *self.posting.write() = Arc::new(posting);
    }

    /// Posts the Events until the operator stops. Events that are then still queued are posted for up to two seconds.
    /// `component` is the name of the operator, for Events without a reporting component in the settings.
    pub async fn run(mut self, client: Client, clock: Clock, component: String, stop: Stop) {
        let mut task =
            Task { client, clock, posting: Arc::clone(&self.posting.read()), component, posted: Posted::default() };
        loop {
            let event = tokio::select! {
                biased;
                () = stop.requested() => break,
                event = self.events.recv() => event,
            };
            let Some(event) = event else { break };
            task.posting = Arc::clone(&self.posting.read());
            task.post(event).await;
            self.pending.send_modify(|count| *count -= 1);
            let lost = self.lost.swap(0, Ordering::Relaxed);
            if lost > 0 {
                warn!(target: "kopfd::posting", lost, "Events were not posted: their queue was full.");
            }
        }
        self.events.close();
        let rest = async {
            while let Ok(event) = self.events.try_recv() {
                task.post(event).await;
            }
        };
        // The lost ones are counted below.
        let _ = tokio::time::timeout(FLUSH_TIME, rest).await;
        let lost = self.events.len() as u64 + self.lost.load(Ordering::Relaxed);
        if lost > 0 {
            warn!(target: "kopfd::posting", lost, "Events were not posted: the operator stops.");
        }
    }
}

impl Task {
    async fn post(&mut self, queued: Queued) {
        let Queued { event, fence } = queued;
        let client = fence.map_or_else(|| self.client.clone(), |fence| self.client.fenced(fence.0));
        if let Err(error) = self.try_to_post(&client, &event).await {
            let KubernetesEvent { event_type, reason, message, .. } = &event;
            let error = error.chain();
            warn!(target: "kopfd::posting", event_type, reason, text = message, error, "Failed to post an Event. It is lost.");
        }
    }

    async fn try_to_post(&mut self, client: &Client, event: &KubernetesEvent) -> Result<(), Error> {
        let now = self.clock.now();
        if self.posting.aggregated
            && let Some((entry, patch)) = self.posted.repeat(event, now)
        {
            let path = address::object(&events(), Some(&entry.namespace), &entry.name)?;
            let request = Request::patch(path).with_json(apply::MERGE_PATCH, &patch);
            match client.request(&request).await {
                Ok(_) => return Ok(()),
                // The server deletes Events after an hour.
                Err(error) if error.status() == Some(404) => {
                    debug!(target: "kopfd::posting", "A repeated Event is gone.");
                }
                Err(error) => return Err(error),
            }
        }
        let namespace = self.client.default_namespace();
        let Some((namespace, body)) = rules::body(event, &self.posting, &self.component, &namespace, now) else {
            return Ok(());
        };
        let path = address::collection(&events(), Some(&namespace))?;
        let request = Request::post(path).with_json("application/json", &body);
        let created = client.request(&request).await?;
        if self.posting.aggregated
            && let Some(name) = created.json()?.pointer("/metadata/name").and_then(Value::as_str)
        {
            self.posted.remember(event.clone(), &namespace, name, now);
        }
        Ok(())
    }
}

fn events() -> Resource {
    Resource {
        version: "v1".to_owned(),
        plural: "events".to_owned(),
        kind: "Event".to_owned(),
        namespaced: true,
        ..Resource::default()
    }
}
