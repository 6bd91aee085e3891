//! The watches of one life of the operators: which are open, and how far each has delivered.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, StreamExt as _};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::apiserver::Api;
use crate::apiserver::http::request::Place;
use crate::apiserver::storage::resource::Resource;
use crate::cluster::transport::ByteStream;

use super::super::chaos::{Chaos, OnPiece};

/// What a watch is told whose history is gone.
const GONE: &str = r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","code":410,"reason":"Expired"}}"#;

/// How many events are remembered of each path.
const MOST_EVENTS: usize = 8;

/// A watcher repeats a failed list sooner. A script may give it up.
const LIST_PAUSE: Duration = Duration::from_mins(1);

/// The watches of one life. Cheap to clone.
#[derive(Clone)]
pub struct Watches {
    known: Arc<Mutex<BTreeMap<String, Watch>>>,
    /// When the lists of paths have failed by a disturbance that are not repeated yet.
    failed_lists: Arc<Mutex<BTreeMap<String, Instant>>>,
    changed: Arc<Notify>,
}

/// A watch that is open, or is to be opened again.
struct Watch {
    /// How often its path was opened before.
    number: usize,
    is_open: bool,
    resource: Resource,
    namespace: Option<String>,
    /// Everything up to this revision was delivered.
    delivered: u64,
    /// The revisions of the last events that were delivered, over all times that the path was open.
    events: VecDeque<u64>,
}

impl Watches {
    /// Returns no watches; whoever waits for changes is told of them.
    pub fn new(changed: Arc<Notify>) -> Self {
        Self { known: Arc::default(), failed_lists: Arc::default(), changed }
    }

    /// Returns what is not delivered, in words.
    pub fn pending(&self, api: &Api) -> Option<String> {
        let failed_lists = self.failed_lists.lock();
        if let Some((path, _)) = failed_lists.iter().find(|(_, failed_at)| failed_at.elapsed() < LIST_PAUSE) {
            return Some(format!("the list of {path} has failed and is not repeated yet"));
        }
        drop(failed_lists);
        let known = self.known.lock();
        let registry = api.registry();
        let is_served = |watch: &Watch| registry.stored(&watch.resource).is_some();
        if let Some((path, _)) = known.iter().find(|(_, watch)| !watch.is_open && is_served(watch)) {
            return Some(format!("the watch of {path} has ended and is not open again"));
        }
        let late = known.iter().find(|(_, watch)| watch.is_behind(api));
        late.map(|(path, _)| format!("the watch of {path} has not delivered everything"))
    }

    /// Notes that a list has failed, or was answered.
    pub fn note_list(&self, path: &str, has_failed: bool) {
        let mut failed = self.failed_lists.lock();
        if has_failed {
            failed.insert(path.to_owned(), Instant::now());
        } else {
            failed.remove(path);
        }
    }

    /// Returns the version before the last so many events of a path.
    pub fn before_last(&self, path: &str, count: usize) -> Option<u64> {
        let known = self.known.lock();
        let events = &known.get(path)?.events;
        Some(events.get(events.len().checked_sub(count)?)? - 1)
    }

    /// Notes that a watch opens.
    pub fn open(&self, path: String, place: &Place, delivered: u64) -> Open {
        let number = self.insert(&path, place, true, delivered);
        Open { watches: self.clone(), path, number, has_ended: false }
    }

    /// Notes that a watch does not open, and will be tried again.
    pub fn note_closed(&self, path: &str, place: &Place) {
        self.insert(path, place, false, 0);
    }

    /// Notes that a watch will not be tried again.
    pub fn forget(&self, path: &str) {
        self.known.lock().remove(path);
    }

    fn insert(&self, path: &str, place: &Place, is_open: bool, delivered: u64) -> usize {
        let mut known = self.known.lock();
        let (number, events) = known.remove(path).map_or((0, VecDeque::new()), |watch| (watch.number + 1, watch.events));
        let resource = Resource { group: place.group.clone(), plural: place.plural.clone() };
        known.insert(path.to_owned(), Watch { number, is_open, resource, namespace: place.namespace.clone(), delivered, events });
        number
    }
}

