//! The effects of a running operator: the script host, the cluster, and the machine's clock.

use std::collections::HashSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use parking_lot::{Mutex, RwLock};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::cluster::{self, Applied, Client, Confirmation};
use crate::handling::spawning::BackgroundDemand;
use crate::handling::{Handler, IndexingHandlers, Predicate};
use crate::kit::{Clock, Stop};
use crate::object::{Body, EventKind, Patch, Resource};
use crate::script::{
    Call, Evaluation, Host, Indexes, Installed, Object, ObjectMemo, OperatorMemo, Returned, SharedIndex, Subject,
};

use crate::engines::background::{BackgroundOptions, BackgroundTasks};
use crate::engines::effects::{Background, Effects, Environment, IndexEvent, Indexing, ObjectEvent, Patcher, Scripts};
use crate::engines::error::Error;
use crate::engines::events::{EventSink, EventStream};
use crate::engines::health::Health;
use crate::engines::indexing::Indexer;
use crate::engines::readiness::Readiness;
use crate::engines::tally::Tally;
use crate::telemetry::OperatorMetrics;
use crate::telemetry::metrics::{LoadedRevision, ScriptMetrics};

/// The installed scripts of one operator.
pub struct HostScripts {
    /// The host, which all revisions share.
    pub host: Arc<Host>,
    /// The scripts.
    pub installed: Installed,
    /// Counts the scripts that are in memory.
    _loaded: LoadedRevision,
    /// The metrics of the calls, by the numbers of the bindings.
    metrics: Vec<ScriptMetrics>,
}

impl HostScripts {
    /// Returns the installed scripts of an operator, whose calls are counted.
    pub fn new(host: impl Into<Arc<Host>>, installed: Installed, metrics: &OperatorMetrics) -> Self {
        let loaded = metrics.revision_in_memory();
        let metrics =
            installed.program().declaration.bindings.iter().map(|binding| metrics.script(&binding.id)).collect();
        Self { host: host.into(), installed, _loaded: loaded, metrics }
    }

    /// Calls a function, and counts its operations.
    fn measured_call(&self, call: Call) -> impl Future<Output = Returned> + Send + '_ {
        let metrics = self.metrics.get(call.target);
        self.host.call(&self.installed, call).inspect(move |returned| {
            if let Some(metrics) = metrics {
                metrics.ran(returned.operations);
                if let Some(limit) = returned.overrun {
                    metrics.overran(limit.as_str());
                }
            }
        })
    }
}

impl Scripts for HostScripts {
    fn call<'a>(&'a self, _handler: &'a Handler, call: Call) -> BoxFuture<'a, Returned> {
        self.measured_call(call).boxed()
    }

    fn evaluate<'a>(&'a self, subject: &'a Subject, evaluation: Evaluation) -> BoxFuture<'a, Result<bool, String>> {
        self.host.evaluate(&self.installed, subject, evaluation).boxed()
    }

    fn evaluate_delay<'a>(&'a self, subject: &'a Subject, delay: Predicate) -> BoxFuture<'a, Result<Duration, String>> {
        self.host.evaluate_delay(&self.installed, subject, delay).boxed()
    }

    fn operator_memo(&self) -> Arc<OperatorMemo> {
        self.host.operator_memo()
    }

    fn forget(&self, memo: &Arc<str>) {
        self.host.forget(memo);
    }
}

/// The effects of one running operator.
pub struct LiveEffects {
    /// The number of the revision.
    revision: u32,
    scripts: Arc<HostScripts>,
    client: Client,
    clock: Clock,
    /// The stream of all revisions.
    common_events: EventStream,
    /// The same with the tally of this revision.
    events: EventStream,
    tally: Arc<Tally>,
    /// A reproducible source of randomness, in simulations.
    rng: Option<Arc<Mutex<StdRng>>>,
    background: Option<Arc<BackgroundTasks<Self>>>,
    indexer: Arc<Indexer>,
    followers: Followers,
    /// The filling of this revision's indexes; `None` for the first one.
    filling: Option<Filling>,
}

/// The revisions of one operator whose indexes follow the events that earlier ones process: the newest, and one that is
/// being filled or on trial. They are not kept alive by earlier revisions, whose calls may run for days.
#[derive(Clone, Default)]
struct Followers(Arc<RwLock<Vec<Numbered>>>);

/// A revision with its number.
type Numbered = (u32, Weak<LiveEffects>);

