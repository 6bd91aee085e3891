//! Lists and watches one resource endlessly: every object once, then every change, across broken connections.
//!
//! ```text
//! list ──► watch from its version ──► the stream ends: watch from the last version, at once
//!   ▲                 │                     (after a pause if streams keep ending without events)
//!   └── pause ────────┴── the version is lost (410, a server set back), or the server reports an error
//! ```
//!
//! On request, the known objects are passed on once more: they are listed while the stream stays open. An object with a newer state than the
//! one seen last is left to its event in the stream.

use std::time::Duration;

use futures::StreamExt;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::error::Elapsed;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};
use tracing::{debug, error, info, warn};

use crate::kit::{Backoff, Stop};
use crate::object::{Body, EventKind, ObjectKey, Resource};

use super::address;
use super::client::{Client, Repeat, Request, in_time};
use super::error::Error;
use super::line::Lines;
use super::partial_metadata::{PartialMetadata, Text};
use super::selection::Selection;
use super::transport::ByteStream;

#[path = "watch/known.rs"]
mod known;
#[path = "watch/wire.rs"]
mod wire;
use known::{Identity, Known};
use wire::{Line, Page, is_before};

/// Objects in a page of a list: kubectl's number, at which a page of usual objects is a few megabytes.
const PAGE: &str = "500";

/// Pauses in milliseconds before watching again when streams end quickly and without events; one such end is normal.
const EMPTY_PAUSES: [u64; 5] = [0, 100, 300, 1000, 2000];

/// A stream that lasted this long counts as working, even without events.
const WORKING: Duration = Duration::from_secs(1);

/// Pauses in seconds after failures if the settings have none: watches are retried even if requests are not.
const FAILURE_PAUSES: [u64; 4] = [1, 2, 5, 10];

/// Receives the events of a watcher. While a method waits, nothing more is read from the server.
pub trait Sink: Send {
    /// A list begins: at the start, or because the watch lost its version.
    fn listing_began(&mut self) {}

    /// An object was seen.
    fn seen(&mut self, seen: Seen<'_>) -> impl Future<Output = ()> + Send;

    /// The list is complete, and vanished objects were reported as deleted.
    fn listed(&mut self) -> impl Future<Output = ()> + Send;

    /// A stream of events was opened.
    fn opened(&mut self) {}

    /// All known objects were passed on, as this request and the earlier ones demand.
    fn revisited(&mut self, _request: u64) {}

    /// A request failed; the watcher retries by itself. Status 404 means that the server does not have the resource.
    fn request_failed(&mut self, _error: &Error) {}
}

/// An event of an object.
pub struct Seen<'a> {
    /// How it was seen.
    pub event_kind: EventKind,
    /// Its metadata.
    pub head: &'a PartialMetadata<'a>,
    /// The whole object as JSON. A vanished object has only its identity.
    pub text: &'a str,
    /// Its resource.
    pub resource: &'a Resource,
}

impl Seen<'_> {
    /// Reads the whole object.
    ///
    /// # Errors
    /// If the text is not valid JSON.
    pub fn body(&self) -> Result<Body, serde_json::Error> {
        read(self.text, self.resource)
    }
}

/// Parses a whole object from the text of an event. Items of lists may lack their kind and version, which are filled in.
///
/// # Errors
/// If the text is not JSON.
pub fn read(text: &str, resource: &Resource) -> Result<Body, serde_json::Error> {
    let mut value: Value = serde_json::from_str(text)?;
    if let Some(object) = value.as_object_mut() {
        object.entry("kind").or_insert_with(|| Value::String(resource.kind.clone()));
        object.entry("apiVersion").or_insert_with(|| Value::String(resource.api_version()));
    }
    Ok(value.into())
}

/// Watches the objects of one resource, in one namespace or in all. It remembers the existing objects, so it may be stopped and run again.
pub struct Watcher {
    client: Client,
    resource: Resource,
    path: String,
    /// Which objects are watched.
    selection: Selection,
    known: Known,
    failures: Backoff,
    last_failure: LastFailure,
    /// Whether the version was lost since the last valid line.
    was_lost: bool,
    revisits: Revisits,
    touches: Option<mpsc::Receiver<Touch>>,
    /// At whose changes everything is listed anew.
    relists: Option<watch::Receiver<u64>>,
}

