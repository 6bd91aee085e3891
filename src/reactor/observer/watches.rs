//! The watches of an operator: one for each kind that it serves, in each of its namespaces or in all.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use tracing::{debug, error, info};

use crate::cluster::{Client, KnownObjects, Watcher};
use crate::engines::effects::Effects;
use crate::kit::{Stop, Tasks};
use crate::object::Resource;

use super::super::kind::{Kind, KindSink};
use super::super::leaving::Leaving;
use super::super::memory::Memories;
use super::super::revision::{KindRevisions, Revisions};
use super::super::status::ServedKinds;
use super::super::watching;
use super::declared::{Declared, Scope};
use super::reviser::Filled;
use super::wanted::{WatchKey, other_version, wanted};

/// The touches of scripts that wait for one watch, each with the text of its object.
const TOUCHES: usize = 16;

/// The stop reason of a watch whose kind or namespace is gone: its objects are forgotten.
const REASON_GONE: &str = "it is gone";

/// The stop reason of a watch whose kind is served anew: the next watch gets the list of its objects.
const REASON_CHANGED: &str = "the kind has changed";

/// A running watch of an operator's kind.
struct Watch {
    stop: Stop,
    /// The objects that it knew at its end.
    known: oneshot::Receiver<KnownObjects>,
}

/// An ended watch whose objects another one takes over.
struct Predecessor {
    /// The objects that it knew at its end.
    known: oneshot::Receiver<KnownObjects>,
    /// Given when the workers of its kind have ended: an object has one worker at a time.
    finished: Stop,
}

/// The state of the operator that its watches depend on.
pub(super) struct Around<'a> {
    pub declared: &'a Declared,
    pub client: &'a Client,
    /// The kinds that are to be watched.
    pub watched: &'a BTreeSet<Arc<Resource>>,
    /// The namespaces that are served, if they are limited.
    pub namespaces: &'a BTreeSet<String>,
    /// Runs the watches.
    pub tasks: &'a mut Tasks<()>,
    /// Requested when the operator ends.
    pub stop: &'a Stop,
}

/// The watches, and the kinds that they serve.
pub(super) struct Watches<W: Effects> {
    revisions: Arc<Revisions<W>>,
    /// Requests that the watches pass their known objects on once more, by counting.
    revisits: watch::Sender<u64>,
    served: BTreeMap<Arc<Resource>, Arc<Kind<W>>>,
    /// The served kinds, for others.
    published_kinds: watch::Sender<ServedKinds<W>>,
    running: BTreeMap<WatchKey, Watch>,
    /// The ended watches of kinds that are served anew, by their successors.
    predecessors: BTreeMap<WatchKey, Predecessor>,
    /// The kinds that were removed from the manifest, and whose calls have not ended.
    retired: BTreeMap<Arc<Resource>, Stop>,
    /// Cancels the workers of all kinds.
    worker_stop: Stop,
}

impl<W: Effects> Watches<W> {
    /// Cancels the workers.
    pub(super) fn abandon(&self) {
        self.worker_stop.request("the observer is gone");
    }
}

