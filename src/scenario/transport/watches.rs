//! The watches of one operator run: which are open, and how far each has delivered.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, StreamExt as _};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::apiserver::ApiServer;
use crate::apiserver::http::request::ResourcePath;
use crate::apiserver::storage::resource::Resource;
use crate::cluster::transport::ByteStream;

use super::super::chaos::{Chaos, OnChunk};

/// The event of an expired watch.
const GONE: &str =
    r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","code":410,"reason":"Expired"}}"#;

/// How many events are remembered for each path.
const MAX_EVENTS: usize = 8;

/// A watcher repeats a failed list sooner than this. A script may give up on it.
const LIST_PAUSE: Duration = Duration::from_mins(1);

/// The watches of one operator run. Cheap to clone.
#[derive(Clone)]
pub(super) struct Watches {
    known: Arc<Mutex<BTreeMap<String, Watch>>>,
    /// When a list failed because of a disturbance, by path, until it is repeated.
    failed_lists: Arc<Mutex<BTreeMap<String, Instant>>>,
    changed: Arc<Notify>,
}

/// A watch that is open, or that will be reopened.
struct Watch {
    /// How often the path was opened before.
    number: usize,
    is_open: bool,
    resource: Resource,
    namespace: Option<String>,
    /// Everything up to this revision was delivered.
    delivered: u64,
    /// Revisions of the last delivered events, kept when the path is reopened.
    events: VecDeque<u64>,
}

impl Watches {
    /// Creates an empty set of watches that notifies of changes.
    pub(super) fn new(changed: Arc<Notify>) -> Self {
        Self { known: Arc::default(), failed_lists: Arc::default(), changed }
    }

    /// Describes undelivered events; `None` if there are none.
    pub(super) fn pending(&self, api: &ApiServer) -> Option<String> {
        let failed_lists = self.failed_lists.lock();
        if let Some((path, _)) = failed_lists.iter().find(|(_, failed_at)| failed_at.elapsed() < LIST_PAUSE) {
            return Some(format!("the list of {path} has failed and is not repeated yet"));
        }
        drop(failed_lists);
        let known = self.known.lock();
        let registry = api.registry();
        let is_served = |watch: &Watch| registry.stored(&watch.resource).is_some();
        if let Some((path, _)) = known.iter().find(|(_, watch)| !watch.is_open && is_served(watch)) {
            return Some(format!("the watch of {path} has ended and is not reopened yet"));
        }
        // The operator does not reopen the watch of a kind that is gone: the last events are delivered only if it is
        // still open.
        let late = known.iter().find(|(_, watch)| (watch.is_open || is_served(watch)) && watch.is_behind(api));
        late.map(|(path, _)| format!("the watch of {path} has not delivered everything"))
    }

    /// Notes that a list has failed or was answered.
    pub(super) fn note_list(&self, path: &str, has_failed: bool) {
        let mut failed = self.failed_lists.lock();
        if has_failed {
            failed.insert(path.to_owned(), Instant::now());
        } else {
            failed.remove(path);
        }
    }

    /// Tells whether the watch of a path is open.
    pub(super) fn is_open(&self, path: &str) -> bool {
        self.known.lock().get(path).is_some_and(|watch| watch.is_open)
    }

    /// Returns the revision before the last `count` events of a path.
    pub(super) fn before_last(&self, path: &str, count: usize) -> Option<u64> {
        let known = self.known.lock();
        let events = &known.get(path)?.events;
        Some(events.get(events.len().checked_sub(count)?)? - 1)
    }

    /// Notes an opened watch.
    pub(super) fn open(&self, path: String, resource_path: &ResourcePath, delivered: u64) -> Open {
        let number = self.insert(&path, resource_path, true, delivered);
        Open { watches: self.clone(), path, number, has_ended: false }
    }

    /// Notes a watch that failed to open and will be retried.
    pub(super) fn note_closed(&self, path: &str, resource_path: &ResourcePath) {
        self.insert(path, resource_path, false, 0);
    }

    /// Notes a watch that will not be retried.
    pub(super) fn forget(&self, path: &str) {
        self.known.lock().remove(path);
    }

