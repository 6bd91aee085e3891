//! One kind in one namespace (or in all): its watch fills the queues, and each object with events gets a worker.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};
use tracing::{Instrument as _, Span, error, warn};

use crate::cluster::{self, Seen, Sink, Touch};
use crate::handling::Handler;
use crate::kit::{Stop, TaskGroup, tasks};
use crate::object::{EventKind, ObjectKey, Resource};
use crate::telemetry::metrics::{KindMetrics, WatchGauge, WatchState};
use crate::telemetry::object_span;
use crate::wire::PartialMetadata;

use super::activity::{ActivityMonitor, Revisits};
use super::cycle::Served;
use super::first_cycles::{FirstCycles, Slot};
use super::mailbox::{Event, Mailbox};
use super::memory::Memories;
use super::queues::{Queued, Queues};
use super::revision::{KindRevisions, Serving};
use super::worker::{Attempt, Expected, Read, Worker, WorkerSettings};
use crate::engines::effects::Effects;
use crate::engines::events::EngineEvent;
use crate::engines::health::{Health, WatchReporter};
use crate::engines::leading::{Lead, PERMANENT};
use crate::engines::readiness::Blocker;
use crate::engines::status::{KindStatus, WatchCounts};

/// The failures of the first list of an indexed kind after which the operator no longer waits for it. With the default
/// pauses, they take about ten seconds.
const MAX_LIST_FAILURES: usize = 5;

/// Time limit for cancelled calls to end.
const CANCELLATION: Duration = Duration::from_secs(1);

/// The shared state of all watches of one kind.
pub struct Kind<W: Effects> {
    /// The kind.
    pub resource: Arc<Resource>,
    /// Its handlers, the effects, and the settings of its workers, in the newest revision of the operator.
    pub revisions: Arc<KindRevisions<W>>,
    /// The memories of its objects.
    pub memories: Arc<Memories>,
    /// The event queues of its objects.
    pub queues: Arc<Queues>,
    /// The operator's name, the prefix of the memo keys of its objects.
    pub operator: Arc<str>,
    workers: TaskGroup,
    first_cycles: FirstCycles,
    /// The objects with workers that are no longer watched.
    left: Mutex<HashSet<Box<str>>>,
    calls: Stop,
    /// Requested when the workers have ended.
    finished: Stop,
    monitor: Option<Arc<ActivityMonitor>>,
    health: Health,
    metrics: Option<Arc<KindMetrics>>,
    worker_limit: Option<usize>,
    read: Read,
    lead: Lead,
    /// The last term that has begun for the kind.
    term: Mutex<u64>,
    /// The watches by namespace, for the touches of scripts.
    touches: Mutex<BTreeMap<Option<String>, mpsc::Sender<Touch>>>,
}

