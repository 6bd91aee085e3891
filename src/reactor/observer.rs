//! The observer of one operator: discovers kinds and namespaces, and starts and stops watches as they appear and
//! vanish.

mod declared;
mod found_kinds;
mod reviser;
mod scans;
mod wanted;
mod watches;

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::{mpsc, watch};
use tracing::{error, warn};

use crate::cluster::discovery::{self, Scan};
use crate::cluster::{self, Client, ResourceResolver, Watcher};
use crate::engines::admission::reviewer::WebhookKinds;
use crate::engines::effects::Effects;
use crate::engines::peering::{self, Peerings};
use crate::engines::readiness::{Blocker, Readiness};
use crate::kit::{Stop, Tasks, tasks};
use crate::object::{Resource, namespace};

use super::observed::{ObservationSink, Observed, QUEUE_CAPACITY, Subject, backbone};
use super::pausing::Follower;
use super::precedence::Precedence;
use super::revision::{Revision, Revisions};
use super::status::ServedKinds;

pub use declared::{Declared, Scope};
pub use reviser::{Filled, Reviser};

use found_kinds::FoundKinds;
use reviser::Replacement;
use scans::Scans;
use watches::{Around, Watches};

/// Runs the watches of one operator.
pub struct Observer<W: Effects> {
    declared: Declared,
    revisions: Arc<Revisions<W>>,
    replacements: mpsc::Receiver<Replacement>,
    replacer: mpsc::Sender<Replacement>,
    client: Client,
    kinds: Arc<ResourceResolver>,
    found: FoundKinds,
    namespaces: BTreeSet<String>,
    /// The same for others.
    published_namespaces: watch::Sender<BTreeSet<String>>,
    watches: Watches<W>,
    tasks: Tasks<()>,
    scans: Scans,
    /// The pending scans reported to the monitor.
    reported_scans: usize,
    /// Nothing is handled before it is known which kinds are indexed.
    starting: Option<Blocker>,
    /// The peers of the operator.
    peerings: Option<Peerings>,
}

impl<W: Effects> Drop for Observer<W> {
    fn drop(&mut self) {
        self.watches.abandon();
        self.revisions.newest().effects.abandon_background();
        if let Some(monitor) = &self.declared.monitor {
            monitor.pending_scans(self.reported_scans, 0);
        }
    }
}