/// An object that is to be passed on once more, as it was read just before.
#[derive(Debug)]
pub struct Touch {
    /// The object as JSON.
    pub text: String,
    /// Answered when it was passed on, or need not be.
    pub taken: oneshot::Sender<()>,
}

/// The identities of the objects that a watcher knew.
#[derive(Debug)]
pub struct KnownObjects(Known);

impl KnownObjects {
    /// Returns their unique ids; for objects without one, the substitutes by which they are distinguished.
    pub fn uids(&self, resource: &Resource) -> impl Iterator<Item = String> {
        self.0.identities().map(|identity| match identity.uid() {
            Some(uid) => uid.to_owned(),
            None => ObjectKey::of(&Body::from(identified(&identity, resource))).uid,
        })
    }
}

/// Returns an object with nothing but its identity.
fn identified(identity: &Identity, resource: &Resource) -> Value {
    json!({"apiVersion": resource.api_version(), "kind": resource.kind, "metadata": identity.metadata()})
}

/// Waits for a change; without a signal, forever.
async fn changed(signal: Option<&mut watch::Receiver<u64>>) {
    let is_changed = match signal {
        Some(signal) => signal.changed().await.is_ok(),
        None => false,
    };
    if !is_changed {
        std::future::pending::<()>().await;
    }
}

/// The current problem.
#[derive(Debug, Default, PartialEq, Eq)]
enum LastFailure {
    /// Nothing.
    #[default]
    None,
    /// A request or a stream, with this status if the server gave one.
    Failed(Option<u16>),
}

/// Why the reading of a stream ends.
enum End {
    /// It ended, which is normal at any time.
    Closed,
    /// There was no data for too long.
    Silent,
    /// The server does not have the history since our version.
    Lost,
    /// The server reported an error, or sent something unreadable.
    Failed(Error),
}

impl Watcher {
    /// Returns a watcher without known objects.
    ///
    /// # Errors
    /// If a namespace is given for a kind without namespaces.
    pub fn new(client: Client, resource: Resource, namespace: Option<&str>) -> Result<Self, Error> {
        let path = address::collection(&resource, namespace)?;
        let pauses = client.settings().networking.error_backoffs.clone();
        let failures = if pauses.is_empty() { Backoff::new(FAILURE_PAUSES.map(Duration::from_secs)) } else { Backoff::new(pauses) };
        Ok(Self {
            client,
            resource,
            path,
            selection: Selection::default(),
            known: Known::default(),
            failures,
            last_failure: LastFailure::None,
            was_lost: false,
            revisits: Revisits::new(None),
            touches: None,
            relists: None,
        })
    }

    /// Returns the watcher with a signal, at whose changes it lists everything anew, and watches from the version of that list: no event of
    /// an earlier version comes after the begin of the list.
    pub fn with_relists(self, relists: watch::Receiver<u64>) -> Self {
        Self { relists: Some(relists), ..self }
    }

    /// Returns the watcher with a signal, at whose changes it passes all known objects on once more.
    pub fn with_revisits(self, revisits: watch::Receiver<u64>) -> Self {
        Self { revisits: Revisits::new(Some(revisits)), ..self }
    }

    /// Returns the watcher with touches of single objects, which it passes on once more.
    pub fn with_touches(self, touches: mpsc::Receiver<Touch>) -> Self {
        Self { touches: Some(touches), ..self }
    }

    /// Returns the watcher of the object with this name alone. Permissions for that object are enough for it.
    pub fn of_name(self, name: &str) -> Self {
        self.selecting(Selection { labels: None, fields: Some(format!("metadata.name={name}")) })
    }

    /// Returns the watcher of the selected objects alone.
    pub fn selecting(self, selection: Selection) -> Self {
        Self { selection, ..self }
    }

    /// Returns the watcher with the objects that another one knew: its first list reports those that have vanished.
    pub fn succeeding(self, known: KnownObjects) -> Self {
        Self { known: known.0, ..self }
    }

    /// Ends the watcher, and returns the objects that it knew.
    pub fn into_known(self) -> KnownObjects {
        KnownObjects(self.known)
    }

    /// Returns the number of known objects.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Tells whether no objects are known.
    pub fn is_empty(&self) -> bool {
        self.known.len() == 0
    }