impl<W: Effects + 'static> Kind<W> {
    /// Returns a kind without objects, of an operator whose revision never changes.
    pub fn new(
        effects: Arc<W>,
        served: Arc<Served>,
        settings: Arc<WorkerSettings>,
        worker_limit: Option<usize>,
        operator: Arc<str>,
    ) -> Self {
        let resource = Arc::clone(&served.resource);
        let serving = Serving { revision: 0, digest: Arc::default(), effects, served, settings, trial: None };
        let revisions = KindRevisions::fixed(serving, Arc::default());
        Self::following(resource, revisions, worker_limit, operator)
    }

    /// Returns a kind without objects.
    pub fn following(
        resource: Arc<Resource>,
        revisions: KindRevisions<W>,
        worker_limit: Option<usize>,
        operator: Arc<str>,
    ) -> Self {
        Self {
            resource,
            memories: Arc::clone(revisions.memories()),
            revisions: Arc::new(revisions),
            queues: Arc::new(Queues::new(worker_limit)),
            operator,
            workers: TaskGroup::default(),
            first_cycles: FirstCycles::default(),
            left: Mutex::default(),
            calls: Stop::new(),
            finished: Stop::new(),
            monitor: None,
            health: Health::default(),
            metrics: None,
            worker_limit,
            read: cluster::watch::read,
            lead: Lead::permanent(),
            term: Mutex::new(PERMANENT),
            touches: Mutex::default(),
        }
    }

    /// Returns the kind whose objects are handled only while this replica leads.
    pub fn led_by(self, lead: &Lead) -> Self {
        Self { lead: lead.clone(), ..self }
    }

    /// Returns the kind with a monitor of its workers and watches.
    pub fn with_monitor(self, monitor: Option<Arc<ActivityMonitor>>) -> Self {
        Self { monitor, ..self }
    }

    /// Returns the kind with a registry of the health of its watches.
    pub fn with_health(self, health: Health) -> Self {
        Self { health, ..self }
    }

    /// Returns the kind with metrics of its watches, queues and workers.
    pub fn measured(self, metrics: KindMetrics) -> Self {
        let metrics = Arc::new(metrics);
        let queues = Queues::new(self.worker_limit).measured(Arc::clone(&metrics));
        Self { queues: Arc::new(queues), metrics: Some(metrics), ..self }
    }

    /// Returns the kind with workers that are cancelled by a stop. Without it they run until they are asked to finish.
    pub fn with_stop(self, stop: &Stop) -> Self {
        Self { workers: TaskGroup::under(stop), ..self }
    }

    /// Returns the kind with another parser of objects.
    pub fn with_reader(self, read: Read) -> Self {
        Self { read, ..self }
    }

    /// Lets scripts touch the objects of a watch in one namespace, or in all.
    pub(super) fn accept_touches(&self, namespace: Option<String>, touches: mpsc::Sender<Touch>) {
        self.touches.lock().insert(namespace, touches);
    }

    /// Tells whether events must wait before they are processed.
    fn holds_events(&self, serving: &Serving<W>) -> bool {
        let is_limited = self.queues.is_limited() && is_indexed(serving);
        is_limited || serving.effects.readiness().is_some_and(|readiness| !readiness.is_ready())
    }

    /// Adds an event to the queue of its object, and starts a worker if there is none. Waits while too many objects
    /// begin processing.
    ///
    /// *Cancel safety*: the event is either queued with a worker or not queued; no queue is left without a worker.
    async fn put(self: &Arc<Self>, uid: &str, head: &PartialMetadata<'_>, event: Event) {
        let slot = if self.queues.has(uid) { None } else { Some(self.first_cycles.slot().await) };
        if let Queued::First(uid, mailbox) = self.queues.put(uid, event) {
            let span = object_span(&self.resource, head.namespace(), head.name(), &uid);
            let claim = Claim::new(Arc::clone(self), uid, mailbox);
            let (resource, uid) = (Arc::clone(&self.resource), Arc::clone(&claim.uid));
            self.workers
                .spawn(move || format!("worker of {resource} {uid}"), work(claim, span.clone(), slot).instrument(span));
        }
    }

    /// Lets the workers process their queues for up to `grace`; then cancels their calls, and finally the workers.
    pub async fn finish(&self, grace: Duration) {
        self.end_workers(grace).await;
        self.finished.request("the workers have ended");
    }

    /// Ends the service of a kind that was removed from the manifest: queued events are dropped, and running calls end
    /// by themselves, unless the stop is requested. Then they have up to `grace`.
    pub async fn retire(&self, stop: &Stop, grace: Duration) {
        self.queues.discard();
        tokio::select! {
            biased;
            _ = self.workers.settle(Duration::MAX) => {}
            () = stop.requested() => self.end_workers(grace).await,
        }
        self.finished.request("the workers have ended");
    }

    /// Takes note of the newest revision, so that an earlier one is not kept in memory until the next event.
    pub fn follow_revisions(&self) {
        drop(self.revisions.newest());
    }

    /// Returns a signal that is given when the kind has finished.
    pub fn finished(&self) -> &Stop {
        &self.finished
    }

    async fn end_workers(&self, grace: Duration) {
        self.queues.close();
        if self.workers.settle(grace).await {
            return;
        }
        warn!(target: "kopfd::reactor", resource = %self.resource, objects = self.queues.len(), "Unprocessed streams left; their handlers are cancelled.");
        self.calls.request("the operator stops");
        self.workers.settle(CANCELLATION).await;
        self.workers.abandon().await;
    }
}