impl Followers {
    fn add(&self, revision: &Arc<LiveEffects>) {
        let mut all = self.0.write();
        all.retain(|(_, one)| one.strong_count() > 0);
        all.push((revision.revision, Arc::downgrade(revision)));
    }

    fn retain(&self, is_kept: impl Fn(u32) -> bool) {
        self.0.write().retain(|(revision, _)| is_kept(*revision));
    }

    /// Returns those that are newer than a revision.
    fn after(&self, revision: u32) -> Vec<Arc<LiveEffects>> {
        self.0.read().iter().filter(|(number, _)| *number > revision).filter_map(|(_, one)| one.upgrade()).collect()
    }
}

impl LiveEffects {
    /// Returns the effects of an operator whose scripts are installed.
    pub fn new(scripts: Arc<HostScripts>, client: Client, clock: Clock) -> Self {
        let indexer = Arc::new(Indexer::new(Arc::clone(scripts.installed.indexes())));
        let (revision, followers, filling) = (0, Followers::default(), None);
        let (common_events, events, tally) = (EventStream::default(), EventStream::default(), Arc::default());
        let (rng, background) = (None, None);
        Self {
            revision,
            scripts,
            client,
            clock,
            common_events,
            events,
            tally,
            rng,
            background,
            indexer,
            followers,
            filling,
        }
        .with_events(EventStream::default())
    }

    /// Returns the effects of another revision, which calls other scripts. Indexes for which `is_changed` is true are
    /// not taken over; they are filled by its index handlers.
    pub fn next(
        &self,
        revision: u32,
        scripts: Arc<HostScripts>,
        filling: Filling,
        is_changed: impl Fn(&str) -> bool,
    ) -> Self {
        let next = Self {
            revision,
            indexer: Arc::new(self.indexer.next(Arc::clone(scripts.installed.indexes()), is_changed)),
            scripts,
            client: self.client.clone(),
            clock: self.clock.clone(),
            common_events: EventStream::default(),
            events: EventStream::default(),
            tally: Arc::default(),
            rng: self.rng.clone(),
            background: self.background.clone(),
            followers: self.followers.clone(),
            filling: Some(filling),
        };
        next.with_events(self.common_events.clone())
    }

    /// Passes the events that earlier revisions process on to the indexes of this one, as far as they do not share
    /// them.
    pub fn follow_earlier(self: &Arc<Self>) {
        self.followers.add(self);
    }

    /// Passes events on to the indexes of this revision only: it has taken effect.
    pub fn follow_alone(&self) {
        self.followers.retain(|revision| revision == self.revision);
    }

    /// Passes no more events on to the indexes of this revision: it was on trial, and does not take effect.
    pub fn stop_following(&self) {
        self.followers.retain(|revision| revision != self.revision);
    }

    /// Returns the counts of this revision during a trial.
    pub fn tally(&self) -> &Arc<Tally> {
        &self.tally
    }

    fn indexes(&self) -> &Indexes {
        self.scripts.installed.indexes()
    }

    /// Returns the indexes that changes of the objects of this revision's events belong to as well, with their
    /// revisions.
    fn followed_by(&self) -> Vec<(Arc<Self>, Vec<Arc<SharedIndex>>)> {
        let followers = self.followers.after(self.revision);
        if followers.is_empty() {
            return Vec::new();
        }
        let mut known: Vec<Arc<SharedIndex>> = self.indexes().shared().map(Arc::clone).collect();
        let own = |follower: Arc<Self>| {
            let is_known = |index: &Arc<SharedIndex>| known.iter().any(|one| Arc::ptr_eq(one, index));
            let own: Vec<_> = follower.indexes().shared().filter(|index| !is_known(index)).map(Arc::clone).collect();
            known.extend(own.iter().map(Arc::clone));
            (follower, own)
        };
        followers.into_iter().map(own).filter(|(_, own)| !own.is_empty()).collect()
    }

    /// Returns the scripts.
    pub fn scripts(&self) -> &Arc<HostScripts> {
        &self.scripts
    }

    /// Returns the daemons and timers.
    pub fn background(&self) -> Option<&BackgroundTasks<Self>> {
        self.background.as_deref()
    }

    /// Returns the effects with a stream of events.
    pub fn with_events(self, events: EventStream) -> Self {
        Self {
            common_events: events.clone(),
            events: events.with(Arc::clone(&self.tally) as Arc<dyn EventSink>),
            ..self
        }
    }