    /// Lists and watches until the stop is requested. Failures do not end it.
    pub async fn run(&mut self, sink: &mut impl Sink, stop: &Stop) {
        tokio::select! {
            biased;
            () = stop.requested() => {}
            () = self.list_and_watch(sink) => {}
        }
    }

    async fn list_and_watch(&mut self, sink: &mut impl Sink) {
        let mut relists = self.relists.clone();
        loop {
            relists.iter_mut().for_each(watch::Receiver::mark_unchanged);
            let mut version = self.list(sink).await;
            tokio::select! {
                biased;
                // An event that is lost here is in the list.
                () = changed(relists.as_mut()) => debug!(path = self.path, "Everything is listed anew."),
                () = self.watch(&mut version, sink) => {}
            }
        }
    }

    /// Lists everything, with as many attempts as necessary, and returns the version to watch from.
    async fn list(&mut self, sink: &mut impl Sink) -> String {
        let mut page = Some(PAGE);
        loop {
            match self.list_once(page, sink).await {
                Ok(version) => {
                    self.recovered();
                    return version;
                }
                // The version of the pages expired before the last page; a list in one piece cannot expire.
                Err(error) if page.is_some() && error.is_lost_version() => {
                    debug!(path = self.path, "The pages of a list have expired. Listing in one piece.");
                    page = None;
                    sleep(self.client.settings().watching.reconnect_backoff).await;
                }
                Err(error) => self.wait_after(&error, sink).await,
            }
        }
    }

    async fn list_once(&mut self, limit: Option<&str>, sink: &mut impl Sink) -> Result<String, Error> {
        sink.listing_began();
        self.known.begin_listing();
        // This list passes all objects on.
        self.revisits.clear();
        let mut next: Option<String> = None;
        loop {
            let pieces = [("limit", limit), ("continue", next.as_deref())];
            let parameters: Vec<(&str, &str)> = pieces.into_iter().filter_map(|(key, value)| Some((key, value?))).collect();
            let request = Request::get(self.address(&parameters)).repeated(Repeat::Never);
            let response = self.client.request(&request).await?;
            let page: Page<'_> = serde_json::from_slice(&response.body).map_err(payload)?;
            for item in page.items.into_iter().flatten() {
                self.deliver(EventKind::Listed, item.get(), sink).await;
            }
            next = page.metadata.next.filter(|next| !next.is_empty());
            if next.is_none() {
                self.report_vanished(sink).await;
                sink.listed().await;
                sink.revisited(self.revisits.taken);
                return Ok(page.metadata.resource_version.unwrap_or_default());
            }
        }
    }

    async fn report_vanished(&mut self, sink: &mut impl Sink) {
        for identity in self.known.end_listing() {
            let object = identified(&identity, &self.resource);
            self.deliver(EventKind::Deleted, &object.to_string(), sink).await;
        }
    }

    /// Watches from a version, over as many streams as necessary, until a new list is needed.
    async fn watch(&mut self, version: &mut String, sink: &mut impl Sink) {
        let mut empty = Backoff::new(EMPTY_PAUSES.map(Duration::from_millis));
        let mut is_doubtful = false;
        loop {
            if is_doubtful {
                match self.is_behind(version).await {
                    Ok(true) => return self.wait_after_loss().await,
                    Ok(false) => is_doubtful = false,
                    Err(error) => {
                        self.wait_after(&error, sink).await;
                        continue;
                    }
                }
            }
            let stream = match self.client.open(&self.watch_path(version)).await {
                Ok(stream) => stream,
                Err(error) if error.is_lost_version() => return self.wait_after_loss().await,
                // The server is unreachable or busy; the version is not lost.
                Err(error) if error.status().is_none_or(|status| status >= 429) => {
                    self.wait_after(&error, sink).await;
                    is_doubtful = true;
                    continue;
                }
                Err(error) => return self.wait_after(&error, sink).await,
            };
            self.recovered();
            sink.opened();
            let opened_at = Instant::now();
            let (lines, end) = self.follow(stream, version, sink).await;
            let has_worked = lines > 0 || opened_at.elapsed() >= WORKING;
            match end {
                End::Lost => return self.wait_after_loss().await,
                End::Failed(error) => return self.wait_after(&error, sink).await,
                End::Silent => is_doubtful = lines == 0,
                End::Closed => {}
            }
            if has_worked {
                self.failures.reset();
                empty.reset();
            } else {
                sleep(empty.next_or_last().unwrap_or_default()).await;
            }
        }
    }

