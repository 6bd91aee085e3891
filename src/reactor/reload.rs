//! Lets a new revision of a running operator take effect, after it was loaded completely.
//!
//! ```text
//! load the scripts ──► compile them on all threads ──► fill added and changed indexes ──► take effect
//! ```
//!
//! An error in any step leaves the running revision as it is. See `docs/design/reload.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tracing::{info, warn};

use crate::cluster::discovery;
use crate::cluster::{self, Client, KnownObjects, Seen, Sink, Watcher};
use crate::engines::effects::Environment as _;
use crate::handling::Handler;
use crate::kit::{Clock, Stop};
use crate::manifest::fingerprint::{self, Fingerprint};
use crate::manifest::operator::Moment;
use crate::manifest::{Operator, Settings, settings_tree};
use crate::object::{EventKind, Resource, Selector};
use crate::persistence::MissingKey;
use crate::script::{Installed, Object, Problem, Program};
use crate::telemetry::OperatorMetrics;

use super::live_effects::{Filling, HostScripts, LiveEffects};
use super::observation::{Insights, Purposes};
use super::observer::{Filled, Reviser};
use super::precedence::Precedence;
use super::revision::Revision;
use super::worker::WorkerSettings;

/// The pause before the kinds of the cluster are asked for again.
const DISCOVERY_PAUSE: Duration = Duration::from_secs(5);

/// The pause before a revision whose indexes could not be filled is tried again.
pub const RETRY_PAUSE: Duration = Duration::from_secs(10);

/// The failures of a list after which a revision does not take effect, because its indexes would be incomplete.
const MAX_LIST_FAILURES: usize = 5;

/// The settings that are read only at the start, by section and key.
const FIXED: [(&str, &str); 16] = [
    ("queueing", "workerLimit"),
    ("queueing", "exitTimeout"),
    ("scanning", "disabled"),
    ("admission", "server"),
    ("admission", "managed"),
    ("admission", "derivedConditions"),
    ("hooks", "server"),
    ("peering", "name"),
    ("peering", "stealth"),
    ("peering", "priority"),
    ("peering", "lifetime"),
    ("peering", "mandatory"),
    ("peering", "standalone"),
    ("peering", "clusterwide"),
    ("networking", "connectTimeout"),
    ("networking", "trustEnv"),
];

/// Why a revision does not take effect.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// Its scripts cannot be used.
    #[error("the scripts have errors")]
    Scripts(Vec<Problem>),
    /// Its settings contradict those that the startup functions have assigned.
    #[error("the settings do not fit those that the startup functions have assigned: {}", .0.join("; "))]
    Settings(Vec<String>),
    /// The values of Secrets cannot be digested.
    #[error(transparent)]
    Key(#[from] MissingKey),
    /// The objects for an added or changed index cannot be listed.
    #[error("the objects of {resource} cannot be listed for the indexes: {reason}")]
    Index {
        /// The kind.
        resource: String,
        /// The last error.
        reason: String,
    },
    /// It has not started yet, so that it has to be started anew with the new files.
    #[error("the operator is still starting")]
    Starting,
    /// A newer revision was asked for meanwhile.
    #[error("a newer revision replaces it")]
    Outdated,
    /// The operator ends.
    #[error("the operator ends")]
    Ended,
}

/// The end of a reload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reloaded {
    /// The files have not changed.
    Unchanged,
    /// This revision has taken effect.
    Changed(String),
    /// This revision serves a share of the objects, and takes effect if it is not worse.
    OnTrial(String),
}

/// A handle that reloads a running operator. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Reloader {
    requests: mpsc::Sender<Request>,
    /// Ends the waits of the last request.
    outdated: Arc<Mutex<Stop>>,
}

/// The requests to reload an operator.
#[derive(Debug)]
pub struct Reloads(mpsc::Receiver<Request>);

#[derive(Debug)]
struct Request {
    operator: Box<Operator>,
    earlier: Precedence,
    /// Requested by the next request.
    outdated: Stop,
    reply: oneshot::Sender<Result<Reloaded, ReloadError>>,
}

/// Returns the handle that reloads an operator, and the receiver of its requests.
pub fn channel() -> (Reloader, Reloads) {
    let (sender, receiver) = mpsc::channel(1);
    (Reloader { requests: sender, outdated: Arc::default() }, Reloads(receiver))
}

