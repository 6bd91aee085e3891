//! Peering: operators of one cluster announce to each other that they are alive, and all but the one with the highest
//! priority pause.
//!
//! Each peering object, cluster-wide or in a namespace, has three tasks: one writes the record of this operator, one
//! watches the object, and one decides by the rules of `handling::peering` whether the operator is paused.

mod decisions;
mod keep_alive;
pub(crate) mod object;
mod process;
mod report;
mod sink;
mod terms;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tracing::{debug, error, info, warn};

use super::pause::{Hold, Pause};
use crate::cluster::{Client, Watcher};
use crate::kit::{Clock, Stop, Tasks};
use crate::manifest::settings;
use crate::object::selector::Criterion;
use crate::object::{Resource, Selector};
use crate::telemetry::OperatorMetrics;

use decisions::Decisions;
use keep_alive::{KeepAlive, Orders};
pub use object::GROUPS;
use object::{OwnPeer, PeeringObject};
pub use process::{Conflict, Membership, Overrides, ProcessPeering, ProcessPeers};
use report::{Counts, Key, Report};
use sink::StatusSink;
pub use terms::Terms;
use terms::Turns;

/// Time limit for the removal of the own records.
const REMOVAL_TIMEOUT: Duration = Duration::from_secs(5);

/// Returns the selectors of the peerings of an operator; none if it ignores its peers.
pub fn selectors(settings: &settings::Peering) -> Vec<Selector> {
    if settings.standalone {
        return Vec::new();
    }
    let plural = if settings.clusterwide.unwrap_or_default() { "clusterkopfpeerings" } else { "kopfpeerings" };
    let selector = |group: &str| Selector {
        group: Some(group.to_owned()),
        version: Some("v1".to_owned()),
        name: Criterion::Plural(plural.to_owned()),
    };
    GROUPS.map(selector).to_vec()
}

/// The dependencies of an operator's peerings.
#[derive(Clone)]
pub struct PeeringContext {
    /// The name of the operator, for messages.
    pub operator: Arc<str>,
    /// The identity of the process, or the one of all replicas.
    pub identity: Arc<str>,
    /// The replicas that share the identity, if there is an election.
    pub replicas: Option<Replicas>,
    /// The settings.
    pub settings: settings::Peering,
    /// The connection to the cluster.
    pub client: Client,
    /// The clock.
    pub clock: Clock,
    /// The pause that is held while peers with precedence are active.
    pub pause: Pause,
    /// The metrics of the operator.
    pub metrics: OperatorMetrics,
    /// The operators of the process, which are one peer.
    pub process: ProcessPeers,
    /// The seed of randomness, in simulations.
    pub seed: Option<u64>,
}

/// The replicas of an operator as one peer.
#[derive(Debug, Clone)]
pub struct Replicas {
    /// The terms of this one.
    pub terms: Terms,
    /// How long it may take until another one leads, after this one.
    pub election: Duration,
}

/// The peerings of one operator.
pub struct Peerings {
    context: PeeringContext,
    running: BTreeMap<Key, Stop>,
    /// Held while a mandatory peering has no resource.
    missing: Option<Hold>,
    /// Held until the resources of the cluster are known.
    unknown: Option<Hold>,
    counts: Counts,
    tasks: Tasks<()>,
}

impl Peerings {
    /// Returns the peerings of an operator, which is paused until the first call of [`Self::follow`].
    pub fn new(context: PeeringContext) -> Self {
        let unknown = Some(context.pause.hold_briefly(UNKNOWN));
        Self {
            context,
            running: BTreeMap::new(),
            missing: None,
            unknown,
            counts: Counts::default(),
            tasks: Tasks::default(),
        }
    }

    /// Returns the selectors of the resources.
    pub fn selectors(&self) -> Vec<Selector> {
        selectors(&self.context.settings)
    }

    /// Starts and stops tasks for the peering resources of the cluster and the served namespaces. A peering that is new
    /// holds the operator at once, until it is known whether there are other peers.
    pub fn follow(&mut self, resources: &BTreeSet<Arc<Resource>>, namespaces: &BTreeSet<String>) {
        self.report_missing(self.is_blocked_by(resources));
        let wanted = wanted(resources, namespaces);
        let gone: Vec<Key> = self.running.keys().filter(|key| !wanted.contains(key)).cloned().collect();
        for key in gone {
            if let Some(stop) = self.running.remove(&key) {
                stop.request("the peering is gone");
            }
        }
        for key in wanted {
            if !self.running.contains_key(&key) {
                let stop = self.start(key.clone());
                self.running.insert(key, stop);
            }
        }
        self.unknown = None;
    }

    /// Whether the operator cannot work with these resources: it needs a peering, and there is none.
    pub fn is_blocked_by(&self, resources: &BTreeSet<Arc<Resource>>) -> bool {
        resources.is_empty() && self.context.settings.mandatory
    }

