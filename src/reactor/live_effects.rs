//! The effects of a running operator: the script host, the cluster, and the machine's clock.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::cluster::{self, Applied, Client};
use crate::handling::Handler;
use crate::kit::Clock;
use crate::object::{Body, Patch, Resource};
use crate::script::{Call, Evaluation, Host, Installed, Returned, Subject};

use crate::engines::effects::{Background, Effects, Environment, Indexing, Patcher, Scripts};
use crate::engines::error::Error;
use crate::engines::events::EventStream;

/// The effects of one running operator.
pub struct LiveEffects {
    host: Arc<Host>,
    scripts: Arc<Installed>,
    client: Client,
    clock: Clock,
    events: EventStream,
    /// A reproducible source of randomness, in simulations.
    chance: Option<Mutex<StdRng>>,
}

impl LiveEffects {
    /// Returns the effects of an operator whose scripts are installed.
    pub fn new(host: impl Into<Arc<Host>>, scripts: impl Into<Arc<Installed>>, client: Client, clock: Clock) -> Self {
        Self { host: host.into(), scripts: scripts.into(), client, clock, events: EventStream::default(), chance: None }
    }

    /// Returns the effects with a stream of events.
    pub fn with_events(self, events: EventStream) -> Self {
        Self { events, ..self }
    }

    /// Returns the effects with randomness from a seed, if there is one.
    pub fn with_seed(self, seed: Option<u64>) -> Self {
        Self { chance: seed.map(|seed| Mutex::new(StdRng::seed_from_u64(seed))), ..self }
    }
}

impl Scripts for LiveEffects {
    fn call<'a>(&'a self, _handler: &'a Handler, call: Call) -> BoxFuture<'a, Returned> {
        self.host.call(&self.scripts, call).boxed()
    }

    fn evaluate<'a>(&'a self, subject: &'a Subject, evaluation: Evaluation) -> BoxFuture<'a, Result<bool, String>> {
        self.host.evaluate(&self.scripts, subject, evaluation).boxed()
    }

    fn forget(&self, memo: &Arc<str>) {
        self.host.forget(memo);
    }
}

/// The installed scripts of an operator alone, for calls that need no cluster.
pub struct HostScripts {
    /// The host.
    pub host: Arc<Host>,
    /// The scripts.
    pub scripts: Arc<Installed>,
}

impl Scripts for HostScripts {
    fn call<'a>(&'a self, _handler: &'a Handler, call: Call) -> BoxFuture<'a, Returned> {
        self.host.call(&self.scripts, call).boxed()
    }

    fn evaluate<'a>(&'a self, subject: &'a Subject, evaluation: Evaluation) -> BoxFuture<'a, Result<bool, String>> {
        self.host.evaluate(&self.scripts, subject, evaluation).boxed()
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

/// There are no daemons and timers: manifests with them are refused at the start.
impl Background for LiveEffects {}

/// There are no indexes: manifests with them are refused at the start.
impl Indexing for LiveEffects {}

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
