//! The life of one managed object.
//!
//! ```text
//! the kinds are known ──► created ──► patched ──► something changes, or others have changed it ──► patched ──► …
//!                                         └────────────────── stop ──► narrowed
//! ```
//!
//! Definitions belong to others: they are not created, and stay as they are at the end.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};
use tracing::{error, info, warn};

use super::declared::{ConfigurationError, Upkeep};
use super::managed::{Declared, Managed};
use super::observe::{Observed, ObservedSink};
use crate::cluster::object_client::{ObjectAddress, ObjectClient};
use crate::cluster::{self, Watcher};
use crate::engines::MIN_ERROR_DELAY;
use crate::engines::admission::client_config::ClientConfig;
use crate::engines::admission::reviewer::{ReviewRevision, WebhookKinds};
use crate::kit::{Backoff, Stop};
use crate::object::Resource;

/// Pauses in seconds between repairs that follow each other. Two operators that write the same configuration would
/// otherwise overwrite each other without a pause.
const REPAIR_PAUSES: [u64; 6] = [0, 1, 5, 15, 30, 60];

/// Repairs with a longer distance than this have different causes.
const CALM: Duration = Duration::from_mins(5);

/// The time for the last patch: the process must end even without the API server.
const NARROWING_TIMEOUT: Duration = Duration::from_secs(5);

/// Keeps one object true. It owns its state.
pub(super) struct Task<'a> {
    managed: Managed<'a>,
    upkeep: &'a Upkeep,
    objects: ObjectClient,
    resource: Resource,
    revisions: watch::Receiver<Arc<ReviewRevision>>,
    kinds: watch::Receiver<WebhookKinds>,
    address: watch::Receiver<ClientConfig>,
    stop: Stop,
    /// Dropped with the first write.
    unwritten: Option<Arc<dyn Any + Send + Sync>>,
    /// The result of the last own write.
    written: Option<Written>,
    /// When the object is written next; `None` if it is up to date.
    due_at: Option<Instant>,
    failures: Backoff,
    repairs: Backoff,
    repaired_at: Option<Instant>,
}

/// The state of the object after the own patch.
struct Written {
    /// The patch.
    wanted: Value,
    /// The managed part in the answer, with the defaults of the API server.
    stored: Value,
    /// The version in the answer.
    version: String,
}

enum Event {
    Stopped,
    Revised,
    Observed,
    Due,
}

impl<'a> Task<'a> {
    pub(super) fn new(
        managed: Managed<'a>,
        upkeep: &'a Upkeep,
        unwritten: Arc<dyn Any + Send + Sync>,
        stop: Stop,
    ) -> Self {
        Self {
            managed,
            objects: ObjectClient::new(upkeep.client.clone(), &upkeep.operator),
            resource: managed.resource(),
            revisions: upkeep.revisions.clone(),
            kinds: upkeep.kinds.clone(),
            address: upkeep.address.clone(),
            upkeep,
            stop,
            unwritten: Some(unwritten),
            written: None,
            due_at: None,
            failures: Backoff::new(Arc::clone(&upkeep.error_delays)),
            repairs: Backoff::new(REPAIR_PAUSES.map(Duration::from_secs)),
            repaired_at: None,
        }
    }

    pub(super) async fn run(mut self) -> Result<(), ConfigurationError> {
        let (sender, mut observed) = watch::channel(Observed::Nothing);
        let mut sink = ObservedSink { observed: sender, title: self.title(), is_refused: false };
        let watcher = Watcher::new(self.upkeep.client.clone(), self.resource.clone(), None);
        let mut watcher = watcher.map_err(|error| self.refused("watch", error))?.of_name(self.managed.name());
        let stop = self.stop.clone();
        let mut watching = std::pin::pin!(watcher.run(&mut sink, &stop));
        self.revise();
        loop {
            let due_at = self.due_at;
            let due = async move {
                match due_at {
                    Some(due_at) => sleep_until(due_at).await,
                    None => std::future::pending().await,
                }
            };
            let event = tokio::select! {
                biased;
                () = self.stop.requested() => Event::Stopped,
                () = due => Event::Due,
                Ok(()) = self.revisions.changed() => Event::Revised,
                Ok(()) = self.kinds.changed() => Event::Revised,
                Ok(()) = self.address.changed() => Event::Revised,
                Ok(()) = observed.changed() => Event::Observed,
                () = &mut watching => Event::Stopped,
            };
            match event {
                Event::Stopped => return self.narrow().await,
                Event::Revised => self.revise(),
                Event::Observed => self.compare(&observed.borrow_and_update().clone()),
                Event::Due => self.write().await?,
            }
        }
    }

    fn title(&self) -> String {
        format!("{} '{}'", self.managed.kind(), self.managed.name())
    }

    /// Returns a patch by the declared state; `None` before the kinds of the webhooks are known.
    fn declared<T>(&self, patch: impl Fn(&Managed<'a>, &Declared<'_>) -> T) -> Option<T> {
        let kinds = self.kinds.borrow().clone()?;
        let resources: Vec<&Resource> = kinds.iter().map(AsRef::as_ref).collect();
        let (revision, address) = (Arc::clone(&self.revisions.borrow()), self.address.borrow());
        Some(patch(&self.managed, &Declared { revision: &revision, resources: &resources, address: &address }))
    }

    fn wanted(&self) -> Option<Value> {
        self.declared(Managed::patch)
    }

    /// Demands a patch if the webhooks have changed. A pause after a failure is not cut short by that.
    fn revise(&mut self) {
        let is_written =
            self.wanted().is_none_or(|wanted| self.written.as_ref().is_some_and(|written| written.wanted == wanted));
        if !is_written {
            self.due_at.get_or_insert_with(Instant::now);
        }
    }

