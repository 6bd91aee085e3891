//! Replicas of one operator that elect their leader, in virtual time: change-overs in the middle of chains of handlers,
//! over connections that are slow, cut, or cut only for the Lease.
//!
//! `KOPFD_CHANGE_OVERS` is the number of change-overs.
#![expect(clippy::unwrap_used, reason = "these are tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::StreamExt as _;
use http::{Method, Request};
use jiff::Timestamp;
use kopfd::apiserver::server::socket::Service;
use kopfd::apiserver::storage::resource::Resource;
use kopfd::apiserver::{ApiServer, admin_client, bootstrap};
use kopfd::cluster::in_process::InProcess;
use kopfd::cluster::transport::{Answer, Connection, Login, Transport};
use kopfd::cluster::{ConnectionSettings, Error, LoginError, Options};
use kopfd::engines::events::{EngineEvent, EventSink};
use kopfd::engines::leading::LeadingOptions;
use kopfd::engines::{Endpoints, EventStream};
use kopfd::handling::leading::Timing;
use kopfd::kit::{Clock, Stop, Tasks};
use kopfd::manifest::{self, Operator};
use kopfd::persistence::Keys;
use kopfd::reactor::operator::{self, Access, ExitTimeouts, ServerChoice, Shared};
use kopfd::reactor::precedence::Precedence;
use kopfd::reactor::reload::{self, Reloader};
use kopfd::reactor::{ActivityMonitor, Scope};
use kopfd::script::{Fibers, Threads};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::world::api_server::{api_server, spawn_controllers};
use super::world::in_virtual_time;
use super::world::log::collect_messages;

const OBJECTS: usize = 200;

const CHANGE_OVERS: usize = 100;

/// Objects that are changed before each change-over, if their last change is handled.
const CHANGES: usize = 20;

/// The longest way of a write to the server. It arrives even if nobody waits for its answer.
const LONGEST_WAY: u64 = 300;

const HANDLERS: [&str; 3] = ["first", "second", "third"];

const MANIFEST: &str = "apiVersion: kopfd.dev/v1
kind: Operator
metadata: {name: demo}
spec:
  resources:
    - resource: v1/configmaps
      script: main.rhai
      labels: {app: tested}
      handlers:
        - {on: create, fn: first}
        - {on: create, fn: second}
        - {on: create, fn: third}
        - {on: update, fn: first}
        - {on: update, fn: second}
        - {on: update, fn: third}
      indexes: [{fn: by_number}]
";

/// What the manifest has besides, for the tests of daemons and schedules.
const DAEMONS: &str = "      daemons: [{fn: follow}]
  schedules:
    - {id: tick, cron: '* * * * *', missed: once, fn: tick, script: main.rhai}
";

const SCRIPT: &str = "
fn first() { sleep(0.02); }
fn second() { sleep(0.3); }
fn third() { sleep(0.05); }
fn by_number(body) { return entry(body.data.n, 1); }
fn follow(stopped) { while !stopped.wait(5) {} }
fn tick() {}
";

/// The connection of one replica.
#[derive(Clone)]
struct Wire {
    server: InProcess,
    api: ApiServer,
    identity: String,
    is_cut: Arc<AtomicBool>,
    is_cut_for_leases: Arc<AtomicBool>,
    /// How long writes are on their way, drawn in a sequence that is the same in each run.
    ways: Arc<AtomicU64>,
    violations: Arc<Mutex<Vec<String>>>,
}

impl Wire {
    fn new(api: &ApiServer, identity: &str, violations: &Arc<Mutex<Vec<String>>>) -> Self {
        let (is_cut, is_cut_for_leases) = (Arc::default(), Arc::default());
        let (server, identity) = (InProcess::new(Service::new(api.clone())), identity.to_owned());
        Self {
            server,
            api: api.clone(),
            identity,
            is_cut,
            is_cut_for_leases,
            ways: Arc::default(),
            violations: Arc::clone(violations),
        }
    }