impl Reloader {
    /// Loads the scripts of an operator's new declaration, and lets it take effect. An earlier request that still waits for the cluster is
    /// given up.
    ///
    /// `earlier` has the operators of the process that come before this one.
    ///
    /// # Errors
    /// If the revision cannot take effect. The running one is left as it is.
    pub async fn reload(&self, operator: Operator, earlier: Precedence) -> Result<Reloaded, ReloadError> {
        let (reply, answer) = oneshot::channel();
        let outdated = Stop::new();
        std::mem::replace(&mut *self.outdated.lock(), outdated.clone()).request("a newer revision is there");
        let request = Request { operator: Box::new(operator), earlier, outdated, reply };
        self.requests.send(request).await.map_err(|_| ReloadError::Ended)?;
        answer.await.unwrap_or(Err(ReloadError::Ended))
    }
}

impl Reloads {
    /// Answers all requests while the operator starts with a revision; never ends. Another revision cannot take effect, since what the
    /// startup functions have done may belong to the old files.
    pub(super) async fn answer_at_start(&mut self, revision: &str) -> ! {
        while let Some(Request { operator, reply, .. }) = self.0.recv().await {
            let answer = match Program::load(operator.declaration.clone()) {
                Err(problems) => Err(ReloadError::Scripts(problems)),
                Ok(program) if operator.revision(&program) == revision => Ok(Reloaded::Unchanged),
                Ok(_) => Err(ReloadError::Starting),
            };
            // The asking one may be gone.
            let _ = reply.send(answer);
        }
        std::future::pending().await
    }

    /// Answers all requests, one after another; never ends.
    pub(super) async fn answer(&mut self, revising: &mut impl Revising) {
        loop {
            let request = tokio::select! {
                biased;
                Some(request) = self.0.recv() => request,
                () = revising.due() => {
                    revising.act().await;
                    continue;
                }
            };
            let Request { operator, earlier, outdated, reply } = request;
            let reloaded = revising.reload(*operator, earlier, &outdated).await;
            // The asking one may be gone.
            let _ = reply.send(reloaded);
        }
    }
}

/// A running operator that can be reloaded.
pub(super) trait Revising {
    /// Reloads it, unless the revision is outdated before it takes effect.
    async fn reload(&mut self, operator: Operator, earlier: Precedence, outdated: &Stop) -> Result<Reloaded, ReloadError>;

    /// Waits until there is something to do between reloads; never ends if there is nothing.
    ///
    /// *Cancel safety*: the wait may be dropped and begun again.
    async fn due(&self);

    /// Does what is due.
    async fn act(&mut self);
}

/// What is remembered of the loaded revision.
pub(super) struct Loaded {
    /// The digest of its files.
    pub revision: String,
    /// The number of the last prepared revision.
    last_number: u32,
    /// The digests of the handlers of each index.
    indexes: IndexPrints,
    startup: StartupSettings,
    /// The settings that cannot follow, as they were told.
    told: BTreeMap<(&'static str, &'static str), Value>,
}

impl Loaded {
    /// Describes the first revision. `settings` are those after the startup.
    pub(super) fn first(operator: &Operator, program: &Program, settings: &Settings) -> Self {
        let startup = StartupSettings::of(&operator.settings, settings);
        let (revision, indexes) = (operator.revision(program), indexes_of(operator, program));
        Self { revision, last_number: 0, indexes, startup, told: BTreeMap::new() }
    }

    /// Records that a prepared revision has taken effect. Returns the digest of the one before.
    pub(super) fn replace(&mut self, prepared: &Prepared) -> String {
        self.indexes.clone_from(&prepared.indexes);
        std::mem::replace(&mut self.revision, prepared.revision.digest.to_string())
    }

    /// Returns the settings of a new revision: those of its manifest, with what the startup functions have assigned.
    ///
    /// # Errors
    /// The mistakes, if they do not fit together.
    pub(super) fn settings_of(&self, operator: &Operator) -> Result<Settings, ReloadError> {
        self.startup.laid_over(&operator.settings).map_err(ReloadError::Settings)
    }

    /// Warns of changes that need a restart, each once.
    pub(super) fn warn_of_fixed_settings(&mut self, operator: &str, settings: &Settings) {
        let tree = settings_tree::to_value(settings);
        for (section, key) in FIXED {
            let (value, started_with) = (&tree[section][key], &self.startup.at_start[section][key]);
            if self.told.get(&(section, key)).unwrap_or(started_with) == value {
                continue;
            }
            self.told.insert((section, key), value.clone());
            if value != started_with {
                // The settings of a server may have passwords.
                let is_open = !value.is_object() && !started_with.is_object();
                let change = if is_open { format!("change {started_with} to {value}") } else { "use the new one".to_owned() };
                warn!(
                    target: "kopfd::reload",
                    "The setting {section}.{key} of operator '{operator}' is read only at the start. Restart it to {change}."
                );
            }
        }
    }
}

