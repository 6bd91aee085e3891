//! Lists and watches one resource endlessly: every object once, then every change, across broken connections.
//!
//! ```text
//! list ──► watch from its version ──► the stream ends: watch from the last version, at once
//!   ▲                 │                     (after a pause if streams keep ending without events)
//!   └── pause ────────┴── the version is lost (410, a server set back), or the server reports an error
//! ```
//!
//! On request, the known objects are passed on once more: they are listed while the stream stays open. An object with a
//! newer state than the one seen last is left to its event in the stream.

mod failures;
mod known;
mod once_more;
mod requests;
mod restarts;
mod sink;
mod stream;

use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep};
use tracing::{debug, error, warn};

use crate::kit::{Backoff, Stop};
use crate::object::{EventKind, Resource};
use crate::wire::{Line, Page, PartialMetadata, Text};

use super::client::Client;
use super::error::Error;
use super::line::Lines;
use super::selection::Selection;
use super::transport::ByteStream;

pub use known::KnownObjects;
pub use once_more::Touch;
pub use sink::{Seen, Sink, read};

use failures::Failures;
use known::{Known, identified};
use once_more::{Revisits, next_touch};
use requests::{PAGE, Requests, is_before, payload};
use stream::{End, after, next_within};

/// Pauses in milliseconds before watching again when streams end quickly and without events; one such end is normal.
const EMPTY_PAUSES: [u64; 5] = [0, 100, 300, 1000, 2000];

/// A stream that lasted this long counts as working, even without events.
const WORKING: Duration = Duration::from_secs(1);

/// Watches the objects of one resource, in one namespace or in all. It remembers the existing objects, so it may be
/// stopped and run again.
pub struct Watcher {
    requests: Requests,
    known: Known,
    failures: Failures,
    revisits: Revisits,
    touches: Option<mpsc::Receiver<Touch>>,
    /// A signal; at its changes, everything is listed anew.
    relists: Option<watch::Receiver<u64>>,
}

impl Watcher {
    /// Returns a watcher without known objects.
    ///
    /// # Errors
    /// If a namespace is given for a kind without namespaces.
    pub fn new(client: Client, resource: Resource, namespace: Option<&str>) -> Result<Self, Error> {
        let requests = Requests::new(client, resource, namespace)?;
        let failures = Failures::none(requests.settings().networking.error_backoffs.clone());
        Ok(Self {
            requests,
            known: Known::default(),
            failures,
            revisits: Revisits::new(None),
            touches: None,
            relists: None,
        })
    }

    /// Returns the watcher with a signal, at whose changes it lists everything anew, and watches from the version of
    /// that list: no event of an earlier version comes after the begin of the list.
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
    pub fn selecting(mut self, selection: Selection) -> Self {
        self.requests.selection = selection;
        self
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
                () = changed(relists.as_mut()) => debug!(path = self.requests.path, "Everything is listed anew."),
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
                    self.failures.recovered(&self.requests);
                    return version;
                }
                // The version of the pages expired before the last page; a list in one piece cannot expire.
                Err(error) if page.is_some() && error.is_lost_version() => {
                    debug!(path = self.requests.path, "The pages of a list have expired. Listing in one piece.");
                    page = None;
                    sleep(self.requests.settings().watching.reconnect_backoff).await;
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
            let response = self.requests.page(limit, next.as_deref()).await?;
            let page = Page::of(&response.body).map_err(payload)?;
            for item in page.items.into_iter().flatten() {
                self.deliver(EventKind::Listed, item.get(), PartialMetadata::of(item.get()), sink).await;
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
            let object = identified(&identity, &self.requests.resource);
            let text = object.to_string();
            self.deliver(EventKind::Deleted, &text, PartialMetadata::of(&text), sink).await;
        }
    }

