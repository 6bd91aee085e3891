//! An operator that is reloaded again and again under a load of changes: nothing is lost or handled twice, and no watch is opened anew.
//!
//! `KOPFD_RELOADS` is the number of reloads: 1,000 take some minutes without optimisation.
#![expect(clippy::unwrap_used, reason = "these are tests")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use kopfd::apiserver::server::socket::Service;
use kopfd::apiserver::{ApiServer, admin_client, bootstrap};
use kopfd::cluster::Options;
use kopfd::cluster::in_process::InProcess;
use kopfd::engines::events::{EngineEvent, EventSink};
use kopfd::engines::{Endpoints, EventStream};
use kopfd::kit::{Clock, Stop, Tasks};
use kopfd::manifest::{self, Operator};
use kopfd::persistence::Keys;
use kopfd::reactor::operator::{self, Access, ExitTimeouts, ServerChoice, Shared};
use kopfd::reactor::precedence::Precedence;
use kopfd::reactor::reload::{self, Reloaded, Reloader};
use kopfd::reactor::{ActivityMonitor, Scope};
use kopfd::script::{Fibers, Threads};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::world::api_server::{api_server, spawn_controllers};
use super::world::in_virtual_time;

const RELOADS: usize = 60;

const OBJECTS: usize = 200;

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

/// Counts the calls of each handler for each object and number.
#[derive(Default)]
struct Calls(Mutex<BTreeMap<(String, String, u64), usize>>);

impl EventSink for Calls {
    fn accept(&self, event: &EngineEvent<'_>) {
        if let EngineEvent::HandlerCalled { body, handler, .. } = event {
            let key = (
                handler.id.clone(),
                body.name().to_owned(),
                body["data"]["n"].as_str().and_then(|text| text.parse().ok()).unwrap_or_default(),
            );
            *self.0.lock().entry(key).or_default() += 1;
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

fn load(folder: &Path, revision: usize) -> Operator {
    std::fs::write(folder.join("main.rhai"), script(revision)).unwrap();
    let loaded = manifest::load(&[folder.join("operator.yaml")]);
    assert!(!loaded.has_errors(), "{:?}", loaded.diagnostics);
    loaded.operators.into_iter().next().unwrap()
}

impl Cluster {
    async fn serving() -> Self {
        let clock = Clock::starting_at("2020-01-01T00:00:00Z".parse().unwrap());
        let api = api_server(&clock);
        let (stop, mut tasks) = (Stop::new(), Tasks::default());
        spawn_controllers(&api, &mut tasks, &stop);
        bootstrap::apply(&api, (0..OBJECTS).map(|number| configmap(&format!("c{number}"), 0)).collect()).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("operator.yaml"), MANIFEST).unwrap();
        let login = Box::new(InProcess::new(Service::new(api.clone())));
        let access = Access { login, ..Access::of_process(Options::default(), ServerChoice::Default) };
        let (monitor, calls, endpoints) = (Arc::new(ActivityMonitor::default()), Arc::new(Calls::default()), Endpoints::default());
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
        };
        let (reloader, reloads) = reload::channel();
        let serving = Box::pin(operator::serve(load(folder.path(), 0), access, shared, reloads, stop.clone()));
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
        let reloaded = self.reloader.reload(load(self.folder.path(), revision), Precedence::default()).await.unwrap();
        assert!(matches!(reloaded, Reloaded::Changed(_)));
    }

    /// Returns the number of watches of the kind that were opened.
    fn watches(&self) -> u64 {
        let text = self.endpoints.metrics.text();
        let lines = text.lines().filter(|line| line.starts_with("kopfd_api_requests_total{") && line.contains("\"watch\""));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
    }

    async fn end(mut self) {
        self.stop.request("the end");
        self.operator.await.unwrap();
        assert!(self.tasks.finish(Duration::from_mins(10)).await.is_empty());
    }
}

#[test]
fn reloads_under_load_lose_nothing_repeat_nothing_and_open_no_watch() {
    let reloads = std::env::var("KOPFD_RELOADS").ok().and_then(|text| text.parse().ok()).unwrap_or(RELOADS);
    in_virtual_time(async {
        let cluster = Cluster::serving().await;
        let (mut expected, mut versions) = (BTreeMap::new(), vec![0; OBJECTS]);
        let watches = cluster.watches();
        assert!(watches > 0, "{}", cluster.endpoints.metrics.text());
        for revision in 1..=reloads {
            for change in 0..CHANGES {
                // The handler of the change before may sleep: then both changes are one.
                let number = (revision * CHANGES + change) % OBJECTS;
                versions[number] += 1;
                cluster.change(number, versions[number]).await;
                expected.insert(("changed".to_owned(), format!("c{number}"), versions[number] as u64), 1);
            }
            cluster.reload(revision).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        cluster.settle().await;
        assert_eq!(cluster.watches(), watches, "{}", cluster.endpoints.metrics.text());
        let calls = cluster.calls.0.lock().clone();
        let changed: BTreeMap<_, _> =
            calls.iter().filter(|(key, _)| key.0 == "changed").map(|(key, count)| (key.clone(), *count)).collect();
        assert_eq!(changed, expected);
        assert!(calls.iter().filter(|(key, _)| key.0 == "made").all(|(_, count)| *count == 1), "a creation is handled once");
        let indexes = cluster.monitor.indexes();
        let index = indexes["demo"].get("by_number").unwrap();
        assert_eq!(index.objects(), OBJECTS);
        let value = index.to_value();
        let values = value.as_object().unwrap().values().flat_map(|values| values.as_array().unwrap());
        assert!(values.into_iter().all(|value| *value == json!(reloads / 3)), "the last revision has filled it: {value}");
        assert!(cluster.monitor.failures().is_empty(), "{:?}", cluster.monitor.failures());
        cluster.end().await;
    });
}
