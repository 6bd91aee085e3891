//! The world of a running operator: the script host, the cluster, the machine's clock, and the log.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tracing::{debug, error, info, warn};

use crate::cluster::{self, Applied, Client};
use crate::handling::spawning::Companions;
use crate::handling::{Handler, Level, Outcome, Telling};
use crate::kit::Clock;
use crate::object::{Body, Patch, Resource, Sighting};
use crate::script::{Call, Evaluation, Host, Installed, Object, Returned, Subject};

use super::account::{Account, Happening};
use super::error::Error;
use super::narrator::Narrator;
use super::world::World;

/// The world of one running operator.
pub struct Engine {
    host: Host,
    scripts: Installed,
    client: Client,
    clock: Clock,
    account: Option<Arc<Account>>,
    /// A source of chance that repeats itself, in simulations.
    chance: Option<Mutex<StdRng>>,
    /// Who tells the account, if that is the log.
    narrator: Option<Arc<Narrator>>,
}

impl Engine {
    /// Returns the world of an operator whose scripts are installed.
    pub fn new(host: Host, scripts: Installed, client: Client, clock: Clock) -> Self {
        Self { host, scripts, client, clock, account: None, chance: None, narrator: None }
    }

    /// Returns the world with an account of what happens in it, and who tells it in the log.
    pub fn with_account(self, account: Option<Arc<Account>>, narrator: Option<Arc<Narrator>>) -> Self {
        Self { account, narrator, ..self }
    }

    /// Returns the world with a chance that depends on the seed alone, if there is one.
    pub fn with_seed(self, seed: Option<u64>) -> Self {
        Self { chance: seed.map(|seed| Mutex::new(StdRng::seed_from_u64(seed))), ..self }
    }
}

impl Engine {
    fn call_once<'a>(&'a self, handler: &'a Handler, call: Call) -> BoxFuture<'a, Returned> {
        let Some(account) = &self.account else { return self.host.call(&self.scripts, call).boxed() };
        let Some(follower) = account.follower() else {
            return async move {
                let Some(body) = call.subject.body().cloned() else { return self.host.call(&self.scripts, call).await };
                account.pending.called(handler, &body);
                let returned = self.host.call(&self.scripts, call).await;
                account.pending.returned(handler, &body);
                returned
            }
            .boxed();
        };
        async move {
            let Some(body) = call.subject.body().cloned() else { return self.host.call(&self.scripts, call).await };
            let (reason, retry) = (call.subject.reason(), call.retry);
            follower.happened(Happening::Called { body: &body, handler, reason, retry });
            let returned = self.host.call(&self.scripts, call).await;
            follower.happened(Happening::Returned { body: &body, handler, reason, retry, returned: &returned });
            returned
        }
        .boxed()
    }
}

impl World for Engine {
    fn call<'a>(&'a self, handler: &'a Handler, call: Call) -> BoxFuture<'a, Returned> {
        #[cfg(test)]
        if super::defects::is_on(super::defects::Defect::CallsTwice) {
            return async move {
                self.call_once(handler, call.clone()).await;
                self.call_once(handler, call).await
            }
            .boxed();
        }
        self.call_once(handler, call)
    }

    fn evaluate<'a>(&'a self, subject: &'a Subject, evaluation: Evaluation) -> BoxFuture<'a, Result<bool, String>> {
        self.host.evaluate(&self.scripts, subject, evaluation).boxed()
    }

    fn apply<'a>(&'a self, resource: &'a Resource, body: &'a Body, patch: &'a Patch) -> BoxFuture<'a, Result<Applied, Error>> {
        if let Some(narrator) = &self.narrator {
            narrator.tell_patch(body, patch);
        }
        async move {
            #[cfg(test)]
            let patch = &super::defects::spoiled(patch);
            let applied = cluster::apply::apply(&self.client, resource, body, patch).await?;
            if let Some(narrator) = &self.narrator {
                narrator.patched(body, applied.version.as_deref());
            }
            Ok(applied)
        }
        .boxed()
    }

    /// Nothing runs along with objects: manifests with daemons or timers are refused at the start.
    fn accompany<'a>(&'a self, _object: &'a Object, _sighting: Sighting, _is_reset: bool) -> BoxFuture<'a, Result<Companions, Error>> {
        std::future::ready(Ok(Companions::default())).boxed()
    }

    fn tell(&self, telling: Telling) {
        match telling.level {
            Level::Debug => debug!(target: "kopfd::objects", "{telling}"),
            Level::Step => debug!(target: "kopfd::objects::steps", "{telling}"),
            Level::Info => info!(target: "kopfd::objects", "{telling}"),
            Level::Warning => warn!(target: "kopfd::objects", "{telling}"),
            Level::Error => error!(target: "kopfd::objects", "{telling}"),
        }
    }

    fn is_debugging(&self) -> bool {
        tracing::enabled!(target: "kopfd::objects", tracing::Level::DEBUG)
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn chance(&self, bound: usize) -> usize {
        match &self.chance {
            Some(chance) => chance.lock().random_range(0..bound),
            None => rand::rng().random_range(0..bound),
        }
    }

    fn taken_up(&self, sighting: Sighting, body: &Body, _consistency_in: Option<f64>) {
        if let Some(account) = &self.account {
            if sighting == Sighting::Deleted {
                account.pending.gone(body);
            }
            if let Some(follower) = account.follower() {
                follower.happened(Happening::Sighted { body, sighting });
            }
        }
        if let Some(narrator) = &self.narrator {
            narrator.tell_sighting(sighting, body);
        }
    }

    fn cycled(&self, uid: &str, body: &Body, error: Option<&str>) {
        let Some(account) = &self.account else { return };
        account.cycled(uid, body, error);
        if let Some(follower) = account.follower() {
            follower.happened(Happening::Cycled { body, error });
        }
    }

    fn concluded(&self, body: &Body, handler: &Handler, retry: u64, outcome: &Outcome) {
        let Some(account) = &self.account else { return };
        if outcome.is_final && outcome.error.is_some() {
            account.failed(handler, body);
        }
        account.pending.concluded(handler, body, outcome);
        if let Some(follower) = account.follower() {
            follower.happened(Happening::Concluded { body, handler, retry, outcome });
        }
    }

    fn forget(&self, memo: &Arc<str>) {
        self.host.forget(memo);
    }
}