impl<W: Effects> Kind<W> {
    /// Returns the way to touch the objects in a namespace; `None` if they are not watched.
    pub(super) fn touches_in(&self, namespace: Option<&str>) -> Option<mpsc::Sender<Touch>> {
        let touches = self.touches.lock();
        touches.get(&None).or_else(|| touches.get(&Some(namespace?.to_owned()))).cloned()
    }

    /// Returns the state of the kind.
    pub fn status(&self) -> KindStatus {
        let watches = |state| self.metrics.as_ref().map(|metrics| metrics.watches(state)).unwrap_or_default();
        KindStatus {
            resource: self.resource.to_string(),
            objects: self.memories.len(),
            revisions: self.revisions.objects(),
            watches: WatchCounts {
                listing: watches(WatchState::Listing),
                watching: watches(WatchState::Watching),
                failing: watches(WatchState::Failing),
                paused: watches(WatchState::Paused),
            },
            queued: self.metrics.as_ref().map(|metrics| metrics.queued_events()).unwrap_or_default(),
            workers: self.queues.len(),
        }
    }

    /// Forgets an object that is no longer watched. If it has a worker, it is forgotten once more at the end of that:
    /// queued events are still processed.
    pub fn leave(&self, uid: &str) {
        self.left.lock().insert(uid.into());
        self.forget(uid);
        if !self.queues.has(uid) {
            self.left.lock().remove(uid);
        }
    }

    /// Forgets a deleted object.
    pub fn forget(&self, uid: &str) {
        self.memories.forget(uid);
        let effects = &self.revisions.newest().effects;
        effects.unindex(uid);
        effects.forget(&self.memo_key(uid));
        effects.events().emit(&EngineEvent::ObjectForgotten { uid });
    }

    /// Begins a term of the leadership as after a start of the process, unless it has begun already: another replica
    /// may have handled the objects since the last term.
    fn begin_term(&self, term: u64) {
        let mut last = self.term.lock();
        if *last == term {
            return;
        }
        let effects = &self.revisions.newest().effects;
        for uid in self.memories.begin_anew(&effects.operator_memo()) {
            effects.forget(&self.memo_key(&uid));
        }
        // After a panic, the next list begins the term.
        *last = term;
    }

    /// Returns the key of an object's memo.
    fn memo_key(&self, uid: &str) -> Arc<str> {
        Arc::from(format!("{}/{uid}", self.operator))
    }
}

/// The mailbox of an object while a worker has it. It is given back however the worker ends.
struct Claim<W: Effects> {
    kind: Arc<Kind<W>>,
    uid: Arc<str>,
    mailbox: Arc<Mailbox>,
}

impl<W: Effects> Claim<W> {
    fn new(kind: Arc<Kind<W>>, uid: Arc<str>, mailbox: Arc<Mailbox>) -> Self {
        if let Some(monitor) = &kind.monitor {
            monitor.worker_began();
        }
        kind.metrics.iter().for_each(|metrics| metrics.worker_began());
        Self { kind, uid, mailbox }
    }
}

impl<W: Effects> Drop for Claim<W> {
    fn drop(&mut self) {
        self.kind.queues.give_back(&self.uid, &self.mailbox);
        if self.kind.left.lock().remove(&*self.uid) {
            self.kind.forget(&self.uid);
        }
        if let Some(monitor) = &self.kind.monitor {
            monitor.worker_ended();
        }
        self.kind.metrics.iter().for_each(|metrics| metrics.worker_ended());
    }
}