    /// Reads one stream to its end. Returns its number of lines.
    async fn follow(&mut self, mut stream: ByteStream, version: &mut String, sink: &mut impl Sink) -> (usize, End) {
        let settings = self.client.settings();
        let watching = &settings.watching;
        let (inactivity, closes_at) = (watching.inactivity_timeout, after(watching.client_timeout));
        let mut silent_at = after(inactivity);
        let mut lines = Lines::default();
        let mut count = 0;
        loop {
            let until = silent_at.into_iter().chain(closes_at).min();
            let chunk = tokio::select! {
                biased;
                // First: a stream may always have something to read.
                () = self.revisits.requested() => {
                    let revisited = self.revisit(sink).await;
                    self.revisits.ended(revisited.as_ref().err());
                    if revisited.is_ok() {
                        sink.revisited(self.revisits.taken);
                    }
                    if let Err(error) = revisited {
                        debug!(path = self.path, error = error.chain(), "The known objects cannot be listed. Trying again.");
                    }
                    // Nothing was read meanwhile.
                    silent_at = after(inactivity);
                    continue;
                }
                touch = next_touch(self.touches.as_mut()) => {
                    self.touch(touch, sink).await;
                    continue;
                }
                chunk = next_within(&mut stream, until) => chunk,
            };
            let chunk = match chunk {
                Err(_) if silent_at.is_some() && until == silent_at => {
                    debug!(path = self.path, "A watch was silent for too long.");
                    return (count, End::Silent);
                }
                Err(_) => return (count, End::Closed),
                Ok(Some(Ok(chunk))) => chunk,
                Ok(ended) => {
                    debug!(path = self.path, broken = ?ended.and_then(Result::err), "A watch ended.");
                    return self.take_rest(&lines, count, version, sink).await;
                }
            };
            if let Err(error) = lines.feed(&chunk) {
                return (count, End::Failed(payload(error)));
            }
            let before = count;
            while let Some(line) = lines.next_line() {
                if let Err(end) = self.take(line, version, sink).await {
                    return (count, end);
                }
                count += usize::from(!line.is_empty());
            }
            if count > before {
                silent_at = after(inactivity);
            }
        }
    }

    /// Lists the known objects, and passes on those whose state is the one seen last. The others have an event in the stream.
    async fn revisit(&mut self, sink: &mut impl Sink) -> Result<(), Error> {
        let mut next: Option<String> = None;
        loop {
            let pieces = [("limit", Some(PAGE)), ("continue", next.as_deref())];
            let parameters: Vec<(&str, &str)> = pieces.into_iter().filter_map(|(key, value)| Some((key, value?))).collect();
            let request = Request::get(self.address(&parameters)).repeated(Repeat::Never);
            let response = self.client.request(&request).await?;
            let page: Page<'_> = serde_json::from_slice(&response.body).map_err(payload)?;
            for item in page.items.into_iter().flatten() {
                let Ok(head) = PartialMetadata::of(item.get()) else { continue };
                if self.known.is_latest(&head) {
                    let seen = Seen { event_kind: EventKind::Revisited, head: &head, text: item.get(), resource: &self.resource };
                    sink.seen(seen).await;
                }
            }
            next = page.metadata.next.filter(|next| !next.is_empty());
            if next.is_none() {
                return Ok(());
            }
        }
    }

    /// Passes a touched object on, if its state is the one seen last. A later state is in the stream, and an earlier one was followed by a
    /// change, which was passed on after the object was read.
    async fn touch(&mut self, touch: Touch, sink: &mut impl Sink) {
        let Ok(head) = PartialMetadata::of(&touch.text) else { return };
        if self.known.is_latest(&head) {
            sink.seen(Seen { event_kind: EventKind::Touched, head: &head, text: &touch.text, resource: &self.resource }).await;
        }
        // The script may be gone.
        let _ = touch.taken.send(());
    }