    /// Watches from a version, over as many streams as necessary, until a new list is needed.
    async fn watch(&mut self, version: &mut String, sink: &mut impl Sink) {
        let mut empty = Backoff::new(EMPTY_PAUSES.map(Duration::from_millis));
        let mut is_doubtful = false;
        loop {
            if is_doubtful {
                match self.requests.is_behind(version).await {
                    Ok(true) => return self.failures.wait_after_loss(&self.requests).await,
                    Ok(false) => is_doubtful = false,
                    Err(error) => {
                        self.wait_after(&error, sink).await;
                        continue;
                    }
                }
            }
            let stream = match self.requests.open(version).await {
                Ok(stream) => stream,
                Err(error) if error.is_lost_version() => return self.failures.wait_after_loss(&self.requests).await,
                // The server is unreachable or busy; the version is not lost.
                Err(error) if error.status().is_none_or(|status| status >= 429) => {
                    self.wait_after(&error, sink).await;
                    is_doubtful = true;
                    continue;
                }
                Err(error) => return self.wait_after(&error, sink).await,
            };
            self.failures.recovered(&self.requests);
            sink.opened();
            let opened_at = Instant::now();
            let (lines, end) = self.follow(stream, version, sink).await;
            let has_worked = lines > 0 || opened_at.elapsed() >= WORKING;
            match end {
                End::Lost => return self.failures.wait_after_loss(&self.requests).await,
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
        let settings = self.requests.settings();
        let watching = &settings.watching;
        let (inactivity, closes_at) = (watching.inactivity_timeout, after(watching.client_timeout));
        let mut silent_at = after(inactivity);
        let mut lines = Lines::default();
        let mut count = 0;
        loop {
            let until = silent_at.into_iter().chain(closes_at).min();
            let chunk = tokio::select! {
                biased;
                // First: a stream may always have data to read.
                () = self.revisits.requested() => {
                    let revisited = self.revisit(sink).await;
                    self.revisits.ended(revisited.as_ref().err());
                    if revisited.is_ok() {
                        sink.revisited(self.revisits.taken);
                    }
                    if let Err(error) = revisited {
                        debug!(path = self.requests.path, error = error.chain(), "The known objects cannot be listed. Trying again.");
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
                    debug!(path = self.requests.path, "A watch was silent for too long.");
                    return (count, End::Silent);
                }
                Err(_) => return (count, End::Closed),
                Ok(Some(Ok(chunk))) => chunk,
                Ok(ended) => {
                    debug!(path = self.requests.path, broken = ?ended.and_then(Result::err), "A watch ended.");
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

    /// Lists the known objects, and passes on those whose state is the one seen last. The others have an event in the
    /// stream.
    async fn revisit(&mut self, sink: &mut impl Sink) -> Result<(), Error> {
        let mut next: Option<String> = None;
        loop {
            let response = self.requests.page(Some(PAGE), next.as_deref()).await?;
            let page = Page::of(&response.body).map_err(payload)?;
            for item in page.items.into_iter().flatten() {
                let Ok(head) = PartialMetadata::of(item.get()) else { continue };
                if self.known.is_latest(&head) {
                    let seen = Seen {
                        event_kind: EventKind::Revisited,
                        head: &head,
                        text: item.get(),
                        resource: &self.requests.resource,
                    };
                    sink.seen(seen).await;
                }
            }
            next = page.metadata.next.filter(|next| !next.is_empty());
            if next.is_none() {
                return Ok(());
            }
        }
    }

    /// Passes a touched object on, if its state is the one seen last. A later state is in the stream, and an earlier
    /// one was followed by a change, which was passed on after the object was read.
    async fn touch(&mut self, touch: Touch, sink: &mut impl Sink) {
        let Ok(head) = PartialMetadata::of(&touch.text) else { return };
        if self.known.is_latest(&head) {
            sink.seen(Seen {
                event_kind: EventKind::Touched,
                head: &head,
                text: &touch.text,
                resource: &self.requests.resource,
            })
            .await;
        }
        // The script may be gone.
        let _ = touch.taken.send(());
    }

    /// A stream may end without the end of its last line, or in the middle of it.
    async fn take_rest(
        &mut self,
        lines: &Lines,
        count: usize,
        version: &mut String,
        sink: &mut impl Sink,
    ) -> (usize, End) {
        let rest = lines.rest();
        if !std::str::from_utf8(rest).is_ok_and(|rest| Line::of(rest).is_ok()) {
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
        let Line { kind, object, head } = Line::of(line).map_err(failed)?;
        let event_kind = match &*kind {
            "ADDED" => EventKind::Added,
            "MODIFIED" => EventKind::Modified,
            "DELETED" => EventKind::Deleted,
            "BOOKMARK" => {
                let head = head.map_err(failed)?;
                let marked = head.resource_version().unwrap_or_default();
                return self.move_to(marked, version);
            }
            "ERROR" => {
                let error = Error::of_status_object(object);
                return Err(if error.is_lost_version() { End::Lost } else { End::Failed(error) });
            }
            _ => {
                warn!(path = self.requests.path, r#type = &*kind, "Ignoring an unsupported event type.");
                return Ok(());
            }
        };
        if let Some(reached) = self.deliver(event_kind, object, head, sink).await {
            version.clear();
            version.push_str(&reached);
        }
        self.failures.received();
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
        self.failures.received();
        Ok(())
    }

    /// Passes an object to the sink and returns its version. An object that cannot be read is reported and skipped, so
    /// that it does not block the others.
    async fn deliver<'a>(
        &mut self,
        event_kind: EventKind,
        text: &'a str,
        head: serde_json::Result<PartialMetadata<'a>>,
        sink: &mut impl Sink,
    ) -> Option<Text<'a>> {
        let mut head = match head {
            Ok(head) => head,
            Err(error) => {
                error!(resource = %self.requests.resource, path = self.requests.path, %error, "Ignoring an object whose metadata cannot be read.");
                return None;
            }
        };
        // A server that begins a stream before our version repeats events. Handling them again would repeat the calls
        // of handlers.
        if matches!(event_kind, EventKind::Added | EventKind::Modified) && self.known.is_outdated(&head) {
            debug!(resource = %self.requests.resource, path = self.requests.path, name = head.name(), "Ignoring an earlier state of an object.");
            return None;
        }
        if event_kind != EventKind::Deleted {
            self.known.remember(&head);
        }
        sink.seen(Seen { event_kind, head: &head, text, resource: &self.requests.resource }).await;
        // Last: if the sink panics, or its wait ends early, the next list reports the object as vanished.
        if event_kind == EventKind::Deleted {
            self.known.forget(&head);
        }
        head.metadata.resource_version.take()
    }

    /// Reports a failure to the log and the sink, and waits.
    async fn wait_after(&mut self, error: &Error, sink: &mut impl Sink) {
        let pause = self.failures.failed(error, &self.requests);
        sink.request_failed(error);
        sleep(pause).await;
    }
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

#[cfg(test)]
mod tests;