/// What the startup functions have assigned.
struct StartupSettings {
    /// All settings after the startup.
    at_start: Value,
    /// The assigned ones, by section and key.
    assigned: Vec<(String, String, Value)>,
}

impl StartupSettings {
    fn of(declared: &Settings, after: &Settings) -> Self {
        let (declared, at_start) = (settings_tree::to_value(declared), settings_tree::to_value(after));
        let sections = at_start.as_object().into_iter().flatten();
        let all =
            sections.flat_map(|(section, keys)| keys.as_object().into_iter().flatten().map(move |(key, value)| (section, key, value)));
        let assigned = all.filter(|(section, key, value)| declared[section.as_str()][key.as_str()] != **value);
        let assigned = assigned.map(|(section, key, value)| (section.clone(), key.clone(), value.clone())).collect();
        Self { at_start, assigned }
    }

    fn laid_over(&self, declared: &Settings) -> Result<Settings, Vec<String>> {
        if self.assigned.is_empty() {
            return Ok(declared.clone());
        }
        let mut tree = settings_tree::to_value(declared);
        for (section, key, value) in &self.assigned {
            tree[section.as_str()][key.as_str()] = value.clone();
        }
        settings_tree::from_value(&tree)
    }
}

/// Returns the kinds of an operator's webhooks and conversions.
pub(super) fn webhook_kinds(operator: &Operator) -> Vec<Selector> {
    let reviewed = operator.webhooks.iter().map(|webhook| &webhook.handler);
    reviewed.chain(&operator.conversions).flat_map(|handler| handler.selectors.iter().cloned()).collect()
}

/// The digests of the handlers of each index.
type IndexPrints = BTreeMap<String, Vec<Fingerprint>>;

fn indexes_of(operator: &Operator, program: &Program) -> IndexPrints {
    let mut indexes = IndexPrints::new();
    for handler in &operator.indexes {
        indexes.entry(handler.id.clone()).or_default().push(fingerprint::of_handler(handler, program));
    }
    indexes
}

/// The ground on which a new revision of an operator is prepared.
pub(super) struct Preparation<'a> {
    /// The running revision.
    pub reviser: &'a Reviser<LiveEffects>,
    /// The connection to the cluster.
    pub client: &'a Client,
    /// The metrics of the operator.
    pub metrics: &'a OperatorMetrics,
    /// Requested when the operator ends.
    pub stop: &'a Stop,
    /// Requested when a newer revision is asked for.
    pub outdated: &'a Stop,
}

/// A revision that is ready to take effect.
pub(super) struct Prepared {
    pub operator: Operator,
    pub revision: Revision<LiveEffects>,
    pub program: Arc<Program>,
    pub settings: Settings,
    pub filled: Vec<Filled>,
    /// The operators of the process that come before this one.
    pub earlier: Precedence,
    indexes: IndexPrints,
}

