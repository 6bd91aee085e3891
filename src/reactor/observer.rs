//! The observer of one operator: discovers kinds and namespaces, and starts and stops watches as they appear and vanish.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use tracing::{debug, error, info, warn};

use crate::cluster::discovery::{self, Scan};
use crate::cluster::{self, Client, KnownObjects, ResourceResolver, Watcher};
use crate::handling::trial::Share;
use crate::handling::{Handler, Lifecycle, Policy};
use crate::kit::{Stop, Tasks, tasks};
use crate::manifest::cross_operator;
use crate::object::namespace::{self, Pattern};
use crate::object::{Resource, Selector};
use crate::persistence::Storages;
use crate::telemetry::OperatorMetrics;

use super::activity::ActivityMonitor;
use super::kind::{Kind, KindSink};
use super::leaving::Leaving;
use super::memory::Memories;
use super::observation::{Insights, Purposes};
use super::observed::{ObservationSink, Observed, QUEUE_CAPACITY, Subject, backbone};
use super::pausing::Follower;
use super::precedence::{Precedence, Yielded};
use super::revision::{KindRevisions, Revision, Revisions};
use super::status::ServedKinds;
use super::watching::{self, keep_watching};
use super::worker::WorkerSettings;
use crate::engines::admission::reviewer::WebhookKinds;
use crate::engines::effects::Effects;
use crate::engines::health::Health;
use crate::engines::leading::Lead;
use crate::engines::pause::Pause;
use crate::engines::peering::Peerings;
use crate::engines::readiness::{Blocker, Readiness};

/// Times of discovery scans after a definition of a group has changed: the server needs a moment to serve a new kind.
const SCAN_DELAYS: [Duration; 3] = [Duration::from_millis(50), Duration::from_secs(1), Duration::from_secs(4)];

/// Delay before a group that could not be read is scanned again.
const RESCAN_DELAY: Duration = Duration::from_secs(30);

/// The touches of scripts that wait for one watch, each with the text of its object.
const TOUCHES: usize = 16;

/// The stop reason of a watch whose kind or namespace is gone: its objects are forgotten.
const REASON_GONE: &str = "it is gone";

/// The stop reason of a watch whose kind is served anew: the next watch gets to know its objects.
const REASON_CHANGED: &str = "the kind has changed";

/// Which namespaces an operator serves.
#[derive(Debug, Clone)]
pub enum Scope {
    /// All namespaces, with one watch for each kind.
    Cluster,
    /// The namespaces that match one of the patterns.
    Namespaces(Vec<Pattern>),
}

/// What an operator declares to the observer.
pub struct Declared {
    /// The operator's name.
    pub name: Arc<str>,
    /// The digest of its files.
    pub revision: Arc<str>,
    /// The handlers.
    pub handlers: Vec<Arc<Handler>>,
    /// The kinds of its webhooks.
    pub webhooks: Vec<Selector>,
    /// The storages of the operator's state.
    pub storages: Arc<Storages>,
    /// Which handlers run in one cycle.
    pub lifecycle: Lifecycle,
    /// The seconds between attempts after arbitrary errors.
    pub default_backoff: Duration,
    /// The default error policy of sub-handlers.
    pub sub_defaults: Policy,
    /// The settings of workers.
    pub settings: Arc<WorkerSettings>,
    /// The maximum number of workers of a kind.
    pub worker_limit: Option<usize>,
    /// The time limit of workers at the exit.
    pub exit_timeout: Duration,
    /// Whether the detection of new kinds and namespaces is disabled.
    pub is_scanning_disabled: bool,
    /// Which namespaces are served.
    pub scope: Scope,
    /// The operators of the process that come before this one.
    pub earlier: Precedence,
    /// The monitor of the activity, if there is one.
    pub monitor: Option<Arc<ActivityMonitor>>,
    /// The health of the operators of the process.
    pub health: Health,
    /// The pause of the operator.
    pub pause: Pause,
    /// The metrics of the operator.
    pub metrics: OperatorMetrics,
    /// Whether this replica leads: only then, objects are handled.
    pub lead: Lead,
}