impl<W: Effects + 'static> Observer<W> {
    /// Returns an observer without observations.
    pub fn new(declared: Declared, effects: Arc<W>, client: Client, kinds: Arc<ResourceResolver>) -> Self {
        let found = FoundKinds::none(&declared.handlers, &declared.webhooks);
        let starting = effects.readiness().map(Readiness::block);
        let revisions = Arc::new(Revisions::new(Revision {
            number: 0,
            digest: Arc::clone(&declared.revision),
            since: effects.clock().now(),
            effects,
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
            watches: Watches::of(Arc::clone(&revisions)),
            revisions,
            replacements,
            replacer,
            client,
            kinds,
            found,
            namespaces: BTreeSet::new(),
            published_namespaces: watch::Sender::default(),
            tasks: Tasks::default(),
            scans: Scans::default(),
            reported_scans: 0,
            starting,
            peerings: None,
        }
    }

    /// Returns the observer with the peerings of the operator, whose resources it observes.
    pub fn with_peerings(mut self, peerings: Peerings) -> Self {
        self.found.seek_peerings(peerings.selectors());
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
        (Arc::clone(&self.revisions), self.watches.kinds())
    }

    /// Returns the kinds of the webhooks, as they will be at any time.
    pub fn webhook_kinds(&self) -> watch::Receiver<WebhookKinds> {
        self.found.webhook_kinds()
    }

    /// Serves the operator until the stop is requested, then lets the workers finish.
    ///
    /// # Errors
    /// If the discovery fails at the start.
    pub async fn run(mut self, stop: Stop) -> Result<(), cluster::Error> {
        let gate =
            self.declared.health.gate(format!("operator '{}' has not started its watches yet", self.declared.name));
        let groups = self.found.groups(&self.declared.earlier);
        let scan = tokio::select! {
            biased;
            () = stop.requested() => return Ok(()),
            scan = discovery::scan(&self.client, groups.as_ref()) => scan?,
        };
        self.kinds.learn(&scan, groups.as_ref());
        self.revise(None, scan);
        self.seek_missing();
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
        let Some(readiness) = self.revisions.newest().effects.readiness().map(Arc::clone) else { return };
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
                        self.watches.take_over(filled);
                        self.reconcile(stop);
                    }
                    self.watches.revisit();
                    // The waiting one may be gone.
                    let _ = replacement.done.send(());
                }
                Some(ended) = self.tasks.next_ended(), if !self.tasks.is_empty() => tasks::report_task_end(&ended),
                () = self.scans.due() => self.scan().await,
            }
            self.reconcile(stop);
            if let Some(monitor) = &self.declared.monitor {
                self.reported_scans = monitor.pending_scans(self.reported_scans, self.scans.len());
            }
        }
    }

    /// Takes over the newest revision. If it names other kinds, those of the cluster are scanned again.
    async fn follow(&mut self, earlier: Precedence) {
        let revision = self.revisions.newest();
        self.declared.earlier = earlier;
        self.declared.storages = Arc::clone(&revision.storages);
        self.found.seek(&revision.handlers, &revision.webhooks);
        let groups = self.found.groups(&self.declared.earlier);
        match discovery::scan(&self.client, groups.as_ref()).await {
            Ok(scan) => {
                self.kinds.learn(&scan, groups.as_ref());
                self.found.forget();
                self.revise(None, scan);
                self.seek_missing();
            }
            Err(error) => self.scans.failed(None, &error),
        }
    }

    /// Looks again for kinds that were not found: the server may have a new definition, and serve its kind a moment
    /// later. No event reports that.
    fn seek_missing(&mut self) {
        if self.declared.is_scanning_disabled {
            return;
        }
        let mut missing = self.found.missing_groups();
        if self.peerings.as_ref().is_some_and(|peerings| peerings.is_blocked_by(&self.found.found().peering)) {
            missing.extend(peering::GROUPS.map(|group| Some(group.to_owned())));
        }
        for group in missing {
            self.scans.changed(&group);
        }
    }

    fn note(&mut self, observed: Observed) {
        match observed {
            Observed::Kinds(group) => self.scans.changed(&group),
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
        // Scans that are due shortly after are included.
        for group in self.scans.take_next() {
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
                Err(error) => self.scans.failed(group, &error),
            }
        }
    }

    fn revise(&mut self, group: Option<&str>, scan: Scan) {
        scan.skipped.into_iter().for_each(|skipped| self.scans.skipped(skipped));
        let discovered: Vec<Arc<Resource>> = scan.resources.into_iter().map(Arc::new).collect();
        self.found.revise(&mut self.declared, group, &discovered);
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
                self.spawn_observation(
                    backbone("", "namespaces", "Namespace"),
                    ObservationSink::new(Subject::Namespaces, sender),
                    stop,
                );
            }
        }
        receiver
    }

    fn spawn_observation(&mut self, resource: Resource, mut sink: ObservationSink, stop: &Stop) {
        let name = format!("observation of {resource}");
        match Watcher::new(self.client.clone(), resource, None) {
            Ok(mut watcher) => {
                let stop = stop.child();
                self.tasks.spawn(name.clone(), async move { watcher.keep_running(&name, &mut sink, &stop).await });
            }
            Err(error) => error!(target: "kopfd::reactor", error = error.chain(), "Cannot observe the cluster."),
        }
    }

    /// Starts missing watches, and stops the watches of vanished kinds and namespaces.
    fn reconcile(&mut self, stop: &Stop) {
        let Self { declared, client, found, namespaces, published_namespaces, peerings, watches, tasks, .. } = self;
        let mut around = Around { declared, client, watched: found.watched(), namespaces, tasks, stop };
        watches.renew_kinds(&mut around);
        if *published_namespaces.borrow() != *namespaces {
            published_namespaces.send_replace(namespaces.clone());
        }
        // First: a new peering holds the watches that begin below.
        if let Some(peerings) = peerings {
            peerings.follow(&found.found().peering, namespaces);
        }
        watches.reconcile(&mut around);
    }

    async fn finish(mut self) {
        self.watches.finish(&self.declared).await;
        self.tasks.finish(self.declared.exit_timeout).await;
        // Last: until then peers must not begin.
        if let Some(peerings) = self.peerings.take() {
            peerings.finish().await;
        }
    }
}