impl Preparation<'_> {
    /// Compiles the scripts of a revision, and fills its added and changed indexes. Nothing takes effect.
    ///
    /// # Errors
    /// If it has errors, or the operator ends meanwhile.
    pub(super) async fn prepare(
        &self,
        operator: Operator,
        earlier: Precedence,
        program: Program,
        loaded: &mut Loaded,
    ) -> Result<Prepared, ReloadError> {
        let settings = loaded.settings_of(&operator)?;
        loaded.last_number += 1;
        let number = loaded.last_number;
        let newest = self.reviser.newest();
        let storages = settings.persistence.storages.clone().with_keys(&newest.storages.secrets.keys)?;
        let indexes = indexes_of(&operator, &program);
        let is_changed = |name: &str| indexes.get(name) != loaded.indexes.get(name);
        let program = Arc::new(program);
        let installed = self.install(&newest.world, &program, is_changed).await?;
        let scripts = Arc::new(HostScripts::new(Arc::clone(&newest.world.scripts().host), installed, self.metrics));
        let index_handlers: Vec<Arc<Handler>> = operator.indexes.iter().cloned().map(Arc::new).collect();
        let changed: BTreeSet<&str> = operator.indexes.iter().map(|handler| &*handler.id).filter(|id| is_changed(id)).collect();
        let filling = Filling::new(index_handlers.clone(), settings.execution.default_backoff);
        let world = Arc::new(newest.world.next(number, scripts, filling, is_changed));
        let filled = self.fill(&operator.name, &world, &index_handlers, &changed).await?;
        let handlers = operator.indexes.iter().chain(operator.object_handlers()).cloned().map(Arc::new).collect();
        let revision = Revision {
            number,
            digest: operator.revision(&program).into(),
            world,
            handlers,
            webhooks: webhook_kinds(&operator),
            storages: Arc::new(storages),
            lifecycle: settings.execution.lifecycle,
            default_backoff: settings.execution.default_backoff,
            sub_defaults: operator.defaults.clone(),
            settings: Arc::new(WorkerSettings::of(&settings)),
            since: newest.world.clock().now(),
        };
        Ok(Prepared { operator, revision, program, settings, filled, earlier, indexes })
    }

    async fn install(
        &self,
        world: &LiveEffects,
        program: &Arc<Program>,
        is_changed: impl Fn(&str) -> bool,
    ) -> Result<Installed, ReloadError> {
        let before = world.scripts();
        let indexes = before.installed.indexes().next(&program.declaration.indexes, |name| !is_changed(name));
        before.host.install_with(Arc::clone(program), indexes).await.map_err(ReloadError::Scripts)
    }

    /// Fills changed indexes by lists of all their kinds, while events are passed on to them.
    async fn fill(
        &self,
        operator: &str,
        world: &Arc<LiveEffects>,
        handlers: &[Arc<Handler>],
        changed: &BTreeSet<&str>,
    ) -> Result<Vec<Filled>, ReloadError> {
        world.follow_earlier();
        let mut filled = Vec::new();
        if !changed.is_empty() {
            let purposes = Purposes::of_handlers(handlers.iter().map(AsRef::as_ref).filter(|handler| changed.contains(&*handler.id)));
            for resource in self.resources_of(&purposes).await? {
                for namespace in self.reviser.namespaces_of(&resource) {
                    let known = self.list(operator, (world, changed), &resource, namespace.as_deref()).await?;
                    filled.extend(known.map(|known| Filled { resource: Arc::clone(&resource), namespace, known }));
                }
            }
        }
        world.filled();
        Ok(filled)
    }

    async fn resources_of(&self, purposes: &Purposes) -> Result<BTreeSet<Arc<Resource>>, ReloadError> {
        let groups = purposes.groups().map(|groups| groups.into_iter().map(str::to_owned).collect());
        loop {
            let scan = tokio::select! {
                biased;
                reason = self.interrupted() => return Err(reason),
                scan = discovery::scan(self.client, groups.as_ref()) => scan,
            };
            match scan {
                Ok(scan) => {
                    let discovered: Vec<Arc<Resource>> = scan.resources.into_iter().map(Arc::new).collect();
                    let mut insights = Insights::default();
                    // What cannot be served is told when the revision takes effect.
                    let _ = insights.revise(purposes, None, &discovered);
                    return Ok(insights.watched);
                }
                Err(failure) => {
                    warn!(target: "kopfd::reload", error = failure.chain(), "Cannot look at the kinds of the cluster, whose objects are to be indexed. Will look again.");
                    tokio::select! {
                        biased;
                        reason = self.interrupted() => return Err(reason),
                        () = tokio::time::sleep(DISCOVERY_PAUSE) => {}
                    }
                }
            }
        }
    }

    /// Waits until nobody needs the revision any more.
    async fn interrupted(&self) -> ReloadError {
        tokio::select! {
            biased;
            () = self.stop.requested() => ReloadError::Ended,
            () = self.outdated.requested() => ReloadError::Outdated,
        }
    }

    /// Indexes all objects of a kind. Returns nothing if the kind is gone.
    ///
    /// # Errors
    /// If it cannot be listed. Without its objects, the indexes would have less than those of the running revision.
    async fn list(
        &self,
        operator: &str,
        (world, changed): (&LiveEffects, &BTreeSet<&str>),
        resource: &Arc<Resource>,
        namespace: Option<&str>,
    ) -> Result<Option<KnownObjects>, ReloadError> {
        let failed = |reason| ReloadError::Index { resource: resource.to_string(), reason };
        let watcher = Watcher::new(self.client.clone(), (**resource).clone(), namespace);
        let mut watcher = watcher.map_err(|failure| failed(failure.chain()))?;
        let end = self.stop.child();
        let mut sink = FillSink {
            operator,
            world,
            changed,
            resource,
            stop: self.stop,
            end: end.clone(),
            is_complete: false,
            failures: 0,
            failure: None,
        };
        tokio::select! {
            biased;
            reason = self.interrupted() => return Err(reason),
            () = watcher.run(&mut sink, &end) => {}
        }
        match sink.failure {
            Some((Some(404), _)) => Ok(None),
            Some((_, reason)) => Err(failed(reason)),
            None => Ok(sink.is_complete.then(|| watcher.into_known())),
        }
    }
}