    fn way(&self) -> Duration {
        let number = self.ways.fetch_add(1, Ordering::SeqCst);
        Duration::from_millis(number.wrapping_mul(7919) % LONGEST_WAY)
    }

    async fn connected(&self, is_lease: bool) {
        while self.is_cut.load(Ordering::SeqCst) || (is_lease && self.is_cut_for_leases.load(Ordering::SeqCst)) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Checks a write at the moment when the server receives it.
    fn check(&self, request: &Request<Bytes>) {
        let holder = holder(&self.api).unwrap_or_default();
        if holder != self.identity {
            let (method, path) = (request.method(), request.uri());
            self.violations.lock().push(format!("{} writes while {holder:?} leads: {method} {path}", self.identity));
        }
    }
}

impl Transport for Wire {
    fn send(&self, request: Request<Bytes>) -> BoxFuture<'static, Result<Answer, Error>> {
        let wire = self.clone();
        let is_lease = request.uri().path().contains("/leases");
        if is_lease || request.method() == Method::GET {
            return Box::pin(async move {
                wire.connected(is_lease).await;
                let answer = wire.server.send(request).await?;
                let body = answer.body.then(move |piece| {
                    let wire = wire.clone();
                    async move {
                        wire.connected(is_lease).await;
                        piece
                    }
                });
                Ok(Answer { body: body.boxed(), ..answer })
            });
        }
        let (answered, answer) = tokio::sync::oneshot::channel();
        let way = self.way();
        // What is on its way arrives, whether or not its sender still waits.
        let forward = async move {
            if wire.is_cut.load(Ordering::SeqCst) {
                return;
            }
            tokio::time::sleep(way).await;
            wire.check(&request);
            drop(answered.send(wire.server.send(request).await));
        };
        drop(tokio::runtime::Handle::current().spawn(forward));
        Box::pin(async move {
            match answer.await {
                Ok(answer) => answer,
                Err(_) => std::future::pending().await,
            }
        })
    }
}

impl Login for Wire {
    fn login(&self, _: Arc<ConnectionSettings>) -> BoxFuture<'_, Result<Vec<Connection>, LoginError>> {
        let connection = Connection::over(self.clone(), "the test");
        Box::pin(async { Ok(vec![connection]) })
    }
}

/// The calls of all replicas. Each is compared with what the server has stored at its beginning.
struct Calls {
    api: ApiServer,
    attempts: Mutex<BTreeMap<(String, String, u64), usize>>,
    ticks: Mutex<Vec<Timestamp>>,
    daemons: Mutex<BTreeMap<String, usize>>,
    violations: Arc<Mutex<Vec<String>>>,
}

impl EventSink for Calls {
    fn accept(&self, event: &EngineEvent<'_>) {
        match event {
            EngineEvent::HandlerCalled { body, handler, reason: Some(_), .. }
                if HANDLERS.contains(&handler.id.as_str()) =>
            {
                let (name, n) = (body.name().to_owned(), number(body));
                let stored = stored(&self.api, &name);
                let record = annotation(&stored, &handler.id);
                if record["success"] == json!(true) {
                    self.violations
                        .lock()
                        .push(format!("{} of {name} is called for {n} after its success was stored", handler.id));
                }
                if handled(&stored) == Some(n) {
                    self.violations
                        .lock()
                        .push(format!("{} of {name} is called for {n}, which is handled", handler.id));
                }
                *self.attempts.lock().entry((name, handler.id.clone(), n)).or_default() += 1;
            }
            EngineEvent::ScheduleCalled { scheduled_at, .. } => self.ticks.lock().push(*scheduled_at),
            EngineEvent::HandlerCalled { body, handler, reason: None, .. } if handler.id == "follow" => {
                *self.daemons.lock().entry(body.name().to_owned()).or_default() += 1;
            }
            EngineEvent::HandlerReturned { body, handler, reason: None, .. } if handler.id == "follow" => {
                *self.daemons.lock().entry(body.name().to_owned()).or_default() -= 1;
            }
            _ => {}
        }
    }
}

