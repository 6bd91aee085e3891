//! The effects of a running operator: the script host, the cluster, and the machine's clock.

use std::collections::HashSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use parking_lot::{Mutex, RwLock};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::cluster::{self, Applied, Client};
use crate::handling::spawning::BackgroundDemand;
use crate::handling::{Handler, IndexingHandlers, Predicate};
use crate::kit::{Clock, Stop};
use crate::object::{Body, EventKind, Patch, Resource};
use crate::script::{Call, Evaluation, Host, Installed, Object, ObjectMemo, OperatorMemo, Returned, Subject};

use crate::engines::background::{BackgroundOptions, BackgroundTasks};
use crate::engines::effects::{Background, Effects, Environment, IndexEvent, Indexing, ObjectEvent, Patcher, Scripts};
use crate::engines::error::Error;
use crate::engines::events::{EventSink, EventStream};
use crate::engines::health::Health;
use crate::engines::indexing::Indexer;
use crate::engines::leading::Led;
use crate::engines::readiness::Readiness;
use crate::engines::tally::Tally;
use crate::telemetry::OperatorMetrics;
use crate::telemetry::metrics::ScriptMetrics;

/// The installed scripts of one operator.
pub struct HostScripts {
    /// The host, which all revisions share.
    pub host: Arc<Host>,
    /// The scripts.
    pub installed: Installed,
    /// The metrics of the calls, by the numbers of the bindings.
    metrics: Vec<ScriptMetrics>,
}

impl HostScripts {
    /// Returns the installed scripts of an operator, whose calls are counted.
    pub fn new(host: impl Into<Arc<Host>>, installed: Installed, metrics: &OperatorMetrics) -> Self {
        let metrics = installed.program().declaration.bindings.iter().map(|binding| metrics.script(&binding.id)).collect();
        Self { host: host.into(), installed, metrics }
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
    chance: Option<Arc<Mutex<StdRng>>>,
    background: Option<Arc<BackgroundTasks<Self>>>,
    indexer: Arc<Indexer>,
    /// The next revision, from the moment when its indexes are being filled.
    successor: RwLock<Option<Arc<Filling>>>,
}

impl LiveEffects {
    /// Returns the effects of an operator whose scripts are installed.
    pub fn new(scripts: Arc<HostScripts>, client: Client, clock: Clock) -> Self {
        let indexer = Arc::new(Indexer::new(Arc::clone(scripts.installed.indexes())));
        let (revision, successor) = (0, RwLock::default());
        let (common_events, events, tally) = (EventStream::default(), EventStream::default(), Arc::default());
        Self { revision, scripts, client, clock, common_events, events, tally, chance: None, background: None, indexer, successor }
            .with_events(EventStream::default())
    }

    /// Returns the effects of another revision, which calls other scripts. `is_changed` tells which indexes are not taken over.
    pub fn next(&self, revision: u32, scripts: Arc<HostScripts>, is_changed: impl Fn(&str) -> bool) -> Self {
        let next = Self {
            revision,
            indexer: Arc::new(self.indexer.next(Arc::clone(scripts.installed.indexes()), is_changed)),
            scripts,
            client: self.client.clone(),
            clock: self.clock.clone(),
            common_events: EventStream::default(),
            events: EventStream::default(),
            tally: Arc::default(),
            chance: self.chance.clone(),
            background: self.background.clone(),
            successor: RwLock::default(),
        };
        next.with_events(self.common_events.clone())
    }

    /// Passes all events on to the indexes of the next revision from now on.
    pub fn fill(&self, filling: Arc<Filling>) {
        *self.successor.write() = Some(filling);
    }

    /// Passes events on no longer: there is no next revision, or it has no indexes of its own.
    pub fn stop_filling(&self) {
        *self.successor.write() = None;
    }

    /// Returns the counts of this revision during a trial.
    pub fn tally(&self) -> &Arc<Tally> {
        &self.tally
    }

    fn successor(&self) -> Option<Arc<Filling>> {
        self.successor.read().clone()
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
        Self { common_events: events.clone(), events: events.with(Arc::clone(&self.tally) as Arc<dyn EventSink>), ..self }
    }

    /// Returns the effects with randomness from a seed, if there is one.
    pub fn with_seed(self, seed: Option<u64>) -> Self {
        Self { chance: seed.map(|seed| Arc::new(Mutex::new(StdRng::seed_from_u64(seed)))), ..self }
    }

    /// Returns the effects with indexes that make the process unready for a reason until they are filled.
    pub fn with_health(self, health: Health, reason: String) -> Self {
        self.indexer.readiness().report_to(health, reason);
        self
    }