/// Runs the watches of one operator.
pub struct Observer<W: Effects> {
    declared: Declared,
    revisions: Arc<Revisions<W>>,
    /// Requests that the watches pass their known objects on once more, by counting.
    revisits: watch::Sender<u64>,
    replacements: mpsc::Receiver<Replacement>,
    replacer: mpsc::Sender<Replacement>,
    client: Client,
    kinds: Arc<ResourceResolver>,
    purposes: Purposes,
    /// The kinds that the operator would serve alone.
    found: Insights,
    /// The kinds that it serves, without those left to other operators.
    insights: Insights,
    yielded: BTreeSet<Yielded>,
    warnings: BTreeSet<String>,
    namespaces: BTreeSet<String>,
    /// The same for others.
    published_namespaces: watch::Sender<BTreeSet<String>>,
    /// The served kinds, for others.
    published_kinds: watch::Sender<ServedKinds<W>>,
    /// The kinds of webhooks, for others.
    published_webhook_kinds: watch::Sender<WebhookKinds>,
    served: BTreeMap<Arc<Resource>, Arc<Kind<W>>>,
    watches: BTreeMap<WatchKey, Watch>,
    /// The ended watches of kinds that are served anew, by their successors.
    predecessors: BTreeMap<WatchKey, Predecessor>,
    /// The kinds that are not declared any more, and whose calls have not ended.
    retired: BTreeMap<Arc<Resource>, Stop>,
    tasks: Tasks<()>,
    scheduled_scans: BTreeMap<Instant, BTreeSet<Option<String>>>,
    /// Cancels the workers of all kinds if the observer is dropped before its end.
    worker_stop: Stop,
    /// The pending scans reported to the monitor.
    reported_scans: usize,
    /// Nothing is handled before it is known which kinds are indexed.
    starting: Option<Blocker>,
    /// The peers of the operator.
    peerings: Option<Peerings>,
}

/// A request to follow a change of the revisions.
struct Replacement {
    /// `None` if the newest revision is still the same.
    newest: Option<(Precedence, Vec<Filled>)>,
    /// Answered when the watches have been started and stopped.
    done: oneshot::Sender<()>,
}

/// A kind in a namespace, or in all, whose objects were listed for indexes before its watch begins.
#[derive(Debug)]
pub struct Filled {
    /// The kind.
    pub resource: Arc<Resource>,
    /// The namespace; `None` stands for all.
    pub namespace: Option<String>,
    /// The listed objects: the first list of the watch reports those that have vanished meanwhile.
    pub known: KnownObjects,
}

/// Lets other revisions of an operator take effect.
pub struct Reviser<W> {
    revisions: Arc<Revisions<W>>,
    replacer: mpsc::Sender<Replacement>,
    namespaces: watch::Receiver<BTreeSet<String>>,
    scope: Scope,
}

impl<W> Reviser<W> {
    /// Returns the newest revision.
    pub fn newest(&self) -> Arc<Revision<W>> {
        self.revisions.newest()
    }

    /// Returns the namespaces in which objects of a kind are watched; `None` stands for all.
    pub fn namespaces_of(&self, resource: &Resource) -> Vec<Option<String>> {
        match &self.scope {
            Scope::Namespaces(_) if resource.namespaced => self.namespaces.borrow().iter().cloned().map(Some).collect(),
            _ => vec![None],
        }
    }

    /// Lets a revision take effect: for all events that are taken up from now on, and then for the watches. Known objects of the kinds that
    /// stay are handled once more.
    ///
    /// `earlier` has the operators of the process that come before this one.
    pub async fn replace(&self, revision: Revision<W>, earlier: Precedence, filled: Vec<Filled>) {
        self.revisions.replace(revision);
        self.follow(Some((earlier, filled))).await;
    }

    /// Lets a revision serve a share of the objects of the kinds that are served already. Known objects are handled once more.
    pub async fn try_out(&self, revision: Revision<W>, share: Share) {
        self.revisions.try_out(revision, share);
        self.follow(None).await;
    }

    /// Lets the newest revision serve all objects again. Known objects are handled once more.
    pub async fn withdraw(&self) {
        self.revisions.withdraw();
        self.follow(None).await;
    }