fn number(object: &Value) -> u64 {
    object["data"]["n"].as_str().and_then(|text| text.parse().ok()).unwrap_or_default()
}

fn annotation(object: &Value, key: &str) -> Value {
    let text = object["metadata"]["annotations"][format!("kopf.zalando.org/{key}")].as_str().unwrap_or("null");
    serde_json::from_str(text).unwrap()
}

/// Returns the number that was handled last.
fn handled(object: &Value) -> Option<u64> {
    let essence = annotation(object, "last-handled-configuration");
    (!essence.is_null()).then(|| number(&essence))
}

fn read(api: &ApiServer, group: &str, plural: &str, name: &str) -> Option<Value> {
    let resource = Resource { group: group.to_owned(), plural: plural.to_owned() };
    api.read(&resource, &("default".to_owned(), name.to_owned())).map(|object| (*object.value).clone())
}

fn stored(api: &ApiServer, name: &str) -> Value {
    read(api, "", "configmaps", name).unwrap()
}

/// Returns the identity of the leader by the Lease.
fn holder(api: &ApiServer) -> Option<String> {
    let lease = read(api, "coordination.k8s.io", "leases", "demo")?;
    lease["spec"]["holderIdentity"].as_str().filter(|holder| !holder.is_empty()).map(str::to_owned)
}

fn load(folder: &Path) -> Operator {
    let loaded = manifest::load(&[folder.join("operator.yaml")]);
    assert!(!loaded.has_errors(), "{:?}", loaded.diagnostics);
    loaded.operators.into_iter().next().unwrap()
}

/// A running replica.
struct Replica {
    wire: Wire,
    monitor: Arc<ActivityMonitor>,
    stop: Stop,
    task: JoinHandle<()>,
    _reloader: Reloader,
}

struct Cluster {
    api: ApiServer,
    clock: Clock,
    calls: Arc<Calls>,
    violations: Arc<Mutex<Vec<String>>>,
    folder: tempfile::TempDir,
    replicas: BTreeMap<String, Replica>,
    started: usize,
    stop: Stop,
    tasks: Tasks<()>,
}

impl Cluster {
    async fn start(more: &str) -> Self {
        Self::start_among(more, Vec::new()).await
    }