impl<W: Effects + 'static> Watches<W> {
    /// Returns no watches yet.
    pub(super) fn of(revisions: Arc<Revisions<W>>) -> Self {
        Self {
            revisions,
            revisits: watch::Sender::new(0),
            served: BTreeMap::new(),
            published_kinds: watch::Sender::new(Vec::new()),
            running: BTreeMap::new(),
            predecessors: BTreeMap::new(),
            retired: BTreeMap::new(),
            worker_stop: Stop::new(),
        }
    }

    /// Returns the served kinds, as they will be at any time.
    pub(super) fn kinds(&self) -> watch::Receiver<ServedKinds<W>> {
        self.published_kinds.subscribe()
    }

    /// Passes the objects that were listed for indexes on to the watches that begin.
    pub(super) fn take_over(&mut self, filled: Vec<Filled>) {
        for Filled { resource, namespace, known } in filled {
            let key = (resource, namespace);
            if self.running.contains_key(&key) {
                continue;
            }
            let (sender, receiver) = oneshot::channel();
            // The receiver is here.
            let _ = sender.send(known);
            let finished = self.retired.get(&key.0).cloned().unwrap_or_else(|| {
                let finished = Stop::new();
                finished.request("it has no earlier workers");
                finished
            });
            self.predecessors.insert(key, Predecessor { known: receiver, finished });
        }
    }

    /// Lets all known objects be handled once more, by the newest revision.
    pub(super) fn revisit(&self) {
        // A kind without events would keep the revision before in memory.
        self.served.values().for_each(|kind| kind.follow_revisions());
        self.revisits.send_modify(|requests| *requests += 1);
    }

    /// Restarts a kind whose properties have changed; the memories of its objects are kept.
    pub(super) fn renew_kinds(&mut self, around: &mut Around<'_>) {
        for resource in around.watched {
            let known = self.served.get_key_value(resource);
            if known.is_some_and(|(known, _)| !known.has_same_details(resource))
                && let Some(kind) = self.served.remove(resource)
            {
                info!(target: "kopfd::reactor", resource = %resource, "The kind has changed. It is served anew.");
                for (key, watch) in self.running.extract_if(.., |key, _| key.0 == *resource) {
                    watch.stop.request(REASON_CHANGED);
                    self.predecessors
                        .insert(key, Predecessor { known: watch.known, finished: kind.finished().clone() });
                }
                let memories = Arc::clone(&kind.memories);
                let exit_timeout = around.declared.exit_timeout;
                around.tasks.spawn(format!("end of {resource}"), async move { kind.finish(exit_timeout).await });
                self.served.insert(Arc::clone(resource), Arc::new(self.new_kind(around.declared, resource, memories)));
            }
        }
    }

    /// Starts missing watches, and stops the watches of vanished kinds and namespaces.
    pub(super) fn reconcile(&mut self, around: &mut Around<'_>) {
        let wanted = wanted(around.watched, &around.declared.scope, around.namespaces);
        let gone: Vec<_> = self.running.keys().filter(|key| !wanted.contains(key)).cloned().collect();
        for key in gone {
            debug!(target: "kopfd::reactor", resource = %key.0, namespace = key.1, "Stopping to watch.");
            let successor = other_version(&wanted, &key).filter(|successor| !self.running.contains_key(successor));
            let Some(watch) = self.running.remove(&key) else { continue };
            match successor {
                Some(successor) => self.hand_over(around.declared, watch, &key.0, successor),
                None => watch.stop.request(REASON_GONE),
            }
        }
        for key in wanted {
            if !self.running.contains_key(&key) {
                self.start_watch(key, around);
            }
        }
        // The objects of a watch without a successor are forgotten.
        self.predecessors.clear();
        self.let_go(around);
        self.publish_kinds();
    }

    fn publish_kinds(&self) {
        let is_same = |published: &ServedKinds<W>| {
            published.len() == self.served.len()
                && published.iter().zip(self.served.values()).all(|(one, other)| Arc::ptr_eq(one, other))
        };
        if !is_same(&self.published_kinds.borrow()) {
            self.published_kinds.send_replace(self.served.values().cloned().collect());
        }
    }

    /// Ends a watch whose objects are watched in another version from now on.
    fn hand_over(&mut self, declared: &Declared, watch: Watch, resource: &Arc<Resource>, successor: WatchKey) {
        let Some(kind) = self.served.get(resource) else { return };
        watch.stop.request(REASON_CHANGED);
        let (memories, finished) = (Arc::clone(&kind.memories), kind.finished().clone());
        if !self.served.contains_key(&successor.0) {
            let kind = self.new_kind(declared, &successor.0, memories);
            self.served.insert(Arc::clone(&successor.0), Arc::new(kind));
        }
        self.predecessors.insert(successor, Predecessor { known: watch.known, finished });
    }

    fn new_kind(&self, declared: &Declared, resource: &Arc<Resource>, memories: Arc<Memories>) -> Kind<W> {
        let revisions = KindRevisions::following(Arc::clone(&self.revisions), Arc::clone(resource), memories);
        Kind::following(Arc::clone(resource), revisions, declared.worker_limit, Arc::clone(&declared.name))
            .with_monitor(declared.monitor.clone())
            .with_health(declared.health.clone())
            .measured(declared.metrics.kind(&resource.to_string()))
            .led_by(&declared.lead)
            .with_stop(&self.worker_stop)
    }

    fn start_watch(&mut self, key: WatchKey, around: &mut Around<'_>) {
        let (resource, namespace) = &key;
        if !self.served.contains_key(resource) {
            self.served
                .insert(Arc::clone(resource), Arc::new(self.new_kind(around.declared, resource, Arc::default())));
        }
        let kind = Arc::clone(&self.served[resource]);
        let scope = namespace
            .as_ref()
            .map_or_else(|| "all namespaces".to_owned(), |namespace| format!("namespace {namespace}"));
        info!(target: "kopfd::reactor", "Operator '{}' watches {resource} in {scope}.", around.declared.name);
        let title = format!("{resource} in {scope}");
        let name = format!("watch of {title}");
        match Watcher::new(around.client.clone(), (**resource).clone(), namespace.as_deref()) {
            Ok(watcher) => {
                let (touches, touched) = mpsc::channel(TOUCHES);
                kind.accept_touches(namespace.clone(), touches);
                let mut watcher = watcher.with_revisits(self.revisits.subscribe()).with_touches(touched);
                if around.declared.lead.is_elected() {
                    watcher = watcher.with_relists(around.declared.lead.begins());
                }
                let (stop, pause, client) = (around.stop.child(), around.declared.pause.clone(), around.client.clone());
                let retired = self
                    .retired
                    .get(&key.0)
                    .map(|finished| Predecessor { known: oneshot::channel().1, finished: finished.clone() });
                let predecessor = self.predecessors.remove(&key).or(retired);
                let (successor, known) = oneshot::channel();
                self.running.insert(key, Watch { stop: stop.clone(), known });
                // Created here, so that the indexes are not ready before the first list.
                let mut sink = KindSink::titled(Arc::clone(&kind), &title).with_revisits(self.revisits.subscribe());
                around.tasks.spawn(name.clone(), async move {
                    if let Some(Predecessor { known, finished }) = predecessor {
                        if let Ok(known) = known.await {
                            watcher = watcher.succeeding(known);
                        }
                        tokio::select! {
                            () = stop.requested() => {}
                            () = finished.requested() => {}
                        }
                    }
                    watching::watch_unless_paused(name, (&pause, &client), (&mut watcher, &mut sink, &kind), &stop)
                        .await;
                    let unneeded = match stop.reason() {
                        Some(REASON_GONE) => Some(watcher.into_known()),
                        Some(REASON_CHANGED) => successor.send(watcher.into_known()).err(),
                        _ => None,
                    };
                    unneeded.iter().flat_map(|known| known.uids(&kind.resource)).for_each(|uid| kind.leave(&uid));
                });
            }
            Err(error) => error!(target: "kopfd::reactor", error = error.chain(), "Cannot watch."),
        }
    }

    /// Drops kinds that are no longer watched.
    fn let_go(&mut self, around: &mut Around<'_>) {
        let is_watched = |resource: &Arc<Resource>| self.running.keys().any(|(watched, _)| watched == resource);
        let gone: Vec<_> = self.served.keys().filter(|resource| !is_watched(resource)).cloned().collect();
        for resource in gone {
            let Some(kind) = self.served.remove(&resource) else { continue };
            let exit_timeout = around.declared.exit_timeout;
            let is_declared = self.revisions.newest().handlers.iter().any(|handler| handler.concerns(&resource));
            if is_declared {
                around.tasks.spawn(format!("end of {resource}"), async move { kind.finish(exit_timeout).await });
                continue;
            }
            self.retired.insert(Arc::clone(&resource), kind.finished().clone());
            let leaving = leaving(around, &resource);
            let stop = around.stop.child();
            around.tasks.spawn(format!("end of {resource}"), async move {
                kind.retire(&stop, exit_timeout).await;
                leaving.report(&stop).await;
            });
        }
        self.retired.retain(|_, finished| !finished.is_requested());
    }

    /// Lets the workers finish their work, and then everything in the background.
    pub(super) async fn finish(&self, declared: &Declared) {
        let kinds: Vec<_> = self.served.values().cloned().collect();
        if declared.lead.is_elected() {
            // The next leader lists all objects.
            for kind in &kinds {
                kind.queues.discard();
            }
        }
        let ends = kinds.iter().map(|kind| kind.finish(declared.exit_timeout));
        let newest = self.revisions.newest();
        // Objects wait for their daemons, so both end together.
        let (ended, limit) = (Stop::new(), Instant::now() + declared.exit_timeout);
        let workers = async {
            futures::future::join_all(ends).await;
            ended.request("the workers have ended");
        };
        let background = async {
            newest.effects.end_background().await;
            if !declared.lead.is_elected() {
                return;
            }
            tokio::select! {
                biased;
                () = ended.requested() => {}
                // A write that begins now may not be answered before the workers are dropped.
                () = tokio::time::sleep_until(limit) => declared.lead.close(),
            }
        };
        tokio::join!(workers, background);
    }
}

/// Returns what reports the objects that a retired kind leaves behind.
fn leaving(around: &Around<'_>, resource: &Arc<Resource>) -> Leaving {
    let namespaces = match &around.declared.scope {
        Scope::Namespaces(_) if resource.namespaced => around.namespaces.iter().cloned().map(Some).collect(),
        _ => vec![None],
    };
    let (operator, client, storages) =
        (Arc::clone(&around.declared.name), around.client.clone(), Arc::clone(&around.declared.storages));
    Leaving { operator, client, resource: Arc::clone(resource), namespaces, storages }
}