/// Runs the worker of an object, and continues if an event arrives just before its end.
async fn work<W: Effects + 'static>(claim: Claim<W>, span: Span, slot: Option<Slot>) {
    let Claim { kind, uid, mailbox } = &claim;
    let serving = kind.revisions.of(uid);
    span.record("revision", &*serving.digest);
    let mut worker = Worker {
        revisions: Arc::clone(&kind.revisions),
        serving,
        memories: Arc::clone(&kind.memories),
        mailbox: Arc::clone(mailbox),
        memo_key: kind.memo_key(uid),
        uid: Arc::clone(uid),
        stop: kind.calls.clone(),
        span,
        expected: Expected::default(),
        read: kind.read,
        attempt: Attempt::default(),
        is_indexed_ahead: false,
        lead: kind.lead.clone(),
        led_stop: None,
    };
    let mut slot = match AssertUnwindSafe(hold_back(kind, &mut worker, slot)).catch_unwind().await {
        Ok(slot) => slot,
        // The event is still queued. Its processing repeats the failed steps.
        Err(panic) => {
            worker.recover(&tasks::panic_text(&*panic)).await;
            None
        }
    };
    let _permit = kind.queues.permit().await;
    if slot.is_none() {
        slot = Some(kind.first_cycles.slot().await);
    }
    loop {
        worker.run().await;
        drop(slot.take());
        if kind.queues.retire(uid) || kind.calls.is_requested() {
            return;
        }
    }
}

/// Indexes the object and waits for the indexes, if events must wait for that. Returns the slot, unless it was given
/// back during the wait.
async fn hold_back<W: Effects + 'static>(kind: &Kind<W>, worker: &mut Worker<W>, slot: Option<Slot>) -> Option<Slot> {
    if !kind.holds_events(worker.serving.indexing()) {
        return slot;
    }
    worker.index_ahead().await;
    // Nothing is parsed during the wait. A closed mailbox is noticed by the worker.
    drop(slot);
    worker.await_readiness().await;
    None
}

fn is_indexed<W>(serving: &Serving<W>) -> bool {
    !serving.served.handlers.indexing.is_empty()
}

/// The sink of one watch.
pub struct KindSink<W: Effects> {
    kind: Arc<Kind<W>>,
    is_listed: bool,
    /// Blocks the readiness of the indexes until the first list of an indexed kind is complete, or fails.
    blocker: Option<Blocker>,
    failures: usize,
    reporter: WatchReporter,
    gauge: Option<WatchGauge>,
    revisits: Option<Arc<Revisits>>,
    /// The term in which the last list was begun: only objects of lists and events after its begin are handled. Earlier
    /// states may lack writes of the former leader.
    term: Option<u64>,
}

impl<W: Effects + 'static> KindSink<W> {
    /// Returns the sink of a kind.
    pub fn new(kind: Arc<Kind<W>>) -> Self {
        let title = kind.resource.to_string();
        Self::titled(kind, &title)
    }

    /// Returns the sink of a watch with a title for messages.
    pub fn titled(kind: Arc<Kind<W>>, title: &str) -> Self {
        if let Some(monitor) = &kind.monitor {
            monitor.watch_began();
        }
        let reporter = kind.health.watch(format!("the watch of {} by operator '{}'", kind.resource, kind.operator));
        let gauge = kind.metrics.as_ref().map(|metrics| metrics.watch());
        let serving = kind.revisions.newest();
        let readiness = serving.effects.readiness().filter(|_| is_indexed(&serving));
        let blocker = readiness.map(|readiness| readiness.block_for_list(title.to_owned()));
        let term = kind.lead.term();
        Self { kind, is_listed: false, blocker, failures: 0, reporter, gauge, revisits: None, term }
    }

    /// Returns the sink with the requests that its watch answers.
    pub fn with_revisits(mut self, requests: watch::Receiver<u64>) -> Self {
        let revisits = Revisits::new(requests);
        self.kind.monitor.iter().for_each(|monitor| monitor.revisits_began(&revisits));
        self.revisits = Some(revisits);
        self
    }

    fn set(&mut self, state: WatchState) {
        if let Some(gauge) = &mut self.gauge {
            gauge.set(state);
        }
    }

    /// Records that the watch is closed by a pause: its list is not awaited.
    pub fn paused(&mut self) {
        if !std::mem::replace(&mut self.is_listed, true) {
            self.kind.monitor.iter().for_each(|monitor| monitor.listed());
        }
        self.reporter.paused();
        self.set(WatchState::Paused);
        self.suspend_revisits(true);
    }

    /// Records that the watch begins anew after a pause, with a list.
    pub fn resumed(&mut self) {
        self.is_listed = false;
        self.kind.monitor.iter().for_each(|monitor| monitor.watch_began());
        self.set(WatchState::Listing);
        self.suspend_revisits(false);
    }

    fn suspend_revisits(&self, are_suspended: bool) {
        self.revisits.iter().for_each(|revisits| revisits.suspend(are_suspended));
        self.kind.monitor.iter().for_each(|monitor| monitor.revisited());
    }

    /// The operator does not wait for a kind that cannot be listed.
    fn give_up_waiting(&mut self, error: &cluster::Error) {
        self.failures += 1;
        let is_refused = error.status().is_some_and(|status| status < 429);
        if self.blocker.is_none() || (!is_refused && self.failures < MAX_LIST_FAILURES) {
            return;
        }
        let served = &self.kind.revisions.newest().served;
        let names: BTreeSet<&str> = served.handlers.indexing.iter().map(|handler| handler.id.as_str()).collect();
        error!(
            target: "kopfd::reactor",
            resource = %self.kind.resource,
            error = error.chain(),
            "The kind cannot be listed, so these indexes are incomplete until it can: {}. Handlers are called without waiting for them.",
            names.into_iter().collect::<Vec<_>>().join(", ")
        );
        self.blocker = None;
    }

    fn note_list(&mut self) {
        if let Some(monitor) = self.kind.monitor.as_ref().filter(|_| !self.is_listed) {
            monitor.listed();
        }
        self.is_listed = true;
        self.reporter.listed();
        self.set(WatchState::Watching);
    }
}

