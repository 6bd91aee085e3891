//! Watches: a cursor in the history of a resource, sent as lines.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::stream::{self, StreamExt};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::api::Api;
use crate::faults::Action;
use crate::http::api_error::{ApiError, FieldError};
use crate::http::reply::{Content, Reply};
use crate::http::request::Form;
use crate::kinds::registry::ServedKind;
use crate::kinds::table::Table;
use crate::kinds::versioning;
use crate::schema::field_error;
use crate::storage::resource::set_revision;
use crate::storage::store::{Change, Compacted, Stored, WatchEventType, line};
use crate::verbs::conversion;
use crate::verbs::reading::{self, ObjectFilter};
use crate::verbs::request_context::RequestContext;

/// Limit of changes that are taken from the store at once, and sent in one chunk.
const BATCH: usize = 500;
/// Interval of bookmarks for watches without events.
const BOOKMARKS: Duration = Duration::from_mins(1);
/// Time of the last bookmark before the end of a watch.
const LAST_BOOKMARK: Duration = Duration::from_secs(2);
/// The minimum default duration of a watch, in seconds; the maximum is twice as long.
const LIFETIME: u64 = 1_800;

/// The state of a watch between two chunks.
struct Watch {
    api: Api,
    served: Arc<ServedKind>,
    context: RequestContext,
    filter: ObjectFilter,
    /// All events up to this revision were sent.
    cursor: u64,
    /// The last revision sent to the watcher.
    sent_revision: u64,
    latest: watch::Receiver<u64>,
    kinds: watch::Receiver<u64>,
    first: Option<Bytes>,
    has_bookmarks: bool,
    has_columns: bool,
    bookmark_at: Instant,
    last_bookmark_at: Option<Instant>,
    ends_at: Instant,
    is_over: bool,
}

/// Answers a request to watch.
pub(crate) async fn answer(api: &Api, served: &Arc<ServedKind>, context: &RequestContext) -> Result<Reply, ApiError> {
    check(context)?;
    if context.accept.is_yaml {
        return Err(ApiError::new(
            406,
            "NotAcceptable",
            "only the following media types are accepted: application/json;stream=watch",
        ));
    }
    let filter = ObjectFilter::read(served, context)?;
    let start = match context.query.text("resourceVersion") {
        None | Some("0") => None,
        Some(text) => Some(text.parse::<u64>().map_err(|_| {
            ApiError::new(
                500,
                "",
                format!(
                    "resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax"
                ),
            )
        })?),
    };
    let initial = context.query.text("sendInitialEvents").map(|_| context.query.is_on("sendInitialEvents"));
    let lifetime = match context.query.number("timeoutSeconds")? {
        None | Some(0) => LIFETIME + api.with(|state| state.ids.below(LIFETIME)),
        // A time before the start is over at once.
        Some(seconds) => seconds.try_into().unwrap_or(0),
    };
    let lifetime = Duration::from_secs(lifetime);
    let kinds = api.kinds_changed();
    let is_listed = initial.unwrap_or(start.is_none());
    let stale = reading::stale_revision(api, served, context).filter(|_| is_listed);
    let (latest, now, objects) = api.with(|state| {
        let latest = state.store.subscribe(&served.resource);
        let store = &state.store;
        let revision = stale.unwrap_or_else(|| store.visible_revision());
        let objects = if is_listed {
            store.list_at(&served.resource, context.resource_path.namespace.as_deref(), revision)
        } else {
            Ok(Vec::new())
        };
        (latest, revision, objects.unwrap_or_default())
    });
    let mut cursor = if is_listed { now } else { start.unwrap_or(now) };
    if is_fault(context, &Action::WatchDuplicate {}) && !is_listed {
        let is_seen = |change: &Change| change.event_type(|value| filter.matches(value)).is_some();
        cursor = api.with(|state| state.store.before_last(&served.resource, cursor, is_seen));
    }
    let begun_at = Instant::now();
    let mut watch = Watch {
        api: api.clone(),
        served: Arc::clone(served),
        context: context.copy(),
        filter,
        cursor,
        sent_revision: cursor,
        latest,
        kinds,
        first: None,
        has_bookmarks: context.query.is_on("allowWatchBookmarks") && !is_fault(context, &Action::WatchNoBookmarks {}),
        has_columns: false,
        bookmark_at: begun_at + BOOKMARKS,
        last_bookmark_at: (lifetime > LAST_BOOKMARK).then(|| begun_at + lifetime - LAST_BOOKMARK),
        ends_at: begun_at + lifetime,
        is_over: false,
    };
    let mut text = BytesMut::new();
    let objects: Vec<Arc<Stored>> = objects.into_iter().map(|(_, stored)| stored).collect();
    for value in conversion::all_to_requested_version(api, served, &objects).await? {
        if watch.filter.matches(&value) {
            text.extend_from_slice(&watch.write(WatchEventType::Added.name(), (*value).clone()));
        }
    }
    if initial == Some(true) && watch.has_bookmarks {
        text.extend_from_slice(&watch.bookmark(now, true));
    }
    watch.first = Some(text.freeze()).filter(|text| !text.is_empty());
    let lines = stream::unfold(watch, |mut watch| async move { watch.next().await.map(|piece| (piece, watch)) });
    Ok(Reply { code: 200, content: Content::Lines(lines.boxed()), warnings: Vec::new() })
}