    fn report_missing(&mut self, is_blocked: bool) {
        match (is_blocked, self.missing.is_some()) {
            (true, false) => {
                warn!(target: "kopfd::peering", operator = &*self.context.operator, "Pausing operations: the peering is mandatory, and the cluster has no CRD of peerings.");
                self.missing = Some(self.context.pause.hold("the CRD of peerings is missing"));
            }
            (false, true) => {
                info!(target: "kopfd::peering", operator = &*self.context.operator, "The cluster has the CRD of peerings.");
                self.missing = None;
            }
            _ => {}
        }
    }

    fn start(&mut self, key: Key) -> Stop {
        let (resource, namespace) = &key;
        let PeeringContext { operator, identity, replicas, settings, client, clock, pause, metrics, process, seed } =
            &self.context;
        let peer = OwnPeer {
            identity: Arc::clone(identity),
            priority: settings.priority,
            lifetime: i64::try_from(settings.lifetime.as_secs()).unwrap_or(i64::MAX),
            election: replicas.as_ref().map(|replicas| replicas.election),
        };
        let object = Arc::new(PeeringObject {
            client: client.clone(),
            resource: Arc::clone(resource),
            namespace: namespace.clone(),
            name: settings.name.clone(),
            peer,
            is_stealthy: settings.stealth,
            clock: clock.clone(),
        });
        let title = object.title();
        debug!(target: "kopfd::peering", operator = &**operator, %resource, "Following {title}.");
        let starting = if settings.mandatory { pause.hold(title.clone()) } else { pause.hold_briefly(UNKNOWN) };
        let stop = Stop::new();
        let (orders, outcomes) = (Arc::new(Orders::default()), watch::Sender::default());
        let (statuses, newest) = watch::channel(sink::Seen::Unknown);
        let turns = replicas.as_ref().map_or_else(Turns::permanent, |replicas| replicas.terms.follow());
        orders.write_regularly(turns.is_leading);
        let decisions = Decisions {
            object: Arc::clone(&object),
            turns,
            is_mandatory: settings.mandatory,
            statuses: newest,
            written: outcomes.subscribe(),
            orders: Arc::clone(&orders),
            pause: pause.clone(),
            starting: Some(starting),
            begins_at: None,
            peers: None,
            pausing: Vec::new(),
            resumes_at: None,
            warned: BTreeSet::new(),
            report: Report::new(Arc::clone(&self.counts), metrics.clone(), key.clone()),
        };
        let membership = process.enter(&title);
        let keep_alive = KeepAlive::new(Arc::clone(&object), Arc::clone(&orders), outcomes, metrics.clone(), *seed);
        self.tasks.spawn(format!("keep-alives of {title}"), {
            let stop = stop.clone();
            async move {
                keep_alive.run(&stop).await;
                // The other operators of the process are the same peer.
                if membership.leave() && !orders.is_idle() {
                    leave(&object).await;
                }
            }
        });
        self.tasks.spawn(format!("decisions about {title}"), decisions.run(stop.clone()));
        match Watcher::new(client.clone(), (**resource).clone(), namespace.as_deref()) {
            Ok(mut watcher) => {
                let mut sink = StatusSink::new(settings.name.clone(), statuses);
                let (name, stop) = (format!("watch of {title}"), stop.clone());
                self.tasks.spawn(name.clone(), async move { watcher.keep_running(&name, &mut sink, &stop).await });
            }
            Err(error) => error!(target: "kopfd::peering", error = error.chain(), "Cannot watch {title}."),
        }
        stop
    }

    /// Ends all tasks, and removes the own records. Until then the operator is alive for its peers.
    pub async fn finish(mut self) {
        for stop in self.running.values() {
            stop.request("the operator stops");
        }
        // The own time limits of the tasks end first.
        for name in self.tasks.finish(REMOVAL_TIMEOUT * 2).await {
            warn!(target: "kopfd::peering", "The task for the {name} has not ended in time.");
        }
    }
}

/// The reason why an operator is paused at its start.
const UNKNOWN: &str = "the peers are not known yet";

fn wanted(resources: &BTreeSet<Arc<Resource>>, namespaces: &BTreeSet<String>) -> BTreeSet<Key> {
    let mut wanted = BTreeSet::new();
    for resource in resources {
        if resource.namespaced {
            wanted.extend(namespaces.iter().map(|namespace| (Arc::clone(resource), Some(namespace.clone()))));
        } else {
            wanted.insert((Arc::clone(resource), None));
        }
    }
    wanted
}

/// Removes the own record, or leaves it to the replica that leads next.
async fn leave(object: &PeeringObject) {
    let failure = match tokio::time::timeout(REMOVAL_TIMEOUT, object.leave()).await {
        Ok(Ok(_)) => return,
        Ok(Err(error)) => error.chain(),
        Err(_) => "the API server does not answer in time".to_owned(),
    };
    warn!(target: "kopfd::peering", "Couldn't remove self from {}: {failure}. The record expires by itself.", object.title());
}