    /// A stream may end without the end of its last line, or in the middle of it.
    async fn take_rest(&mut self, lines: &Lines, count: usize, version: &mut String, sink: &mut impl Sink) -> (usize, End) {
        let rest = lines.rest();
        if serde_json::from_slice::<Line<'_>>(rest).is_err() {
            return (count, End::Closed);
        }
        match self.take(rest, version, sink).await {
            Ok(()) => (count + 1, End::Closed),
            Err(end) => (count, end),
        }
    }

    async fn take(&mut self, line: &[u8], version: &mut String, sink: &mut impl Sink) -> Result<(), End> {
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        let failed = |error: serde_json::Error| End::Failed(payload(error));
        let line = std::str::from_utf8(line).map_err(|error| End::Failed(payload(error)))?;
        let Line { kind, object } = serde_json::from_str(line).map_err(failed)?;
        let event_kind = match &*kind {
            "ADDED" => EventKind::Added,
            "MODIFIED" => EventKind::Modified,
            "DELETED" => EventKind::Deleted,
            "BOOKMARK" => {
                let head = PartialMetadata::of(object.get()).map_err(failed)?;
                let marked = head.resource_version().unwrap_or_default();
                return self.move_to(marked, version);
            }
            "ERROR" => {
                let error = Error::of_status_object(object.get());
                return Err(if error.is_lost_version() { End::Lost } else { End::Failed(error) });
            }
            _ => {
                warn!(path = self.path, r#type = &*kind, "Ignoring an unsupported event type.");
                return Ok(());
            }
        };
        if let Some(reached) = self.deliver(event_kind, object.get(), sink).await {
            version.clear();
            version.push_str(&reached);
        }
        self.was_lost = false;
        Ok(())
    }

    /// A bookmark below our version comes from a server that was reset: we would miss its new events.
    fn move_to(&mut self, marked: &str, version: &mut String) -> Result<(), End> {
        if is_before(marked, version) {
            return Err(End::Lost);
        }
        if !marked.is_empty() {
            marked.clone_into(version);
        }
        self.was_lost = false;
        Ok(())
    }

    /// Passes an object to the sink and returns its version. An object that cannot be read is reported and skipped, so that it does not
    /// block the others.
    async fn deliver<'a>(&mut self, event_kind: EventKind, text: &'a str, sink: &mut impl Sink) -> Option<Text<'a>> {
        let mut head = match PartialMetadata::of(text) {
            Ok(head) => head,
            Err(error) => {
                error!(resource = %self.resource, path = self.path, %error, "Ignoring an object whose metadata cannot be read.");
                return None;
            }
        };
        // A server that begins a stream before our version repeats events. Handling them again would repeat the calls of handlers.
        if matches!(event_kind, EventKind::Added | EventKind::Modified) && self.known.is_outdated(&head) {
            debug!(resource = %self.resource, path = self.path, name = head.name(), "Ignoring an earlier state of an object.");
            return None;
        }
        match event_kind {
            EventKind::Deleted => self.known.forget(&head),
            _ => self.known.remember(&head),
        }
        sink.seen(Seen { event_kind, head: &head, text, resource: &self.resource }).await;
        head.metadata.resource_version.take()
    }

    /// Returns the path of the resource with parameters and the selector.
    fn address(&self, parameters: &[(&str, &str)]) -> String {
        let Selection { labels, fields } = &self.selection;
        let selectors = [("fieldSelector", fields.as_deref()), ("labelSelector", labels.as_deref())];
        let selectors = selectors.into_iter().filter_map(|(key, value)| Some((key, value?)));
        let parameters: Vec<(&str, &str)> = parameters.iter().copied().chain(selectors).collect();
        self.path.clone() + &address::query(&parameters)
    }

    fn watch_path(&self, version: &str) -> String {
        let timeout = self.client.settings().watching.server_timeout.map(|limit| limit.as_secs().to_string());
        let mut parameters = vec![("watch", "true"), ("allowWatchBookmarks", "true")];
        if !version.is_empty() {
            parameters.push(("resourceVersion", version));
        }
        if let Some(timeout) = &timeout {
            parameters.push(("timeoutSeconds", timeout));
        }
        self.address(&parameters)
    }

    /// Tells whether the server is behind our version, as after a restore from a backup. Such a server would keep a watch open without
    /// sending events.
    async fn is_behind(&self, version: &str) -> Result<bool, Error> {
        let request = Request::get(self.address(&[("limit", "1")])).repeated(Repeat::Never);
        let response = in_time(self.client.opening_limit(), self.client.request(&request)).await?;
        let page: Page<'_> = serde_json::from_slice(&response.body).map_err(payload)?;
        Ok(page.metadata.resource_version.is_some_and(|current| is_before(&current, version)))
    }

    async fn wait_after_loss(&mut self) {
        debug!(path = self.path, "The watch has lost its place. Listing again.");
        let pause = self.client.settings().watching.reconnect_backoff;
        let again = if self.was_lost { self.failures.next_or_last().unwrap_or_default() } else { Duration::ZERO };
        self.was_lost = true;
        sleep(pause.max(again)).await;
    }

    /// Reports a failure and waits. The pauses grow until a stream works again.
    async fn wait_after(&mut self, error: &Error, sink: &mut impl Sink) {
        let pause = self.failures.next_or_last().unwrap_or_default();
        let asked = error.retry_after().unwrap_or_default();
        let pause = if self.client.settings().networking.enforce_retry_after && !asked.is_zero() { asked } else { pause.max(asked) };
        let is_refused = error.status().is_some_and(|status| status < 429);
        if is_refused && self.last_failure == LastFailure::Failed(error.status()) {
            debug!(resource = %self.resource, path = self.path, error = error.chain(), ?pause, "The resource still cannot be watched.");
        } else if error.status() == Some(429) && !asked.is_zero() {
            // Nothing has failed: servers are busy, or prepare the storage of a resource whose definition has changed.
            warn!(resource = %self.resource, path = self.path, error = error.chain(), ?pause, "The API server asks to watch the resource later.");
        } else {
            error!(resource = %self.resource, path = self.path, error = error.chain(), ?pause, "The resource cannot be watched. Trying again.");
        }
        self.last_failure = LastFailure::Failed(error.status());
        sink.request_failed(error);
        sleep(pause).await;
    }

    fn recovered(&mut self) {
        if std::mem::take(&mut self.last_failure) != LastFailure::None {
            info!(resource = %self.resource, path = self.path, "The resource is watched again.");
        }
    }
}