impl<W: Effects> Drop for KindSink<W> {
    fn drop(&mut self) {
        // A watch that ends before its first list is no longer awaited.
        if let Some(monitor) = self.kind.monitor.as_ref().filter(|_| !self.is_listed) {
            monitor.listed();
        }
    }
}

impl<W: Effects + 'static> Sink for KindSink<W> {
    fn listing_began(&mut self) {
        self.term = self.kind.lead.term();
        if let Some(term) = self.term.filter(|_| self.kind.lead.is_elected()) {
            self.kind.begin_term(term);
        }
    }

    async fn seen(&mut self, seen: Seen<'_>) {
        let kind = &self.kind;
        if let Some(metrics) = &kind.metrics {
            metrics.event(seen.event_kind, kind.revisions.newest().effects.clock().now());
        }
        let uid = match seen.head.uid() {
            Some(uid) => Cow::Borrowed(uid),
            None => match seen.body() {
                Ok(body) => Cow::Owned(ObjectKey::of(&body).uid),
                Err(_) => return,
            },
        };
        let uid = uid.as_ref();
        let serving = kind.revisions.of(uid);
        let indexing = serving.indexing();
        let has_background =
            || !serving.served.handlers.spawning.is_empty() && serving.effects.has_background(&kind.memo_key(uid));
        // The newest revision may have added a finalizer, or index the object.
        let is_uninteresting = is_uninteresting(&serving.served, seen.head)
            && (serving.trial.is_none() || is_uninteresting(&indexing.served, seen.head));
        // A replica that stands by has nothing to do with an object but to index it.
        let is_uninteresting = is_uninteresting || (!kind.lead.holds(self.term) && !is_indexed(indexing));
        if is_uninteresting && !indexing.effects.is_filling() && !kind.queues.has(uid) && !has_background() {
            match seen.event_kind {
                EventKind::Deleted => kind.forget(uid),
                event_kind => {
                    kind.memories.notice(uid, event_kind == EventKind::Listed, || serving.effects.operator_memo());
                    // It may have matched before.
                    if is_indexed(indexing) {
                        indexing.effects.unindex(uid);
                    }
                }
            }
            return;
        }
        // It may be watched again.
        kind.left.lock().remove(uid);
        // A worker indexes the first event of its object and then waits for the others: a repeated list must not block
        // them once more.
        let readiness = self.blocker.as_ref().and_then(|_| indexing.effects.readiness());
        let blocker = readiness.filter(|_| !kind.queues.has(uid)).map(|readiness| Arc::new(readiness.block()));
        kind.put(uid, seen.head, Event { blocker, term: self.term, ..Event::new(seen.event_kind, seen.text) }).await;
    }

    async fn listed(&mut self) {
        self.note_list();
        self.blocker = None;
    }

    fn revisited(&mut self, request: u64) {
        self.revisits.iter().for_each(|revisits| revisits.answer(request));
        self.kind.monitor.iter().for_each(|monitor| monitor.revisited());
    }

    fn opened(&mut self) {
        self.reporter.opened();
        self.set(WatchState::Watching);
    }

    fn request_failed(&mut self, error: &cluster::Error) {
        self.set(WatchState::Failing);
        self.kind.metrics.iter().for_each(|metrics| metrics.watch_failed());
        self.reporter.failed(&error.chain(), matches!(error.status(), Some(403..=405)));
        // The watcher logs its failures and retries; a missing kind is noticed by the observer of kinds.
        tracing::debug!(target: "kopfd::reactor", resource = %self.kind.resource, error = error.chain(), "A watch is in trouble.");
        self.give_up_waiting(error);
    }
}

