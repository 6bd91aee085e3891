//! The queue of Events, and the task that posts them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value;
use tokio::sync::mpsc;
use tracing::{debug, warn};

use crate::cluster::{Client, Error, Request, address, apply};
use crate::handling::Level;
use crate::kit::{Clock, Stop};
use crate::manifest::settings::Posting;
use crate::object::Resource;

use super::aggregation::Posted;
use super::rules::{self, KubernetesEvent};

/// Limit of queued Events: one is posted in some milliseconds, so this bridges some seconds without the API server.
const CAPACITY: usize = 1_000;

/// A handle that queues Events. Cheap to clone; it never waits.
#[derive(Debug, Clone)]
pub struct Poster {
    posting: Arc<Posting>,
    events: mpsc::Sender<KubernetesEvent>,
    lost: Arc<AtomicU64>,
}

/// The queued Events.
#[derive(Debug)]
pub struct Queue {
    posting: Arc<Posting>,
    events: mpsc::Receiver<KubernetesEvent>,
    lost: Arc<AtomicU64>,
}

/// Returns an empty queue and the handle that fills it.
pub fn queue(posting: Posting) -> (Poster, Queue) {
    let posting = Arc::new(posting);
    let (sender, events) = mpsc::channel(CAPACITY);
    let lost = Arc::default();
    (Poster { posting: Arc::clone(&posting), events: sender, lost: Arc::clone(&lost) }, Queue { posting, events, lost })
}

impl Poster {
    /// Queues an Event, if Events of its level are posted. Without a level, only the main switch counts. If the queue is full, the Event is
    /// lost and counted.
    pub fn post(&self, event: KubernetesEvent, level: Option<Level>) {
        if rules::is_posted(&self.posting, level) {
            self.put(event);
        }
    }

    /// Tells whether log messages about objects are posted.
    pub fn posts_logs(&self) -> bool {
        self.posting.loggers && self.posting.enabled
    }

    /// Queues the Event of a log message, if such messages are posted.
    pub fn post_log(&self, object: &Value, level: Level, message: &str) {
        if let Some(event) = rules::of_log(&self.posting, object, level, message) {
            self.put(event);
        }
    }

    fn put(&self, event: KubernetesEvent) {
        if self.events.try_send(event).is_err() {
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
    /// Posts the Events until the operator stops. Events that are still queued then are lost. `component` is the name of the operator, for
    /// Events without a reporting component in the settings.
    pub async fn run(mut self, client: Client, clock: Clock, component: String, stop: Stop) {
        let mut task = Task { client, clock, posting: Arc::clone(&self.posting), component, posted: Posted::default() };
        let post_all = async {
            while let Some(event) = self.events.recv().await {
                task.post(event).await;
                let lost = self.lost.swap(0, Ordering::Relaxed);
                if lost > 0 {
                    warn!(target: "kopfd::posting", lost, "Events were not posted: their queue was full.");
                }
            }
        };
        tokio::select! {
            biased;
            () = stop.requested() => {}
            () = post_all => {}
        }
        let lost = self.events.len() as u64 + self.lost.load(Ordering::Relaxed);
        if lost > 0 {
            warn!(target: "kopfd::posting", lost, "Events were not posted: the operator stops.");
        }
    }
}

impl Task {
    async fn post(&mut self, event: KubernetesEvent) {
        if let Err(error) = self.try_to_post(&event).await {
            let KubernetesEvent { event_type, reason, message, .. } = &event;
            let error = error.chain();
            warn!(target: "kopfd::posting", event_type, reason, text = message, error, "Failed to post an Event. It is lost.");
        }
    }

    async fn try_to_post(&mut self, event: &KubernetesEvent) -> Result<(), Error> {
        let now = self.clock.now();
        if self.posting.aggregated
            && let Some((entry, patch)) = self.posted.repeat(event, now)
        {
            let path = address::object(&events(), Some(&entry.namespace), &entry.name)?;
            let request = Request::patch(path).with_json(apply::MERGE_PATCH, &patch);
            match self.client.request(&request).await {
                Ok(_) => return Ok(()),
                // The server deletes Events after an hour.
                Err(error) if error.status() == Some(404) => debug!(target: "kopfd::posting", "A repeated Event is gone."),
                Err(error) => return Err(error),
            }
        }
        let namespace = self.client.default_namespace();
        let Some((namespace, body)) = rules::body(event, &self.posting, &self.component, &namespace, now) else { return Ok(()) };
        let path = address::collection(&events(), Some(&namespace))?;
        let request = Request::post(path).with_json("application/json", &body);
        let created = self.client.request(&request).await?;
        if self.posting.aggregated
            && let Some(name) = created.json()?.pointer("/metadata/name").and_then(Value::as_str)
        {
            self.posted.remember(event.clone(), &namespace, name, now);
        }
        Ok(())
    }
}

fn events() -> Resource {
    Resource { version: "v1".to_owned(), plural: "events".to_owned(), kind: "Event".to_owned(), namespaced: true, ..Resource::default() }
}