    /// Returns the effects with daemons and timers, which use these effects themselves.
    pub fn with_background(self, options: BackgroundOptions) -> Arc<Self> {
        Arc::new_cyclic(|world| Self { background: Some(Arc::new(BackgroundTasks::new(Weak::clone(world), options))), ..self })
    }
}

/// The indexes of the next revision while they are filled: from a list of all objects, and from the events that arrive meanwhile.
///
/// An object with an event is not filled from the list: the state of the event is at least as new for those who read the indexes.
pub struct Filling {
    next: Arc<LiveEffects>,
    /// The handlers of the changed indexes.
    handlers: Vec<Arc<Handler>>,
    default_backoff: Duration,
    /// The objects with events, by unique id.
    followed: Mutex<HashSet<Box<str>>>,
}

impl Filling {
    /// Returns the filling of indexes by these handlers.
    pub fn new(next: Arc<LiveEffects>, handlers: Vec<Arc<Handler>>, default_backoff: Duration) -> Self {
        Self { next, handlers, default_backoff, followed: Mutex::default() }
    }

    /// Returns the memo of an object for functions of indexes: it begins with the operator's present memo.
    pub fn memo(&self, key: String) -> ObjectMemo {
        ObjectMemo { key: key.into(), origin: self.next.operator_memo() }
    }

    /// Indexes an object of a list.
    ///
    /// # Errors
    /// If a filter fails, or a call is cancelled.
    pub async fn add(&self, object: &Object, stop: &Stop) -> Result<(), Error> {
        let handlers = self.handlers_of(&object.resource);
        let uid = object.body.uid().unwrap_or_default();
        if handlers.is_empty() || self.followed.lock().contains(uid) {
            return Ok(());
        }
        let span = tracing::Span::none();
        let (event_kind, default_backoff) = (EventKind::Listed, self.default_backoff);
        let event = IndexEvent { object, event_kind, handlers: &handlers, default_backoff, stop, span: &span };
        let next = &self.next;
        let changes = next.indexer.evaluate(&**next, &next.events, event).await?;
        let followed = self.followed.lock();
        if !followed.contains(uid) {
            next.indexer.apply(changes);
        }
        Ok(())
    }

    /// Indexes an object at an event. Failures are repeated by the next revision at the next event, and told then.
    async fn follow(&self, event: IndexEvent<'_>) {
        let handlers = self.handlers_of(&event.object.resource);
        self.followed.lock().insert(event.object.body.uid().unwrap_or_default().into());
        // The next revision may have a successor, too.
        drop(self.next.index(IndexEvent { handlers: &handlers, ..event }).await);
    }

    fn remove(&self, uid: &str) {
        self.followed.lock().insert(uid.into());
        self.next.unindex(uid);
    }

    fn handlers_of(&self, resource: &Resource) -> IndexingHandlers {
        IndexingHandlers::of(self.handlers.iter().filter(|handler| handler.concerns(resource)).cloned())
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
    fn apply<'a>(&'a self, resource: &'a Resource, body: &'a Body, patch: &'a Patch) -> BoxFuture<'a, Result<Applied, Error>> {
        async move {
            #[cfg(test)]
            let patch = &super::defects::spoiled(patch);
            Ok(cluster::apply::apply(&self.client, resource, body, patch).await?)
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
impl Led for LiveEffects {
    fn begin(&self) {
        self.background.iter().for_each(|background| background.resume());
    }

    fn end(&self) -> BoxFuture<'_, ()> {
        match &self.background {
            Some(background) => background.suspend().boxed(),
            None => std::future::ready(()).boxed(),
        }
    }
}

impl Indexing for LiveEffects {
    fn index<'a>(&'a self, event: IndexEvent<'a>) -> BoxFuture<'a, Result<(), Error>> {
        #[cfg(test)]
        if event.event_kind == crate::object::EventKind::Deleted && super::defects::is_on(super::defects::Defect::KeepsEntries) {
            return std::future::ready(Ok(())).boxed();
        }
        async move {
            let indexed = self.indexer.index(self, &self.events, event).await;
            if let Some(successor) = self.successor() {
                successor.follow(event).await;
            }
            indexed
        }
        .boxed()
    }

    fn is_filling(&self) -> bool {
        self.successor.read().is_some()
    }

    fn unindex(&self, uid: &str) {
        #[cfg(test)]
        if super::defects::is_on(super::defects::Defect::KeepsEntries) {
            return;
        }
        self.indexer.remove(uid);
        self.successor().iter().for_each(|successor| successor.remove(uid));
    }

    fn readiness(&self) -> Option<&Arc<Readiness>> {
        Some(self.indexer.readiness())
    }
}

impl Environment for LiveEffects {
    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn chance(&self, bound: usize) -> usize {
        match &self.chance {
            Some(chance) => chance.lock().random_range(0..bound),
            None => rand::rng().random_range(0..bound),
        }
    }
}

impl Effects for LiveEffects {
    fn events(&self) -> &EventStream {
        &self.events
    }
}