    /// Returns the effects with randomness from a seed, if there is one.
    pub fn with_seed(self, seed: Option<u64>) -> Self {
        Self { rng: seed.map(|seed| Arc::new(Mutex::new(StdRng::seed_from_u64(seed)))), ..self }
    }

    /// Returns the effects with indexes that make the process unready for a reason until they are filled.
    pub fn with_health(self, health: Health, reason: String) -> Self {
        self.indexer.readiness().report_to(health, reason);
        self
    }

    /// Returns the effects with daemons and timers, which use these effects themselves.
    pub fn with_background(self, options: BackgroundOptions) -> Arc<Self> {
        Arc::new_cyclic(|effects| Self {
            background: Some(Arc::new(BackgroundTasks::new(Weak::clone(effects), options))),
            ..self
        })
    }
}

/// The filling of a revision's indexes: from a list of all objects, and from the events that arrive meanwhile.
///
/// An object with an event is not filled from the list: the state of the event is at least as new.
pub struct Filling {
    /// The index handlers of the revision.
    handlers: Vec<Arc<Handler>>,
    default_backoff: Duration,
    /// The objects with events, by unique id; `None` when the lists have ended.
    followed: Mutex<Option<HashSet<Box<str>>>>,
}

impl Filling {
    /// Returns the filling of indexes by these handlers.
    pub fn new(handlers: Vec<Arc<Handler>>, default_backoff: Duration) -> Self {
        Self { handlers, default_backoff, followed: Mutex::new(Some(HashSet::new())) }
    }

    fn note(&self, uid: &str) {
        if let Some(followed) = &mut *self.followed.lock() {
            followed.insert(uid.into());
        }
    }

    fn has_followed(&self, uid: &str) -> bool {
        self.followed.lock().as_ref().is_some_and(|followed| followed.contains(uid))
    }

    fn handlers_of(&self, resource: &Resource, is_filled: impl Fn(&str) -> bool) -> IndexingHandlers {
        let handlers = self.handlers.iter().filter(|handler| handler.concerns(resource) && is_filled(&handler.id));
        IndexingHandlers::of(handlers.cloned())
    }
}

impl LiveEffects {
    /// Returns the memo of an object for functions of indexes: it begins with the operator's present memo.
    pub fn memo_for_indexes(&self, key: String) -> ObjectMemo {
        ObjectMemo { key: key.into(), origin: self.operator_memo() }
    }

    /// Indexes an object of a list in those indexes that `is_filled` names.
    ///
    /// # Errors
    /// If a filter fails, or a call is cancelled.
    pub async fn fill(&self, object: &Object, stop: &Stop, is_filled: impl Fn(&str) -> bool) -> Result<(), Error> {
        let Some(filling) = &self.filling else { return Ok(()) };
        let handlers = filling.handlers_of(&object.resource, is_filled);
        let uid = object.body.uid().unwrap_or_default();
        if handlers.is_empty() || filling.has_followed(uid) {
            return Ok(());
        }
        let span = tracing::Span::none();
        let (event_kind, default_backoff) = (EventKind::Listed, filling.default_backoff);
        let event = IndexEvent { object, event_kind, handlers: &handlers, default_backoff, stop, span: &span };
        let changes = self.indexer.evaluate(self, &self.events, event).await?;
        let followed = filling.followed.lock();
        if !followed.as_ref().is_some_and(|followed| followed.contains(uid)) {
            self.indexer.apply(changes);
        }
        Ok(())
    }

    /// Ends the filling from lists: all objects that arrive later have events.
    pub fn filled(&self) {
        if let Some(filling) = &self.filling {
            *filling.followed.lock() = None;
        }
    }

    /// Indexes an object at an event of an earlier revision, in the indexes that it does not have. Failed calls are
    /// repeated by this revision at the next event, and logged then.
    async fn follow(&self, event: IndexEvent<'_>, indexes: &[Arc<SharedIndex>]) {
        let Some(filling) = &self.filling else { return };
        let handlers =
            filling.handlers_of(&event.object.resource, |name| indexes.iter().any(|index| index.name() == name));
        filling.note(event.object.body.uid().unwrap_or_default());
        drop(self.indexer.index(self, &self.events, IndexEvent { handlers: &handlers, ..event }).await);
    }
}

impl Scripts for LiveEffects {
    fn call<'a>(&'a self, handler: &'a Handler, call: Call) -> BoxFuture<'a, Returned> {
        self.scripts.call(handler, call)
    }