fn is_fault(context: &RequestContext, action: &Action) -> bool {
    context.fault.as_ref().is_some_and(|fault| fault.action == *action)
}

fn check(context: &RequestContext) -> Result<(), ApiError> {
    const FIELD: &str = "resourceVersionMatch";
    let matching = context.query.text(FIELD);
    let is_newer = matching == Some("NotOlderThan");
    let has_initial = context.query.text("sendInitialEvents").is_some();
    let rules = [
        (has_initial && !is_newer, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"),
        (
            !has_initial && matching.is_some(),
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
        ),
        (context.query.text("continue").is_some(), "resourceVersionMatch is forbidden when continue is provided"),
    ];
    let mut causes: Vec<FieldError> = rules
        .into_iter()
        .filter(|(is_broken, _)| *is_broken)
        .map(|(_, why)| field_error::forbidden(FIELD, why))
        .collect();
    if let Some(other) = matching.filter(|_| !is_newer) {
        causes.push(field_error::not_supported(FIELD, &json!(other), ["NotOlderThan"]));
    }
    if causes.is_empty() { Ok(()) } else { Err(ApiError::invalid("meta.k8s.io", "ListOptions", "", causes)) }
}

/// The reason why a watch continues.
enum Wakeup {
    Changed,
    Bookmark,
    End,
}

impl Watch {
    /// Waits for the next chunk.
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        while !self.is_over {
            // Marked as seen before the check, so that no change is missed in between.
            self.latest.borrow_and_update();
            self.kinds.borrow_and_update();
            match self.api.with(|state| state.store.changes_after(&self.served.resource, self.cursor, BATCH)) {
                Err(Compacted) => return Some(self.expire()),
                Ok(changes) => {
                    let text = self.encode(&changes).await;
                    if !text.is_empty() {
                        return Some(text);
                    }
                    if !changes.is_empty() {
                        continue;
                    }
                }
            }
            if !self.is_served() {
                return None;
            }
            match self.wait().await {
                Wakeup::Changed => {}
                Wakeup::Bookmark => {
                    if let Some(text) = self.due_bookmark() {
                        return Some(text);
                    }
                }
                Wakeup::End => return None,
            }
        }
        None
    }

    async fn wait(&mut self) -> Wakeup {
        let last = self.last_bookmark_at;
        let next_bookmark = last.map_or(self.bookmark_at, |last| last.min(self.bookmark_at));
        let has_bookmarks = self.has_bookmarks;
        tokio::select! {
            biased;
            changed = self.latest.changed() => if changed.is_ok() { Wakeup::Changed } else { Wakeup::End },
            changed = self.kinds.changed() => if changed.is_ok() { Wakeup::Changed } else { Wakeup::End },
            () = tokio::time::sleep_until(self.ends_at) => Wakeup::End,
            () = tokio::time::sleep_until(next_bookmark), if has_bookmarks => {
                if self.last_bookmark_at.is_some_and(|last| last <= next_bookmark) {
                    self.last_bookmark_at = None;
                } else {
                    self.bookmark_at = next_bookmark + BOOKMARKS;
                }
                Wakeup::Bookmark
            }
        }
    }

    /// Tells whether the kind is still served unchanged; otherwise its watches end.
    fn is_served(&self) -> bool {
        let resource_path = &self.context.resource_path;
        let registry = self.api.registry();
        registry
            .find(&resource_path.group, &resource_path.version, &resource_path.plural)
            .is_some_and(|served| Arc::ptr_eq(served, &self.served))
    }

    fn due_bookmark(&mut self) -> Option<Bytes> {
        // The cursor is at the end of the history: no change of this resource was skipped.
        let resource = &self.served.resource;
        let (revision, is_complete) = self.api.with(|state| {
            let rest = state.store.changes_after(resource, self.cursor, 1);
            (state.store.visible_revision(), rest.is_ok_and(|rest| rest.is_empty()))
        });
        if !is_complete || revision <= self.sent_revision {
            return None;
        }
        Some(self.bookmark(revision, false))
    }

    /// Returns the events of changes. If one of them cannot be converted, an error event is sent, and the watch ends.
    async fn encode(&mut self, changes: &[Arc<Change>]) -> Bytes {
        let mut text = BytesMut::new();
        for change in changes {
            self.cursor = change.revision;
            let served = Arc::clone(&self.served);
            let is_as_stored = change.revisions().all(|revision| versioning::is_as_stored(&served, revision));
            let is_sent_as_stored =
                is_as_stored && versioning::webhook(&served).is_none() && self.context.accept.form == Form::Plain;
            if is_sent_as_stored && let Some(is_matching) = self.filter.matches_key(change.key()) {
                if let Some(event_type) = change.event_type_without_selection().filter(|_| is_matching) {
                    self.sent_revision = change.revision;
                    change.write_line(event_type, &mut text);
                }
                continue;
            }
            let stored = [change.before(), change.after()];
            if stored.iter().flatten().any(|stored| conversion::needs_webhook(&served, &stored.value)) {
                match self.encode_converted(change).await {
                    Ok(line) => text.extend_from_slice(&line),
                    Err(failure) => {
                        self.is_over = true;
                        text.extend_from_slice(&line("ERROR", &failure.to_json()));
                        break;
                    }
                }
                continue;
            }
            let seen = |value: &Value| {
                if is_as_stored {
                    return self.filter.matches(value);
                }
                let mut value = value.clone();
                versioning::convert(&served, &mut value);
                self.filter.matches(&value)
            };
            let Some(event_type) = change.event_type(seen) else { continue };
            self.sent_revision = change.revision;
            if is_as_stored && self.context.accept.form == Form::Plain {
                change.write_line(event_type, &mut text);
                continue;
            }
            let mut value = change.object(event_type);
            versioning::convert(&served, &mut value);
            text.extend_from_slice(&self.write(event_type.name(), value));
        }
        text.freeze()
    }

    /// Returns the event of an object stored in another version.
    async fn encode_converted(&mut self, change: &Change) -> Result<Bytes, ApiError> {
        let mut seen = Vec::new();
        for stored in [change.before(), change.after()] {
            seen.push(match stored {
                Some(stored) => Some(conversion::to_requested_version(&self.api, &self.served, &stored).await?),
                None => None,
            });
        }
        let [was, is] =
            [&seen[0], &seen[1]].map(|value| value.as_ref().is_some_and(|value| self.filter.matches(value)));
        let (event_type, value) = match (was, is) {
            (false, false) => return Ok(Bytes::new()),
            (false, true) => (WatchEventType::Added, &seen[1]),
            (true, true) => (WatchEventType::Modified, &seen[1]),
            (true, false) => (WatchEventType::Deleted, &seen[0]),
        };
        let mut value = value.as_deref().cloned().unwrap_or_default();
        if event_type == WatchEventType::Deleted {
            set_revision(&mut value, change.revision);
        }
        self.sent_revision = change.revision;
        Ok(self.write(event_type.name(), value))
    }

    /// Writes an event in the requested form.
    fn write(&mut self, word: &str, value: Value) -> Bytes {
        match self.context.accept.form {
            Form::Plain => line(word, &value),
            Form::Metadata | Form::MetadataList => line(word, &versioning::metadata_of(&value)),
            Form::Table => {
                self.context.now = self.api.now();
                let table =
                    reading::rows_with(&self.served, &self.context, &value, !self.has_columns).unwrap_or_default();
                self.has_columns = true;
                line(word, &table)
            }
        }
    }

    fn bookmark(&mut self, revision: u64, is_end_of_list: bool) -> Bytes {
        self.sent_revision = revision;
        let kind = &self.served.kind;
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if is_end_of_list {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        match self.context.accept.form {
            Form::Table => {
                let object = json!({"kind": kind.kind, "apiVersion": kind.api_version(), "metadata": metadata});
                let table = Table::of(kind).bookmark(&object, !self.has_columns);
                self.has_columns = true;
                line("BOOKMARK", &table)
            }
            Form::Metadata | Form::MetadataList => {
                line("BOOKMARK", &versioning::metadata_of(&json!({"metadata": metadata})))
            }
            Form::Plain => {
                line("BOOKMARK", &json!({"kind": kind.kind, "apiVersion": kind.api_version(), "metadata": metadata}))
            }
        }
    }

    fn expire(&mut self) -> Bytes {
        self.is_over = true;
        let current = self.api.with(|state| state.store.visible_revision());
        let text = format!("too old resource version: {} ({current})", self.cursor);
        line("ERROR", &ApiError::new(410, "Expired", text).to_json())
    }
}
