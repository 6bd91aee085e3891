//! An operator that is reloaded again and again under a load of changes: nothing is lost or handled twice, and no watch
//! is opened anew.
//!
//! `KOPFD_RELOADS` is the number of reloads: 1,000 take some minutes without optimisation. The growth of the memory is
//! printed, and limited in long runs: `KOPFD_RELOADS=1000 cargo test --test engine reloads_under_load -- --nocapture`.
#![expect(clippy::unwrap_used, reason = "these are tests")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use kopfd::apiserver::server::socket::Service;
use kopfd::apiserver::storage::resource::Resource;
use kopfd::apiserver::storage::store::Limits;
use kopfd::apiserver::{ApiServer, Settings, admin_client, bootstrap};
use kopfd::cluster::Options;
use kopfd::cluster::in_process::InProcess;
use kopfd::engines::events::{EngineEvent, EventSink};
use kopfd::engines::{Endpoints, EventStream};
use kopfd::kit::{Clock, Stop, Tasks};
use kopfd::manifest::{self, Operator};
use kopfd::persistence::Keys;
use kopfd::reactor::operator::{self, Access, ExitTimeouts, ServerChoice, Shared};
use kopfd::reactor::precedence::Precedence;
use kopfd::reactor::reload::{self, ReloadError, Reloaded, Reloader};
use kopfd::reactor::{ActivityMonitor, Scope};
use kopfd::script::{Fibers, Threads};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::world::api_server::spawn_controllers;
use super::world::in_virtual_time;

const RELOADS: usize = 60;

/// The number of reloads from which on the memory must not grow by a tenth between the first fifth and the end.
const LONG: usize = 500;

const OBJECTS: usize = 200;

/// Reloads between two broken scripts.
const BREAK_EVERY: usize = 10;

/// Changes between two reloads.
const CHANGES: usize = 7;

const MANIFEST: &str = "apiVersion: kopfd.dev/v1
kind: Operator
metadata: {name: demo}
spec:
  resources:
    - resource: v1/configmaps
      script: main.rhai
      handlers: [{on: create, fn: made}, {on: update, fn: changed}, {on: event, fn: seen}]
      indexes: [{fn: by_number}]
";