    /// Demands a repair if others have changed or deleted the object since the own patch.
    fn compare(&mut self, observed: &Observed) {
        if matches!(observed, Observed::Gone(_)) && self.managed.initial().is_none() {
            // Its kind vanishes with it.
            return;
        }
        let Some(written) = &self.written else { return };
        if observed.is_before(&written.version) {
            return;
        }
        let what = match observed {
            Observed::Nothing => return,
            Observed::Present(object) if !self.managed.is_edited(object, &written.stored) => return,
            Observed::Present(_) => "changed",
            Observed::Gone(_) => "deleted",
        };
        let now = Instant::now();
        if self.repaired_at.is_none_or(|repaired_at| now.duration_since(repaired_at) > CALM) {
            self.repairs.reset();
        }
        let pause = self.repairs.next_or_last().unwrap_or_default();
        self.repaired_at = Some(now + pause);
        let (title, seconds) = (self.title(), pause.as_secs());
        if pause.is_zero() {
            warn!(target: "kopfd::admission", "The {title} was {what} by another client, and is restored.");
        } else {
            warn!(target: "kopfd::admission", "The {title} was {what} by another client again, and is restored in {seconds} seconds.");
        }
        self.due_at.get_or_insert(now + pause);
    }

    /// Writes the object; after a failure that may be temporary, later.
    async fn write(&mut self) -> Result<(), ConfigurationError> {
        // A change during the requests is written after them.
        self.revisions.mark_unchanged();
        self.kinds.mark_unchanged();
        self.address.mark_unchanged();
        let stop = self.stop.clone();
        let Some(wanted) = self.wanted() else { return Ok(()) };
        let written = tokio::select! {
            biased;
            () = stop.requested() => return Ok(()),
            written = self.put(wanted) => written,
        };
        match written {
            Ok(written) => {
                self.failures.reset();
                self.due_at = None;
                self.written = Some(written);
                self.unwritten = None;
                Ok(())
            }
            Err((verb, error)) if is_final(&error) => Err(self.refused(verb, error)),
            Err((verb, error)) => {
                let delay = self
                    .failures
                    .next_or_last()
                    .unwrap_or(MIN_ERROR_DELAY)
                    .max(error.retry_after().unwrap_or_default());
                self.due_at = Some(Instant::now() + delay);
                let (title, error, seconds) = (self.title(), error.chain(), delay.as_secs_f64());
                warn!(target: "kopfd::admission", "Failed to {verb} the {title}, will retry in {seconds} seconds: {error}");
                Ok(())
            }
        }
    }

    /// Creates the object if it does not exist and is the operator's own, and patches it. Returns the written state.
    ///
    /// *Cancel safety*: each request is carried out or not; the next patch overwrites the whole part.
    async fn put(&self, wanted: Value) -> Result<Written, (&'static str, cluster::Error)> {
        let initial = self.managed.initial();
        if let Some(initial) = initial.as_ref().filter(|_| self.written.is_none()) {
            self.create(initial).await?;
        }
        let patched = match (self.objects.patch(self.place(), None, &wanted).await, &initial) {
            (Err(error), Some(initial)) if error.is_not_found() => {
                self.create(initial).await?;
                self.objects.patch(self.place(), None, &wanted).await
            }
            (patched, _) => patched,
        };
        let object = patched.map_err(|error| ("patch", error))?;
        let version =
            object.pointer("/metadata/resourceVersion").and_then(Value::as_str).unwrap_or_default().to_owned();
        let stored = self.managed.stored(&object);
        let (title, webhooks) = (self.title(), self.managed.webhooks(&stored));
        info!(target: "kopfd::admission", webhooks, "The {title} is written.");
        Ok(Written { wanted, stored, version })
    }

    async fn create(&self, initial: &Value) -> Result<(), (&'static str, cluster::Error)> {
        match self.objects.create(&self.resource, initial).await {
            Err(error) if error.status() != Some(409) => Err(("create", error)),
            _ => Ok(()),
        }
    }

    /// Leaves only the persistent webhooks, if there were others.
    async fn narrow(self) -> Result<(), ConfigurationError> {
        let Some(patch) = self.declared(Managed::last_patch).flatten().filter(|_| self.written.is_some()) else {
            return Ok(());
        };
        let patched = timeout(NARROWING_TIMEOUT, self.objects.patch(self.place(), None, &patch)).await;
        match patched.unwrap_or(Err(cluster::Error::Timeout(NARROWING_TIMEOUT))) {
            Ok(_) => Ok(()),
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) if is_final(&error) => Err(self.refused("patch", error)),
            Err(error) => {
                let (title, error) = (self.title(), error.chain());
                error!(target: "kopfd::admission", "The webhooks of the stopped operator stay in the {title}, since it cannot be patched: {error}");
                Ok(())
            }
        }
    }

    fn place(&self) -> ObjectAddress<'_> {
        ObjectAddress { resource: &self.resource, namespace: None, name: self.managed.name() }
    }

    fn refused(&self, verb: &'static str, source: cluster::Error) -> ConfigurationError {
        let (kind, name) = (self.managed.kind(), self.managed.name().to_owned());
        match source.status() {
            Some(403) => {
                let (Resource { group, plural, .. }, needed) = (&self.resource, self.managed.verbs());
                ConfigurationError::Forbidden { verb, resource: format!("{plural}.{group}"), needed, name, source }
            }
            _ => ConfigurationError::Refused { verb, kind, name, source },
        }
    }
}

/// Tells whether a request fails again if it is repeated: it is invalid, or not allowed.
fn is_final(error: &cluster::Error) -> bool {
    matches!(error.status(), Some(400 | 403 | 405 | 413 | 415 | 422))
}