    fn insert(&self, path: &str, resource_path: &ResourcePath, is_open: bool, delivered: u64) -> usize {
        let mut known = self.known.lock();
        let (number, events) =
            known.remove(path).map_or((0, VecDeque::new()), |watch| (watch.number + 1, watch.events));
        let resource = Resource { group: resource_path.group.clone(), plural: resource_path.plural.clone() };
        known.insert(
            path.to_owned(),
            Watch { number, is_open, resource, namespace: resource_path.namespace.clone(), delivered, events },
        );
        number
    }
}

impl Watch {
    fn remember(&mut self, revision: u64) {
        if self.events.back().is_none_or(|last| *last < revision) {
            self.events.push_back(revision);
        }
        if self.events.len() > MAX_EVENTS {
            self.events.pop_front();
        }
    }

    fn is_behind(&self, api: &ApiServer) -> bool {
        let changes = api.changes_after(&self.resource, self.delivered);
        let is_meant = |value: &Value| {
            self.namespace.as_ref().is_none_or(|namespace| value["metadata"]["namespace"] == namespace.as_str())
        };
        changes.is_ok_and(|changes| {
            changes
                .iter()
                .any(|change| change.after().or_else(|| change.before()).is_some_and(|stored| is_meant(&stored.value)))
        })
    }
}

/// An open watch. Dropping it before its end means that the operator has closed it.
pub(super) struct Open {
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
    /// Returns the stream that the operator receives, with disturbances.
    pub(super) fn deliver(self, body: ByteStream, chaos: Option<Arc<Chaos>>) -> ByteStream {
        stream::unfold((self, body), move |(mut open, mut body)| {
            let chaos = chaos.clone();
            async move {
                if open.has_ended {
                    return None;
                }
                let chunk = match body.next().await {
                    Some(Ok(chunk)) => chunk,
                    ended => {
                        open.end();
                        return ended.map(|broken| (broken, (open, body)));
                    }
                };
                let disturbance = match &chaos {
                    Some(chaos) => chaos.on_chunk(&open.path).await,
                    None => OnChunk::Nothing,
                };
                let chunk = open.apply_disturbance(disturbance, chunk)?;
                Some((Ok(chunk), (open, body)))
            }
        })
        .boxed()
    }

    /// Applies a disturbance to a chunk. Returns `None` if the watch ends before it.
    fn apply_disturbance(&mut self, disturbance: OnChunk, chunk: Bytes) -> Option<Bytes> {
        if disturbance == OnChunk::Nothing {
            let reached = last_revision(&chunk).unwrap_or_default();
            self.note(|watch| {
                watch.delivered = watch.delivered.max(reached);
                watch.remember(reached);
            });
            return Some(chunk);
        }
        self.end();
        match disturbance {
            OnChunk::Break => Some(chunk.slice(..chunk.len() / 2)),
            OnChunk::Expire => Some(Bytes::from(format!("{GONE}\n"))),
            OnChunk::Nothing | OnChunk::End => None,
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

/// Returns the greatest resource version in the lines of a watch.
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
    use http::Method;
    use serde_json::json;

    use super::*;
    use crate::apiserver::http::request::Path;
    use crate::apiserver::{Settings, admin_client, bootstrap};
    use crate::kit::Clock;

    const BACKUPS: &str = "/apis/ops.acme.io/v1/backups";

    /// Returns a server with a custom kind and one object of it, and the revision before the object.
    async fn with_backup() -> (ApiServer, u64) {
        let api = ApiServer::new(Settings::default(), Clock::starting_at("2020-01-01T00:00:00Z".parse().unwrap()));
        let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "backups.ops.acme.io"},
            "spec": {
                "group": "ops.acme.io", "scope": "Cluster", "names": {"plural": "backups", "kind": "Backup"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
            },
        });
        bootstrap::apply(&api, vec![definition]).await.unwrap();
        let before = api.revision();
        let backup = json!({"apiVersion": "ops.acme.io/v1", "kind": "Backup", "metadata": {"name": "x"}});
        bootstrap::apply(&api, vec![backup]).await.unwrap();
        (api, before)
    }

    async fn delete(api: &ApiServer, path: &str) {
        admin_client::send(api, Method::DELETE, path, None, String::new()).await.unwrap();
        api.settle();
    }