    /// Starts three replicas on a cluster that has these objects besides.
    async fn start_among(more: &str, others: Vec<Value>) -> Self {
        let clock = Clock::starting_at("2020-01-01T00:00:00Z".parse().unwrap());
        let api = api_server(&clock);
        let (stop, mut tasks) = (Stop::new(), Tasks::default());
        spawn_controllers(&api, &mut tasks, &stop);
        let object = |number| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("c{number}"), "labels": {"app": "tested"}}, "data": {"n": "0"}});
        bootstrap::apply(&api, others.into_iter().chain((0..OBJECTS).map(object)).collect()).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("operator.yaml"), format!("{MANIFEST}{more}")).unwrap();
        std::fs::write(folder.path().join("main.rhai"), SCRIPT).unwrap();
        let violations: Arc<Mutex<Vec<String>>> = Arc::default();
        let calls = Calls {
            api: api.clone(),
            attempts: Mutex::default(),
            ticks: Mutex::default(),
            daemons: Mutex::default(),
            violations: Arc::clone(&violations),
        };
        let calls = Arc::new(calls);
        let mut cluster =
            Self { api, clock, calls, violations, folder, replicas: BTreeMap::new(), started: 0, stop, tasks };
        for _ in 0..3 {
            cluster.add();
        }
        cluster
    }

    /// Starts a further replica.
    fn add(&mut self) {
        let identity = format!("replica-{}", self.started);
        self.started += 1;
        let wire = Wire::new(&self.api, &identity, &self.violations);
        let access =
            Access { login: Box::new(wire.clone()), ..Access::of_process(Options::default(), ServerChoice::Default) };
        let (monitor, stop) = (Arc::new(ActivityMonitor::default()), Stop::new());
        let leading = LeadingOptions {
            lease: None,
            namespace: None,
            identity: identity.clone(),
            peer: "demo".to_owned(),
            timing: Timing::default(),
        };
        let shared = Shared {
            admission: kopfd::reactor::Admission::default(),
            hooks: kopfd::reactor::HookReach::InProcess,
            peering: kopfd::engines::peering::ProcessPeering::of("test"),
            checks_rights: false,
            clock: self.clock.clone(),
            scope: Scope::Cluster,
            precedence: Precedence::default(),
            monitor: Some(Arc::clone(&monitor)),
            events: EventStream::default().with(Arc::clone(&self.calls) as Arc<dyn EventSink>),
            has_change_log: false,
            script_threads: Threads::Current,
            seed: Some(1),
            exit_timeouts: ExitTimeouts::default(),
            fibers: Fibers::default(),
            endpoints: Endpoints::default(),
            digest_keys: Keys::default(),
            has_trials: true,
            pod: None,
            leading: Some(leading),
        };
        let (reloader, reloads) = reload::channel();
        let serving = Box::pin(operator::serve(load(self.folder.path()), access, shared, reloads, stop.clone()));
        let task = tokio::task::spawn_local(async move { serving.await.unwrap() });
        self.replicas.insert(identity, Replica { wire, monitor, stop, task, _reloader: reloader });
    }

    /// Waits for a leader other than a given one, and returns it with the time that this took.
    async fn leader(&self, before: &str, limit: Duration) -> (String, Duration) {
        let began = Instant::now();
        loop {
            match holder(&self.api) {
                Some(holder) if holder != before => return (holder, began.elapsed()),
                _ => tokio::time::sleep(Duration::from_millis(20)).await,
            }
            assert!(
                began.elapsed() < limit,
                "nobody has followed {before:?} within {limit:?}: {:?}",
                self.violations.lock()
            );
        }
    }

    /// Changes some objects whose last change is handled.
    async fn change(&self, round: usize) {
        let numbers = (0..CHANGES).map(|index| (round * CHANGES + index * 3) % OBJECTS).collect::<BTreeSet<_>>();
        for number in numbers {
            let object = stored(&self.api, &format!("c{number}"));
            let n = self::number(&object);
            if handled(&object) == Some(n) {
                let path = format!("/api/v1/namespaces/default/configmaps/c{number}");
                let patch = json!({"data": {"n": (n + 1).to_string()}}).to_string();
                admin_client::send(&self.api, Method::PATCH, &path, Some("application/merge-patch+json"), patch)
                    .await
                    .unwrap();
            }
        }
    }

    fn unhandled(&self) -> Vec<String> {
        let objects = (0..OBJECTS).map(|number| stored(&self.api, &format!("c{number}")));
        let unhandled = objects.filter(|object| handled(object) != Some(number(object)));
        unhandled
            .map(|object| format!("{}: {}", object["metadata"]["name"], object["metadata"]["annotations"]))
            .collect()
    }

    async fn settle(&self) {
        let began = Instant::now();
        while !self.unhandled().is_empty() {
            assert!(began.elapsed() < Duration::from_mins(10), "not handled: {:#?}", self.unhandled());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn end(mut self) {
        for replica in self.replicas.values() {
            replica.stop.request("the end");
        }
        for (_, replica) in self.replicas {
            replica.task.await.unwrap();
        }
        self.stop.request("the end");
        assert!(self.tasks.finish(Duration::from_mins(10)).await.is_empty());
    }
}

#[test]
fn change_overs_in_chains_of_handlers_lose_nothing_and_repeat_nothing_that_was_stored() {
    let change_overs =
        std::env::var("KOPFD_CHANGE_OVERS").ok().and_then(|text| text.parse().ok()).unwrap_or(CHANGE_OVERS);
    in_virtual_time(async {
        let (messages, _guard) = collect_messages(tracing::Level::WARN);
        let mut cluster = Cluster::start("").await;
        let (mut leader, _) = cluster.leader("", Duration::from_secs(5)).await;
        for round in 0..change_overs {
            cluster.change(round).await;
            tokio::time::sleep(Duration::from_millis(100 + (round as u64 * 617) % 2000)).await;
            let replica = &cluster.replicas[&leader];
            // A leader that is cut off stops after the renew deadline, the others wait for the lease duration.
            let (name, limit) = match round % 4 {
                0 => {
                    replica.stop.request("SIGTERM");
                    ("stopped", Duration::from_secs(1))
                }
                1 => {
                    replica.wire.is_cut.store(true, Ordering::SeqCst);
                    replica.task.abort();
                    ("killed", Duration::from_secs(17))
                }
                2 => {
                    replica.wire.is_cut.store(true, Ordering::SeqCst);
                    ("cut off", Duration::from_secs(17))
                }
                _ => {
                    replica.wire.is_cut_for_leases.store(true, Ordering::SeqCst);
                    ("cut off from the lease", Duration::from_secs(17))
                }
            };
            let (next, took) = cluster.leader(&leader, Duration::from_secs(30)).await;
            assert!(
                took <= limit,
                "{leader} was {name}, and {next} has followed after {took:?}: {:#?}",
                messages.lock()
            );
            messages.lock().clear();
            assert!(cluster.violations.lock().is_empty(), "{leader} was {name}: {:#?}", cluster.violations.lock());
            let replica = &cluster.replicas[&leader];
            replica.wire.is_cut_for_leases.store(false, Ordering::SeqCst);
            if round % 4 == 2 {
                replica.wire.is_cut.store(false, Ordering::SeqCst);
            }
            if round % 4 < 2 {
                let replica = cluster.replicas.remove(&leader).unwrap();
                // A killed one has ended with an error.
                let _ = replica.task.await;
                cluster.add();
            }
            leader = next;
        }
        cluster.settle().await;
        assert!(cluster.violations.lock().is_empty(), "{:#?}", cluster.violations.lock());
        let calls = cluster.calls.attempts.lock().clone();
        for number in 0..OBJECTS {
            let name = format!("c{number}");
            for n in 0..=self::number(&stored(&cluster.api, &name)) {
                for handler in HANDLERS {
                    assert!(
                        calls.contains_key(&(name.clone(), handler.to_owned(), n)),
                        "{handler} of {name} was not called for {n}"
                    );
                }
            }
        }
        let repeated = calls.values().filter(|count| **count > 1).count();
        println!(
            "{change_overs} change-overs: {} calls, of which {repeated} were repeated, since their success was not stored",
            calls.len()
        );
        for (identity, replica) in &cluster.replicas {
            let index = replica.monitor.indexes()["demo"].get("by_number").unwrap().objects();
            assert_eq!(index, OBJECTS, "the index of {identity} is warm");
        }
        cluster.end().await;
    });
}

#[test]
fn only_the_leader_runs_daemons_and_no_tick_of_a_schedule_is_lost() {
    in_virtual_time(async {
        let mut cluster = Cluster::start(DAEMONS).await;
        let (leader, _) = cluster.leader("", Duration::from_secs(5)).await;
        cluster.settle().await;
        let daemons = |cluster: &Cluster| {
            let running = cluster.calls.daemons.lock();
            (
                running.values().filter(|count| **count == 1).count(),
                running.values().filter(|count| **count > 1).count(),
            )
        };
        assert_eq!(daemons(&cluster), (OBJECTS, 0));
        tokio::time::sleep(Duration::from_mins(3)).await;
        let before = cluster.calls.ticks.lock().len();
        assert!(before >= 3);
        cluster.replicas[&leader].stop.request("SIGTERM");
        let (second, _) = cluster.leader(&leader, Duration::from_secs(1)).await;
        let ended = cluster.replicas.remove(&leader).unwrap();
        ended.task.await.unwrap();
        cluster.add();
        tokio::time::sleep(Duration::from_mins(3)).await;
        assert_eq!(daemons(&cluster), (OBJECTS, 0));
        // A leader that is cut off for a while loses the lease, and stands by.
        cluster.replicas[&second].wire.is_cut.store(true, Ordering::SeqCst);
        let (third, _) = cluster.leader(&second, Duration::from_secs(17)).await;
        assert_ne!(third, second);
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert_eq!(daemons(&cluster), (OBJECTS, 0));
        cluster.replicas[&second].wire.is_cut.store(false, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_mins(3)).await;
        assert_eq!(daemons(&cluster), (OBJECTS, 0));
        assert_eq!(holder(&cluster.api), Some(third));
        let ticks = cluster.calls.ticks.lock().clone();
        let once: BTreeSet<&Timestamp> = ticks.iter().collect();
        assert!(
            once.iter().zip(once.iter().skip(1)).all(|(one, next)| next.duration_since(**one).as_secs() == 60),
            "{ticks:?}"
        );
        // The leader that was cut off could not store its last run.
        assert!(ticks.len() - once.len() <= 1, "{ticks:?}");
        assert!(cluster.violations.lock().is_empty(), "{:#?}", cluster.violations.lock());
        cluster.end().await;
    });
}

#[test]
fn a_replica_that_was_cut_off_can_lead_again() {
    in_virtual_time(async {
        let mut cluster = Cluster::start("").await;
        let (leader, _) = cluster.leader("", Duration::from_secs(5)).await;
        cluster.settle().await;
        cluster.replicas[&leader].wire.is_cut.store(true, Ordering::SeqCst);
        let (second, _) = cluster.leader(&leader, Duration::from_secs(17)).await;
        cluster.replicas[&leader].wire.is_cut.store(false, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_secs(5)).await;
        // Only the first one is left.
        let others: Vec<String> = cluster.replicas.keys().filter(|identity| **identity != leader).cloned().collect();
        for identity in others.iter().filter(|identity| **identity != second).chain([&second]) {
            let replica = cluster.replicas.remove(identity).unwrap();
            replica.stop.request("SIGTERM");
            replica.task.await.unwrap();
        }
        assert_eq!(cluster.leader(&second, Duration::from_secs(1)).await.0, leader);
        cluster.change(1).await;
        cluster.settle().await;
        assert!(cluster.violations.lock().is_empty(), "{:#?}", cluster.violations.lock());
        let lease = read(&cluster.api, "coordination.k8s.io", "leases", "demo").unwrap();
        assert_eq!(
            (&lease["spec"]["leaseTransitions"], &lease["spec"]["leaseDurationSeconds"]),
            (&json!(2), &json!(15)),
            "{lease}"
        );
        cluster.end().await;
    });
}

/// The definitions of peerings.
const PEERINGS: &str = include_str!("../manifests/peering/kopf.dev.yaml");

/// Another operator in the peering of the replicas, with a lower priority.
const OTHER: &str = "other@example.com/20200101000000/abc";

/// Returns the records of the peering.
fn records(api: &ApiServer) -> serde_json::Map<String, Value> {
    let resource = Resource { group: "kopf.dev".to_owned(), plural: "clusterkopfpeerings".to_owned() };
    let peering = api.read(&resource, &(String::new(), "default".to_owned())).unwrap();
    peering.value["status"].as_object().cloned().unwrap_or_default()
}

async fn write_record(api: &ApiServer, identity: &str, record: Value) {
    let path = "/apis/kopf.dev/v1/clusterkopfpeerings/default";
    let patch = json!({"status": {identity: record}}).to_string();
    admin_client::send(api, Method::PATCH, path, Some("application/merge-patch+json"), patch).await.unwrap();
}

/// Tells whether there is a record, and whether its lifetime is not over.
fn is_valid(record: &Value, now: Timestamp) -> bool {
    let seen = record["lastseen"].as_str().map(|text| text.parse::<Timestamp>().unwrap());
    let lifetime = jiff::SignedDuration::from_secs(record["lifetime"].as_i64().unwrap_or_default());
    seen.is_some_and(|seen| seen + lifetime > now)
}

#[test]
fn replicas_are_one_peer_which_is_alive_at_every_change_over() {
    in_virtual_time(async {
        let mut others: Vec<Value> =
            PEERINGS.split("\n---\n").filter_map(|text| serde_saphyr::from_str(text).ok()).collect();
        let now = "2020-01-01T00:00:00Z";
        let other = json!({"priority": -1, "lifetime": 100_000, "lastseen": now});
        let peering = json!({"apiVersion": "kopf.dev/v1", "kind": "ClusterKopfPeering", "metadata": {"name": "default"}, "status": {OTHER: other}});
        others.push(peering);
        let mut cluster = Cluster::start_among("", others).await;
        let (mut leader, _) = cluster.leader("", Duration::from_secs(5)).await;
        let own = "demo@default";
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert!(is_valid(&records(&cluster.api)[own], cluster.clock.now()));
        assert!(cluster.calls.attempts.lock().is_empty(), "the other operator has time to end what it does");
        cluster.settle().await;
        let gaps = Arc::new(Mutex::new(BTreeSet::new()));
        let stop = Stop::new();
        let watching = {
            let (api, clock, gaps, stop) =
                (cluster.api.clone(), cluster.clock.clone(), Arc::clone(&gaps), stop.clone());
            tokio::task::spawn_local(async move {
                while !stop.is_requested() {
                    let records = records(&api);
                    if !is_valid(&records[own], clock.now()) || records.len() != 2 {
                        gaps.lock().insert(format!("{}: {records:?}", clock.now()));
                    }
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            })
        };
        for round in 0..12 {
            cluster.change(round).await;
            tokio::time::sleep(Duration::from_millis(100 + (round as u64 * 7919) % 40_000)).await;
            let replica = &cluster.replicas[&leader];
            match round % 3 {
                0 => replica.stop.request("SIGTERM"),
                1 => {
                    replica.wire.is_cut.store(true, Ordering::SeqCst);
                    replica.task.abort();
                }
                _ => replica.wire.is_cut_for_leases.store(true, Ordering::SeqCst),
            }
            let began = Instant::now();
            let (next, _) = cluster.leader(&leader, Duration::from_secs(30)).await;
            println!("{leader} -> {next} after {:?}", began.elapsed());
            let replica = &cluster.replicas[&leader];
            replica.wire.is_cut_for_leases.store(false, Ordering::SeqCst);
            if round % 3 < 2 {
                let replica = cluster.replicas.remove(&leader).unwrap();
                let _ = replica.task.await;
                cluster.add();
            }
            leader = next;
            cluster.settle().await;
        }
        stop.request("the end");
        watching.await.unwrap();
        assert!(gaps.lock().is_empty(), "{:#?}", gaps.lock());
        assert!(cluster.violations.lock().is_empty(), "{:#?}", cluster.violations.lock());

        // A peer with a higher priority pauses all of them.
        write_record(
            &cluster.api,
            "higher",
            json!({"priority": 1, "lifetime": 60, "lastseen": cluster.clock.now().to_string()}),
        )
        .await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        cluster.change(30).await;
        cluster.replicas[&leader].stop.request("SIGTERM");
        cluster.leader(&leader, Duration::from_secs(2)).await;
        cluster.replicas.remove(&leader).unwrap().task.await.unwrap();
        tokio::time::sleep(Duration::from_secs(20)).await;
        assert!(!cluster.unhandled().is_empty(), "the replicas are paused");
        // Its record expires, and is removed by the leader.
        tokio::time::sleep(Duration::from_secs(40)).await;
        cluster.settle().await;
        assert!(!records(&cluster.api).contains_key("higher"));

        // When all are gone, the record expires soon after.
        for (_, replica) in std::mem::take(&mut cluster.replicas) {
            replica.stop.request("SIGTERM");
            replica.task.await.unwrap();
        }
        assert!(is_valid(&records(&cluster.api)[own], cluster.clock.now()));
        tokio::time::sleep(Duration::from_secs(17)).await;
        assert!(!is_valid(&records(&cluster.api)[own], cluster.clock.now()));
        cluster.end().await;
    });
}