/// Indexes the objects of one list.
struct FillSink<'a> {
    operator: &'a str,
    world: &'a LiveEffects,
    /// The indexes that are filled.
    changed: &'a BTreeSet<&'a str>,
    resource: &'a Arc<Resource>,
    stop: &'a Stop,
    /// Ends the watcher.
    end: Stop,
    is_complete: bool,
    failures: usize,
    /// Why the kind cannot be listed, with the status of the answer.
    failure: Option<(Option<u16>, String)>,
}

impl Sink for FillSink<'_> {
    async fn seen(&mut self, seen: Seen<'_>) {
        // An object that cannot be read is not indexed, and is reported by its worker.
        let Ok(body) = seen.body() else { return };
        if self.is_complete || seen.event_kind != EventKind::Listed {
            return;
        }
        let memo = self.world.memo_for_indexes(format!("{}/{}", self.operator, body.uid().unwrap_or_default()));
        let object = Object { resource: Arc::clone(self.resource), body, memo };
        if let Err(failure) = self.world.fill(&object, self.stop, |name| self.changed.contains(name)).await {
            warn!(
                target: "kopfd::reload",
                resource = %self.resource,
                namespace = object.body.namespace(),
                name = object.body.name(),
                "The object cannot be indexed: {failure}"
            );
        }
    }

    async fn listed(&mut self) {
        self.is_complete = true;
        self.end.request("the objects are indexed");
    }

    fn request_failed(&mut self, failure: &cluster::Error) {
        self.failures += 1;
        let is_refused = failure.status().is_some_and(|status| status < 429);
        if is_refused || self.failures >= MAX_LIST_FAILURES {
            self.failure = Some((failure.status(), failure.chain()));
            self.end.request("the kind cannot be listed");
        }
    }
}

/// Tells that a revision has taken effect.
pub(super) fn report(operator: &str, before: &str, after: &str, metrics: &OperatorMetrics, clock: &Clock) {
    metrics.loaded(after, clock.now());
    info!(target: "kopfd::reload", revision = after, before, "Operator '{operator}' is reloaded: revision {after} has taken effect.");
}

/// Warns if login functions were added or removed: how an operator logs in is decided at its start.
pub(super) fn warn_of_login(operator: &Operator, had_login: bool) {
    let has_login = operator.activities.iter().any(|activity| activity.moment == Moment::Login);
    if has_login != had_login {
        let what = if has_login { "added" } else { "removed" };
        warn!(target: "kopfd::reload", "Login functions were {what}. Restart operator '{}' to log in by another way.", operator.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_startup_has_assigned_is_laid_over_the_settings_of_a_new_manifest() {
        let mut after = Settings::default();
        after.posting.level = 40;
        after.execution.default_backoff = Duration::from_secs(7);
        let startup = StartupSettings::of(&Settings::default(), &after);
        let mut declared = Settings::default();
        declared.posting.enabled = false;
        declared.execution.default_backoff = Duration::from_secs(9);
        let laid_over = startup.laid_over(&declared).unwrap();
        let mut expected = declared;
        expected.posting.level = 40;
        expected.execution.default_backoff = Duration::from_secs(7);
        assert_eq!(laid_over, expected);
    }

    #[test]
    fn settings_that_cannot_follow_are_told_once_for_each_change() {
        let (messages, _guard) = crate::telemetry::collect_messages(tracing::Level::WARN);
        let operator = Operator::default();
        let mut loaded = Loaded::first(&operator, &Program::default(), &Settings::default());
        let mut limited = Settings::default();
        limited.queueing.worker_limit = Some(3);
        for settings in [&Settings::default(), &limited, &limited, &Settings::default(), &limited] {
            loaded.warn_of_fixed_settings("demo", settings);
        }
        let line = "The setting queueing.workerLimit of operator 'demo' is read only at the start. Restart it to change null to 3.";
        assert_eq!(*messages.lock(), [line, line]);
    }
    #[test]
    fn the_passwords_of_a_changed_server_are_not_told() {
        let (messages, _guard) = crate::telemetry::collect_messages(tracing::Level::WARN);
        let mut loaded = Loaded::first(&Operator::default(), &Program::default(), &Settings::default());
        let text = "{apiVersion: kopfd.dev/v1, kind: Operator, metadata: {name: x}, spec: {settings: {admission: {server: {kind: ngrok, token: secret}}}}}";
        let operators = crate::manifest::read("operator.yaml", text).operators;
        loaded.warn_of_fixed_settings("demo", &operators[0].settings);
        let line = "The setting admission.server of operator 'demo' is read only at the start. Restart it to use the new one.";
        assert_eq!(*messages.lock(), [line]);
    }
}