    fn evaluate<'a>(&'a self, subject: &'a Subject, evaluation: Evaluation) -> BoxFuture<'a, Result<bool, String>> {
        self.scripts.evaluate(subject, evaluation)
    }

    fn evaluate_delay<'a>(&'a self, subject: &'a Subject, delay: Predicate) -> BoxFuture<'a, Result<Duration, String>> {
        self.scripts.evaluate_delay(subject, delay)
    }

    fn operator_memo(&self) -> Arc<OperatorMemo> {
        self.scripts.operator_memo()
    }

    fn forget(&self, memo: &Arc<str>) {
        self.scripts.forget(memo);
        self.background.iter().for_each(|background| background.leave(memo));
    }
}

impl Patcher for LiveEffects {
    fn apply<'a>(
        &'a self,
        resource: &'a Resource,
        body: &'a Body,
        patch: &'a Patch,
        confirmation: &'a dyn Confirmation,
    ) -> BoxFuture<'a, Result<Applied, Error>> {
        async move {
            #[cfg(test)]
            let patch = &super::defects::spoiled(patch);
            Ok(cluster::apply::apply(&self.client, resource, body, patch, confirmation).await?)
        }
        .boxed()
    }
}

impl Background for LiveEffects {
    fn update_background<'a>(&'a self, event: ObjectEvent<'a>) -> BoxFuture<'a, Result<BackgroundDemand, Error>> {
        let background = self.background.as_ref();
        #[cfg(test)]
        let background = background.filter(|_| !super::defects::ignores_tasks(&event.object.body));
        match background {
            Some(background) => background.update_in(self.revision, event).boxed(),
            None => std::future::ready(Ok(BackgroundDemand::default())).boxed(),
        }
    }

    fn follows(&self, memo: &str) -> bool {
        self.background.as_ref().is_some_and(|background| background.follows(memo))
    }

    fn has_background(&self, memo: &str) -> bool {
        self.background.as_ref().is_some_and(|background| background.has_tasks(memo))
    }

    fn pause_background(&self) {
        self.background.iter().for_each(|background| background.pause());
    }

    fn resume_background(&self) {
        self.background.iter().for_each(|background| background.resume());
    }

    fn end_background(&self) -> BoxFuture<'_, ()> {
        match &self.background {
            Some(background) => background.end().boxed(),
            None => std::future::ready(()).boxed(),
        }
    }

    fn abandon_background(&self) {
        self.background.iter().for_each(|background| background.abandon());
    }
}

/// Daemons and timers follow the leadership; cycles and schedules do so by themselves.
impl LiveEffects {
    /// A term begins.
    pub(super) fn resume_background(&self) {
        self.background.iter().for_each(|background| background.resume());
    }

    /// A term has ended.
    pub(super) fn suspend_background(&self) -> BoxFuture<'_, ()> {
        match &self.background {
            Some(background) => background.suspend().boxed(),
            None => std::future::ready(()).boxed(),
        }
    }
}

impl Indexing for LiveEffects {
    fn index<'a>(&'a self, event: IndexEvent<'a>) -> BoxFuture<'a, Result<(), Error>> {
        #[cfg(test)]
        if event.event_kind == crate::object::EventKind::Deleted
            && super::defects::is_on(super::defects::Defect::KeepsEntries)
        {
            return std::future::ready(Ok(())).boxed();
        }
        async move {
            let indexed = self.indexer.index(self, &self.events, event).await;
            for (follower, indexes) in self.followed_by() {
                follower.follow(event, &indexes).await;
            }
            indexed
        }
        .boxed()
    }

    fn is_filling(&self) -> bool {
        !self.followed_by().is_empty()
    }

    fn unindex(&self, uid: &str) {
        #[cfg(test)]
        if super::defects::is_on(super::defects::Defect::KeepsEntries) {
            return;
        }
        self.indexer.remove(uid);
        for (follower, _) in self.followed_by() {
            follower.filling.iter().for_each(|filling| filling.note(uid));
            follower.indexer.remove(uid);
        }
    }

    fn readiness(&self) -> Option<&Arc<Readiness>> {
        Some(self.indexer.readiness())
    }
}

impl Environment for LiveEffects {
    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn random_below(&self, bound: usize) -> usize {
        match &self.rng {
            Some(rng) => rng.lock().random_range(0..bound),
            None => rand::rng().random_range(0..bound),
        }
    }
}

impl Effects for LiveEffects {
    fn events(&self) -> &EventStream {
        &self.events
    }
}
