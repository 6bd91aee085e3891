//! The effects of a running operator: the script host, the cluster, and the machine's clock.

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::cluster::{self, Applied, Client};
use crate::handling::spawning::BackgroundDemand;
use crate::handling::{Handler, Predicate};
use crate::kit::Clock;
use crate::object::{Body, Patch, Resource};
use crate::script::{Call, Evaluation, Host, Installed, OperatorMemo, Returned, Subject};

use crate::engines::background::{BackgroundOptions, BackgroundTasks};
use crate::engines::effects::{Background, Effects, Environment, IndexEvent, Indexing, ObjectEvent, Patcher, Scripts};
use crate::engines::error::Error;
use crate::engines::events::EventStream;
use crate::engines::health::Health;
use crate::engines::indexing::Indexer;
use crate::engines::readiness::Readiness;
use crate::telemetry::OperatorMetrics;
use crate::telemetry::metrics::ScriptMetrics;

/// The installed scripts of one operator.
pub struct HostScripts {
    /// The host.
    pub host: Host,
    /// The scripts.
    pub installed: Installed,
    /// The metrics of the calls, by the numbers of the bindings.
    metrics: Vec<ScriptMetrics>,
}

impl HostScripts {
    /// Returns the installed scripts of an operator, whose calls are counted.
    pub fn new(host: Host, installed: Installed, metrics: &OperatorMetrics) -> Self {
        let metrics = installed.program().declaration.bindings.iter().map(|binding| metrics.script(&binding.id)).collect();
        Self { host, installed, metrics }
    }

    /// Calls a function, and counts its operations.
    async fn measured_call(&self, call: Call) -> Returned {
        let target = call.target;
        let returned = self.host.call(&self.installed, call).await;
        if let Some(metrics) = self.metrics.get(target) {
            metrics.ran(returned.operations);
            if let Some(limit) = returned.overrun {
                metrics.overran(limit.as_str());
            }
        }
        returned
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
    scripts: Arc<HostScripts>,
    client: Client,
    clock: Clock,
    events: EventStream,
    /// A reproducible source of randomness, in simulations.
    chance: Option<Mutex<StdRng>>,
    background: Option<BackgroundTasks<Self>>,
    indexer: Indexer,
}

impl LiveEffects {
    /// Returns the effects of an operator whose scripts are installed.
    pub fn new(scripts: Arc<HostScripts>, client: Client, clock: Clock) -> Self {
        let indexer = Indexer::new(Arc::clone(scripts.installed.indexes()));
        Self { scripts, client, clock, events: EventStream::default(), chance: None, background: None, indexer }
    }

    /// Returns the effects with a stream of events.
    pub fn with_events(self, events: EventStream) -> Self {
        Self { events, ..self }
    }

    /// Returns the effects with randomness from a seed, if there is one.
    pub fn with_seed(self, seed: Option<u64>) -> Self {
        Self { chance: seed.map(|seed| Mutex::new(StdRng::seed_from_u64(seed))), ..self }
    }

    /// Returns the effects with indexes that make the process unready for a reason until they are filled.
    pub fn with_health(self, health: Health, reason: String) -> Self {
        self.indexer.readiness().report_to(health, reason);
        self
    }

    /// Returns the effects with daemons and timers, which use these effects themselves.
    pub fn with_background(self, options: BackgroundOptions) -> Arc<Self> {
        Arc::new_cyclic(|world| Self { background: Some(BackgroundTasks::new(Weak::clone(world), options)), ..self })
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
            Some(background) => background.update(event).boxed(),
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
        self.background.iter().for_each(BackgroundTasks::abandon);
    }
}

impl Indexing for LiveEffects {
    fn index<'a>(&'a self, event: IndexEvent<'a>) -> BoxFuture<'a, Result<(), Error>> {
        #[cfg(test)]
        if event.event_kind == crate::object::EventKind::Deleted && super::defects::is_on(super::defects::Defect::KeepsEntries) {
            return std::future::ready(Ok(())).boxed();
        }
        self.indexer.index(self, &self.events, event).boxed()
    }

    fn unindex(&self, uid: &str) {
        #[cfg(test)]
        if super::defects::is_on(super::defects::Defect::KeepsEntries) {
            return;
        }
        self.indexer.remove(uid);
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