/// The script of a revision. Every third one changes the index, too.
fn script(revision: usize) -> String {
    let index = revision / 3;
    format!(
        "fn made(memo) {{ memo.made = {revision}; }}
         fn changed(memo, body) {{ if memo.made == () {{ throw permanent(\"the memo is lost\"); }} if parse_int(body.data.n) % 5 == 0 {{ sleep(0.2); }} }}
         fn seen() {{}}
         fn by_number(body) {{ return entry(body.data.n, {index}); }}"
    )
}

/// Counts the calls of each handler for each object and number, and of handlers of raw events for each object and
/// version.
#[derive(Default)]
struct Calls {
    by_number: Mutex<BTreeMap<(String, String, u64), usize>>,
    by_version: Mutex<BTreeMap<(String, String), usize>>,
}

impl EventSink for Calls {
    fn accept(&self, event: &EngineEvent<'_>) {
        if let EngineEvent::HandlerCalled { body, handler, .. } = event {
            if handler.id == "seen" {
                let version = body["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
                *self.by_version.lock().entry((body.name().to_owned(), version)).or_default() += 1;
                return;
            }
            let key = (
                handler.id.clone(),
                body.name().to_owned(),
                body["data"]["n"].as_str().and_then(|text| text.parse().ok()).unwrap_or_default(),
            );
            *self.by_number.lock().entry(key).or_default() += 1;
        }
    }
}

struct Cluster {
    api: ApiServer,
    monitor: Arc<ActivityMonitor>,
    endpoints: Endpoints,
    calls: Arc<Calls>,
    reloader: Reloader,
    stop: Stop,
    tasks: Tasks<()>,
    operator: JoinHandle<()>,
    folder: tempfile::TempDir,
}

fn configmap(name: &str, n: usize) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": {"n": n.to_string()}})
}

fn load(folder: &Path, script: &str) -> Operator {
    std::fs::write(folder.join("main.rhai"), script).unwrap();
    let loaded = manifest::load(&[folder.join("operator.yaml")]);
    assert!(!loaded.has_errors(), "{:?}", loaded.diagnostics);
    loaded.operators.into_iter().next().unwrap()
}

impl Cluster {
    async fn serving() -> Self {
        Self::serving_by(MANIFEST, &script(0), None).await
    }

    /// Starts an operator of a manifest and a script, in a pod.
    async fn serving_by(manifest: &str, script: &str, pod: Option<&str>) -> Self {
        let clock = Clock::starting_at("2020-01-01T00:00:00Z".parse().unwrap());
        // The history of the server would be most of the growth of this process.
        let limits = Limits { changes: 500, ..Limits::default() };
        let api = ApiServer::new(Settings { seed: Some(1), limits, ..Settings::default() }, clock.clone());
        let (stop, mut tasks) = (Stop::new(), Tasks::default());
        spawn_controllers(&api, &mut tasks, &stop);
        bootstrap::apply(&api, (0..OBJECTS).map(|number| configmap(&format!("c{number}"), 0)).collect()).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("operator.yaml"), manifest).unwrap();
        let login = Box::new(InProcess::new(Service::new(api.clone())));
        let access = Access { login, ..Access::of_process(Options::default(), ServerChoice::Default) };
        let (monitor, calls, endpoints) =
            (Arc::new(ActivityMonitor::default()), Arc::new(Calls::default()), Endpoints::default());
        let shared = Shared {
            clock,
            scope: Scope::Cluster,
            precedence: Precedence::default(),
            monitor: Some(Arc::clone(&monitor)),
            events: EventStream::default().with(Arc::clone(&calls) as Arc<dyn EventSink>),
            has_change_log: false,
            script_threads: Threads::Current,
            seed: Some(1),
            exit_timeouts: ExitTimeouts::default(),
            fibers: Fibers::default(),
            endpoints: endpoints.clone(),
            digest_keys: Keys::default(),
            has_trials: true,
            pod: pod.map(str::to_owned),
            admission: kopfd::reactor::Admission::default(),
            hooks: kopfd::reactor::HookReach::InProcess,
            peering: kopfd::engines::peering::ProcessPeering::of("test"),
            leading: None,
            checks_rights: false,
        };
        let (reloader, reloads) = reload::channel();
        let serving = Box::pin(operator::serve(load(folder.path(), script), access, shared, reloads, stop.clone()));
        let operator = tokio::task::spawn_local(async move { serving.await.unwrap() });
        let cluster = Self { api, monitor, endpoints, calls, reloader, stop, tasks, operator, folder };
        cluster.settle().await;
        cluster
    }

    async fn settle(&self) {
        self.monitor.ready(1).await;
        self.monitor.settled().await;
    }

    async fn change(&self, number: usize, n: usize) {
        let path = format!("/api/v1/namespaces/default/configmaps/c{number}");
        let patch = json!({"data": {"n": n.to_string()}}).to_string();
        admin_client::send(&self.api, Method::PATCH, &path, Some("application/merge-patch+json"), patch).await.unwrap();
    }

    async fn reload(&self, revision: usize) {
        let reloaded = self.reload_to(&script(revision)).await;
        assert!(matches!(reloaded, Reloaded::Changed(_)));
    }

    async fn reload_to(&self, script: &str) -> Reloaded {
        self.reloader.reload(load(self.folder.path(), script), Precedence::default()).await.unwrap()
    }

    /// Puts a broken script in: the running revision stays.
    async fn break_script(&self) {
        let operator = load(self.folder.path(), &script(0));
        std::fs::write(self.folder.path().join("main.rhai"), "fn made( {").unwrap();
        let refused = self.reloader.reload(operator, Precedence::default()).await;
        assert!(matches!(refused, Err(ReloadError::Scripts(_))), "{refused:?}");
    }

    /// Creates an object, and returns it as it is stored.
    async fn create(&self, group: &str, plural: &str, object: Value) -> Value {
        bootstrap::apply(&self.api, vec![object]).await.unwrap();
        self.stored(group, plural).remove(0)
    }

    fn stored(&self, group: &str, plural: &str) -> Vec<Value> {
        let resource = Resource { group: group.to_owned(), plural: plural.to_owned() };
        self.api.list(&resource, None).into_iter().map(|(_, object)| (*object.value).clone()).collect()
    }

    /// Returns the number of watches of the kind that were opened.
    fn watches(&self) -> u64 {
        let text = self.endpoints.metrics.text();
        let lines =
            text.lines().filter(|line| line.starts_with("kopfd_api_requests_total{") && line.contains("\"watch\""));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
    }

    /// Returns the value of a metric of the operator.
    fn metric(&self, name: &str) -> u64 {
        let text = self.endpoints.metrics.text();
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name}{{operator=\"demo\"}} ")));
        line.unwrap_or_else(|| panic!("{name} is missing: {text}")).parse().unwrap()
    }

    async fn end(mut self) {
        self.stop.request("the end");
        self.operator.await.unwrap();
        assert!(self.tasks.finish(Duration::from_mins(10)).await.is_empty());
    }
}

/// Returns the resident memory of this process.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

#[test]
fn reloads_under_load_lose_nothing_repeat_nothing_and_open_no_watch() {
    let reloads = std::env::var("KOPFD_RELOADS").ok().and_then(|text| text.parse().ok()).unwrap_or(RELOADS);
    in_virtual_time(async {
        let cluster = Cluster::serving().await;
        let (mut expected, mut versions) = (BTreeMap::new(), vec![0; OBJECTS]);
        let (watches, mut early) = (cluster.watches(), 0);
        assert!(watches > 0, "{}", cluster.endpoints.metrics.text());
        for revision in 1..=reloads {
            for change in 0..CHANGES {
                // The handler of the change before may sleep: then both changes are one.
                let number = (revision * CHANGES + change) % OBJECTS;
                versions[number] += 1;
                cluster.change(number, versions[number]).await;
                expected.insert(("changed".to_owned(), format!("c{number}"), versions[number] as u64), 1);
            }
            if revision % BREAK_EVERY == 0 {
                cluster.break_script().await;
            }
            cluster.reload(revision).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
            if revision == reloads / 5 {
                early = resident();
            }
        }
        cluster.settle().await;
        let grown = resident().saturating_sub(early);
        println!(
            "{reloads} reloads: after a fifth of them the process has {early} bytes, and has grown by {grown} at the end"
        );
        // In short runs, and beside other tests, the allocator still gathers pages.
        assert!(reloads < LONG || grown < early / 10, "the memory has grown by {grown} of {early} bytes");
        assert_eq!(cluster.metric("kopfd_revisions_in_memory"), 1, "nothing of the earlier revisions is left");
        assert_eq!(cluster.watches(), watches, "{}", cluster.endpoints.metrics.text());
        let seen = cluster.calls.by_version.lock().clone();
        let repeated: Vec<_> = seen.iter().filter(|(_, count)| **count > 1).collect();
        assert!(repeated.is_empty(), "raw events were handled twice: {repeated:?}");
        for object in cluster.stored("", "configmaps").iter().map(|object| &object["metadata"]) {
            let text = |key: &str| object[key].as_str().unwrap().to_owned();
            assert!(seen.contains_key(&(text("name"), text("resourceVersion"))), "its last event is lost: {object}");
        }
        let calls = cluster.calls.by_number.lock().clone();
        let changed: BTreeMap<_, _> =
            calls.iter().filter(|(key, _)| key.0 == "changed").map(|(key, count)| (key.clone(), *count)).collect();
        assert_eq!(changed, expected);
        assert!(
            calls.iter().filter(|(key, _)| key.0 == "made").all(|(_, count)| *count == 1),
            "a creation is handled once"
        );
        let indexes = cluster.monitor.indexes();
        let index = indexes["demo"].get("by_number").unwrap();
        assert_eq!(index.objects(), OBJECTS);
        let value = index.to_value();
        let values = value.as_object().unwrap().values().flat_map(|values| values.as_array().unwrap());
        assert!(
            values.into_iter().all(|value| *value == json!(reloads / 3)),
            "the last revision has filled it: {value}"
        );
        assert!(cluster.monitor.failures().is_empty(), "{:?}", cluster.monitor.failures());
        cluster.end().await;
    });
}

#[test]
fn a_replaced_revision_leaves_the_memory_when_its_last_call_has_ended() {
    in_virtual_time(async {
        let sleeping = |revision: usize| {
            format!(
                "fn changed(body) {{ sleep(if body.data.n == \"1\" {{ 600 }} else {{ 0 }}); }} fn by_number(body) {{ return {revision}; }}"
            )
        };
        let manifest = MANIFEST.replace("{on: create, fn: made}, ", "").replace(", {on: event, fn: seen}", "")
            + "  schedules: [{id: yearly, cron: '0 0 1 1 *', run: 'logger.info(\"a new year\");'}]\n";
        let cluster = Cluster::serving_by(&manifest, &sleeping(0), None).await;
        cluster.reload_to(&sleeping(1)).await;
        cluster.settle().await;
        assert_eq!(cluster.metric("kopfd_revisions_in_memory"), 1, "the first revision is not needed");
        cluster.change(0, 1).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        for revision in 2..6 {
            cluster.reload_to(&sleeping(revision)).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        assert_eq!(cluster.metric("kopfd_revisions_in_memory"), 2, "a call of the second revision sleeps");
        let indexes = cluster.monitor.indexes();
        let index = indexes["demo"].get("by_number").unwrap();
        cluster.change(1, 2).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(
            (index.objects(), index.to_value()["5"].as_array().map(Vec::len)),
            (OBJECTS, None),
            "{}",
            index.to_value()
        );
        tokio::time::sleep(Duration::from_mins(11)).await;
        cluster.settle().await;
        assert_eq!(cluster.metric("kopfd_revisions_in_memory"), 1);
        cluster.end().await;
    });
}

const TRIED: &str = "apiVersion: kopfd.dev/v1
kind: Operator
metadata: {name: demo}
spec:
  settings: {reload: {canary: {percent: 50, for: 10m}}}
  resources:
    - {resource: v1/configmaps, script: main.rhai, handlers: [{on: update, fn: changed}]}
";

/// Creates a Deployment, its ReplicaSet, and their pod.
async fn deploy(cluster: &Cluster) {
    let labels = json!({"app": "demo"});
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "demo"}]}});
    let controlled = json!({"selector": {"matchLabels": labels}, "template": template});
    let object = |version: &str, kind: &str, name: &str, spec: &Value, owner: Option<&Value>| {
        let owner = owner.map(|owner| {
            let (name, uid) = (&owner["metadata"]["name"], &owner["metadata"]["uid"]);
            json!({"apiVersion": "apps/v1", "kind": owner["kind"], "name": name, "uid": uid, "controller": true})
        });
        let owners: Vec<Value> = owner.into_iter().collect();
        let metadata = json!({"name": name, "namespace": "default", "labels": labels, "ownerReferences": owners});
        json!({"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec})
    };
    let deployment = object("apps/v1", "Deployment", "demo", &controlled, None);
    let deployment = cluster.create("apps", "deployments", deployment).await;
    let replicas = object("apps/v1", "ReplicaSet", "demo-1", &controlled, Some(&deployment));
    let replicas = cluster.create("apps", "replicasets", replicas).await;
    cluster.create("", "pods", object("v1", "Pod", "demo-1-a", &template["spec"], Some(&replicas))).await;
}

#[test]
fn a_rollback_is_an_event_on_the_deployment_of_the_pod() {
    in_virtual_time(async {
        let cluster = Cluster::serving_by(TRIED, "fn changed() {}", Some("demo-1-a")).await;
        deploy(&cluster).await;
        let failing = "fn changed() { throw \"no\"; }";
        let Reloaded::OnTrial(revision) = cluster.reload_to(failing).await else { panic!("it is not tried") };
        for number in 0..20 {
            cluster.change(number, 1).await;
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
        let events = cluster.stored("", "events");
        let [event] = events.as_slice() else { panic!("{events:#?}") };
        assert_eq!((event["type"].as_str(), event["reason"].as_str()), (Some("Warning"), Some("RevisionRolledBack")));
        let about = &event["involvedObject"];
        assert_eq!((about["kind"].as_str(), about["name"].as_str()), (Some("Deployment"), Some("demo")));
        let text = event["message"].as_str().unwrap();
        assert!(text.starts_with(&format!("Operator 'demo': Revision {revision} is rolled back to ")), "{text}");
        assert!(
            cluster.endpoints.health.notes()[0].contains("was rolled back"),
            "{:?}",
            cluster.endpoints.health.notes()
        );
        let status = &cluster.endpoints.board.status(&cluster.endpoints.health).operators[0];
        let rolled_back = status.rolled_back.as_ref().unwrap();
        assert!(
            status.trial.is_none() && rolled_back.revision == revision && text.contains(&rolled_back.reason),
            "{status:#?}"
        );

        // It is not tried again until the files change, nor is the one in service.
        assert_eq!(cluster.reload_to(failing).await, Reloaded::Unchanged);
        assert_eq!(cluster.reload_to("fn changed() {}").await, Reloaded::Unchanged);
        assert!(cluster.endpoints.health.notes().is_empty());
        assert!(matches!(cluster.reload_to(failing).await, Reloaded::OnTrial(_)), "the files have changed meanwhile");
        cluster.end().await;
    });
}

#[test]
fn an_operator_without_a_deployment_is_rolled_back_all_the_same() {
    in_virtual_time(async {
        let cluster = Cluster::serving_by(TRIED, "fn changed() {}", Some("gone")).await;
        cluster.reload_to("fn changed() { throw \"no\"; }").await;
        for number in 0..20 {
            cluster.change(number, 1).await;
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert!(cluster.endpoints.health.notes()[0].contains("was rolled back"));
        assert!(cluster.stored("", "events").is_empty());
        cluster.end().await;
    });
}

#[test]
fn a_trial_is_shown_and_ends_with_another_change_of_the_files() {
    in_virtual_time(async {
        let cluster = Cluster::serving_by(TRIED, "fn changed() {}", None).await;
        let status = || cluster.endpoints.board.status(&cluster.endpoints.health).operators.remove(0);
        let first = status().revision;
        let Reloaded::OnTrial(second) = cluster.reload_to("fn changed() { 2 }").await else {
            panic!("it is not tried")
        };
        for number in 0..20 {
            cluster.change(number, 1).await;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        let shown = status();
        let trial = shown.trial.as_ref().unwrap();
        assert_eq!(
            (shown.revision.as_str(), trial.revision.as_str(), trial.percent),
            (first.as_str(), second.as_str(), 50)
        );
        assert!(trial.new.calls > 0 && trial.old.calls > 0 && trial.new.calls + trial.old.calls == 20, "{trial:?}");
        let objects = &shown.kinds[0].revisions;
        assert!(
            objects[&first] > 50
                && objects[&second] > 50
                && objects[&first] + objects[&second] == shown.kinds[0].objects,
            "{objects:?}"
        );
        assert!(cluster.endpoints.health.notes()[0].contains("is on trial for 50 % of the objects"));

        let Reloaded::OnTrial(third) = cluster.reload_to("fn changed() { 3 }").await else { panic!("it is not tried") };
        assert_eq!((status().revision, status().trial.unwrap().revision), (first.clone(), third));
        assert_eq!(cluster.reload_to("fn changed() {}").await, Reloaded::Unchanged);
        assert!(status().trial.is_none() && cluster.endpoints.health.notes().is_empty());
        let Reloaded::OnTrial(fourth) = cluster.reload_to("fn changed() { 4 }").await else {
            panic!("it is not tried")
        };
        tokio::time::sleep(Duration::from_mins(11)).await;
        assert_eq!((status().revision, status().trial), (fourth, None));
        let text = cluster.endpoints.metrics.text();
        for (outcome, count) in [("replaced", 1), ("withdrawn", 1), ("promoted", 1)] {
            assert!(
                text.contains(&format!("kopfd_trials_total{{operator=\"demo\",outcome=\"{outcome}\"}} {count}\n")),
                "{text}"
            );
        }
        cluster.end().await;
    });
}