    async fn follow(&self, newest: Option<(Precedence, Vec<Filled>)>) {
        let (done, is_done) = oneshot::channel();
        // An observer that has ended has no watches.
        if self.replacer.send(Replacement { newest, done }).await.is_ok() {
            let _ = is_done.await;
        }
    }
}

/// A kind in one namespace, or in all.
type WatchKey = (Arc<Resource>, Option<String>);

/// A running watch of an operator's kind.
struct Watch {
    stop: Stop,
    /// What it knew at its end.
    known: oneshot::Receiver<KnownObjects>,
}

/// An ended watch whose objects another one takes over.
struct Predecessor {
    /// What it knew at its end.
    known: oneshot::Receiver<KnownObjects>,
    /// Given when the workers of its kind have ended: an object has one worker at a time.
    finished: Stop,
}

impl<W: Effects> Drop for Observer<W> {
    fn drop(&mut self) {
        self.worker_stop.request("the observer is gone");
        self.revisions.newest().world.abandon_background();
        if let Some(monitor) = &self.declared.monitor {
            monitor.pending_scans(self.reported_scans, 0);
        }
    }
}

impl<W: Effects + 'static> Observer<W> {
    /// Returns an observer without observations.
    pub fn new(declared: Declared, world: Arc<W>, client: Client, kinds: Arc<ResourceResolver>) -> Self {
        let purposes = Purposes::of_handlers(declared.handlers.iter().map(AsRef::as_ref)).with_webhooks(&declared.webhooks);
        let starting = world.readiness().map(Readiness::block);
        let revisions = Arc::new(Revisions::new(Revision {
            number: 0,
            digest: Arc::clone(&declared.revision),
            since: world.clock().now(),
            world,
            handlers: declared.handlers.clone(),
            webhooks: declared.webhooks.clone(),
            storages: Arc::clone(&declared.storages),
            lifecycle: declared.lifecycle,
            default_backoff: declared.default_backoff,
            sub_defaults: declared.sub_defaults.clone(),
            settings: Arc::clone(&declared.settings),
        }));
        let (replacer, replacements) = mpsc::channel(1);
        Self {
            declared,
            revisions,
            revisits: watch::Sender::new(0),
            replacements,
            replacer,
            client,
            kinds,
            purposes,
            found: Insights::default(),
            insights: Insights::default(),
            yielded: BTreeSet::new(),
            warnings: BTreeSet::new(),
            namespaces: BTreeSet::new(),
            published_namespaces: watch::Sender::default(),
            published_kinds: watch::Sender::new(Vec::new()),
            published_webhook_kinds: watch::Sender::default(),
            served: BTreeMap::new(),
            watches: BTreeMap::new(),
            predecessors: BTreeMap::new(),
            retired: BTreeMap::new(),
            tasks: Tasks::default(),
            scheduled_scans: BTreeMap::new(),
            worker_stop: Stop::new(),
            reported_scans: 0,
            starting,
            peerings: None,
        }
    }

    /// Returns the observer with the peerings of the operator, whose resources it observes.
    pub fn with_peerings(mut self, peerings: Peerings) -> Self {
        self.purposes.peering = peerings.selectors();
        self.peerings = Some(peerings);
        self
    }

    /// Returns the handle that lets other revisions take effect.
    pub fn reviser(&self) -> Reviser<W> {
        let (namespaces, scope) = (self.published_namespaces.subscribe(), self.declared.scope.clone());
        Reviser { revisions: Arc::clone(&self.revisions), replacer: self.replacer.clone(), namespaces, scope }
    }

    /// Returns the revisions and the served kinds, as they will be at any time.
    pub fn view(&self) -> (Arc<Revisions<W>>, watch::Receiver<ServedKinds<W>>) {
        (Arc::clone(&self.revisions), self.published_kinds.subscribe())
    }

    /// Returns the kinds of the webhooks, as they will be at any time.
    pub fn webhook_kinds(&self) -> watch::Receiver<WebhookKinds> {
        self.published_webhook_kinds.subscribe()
    }

    /// Serves the operator until the stop is requested, then lets the workers finish.
    ///
    /// # Errors
    /// If the discovery fails at the start.
    pub async fn run(mut self, stop: Stop) -> Result<(), cluster::Error> {
        let gate = self.declared.health.gate(format!("operator '{}' has not started its watches yet", self.declared.name));
        let groups = self.declared.earlier.groups(self.purposes.groups()).map(|groups| groups.into_iter().map(str::to_owned).collect());
        let scan = tokio::select! {
            biased;
            () = stop.requested() => return Ok(()),
            scan = discovery::scan(&self.client, groups.as_ref()) => scan?,
        };
        self.kinds.learn(&scan, groups.as_ref());
        self.revise(None, scan);
        let observations = self.start_observing(&stop);
        self.follow_pause(&stop);
        self.reconcile(&stop);
        drop(self.starting.take());
        drop(gate);
        self.warn_of_waits(&stop);
        if let Some(monitor) = &self.declared.monitor {
            monitor.observer_began();
        }
        self.observe(observations, &stop).await;
        self.finish().await;
        Ok(())
    }

    fn follow_pause(&mut self, stop: &Stop) {
        let Declared { name, pause, health, metrics, .. } = &self.declared;
        let (operator, pause) = (Arc::clone(name), pause.clone());
        let (revisions, health, metrics) = (Arc::clone(&self.revisions), health.clone(), metrics.clone());
        let follower = Follower { operator, pause, revisions, health, metrics };
        self.tasks.spawn("the pause", follower.run(stop.child()));
    }

    /// Reports if handlers wait for the indexes for a long time.
    fn warn_of_waits(&mut self, stop: &Stop) {
        let Some(readiness) = self.revisions.newest().world.readiness().map(Arc::clone) else { return };
        let (stop, pause) = (stop.child(), self.declared.pause.clone());
        self.tasks.spawn("warnings about indexes", async move {
            let warn_unless_paused = async {
                loop {
                    pause.resumed().await;
                    tokio::select! {
                        () = pause.paused() => {}
                        () = readiness.warn_of_waits() => {}
                    }
                }
            };
            tokio::select! {
                () = stop.requested() => {}
                () = warn_unless_paused => {}
            }
        });
    }

    async fn observe(&mut self, mut observations: mpsc::Receiver<Observed>, stop: &Stop) {
        loop {
            let next_scan = self.scheduled_scans.keys().next().copied();
            tokio::select! {
                biased;
                () = stop.requested() => return,
                Some(observed) = observations.recv() => {
                    self.note(observed);
                    // Thousands of namespaces are listed at once.
                    while let Ok(observed) = observations.try_recv() {
                        self.note(observed);
                    }
                }
                Some(replacement) = self.replacements.recv() => {
                    if let Some((earlier, filled)) = replacement.newest {
                        self.follow(earlier).await;
                        self.take_over(filled);
                        self.reconcile(stop);
                    }
                    // A kind without events would keep the revision before in memory.
                    self.served.values().for_each(|kind| kind.follow_revisions());
                    self.revisits.send_modify(|requests| *requests += 1);
                    // The waiting one may be gone.
                    let _ = replacement.done.send(());
                }
                Some(ended) = self.tasks.next_ended(), if !self.tasks.is_empty() => tasks::report_task_end(&ended),
                () = until(next_scan) => self.scan().await,
            }
            self.reconcile(stop);
            if let Some(monitor) = &self.declared.monitor {
                self.reported_scans = monitor.pending_scans(self.reported_scans, self.scheduled_scans.len());
            }
        }
    }

    /// Takes over the newest revision. If it names other kinds, those of the cluster are scanned again.
    async fn follow(&mut self, earlier: Precedence) {
        let revision = self.revisions.newest();
        self.declared.earlier = earlier;
        self.declared.storages = Arc::clone(&revision.storages);
        let peering = std::mem::take(&mut self.purposes.peering);
        let purposes = Purposes::of_handlers(revision.handlers.iter().map(AsRef::as_ref)).with_webhooks(&revision.webhooks);
        self.purposes = Purposes { peering, ..purposes };
        let groups = self.declared.earlier.groups(self.purposes.groups()).map(|groups| groups.into_iter().map(str::to_owned).collect());
        match discovery::scan(&self.client, groups.as_ref()).await {
            Ok(scan) => {
                self.kinds.learn(&scan, groups.as_ref());
                self.found = Insights::default();
                self.revise(None, scan);
            }
            Err(error) => {
                warn!(target: "kopfd::reactor", error = error.chain(), "Cannot look at the kinds of the cluster. Will look again.");
                let delay = RESCAN_DELAY.max(error.retry_after().unwrap_or_default());
                self.scheduled_scans.entry(Instant::now() + delay).or_default().insert(None);
            }
        }
    }

    /// Passes the objects that were listed for indexes on to the watches that begin.
    fn take_over(&mut self, filled: Vec<Filled>) {
        for Filled { resource, namespace, known } in filled {
            let key = (resource, namespace);
            if self.watches.contains_key(&key) {
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

    fn note(&mut self, observed: Observed) {
        match observed {
            Observed::Kinds(group) => {
                let now = Instant::now();
                for delay in SCAN_DELAYS {
                    self.scheduled_scans.entry(now + delay).or_default().insert(group.clone());
                }
            }
            Observed::Namespace(event_kind, namespace) => {
                if let Scope::Namespaces(patterns) = &self.declared.scope {
                    namespace::revise(&mut self.namespaces, patterns, event_kind, &namespace);
                }
            }
            Observed::NamespacesListed => {
                if self.namespaces.is_empty() {
                    warn!(target: "kopfd::reactor", "No namespace matches the patterns. Nothing is served until one appears.");
                }
            }
            Observed::NamespacesForbidden => {
                if let Scope::Namespaces(patterns) = &self.declared.scope {
                    self.namespaces.extend(namespace::exact(patterns));
                }
            }
        }
    }

    /// Scans the groups that are due.
    async fn scan(&mut self) {
        let Some((_, groups)) = self.scheduled_scans.pop_first() else { return };
        // Scans that are due shortly after are included.
        for group in groups {
            let scan = match &group {
                Some(group) => discovery::rescan(&self.client, group).await,
                None => discovery::scan(&self.client, None).await,
            };
            match scan {
                Ok(scan) => {
                    let fresh = group.as_ref().map(|group| BTreeSet::from([group.clone()]));
                    self.kinds.learn(&scan, fresh.as_ref());
                    self.revise(group.as_deref(), scan);
                }
                Err(error) => {
                    warn!(target: "kopfd::reactor", group, error = error.chain(), "Cannot look at the kinds of the cluster. Will look again.");
                    let delay = RESCAN_DELAY.max(error.retry_after().unwrap_or_default());
                    self.scheduled_scans.entry(Instant::now() + delay).or_default().insert(group);
                }
            }
        }
    }

    fn revise(&mut self, group: Option<&str>, scan: Scan) {
        for skipped in scan.skipped {
            self.scheduled_scans.entry(Instant::now() + RESCAN_DELAY).or_default().insert(Some(skipped));
        }
        let discovered: Vec<Arc<Resource>> = scan.resources.into_iter().map(Arc::new).collect();
        let unserved = self.found.revise(&self.purposes, group, &discovered);
        self.declared.earlier.revise(group, &discovered);
        self.yield_kinds();
        let warnings: BTreeSet<String> = unserved.iter().map(|one| one.warning.clone()).collect();
        for warning in warnings.difference(&self.warnings) {
            warn!(target: "kopfd::reactor", operator = &*self.declared.name, "{warning}");
        }
        if let Some(monitor) = &self.declared.monitor {
            let yielded = self.yielded.iter().map(|yielded| {
                format!(
                    "{} is not served by operator '{}', since operator '{}' serves it",
                    yielded.resource, self.declared.name, yielded.to
                )
            });
            monitor.not_served(&self.declared.name, unserved.into_iter().filter_map(|one| one.named).chain(yielded));
        }
        self.warnings = warnings;
        self.publish_webhook_kinds();
    }

    fn publish_webhook_kinds(&self) {
        let kinds = &self.insights.webhook;
        self.published_webhook_kinds.send_if_modified(|published| {
            let is_same = published.as_ref().is_some_and(|published| {
                published.len() == kinds.len() && published.iter().zip(kinds).all(|(one, other)| one.has_same_details(other))
            });
            if !is_same {
                *published = Some(Arc::new(kinds.clone()));
            }
            !is_same
        });
    }

    /// Leaves kinds to earlier operators if both would overwrite each other's records.
    fn yield_kinds(&mut self) {
        self.insights = self.found.clone();
        let yielded = self.declared.earlier.apply(&self.purposes, &self.declared.storages, &mut self.insights);
        let name = &self.declared.name;
        for Yielded { resource, to, clashes } in yielded.difference(&self.yielded) {
            error!(
                target: "kopfd::reactor",
                "Operator '{name}' does not serve {resource}: operator '{to}' serves it, and the two would overwrite each other's records. \
                 Make these settings of one of them different: {}.",
                cross_operator::keys(clashes)
            );
        }
        for Yielded { resource, to, .. } in self.yielded.difference(&yielded) {
            if self.insights.watched.contains(resource) {
                info!(target: "kopfd::reactor", "Operator '{to}' does not serve {resource} any more. Operator '{name}' serves it from now on.");
            }
        }
        self.yielded = yielded;
    }

    /// Starts the watches of definitions and namespaces.
    fn start_observing(&mut self, stop: &Stop) -> mpsc::Receiver<Observed> {
        let (sender, receiver) = mpsc::channel(QUEUE_CAPACITY);
        if let Scope::Namespaces(patterns) = &self.declared.scope
            && self.declared.is_scanning_disabled
        {
            self.namespaces = namespace::exact(patterns);
        }
        if !self.declared.is_scanning_disabled {
            let definitions = backbone("apiextensions.k8s.io", "customresourcedefinitions", "CustomResourceDefinition");
            self.spawn_observation(definitions, ObservationSink::new(Subject::Kinds, sender.clone()), stop);
            if matches!(self.declared.scope, Scope::Namespaces(_)) {
                self.spawn_observation(backbone("", "namespaces", "Namespace"), ObservationSink::new(Subject::Namespaces, sender), stop);
            }
        }
        receiver
    }

    fn spawn_observation(&mut self, resource: Resource, mut sink: ObservationSink, stop: &Stop) {
        let name = format!("observation of {resource}");
        match Watcher::new(self.client.clone(), resource, None) {
            Ok(mut watcher) => {
                let stop = stop.child();
                self.tasks.spawn(name.clone(), async move { keep_watching(name, &mut watcher, &mut sink, &stop).await });
            }
            Err(error) => error!(target: "kopfd::reactor", error = error.chain(), "Cannot observe the cluster."),
        }
    }

    /// Starts missing watches, and stops the watches of vanished kinds and namespaces.
    fn reconcile(&mut self, stop: &Stop) {
        self.renew_kinds();
        if *self.published_namespaces.borrow() != self.namespaces {
            self.published_namespaces.send_replace(self.namespaces.clone());
        }
        // First: a new peering holds the watches that begin below.
        if let Some(peerings) = &mut self.peerings {
            peerings.follow(&self.found.peering, &self.namespaces);
        }
        let wanted = self.wanted();
        let gone: Vec<_> = self.watches.keys().filter(|key| !wanted.contains(key)).cloned().collect();
        for key in gone {
            debug!(target: "kopfd::reactor", resource = %key.0, namespace = key.1, "Stopping to watch.");
            let successor = other_version(&wanted, &key).filter(|successor| !self.watches.contains_key(successor));
            let Some(watch) = self.watches.remove(&key) else { continue };
            match successor {
                Some(successor) => self.hand_over(watch, &key.0, successor),
                None => watch.stop.request(REASON_GONE),
            }
        }
        for key in wanted {
            if !self.watches.contains_key(&key) {
                self.start_watch(key, stop);
            }
        }
        // The objects of a watch without a successor are forgotten.
        self.predecessors.clear();
        self.let_go(stop);
        self.publish_kinds();
    }

    fn publish_kinds(&self) {
        let is_same = |published: &ServedKinds<W>| {
            published.len() == self.served.len() && published.iter().zip(self.served.values()).all(|(one, other)| Arc::ptr_eq(one, other))
        };
        if !is_same(&self.published_kinds.borrow()) {
            self.published_kinds.send_replace(self.served.values().cloned().collect());
        }
    }

    /// Restarts a kind whose properties have changed; the memories of its objects are kept.
    fn renew_kinds(&mut self) {
        for resource in &self.insights.watched {
            let known = self.served.get_key_value(resource);
            if known.is_some_and(|(known, _)| !known.has_same_details(resource))
                && let Some(kind) = self.served.remove(resource)
            {
                info!(target: "kopfd::reactor", resource = %resource, "The kind has changed. It is served anew.");
                for (key, watch) in self.watches.extract_if(.., |key, _| key.0 == *resource) {
                    watch.stop.request(REASON_CHANGED);
                    self.predecessors.insert(key, Predecessor { known: watch.known, finished: kind.finished().clone() });
                }
                let memories = Arc::clone(&kind.memories);
                let exit_timeout = self.declared.exit_timeout;
                self.tasks.spawn(format!("end of {resource}"), async move { kind.finish(exit_timeout).await });
                self.served.insert(Arc::clone(resource), Arc::new(self.new_kind(resource, memories)));
            }
        }
    }

    /// Ends a watch whose objects are watched in another version from now on.
    fn hand_over(&mut self, watch: Watch, resource: &Arc<Resource>, successor: WatchKey) {
        let Some(kind) = self.served.get(resource) else { return };
        watch.stop.request(REASON_CHANGED);
        let (memories, finished) = (Arc::clone(&kind.memories), kind.finished().clone());
        if !self.served.contains_key(&successor.0) {
            let kind = self.new_kind(&successor.0, memories);
            self.served.insert(Arc::clone(&successor.0), Arc::new(kind));
        }
        self.predecessors.insert(successor, Predecessor { known: watch.known, finished });
    }

    fn new_kind(&self, resource: &Arc<Resource>, memories: Arc<Memories>) -> Kind<W> {
        let declared = &self.declared;
        let revisions = KindRevisions::following(Arc::clone(&self.revisions), Arc::clone(resource), memories);
        Kind::following(Arc::clone(resource), revisions, declared.worker_limit, Arc::clone(&declared.name))
            .with_monitor(declared.monitor.clone())
            .with_health(declared.health.clone())
            .measured(declared.metrics.kind(&resource.to_string()))
            .led_by(&declared.lead)
            .with_stop(&self.worker_stop)
    }

    fn wanted(&self) -> BTreeSet<WatchKey> {
        let mut wanted = BTreeSet::new();
        for resource in &self.insights.watched {
            match &self.declared.scope {
                Scope::Namespaces(_) if resource.namespaced => {
                    wanted.extend(self.namespaces.iter().map(|namespace| (Arc::clone(resource), Some(namespace.clone()))));
                }
                // As in kopf, an operator limited to namespaces watches cluster-scoped kinds only while it serves a namespace.
                Scope::Namespaces(_) if self.namespaces.is_empty() => {}
                _ => {
                    wanted.insert((Arc::clone(resource), None));
                }
            }
        }
        wanted
    }

    fn start_watch(&mut self, key: WatchKey, stop: &Stop) {
        let (resource, namespace) = &key;
        if !self.served.contains_key(resource) {
            self.served.insert(Arc::clone(resource), Arc::new(self.new_kind(resource, Arc::default())));
        }
        let kind = Arc::clone(&self.served[resource]);
        let scope = namespace.as_ref().map_or_else(|| "all namespaces".to_owned(), |namespace| format!("namespace {namespace}"));
        info!(target: "kopfd::reactor", "Operator '{}' watches {resource} in {scope}.", self.declared.name);
        let title = format!("{resource} in {scope}");
        let name = format!("watch of {title}");
        match Watcher::new(self.client.clone(), (**resource).clone(), namespace.as_deref()) {
            Ok(watcher) => {
                let (touches, touched) = mpsc::channel(TOUCHES);
                kind.accept_touches(namespace.clone(), touches);
                let mut watcher = watcher.with_revisits(self.revisits.subscribe()).with_touches(touched);
                if self.declared.lead.is_elected() {
                    watcher = watcher.with_relists(self.declared.lead.begins());
                }
                let (stop, pause, client) = (stop.child(), self.declared.pause.clone(), self.client.clone());
                let retired =
                    self.retired.get(&key.0).map(|finished| Predecessor { known: oneshot::channel().1, finished: finished.clone() });
                let predecessor = self.predecessors.remove(&key).or(retired);
                let (successor, known) = oneshot::channel();
                self.watches.insert(key, Watch { stop: stop.clone(), known });
                // Created here, so that the indexes are not ready before the first list.
                let mut sink = KindSink::titled(Arc::clone(&kind), &title).with_revisits(self.revisits.subscribe());
                self.tasks.spawn(name.clone(), async move {
                    if let Some(Predecessor { known, finished }) = predecessor {
                        if let Ok(known) = known.await {
                            watcher = watcher.succeeding(known);
                        }
                        tokio::select! {
                            () = stop.requested() => {}
                            () = finished.requested() => {}
                        }
                    }
                    watching::watch_unless_paused(name, (&pause, &client), (&mut watcher, &mut sink, &kind), &stop).await;
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
    fn let_go(&mut self, stop: &Stop) {
        let is_watched = |resource: &Arc<Resource>| self.watches.keys().any(|(watched, _)| watched == resource);
        let gone: Vec<_> = self.served.keys().filter(|resource| !is_watched(resource)).cloned().collect();
        for resource in gone {
            let Some(kind) = self.served.remove(&resource) else { continue };
            let exit_timeout = self.declared.exit_timeout;
            let is_declared = self.revisions.newest().handlers.iter().any(|handler| handler.concerns(&resource));
            if is_declared {
                self.tasks.spawn(format!("end of {resource}"), async move { kind.finish(exit_timeout).await });
                continue;
            }
            self.retired.insert(Arc::clone(&resource), kind.finished().clone());
            let leaving = self.leaving(&resource);
            let stop = stop.child();
            self.tasks.spawn(format!("end of {resource}"), async move {
                kind.retire(&stop, exit_timeout).await;
                leaving.report(&stop).await;
            });
        }
        self.retired.retain(|_, finished| !finished.is_requested());
    }

    fn leaving(&self, resource: &Arc<Resource>) -> Leaving {
        let namespaces = match &self.declared.scope {
            Scope::Namespaces(_) if resource.namespaced => self.namespaces.iter().cloned().map(Some).collect(),
            _ => vec![None],
        };
        let (operator, client, storages) = (Arc::clone(&self.declared.name), self.client.clone(), Arc::clone(&self.declared.storages));
        Leaving { operator, client, resource: Arc::clone(resource), namespaces, storages }
    }

    async fn finish(mut self) {
        let kinds: Vec<_> = self.served.values().cloned().collect();
        if self.declared.lead.is_elected() {
            // The next leader lists all objects.
            for kind in &kinds {
                kind.queues.discard();
            }
        }
        let ends = kinds.iter().map(|kind| kind.finish(self.declared.exit_timeout));
        let newest = self.revisions.newest();
        // Objects wait for their daemons, so both end together.
        let (ended, limit) = (Stop::new(), Instant::now() + self.declared.exit_timeout);
        let workers = async {
            futures::future::join_all(ends).await;
            ended.request("the workers have ended");
        };
        let background = async {
            newest.world.end_background().await;
            if !self.declared.lead.is_elected() {
                return;
            }
            tokio::select! {
                biased;
                () = ended.requested() => {}
                // A write that begins now may not be answered before the workers are dropped.
                () = tokio::time::sleep_until(limit) => self.declared.lead.close(),
            }
        };
        tokio::join!(workers, background);
        self.tasks.finish(self.declared.exit_timeout).await;
        // Last: until then peers must not begin.
        if let Some(peerings) = self.peerings.take() {
            peerings.finish().await;
        }
    }
}

/// Returns the watch of the same objects in another version.
fn other_version(watches: &BTreeSet<WatchKey>, (resource, namespace): &WatchKey) -> Option<WatchKey> {
    let is_same = |(other, other_namespace): &&WatchKey| {
        (&other.group, &other.plural, other_namespace) == (&resource.group, &resource.plural, namespace)
            && other.version != resource.version
    };
    watches.iter().find(is_same).cloned()
}

async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