/// Tells whether the metadata alone show that no handler concerns the object, and that it does not have the operator's
/// finalizer.
pub fn is_uninteresting(served: &Served, head: &PartialMetadata<'_>) -> bool {
    !served.handlers.is_empty()
        && served.handlers.iter().all(|handler| is_refused(handler, head))
        && !head.has_finalizer(&served.storages.finalizer)
}

fn is_refused(handler: &Handler, head: &PartialMetadata<'_>) -> bool {
    let filters = &handler.filters;
    filters.labels.iter().any(|(key, matcher)| matcher.surely_refuses(head.label(key).as_deref()))
        || filters.annotations.iter().any(|(key, matcher)| matcher.surely_refuses(head.annotation(key).as_deref()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handling::{Filters, Lifecycle, Matcher, On};
    use serde_json::{Value, json};

    const FINALIZER: &str = "kopf.zalando.org/KopfFinalizerMarker";

    fn handler(labels: &[&str], annotations: &[&str]) -> Arc<Handler> {
        let present = |keys: &[&str]| keys.iter().map(|key| ((*key).to_owned(), Matcher::Present)).collect();
        let filters = Filters { labels: present(labels), annotations: present(annotations), ..Filters::default() };
        Arc::new(Handler { filters, ..Handler::simple("fn", On::Create) })
    }

    /// Whether an object with this metadata is dropped without being read.
    fn is_dropped(handlers: &[Arc<Handler>], metadata: Value) -> bool {
        let served = Served::new(Arc::default(), handlers, Arc::default(), Lifecycle::default(), Duration::ZERO);
        let text = json!({ "metadata": metadata }).to_string();
        is_uninteresting(&served, &PartialMetadata::of(&text).unwrap())
    }

    #[test]
    fn objects_that_every_handler_refuses_by_their_metadata_are_dropped() {
        let of_label = [handler(&["a"], &[])];
        assert!(is_dropped(&of_label, json!({})));
        assert!(!is_dropped(&of_label, json!({"labels": {"a": "1"}})));
        let of_annotation = [handler(&[], &["b"])];
        assert!(is_dropped(&of_annotation, json!({"labels": {"b": "1"}})));
        assert!(!is_dropped(&of_annotation, json!({"annotations": {"b": "1"}})));
        let of_both = [handler(&["a"], &["b"])];
        assert!(
            is_dropped(&of_both, json!({"labels": {"a": "1"}}))
                && is_dropped(&of_both, json!({"annotations": {"b": "1"}}))
        );
        let of_either = [handler(&["a"], &[]), handler(&[], &["b"])];
        assert!(!is_dropped(&of_either, json!({"labels": {"a": "1"}})));
        assert!(!is_dropped(&[handler(&["a"], &[]), handler(&[], &[])], json!({})));
    }

    #[test]
    fn objects_that_are_held_back_or_of_kinds_without_handlers_are_not_dropped() {
        assert!(!is_dropped(&[handler(&["a"], &[])], json!({"finalizers": [FINALIZER]})));
        assert!(is_dropped(&[handler(&["a"], &[])], json!({"finalizers": ["other"]})));
        assert!(!is_dropped(&[], json!({})));
    }
}