/// The requests for all known objects.
struct Revisits {
    requests: Option<watch::Receiver<u64>>,
    /// The last request that was taken.
    taken: u64,
    /// When a failed attempt is repeated.
    again_at: Option<Instant>,
    failures: Backoff,
}

impl Revisits {
    fn new(requests: Option<watch::Receiver<u64>>) -> Self {
        Self { requests, taken: 0, again_at: None, failures: Backoff::new(FAILURE_PAUSES.map(Duration::from_secs)) }
    }

    /// Takes all requests, since a list is going to answer them.
    fn clear(&mut self) {
        self.take();
        self.again_at = None;
    }

    fn take(&mut self) {
        if let Some(requests) = &mut self.requests {
            self.taken = *requests.borrow_and_update();
        }
    }

    /// Waits until the objects are requested.
    ///
    /// *Cancel safety*: the wait may be dropped and begun again.
    async fn requested(&mut self) {
        if let Some(again_at) = self.again_at {
            sleep_until(again_at).await;
            return self.take();
        }
        if let Some(requests) = &mut self.requests
            && requests.changed().await.is_ok()
        {
            return self.take();
        }
        std::future::pending::<()>().await;
    }

    fn ended(&mut self, failure: Option<&Error>) {
        let Some(failure) = failure else {
            self.failures.reset();
            self.again_at = None;
            return;
        };
        let pause = self.failures.next_or_last().unwrap_or_default();
        self.again_at = after(Some(pause.max(failure.retry_after().unwrap_or_default())));
    }
}

/// Waits for a touch; without a channel, or when its senders are gone, forever.
async fn next_touch(touches: Option<&mut mpsc::Receiver<Touch>>) -> Touch {
    match touches {
        Some(touches) => match touches.recv().await {
            Some(touch) => touch,
            None => std::future::pending().await,
        },
        None => std::future::pending().await,
    }
}

/// Returns the next piece of a stream, unless the time is over before.
async fn next_within(stream: &mut ByteStream, until: Option<Instant>) -> Result<Option<<ByteStream as futures::Stream>::Item>, Elapsed> {
    match until {
        Some(until) => timeout_at(until, stream.next()).await,
        None => Ok(stream.next().await),
    }
}

/// Returns the end of a time limit; `None` without a limit, or beyond the range of the timer.
fn after(limit: Option<Duration>) -> Option<Instant> {
    Instant::now().checked_add(limit?)
}

fn payload(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::Payload(Box::new(error))
}

#[cfg(test)]
#[path = "watch/tests.rs"]
mod tests;