    fn open(watches: &Watches, delivered: u64) -> Open {
        let Path::Objects(resource_path) = Path::parse(BACKUPS) else { panic!("{BACKUPS} has objects") };
        watches.open(BACKUPS.to_owned(), &resource_path, delivered)
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_events_of_a_kind_that_is_gone_are_awaited_only_while_its_watch_is_open() {
        let (api, before) = with_backup().await;
        let watches = Watches::new(Arc::default());
        let mut watch = open(&watches, before);
        let late = Some(format!("the watch of {BACKUPS} has not delivered everything"));
        assert_eq!(watches.pending(&api), late);
        delete(&api, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/backups.ops.acme.io").await;
        assert_eq!(watches.pending(&api), late);
        watch.end();
        assert_eq!(watches.pending(&api), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_of_an_existing_kind_is_awaited_until_it_is_reopened_and_has_delivered_everything() {
        let (api, before) = with_backup().await;
        let watches = Watches::new(Arc::default());
        open(&watches, before).end();
        assert_eq!(watches.pending(&api), Some(format!("the watch of {BACKUPS} has ended and is not reopened yet")));
        let watch = open(&watches, before);
        assert_eq!(watches.pending(&api), Some(format!("the watch of {BACKUPS} has not delivered everything")));
        let reached = api.revision();
        watch.note(|watch| watch.delivered = reached);
        assert_eq!(watches.pending(&api), None);
    }

    fn deliver(watch: &mut Open, revisions: impl IntoIterator<Item = u64>) {
        for revision in revisions {
            let line = format!(r#"{{"object":{{"metadata":{{"resourceVersion":"{revision}"}}}}}}"#);
            assert_eq!(watch.apply_disturbance(OnChunk::Nothing, line.clone().into()), Some(line.into()));
        }
    }

    #[test]
    fn a_watch_that_begins_before_its_last_events_delivers_them_again() {
        let watches = Watches::new(Arc::default());
        assert_eq!(watches.before_last(BACKUPS, 1), None, "it was never open");
        let mut watch = open(&watches, 3);
        assert_eq!(watches.before_last(BACKUPS, 1), None, "it has delivered nothing");
        deliver(&mut watch, [5, 9, 12]);
        let earlier = |count| watches.before_last(BACKUPS, count);
        assert_eq!([earlier(1), earlier(2), earlier(3), earlier(4)], [Some(11), Some(8), Some(4), None]);
        assert_eq!(watches.before_last("/api/v1/pods", 1), None, "other paths have other events");
        watch.end();
        assert_eq!(earlier(2), Some(8), "the events of a closed watch are kept");
    }

    #[test]
    fn repeated_events_are_remembered_once_and_old_ones_are_forgotten() {
        let watches = Watches::new(Arc::default());
        let mut first = open(&watches, 3);
        deliver(&mut first, [5, 9, 12]);
        first.end();
        let mut reopened = open(&watches, 8);
        deliver(&mut reopened, [9, 12, 14]);
        let earlier = |count| watches.before_last(BACKUPS, count);
        assert_eq!(
            [earlier(1), earlier(2), earlier(3), earlier(4), earlier(5)],
            [Some(13), Some(11), Some(8), Some(4), None]
        );
        deliver(&mut reopened, 21..21 + MAX_EVENTS as u64);
        assert_eq!((earlier(MAX_EVENTS), earlier(MAX_EVENTS + 1)), (Some(20), None));
    }

    #[test]
    fn an_event_that_a_disturbance_keeps_back_is_not_among_the_delivered_ones() {
        let watches = Watches::new(Arc::default());
        let mut watch = open(&watches, 3);
        deliver(&mut watch, [5]);
        assert!(watches.is_open(BACKUPS));
        assert_eq!(watch.apply_disturbance(OnChunk::End, Bytes::from_static(br#"{"resourceVersion":"9"}"#)), None);
        assert!(!watches.is_open(BACKUPS));
        assert_eq!((watches.before_last(BACKUPS, 1), watches.before_last(BACKUPS, 2)), (Some(4), None));
    }

    #[test]
    fn the_last_version_of_several_lines_is_found() {
        let lines = br#"{"object":{"metadata":{"resourceVersion":"12"}}}
{"object":{"metadata":{"resourceVersion":"9","annotations":{"x":"{\"resourceVersion\":\"77\"}"}}}}"#;
        assert_eq!(last_revision(lines), Some(12));
        assert_eq!(last_revision(b"{}"), None);
    }
}