impl Watch {
    fn remember(&mut self, revision: u64) {
        if self.events.back().is_none_or(|last| *last < revision) {
            self.events.push_back(revision);
        }
        if self.events.len() > MOST_EVENTS {
            self.events.pop_front();
        }
    }

    fn is_behind(&self, api: &Api) -> bool {
        let changes = api.with(|state| state.store.changes_after(&self.resource, self.delivered, usize::MAX));
        let is_meant = |value: &Value| self.namespace.as_ref().is_none_or(|namespace| value["metadata"]["namespace"] == namespace.as_str());
        changes.is_ok_and(|changes| {
            changes.iter().any(|change| change.after().or_else(|| change.before()).is_some_and(|stored| is_meant(&stored.value)))
        })
    }
}

/// An open watch. Whoever drops it before its end does not want it any more.
pub struct Open {
    watches: Watches,
    path: String,
    number: usize,
    has_ended: bool,
}

impl Drop for Open {
    fn drop(&mut self) {
        let mut known = self.watches.known.lock();
        if !self.has_ended && known.get(&self.path).is_some_and(|watch| watch.number == self.number) {
            known.remove(&self.path);
        }
        drop(known);
        self.watches.changed.notify_waiters();
    }
}

impl Open {
    /// Returns the watch as the operator gets it, with the trouble that befalls it.
    pub fn deliver(self, body: ByteStream, chaos: Option<Arc<Chaos>>) -> ByteStream {
        stream::unfold((self, body), move |(mut open, mut body)| {
            let chaos = chaos.clone();
            async move {
                if open.has_ended {
                    return None;
                }
                let piece = match body.next().await {
                    Some(Ok(piece)) => piece,
                    ended => {
                        open.end();
                        return ended.map(|broken| (broken, (open, body)));
                    }
                };
                let trouble = match &chaos {
                    Some(chaos) => chaos.on_piece(&open.path).await,
                    None => OnPiece::Nothing,
                };
                let piece = open.suffer(trouble, piece)?;
                Some((Ok(piece), (open, body)))
            }
        })
        .boxed()
    }

    /// Returns what is left of a piece; nothing if the watch ends before it.
    fn suffer(&mut self, trouble: OnPiece, piece: Bytes) -> Option<Bytes> {
        if trouble == OnPiece::Nothing {
            let reached = last_revision(&piece).unwrap_or_default();
            self.note(|watch| {
                watch.delivered = watch.delivered.max(reached);
                watch.remember(reached);
            });
            return Some(piece);
        }
        self.end();
        match trouble {
            OnPiece::Break => Some(piece.slice(..piece.len() / 2)),
            OnPiece::Expire => Some(Bytes::from(format!("{GONE}\n"))),
            OnPiece::Nothing | OnPiece::End => None,
        }
    }

    fn end(&mut self) {
        self.has_ended = true;
        self.note(|watch| watch.is_open = false);
    }

    fn note(&self, change: impl FnOnce(&mut Watch)) {
        if let Some(watch) = self.watches.known.lock().get_mut(&self.path).filter(|watch| watch.number == self.number) {
            change(watch);
        }
        self.watches.changed.notify_waiters();
    }
}

/// Returns the greatest version in the lines of a watch.
fn last_revision(bytes: &[u8]) -> Option<u64> {
    const KEY: &[u8] = br#""resourceVersion":""#;
    let number = |at: usize| -> Option<u64> {
        let rest = &bytes[at + KEY.len()..];
        let length = rest.iter().position(|byte| *byte == b'"')?;
        std::str::from_utf8(&rest[..length]).ok()?.parse().ok()
    };
    memchr::memmem::find_iter(bytes, KEY).filter_map(number).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_version_of_several_lines_is_found() {
        let lines = br#"{"object":{"metadata":{"resourceVersion":"12"}}}
{"object":{"metadata":{"resourceVersion":"9","annotations":{"x":"{\"resourceVersion\":\"77\"}"}}}}"#;
        assert_eq!(last_revision(lines), Some(12));
        assert_eq!(last_revision(b"{}"), None);
    }
}
