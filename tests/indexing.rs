//! Indexes in a running operator: they are filled before anything is handled, whatever else limits the workers.
#![expect(clippy::unwrap_used, reason = "these are tests")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kopfd::apiserver::faults::{Action, AnswerBody, Match, Rule};
use kopfd::apiserver::server::socket::Service;
use kopfd::apiserver::{ApiServer, bootstrap};
use kopfd::cluster::Options;
use kopfd::cluster::in_process::InProcess;
use kopfd::engines::admission::local;
use kopfd::engines::{Endpoints, EventStream};
use kopfd::kit::{Clock, Stop, Tasks};
use kopfd::manifest;
use kopfd::persistence::Keys;
use kopfd::reactor::operator::{self, Access, ExitTimeouts, ServerChoice, Shared};
use kopfd::reactor::precedence::Precedence;
use kopfd::reactor::{ActivityMonitor, Admission, Scope};
use kopfd::script::{Fibers, Threads};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::world::api_server::{api_server, spawn_controllers};
use super::world::in_virtual_time;
use super::world::log::collect_messages;

/// A server with an operator that indexes configmaps.
struct Cluster {
    api: ApiServer,
    clock: Clock,
    monitor: Arc<ActivityMonitor>,
    stop: Stop,
    tasks: Tasks<()>,
    operator: Option<JoinHandle<()>>,
    admission: Admission,
    folder: tempfile::TempDir,
}

fn configmap(name: &str, team: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"team": team}}})
}

fn secret(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}})
}

/// The resources of an operator with a webhook and a conversion.
const WEBHOOKS: &str = "
    - {resource: v1/secrets, script: main.rhai, webhooks: [{on: validate, fn: check}]}
    - {resource: things.ex.dev, script: main.rhai, webhooks: [{on: convert, fn: convert}]}";

/// Writes the files of an operator that indexes configmaps, with these resources beside them.
fn write(folder: &Path, settings: &str, resources: &str, script: &str) {
    let manifest = format!(
        "apiVersion: kopfd.dev/v1\nkind: Operator\nmetadata: {{name: demo}}\nspec:\n  {settings}\n  resources:\n    \
         - {{resource: v1/configmaps, script: main.rhai, indexes: [{{fn: by_team}}], handlers: [{{on: event, fn: seen}}]}}\n    \
         - {{resource: v1/secrets, script: main.rhai, handlers: [{{on: event, fn: seen}}]}}{resources}\n"
    );
    std::fs::write(folder.join("operator.yaml"), manifest).unwrap();
    std::fs::write(folder.join("main.rhai"), script).unwrap();
}

/// Indexes slowly, and logs how many objects are indexed.
const SLOW: &str = "fn by_team(labels, name) { sleep(1); return entry(labels.team, name); }
fn seen(name, by_team, logger) { logger.info(`${name}: ${by_team.keys().map(|key| by_team[key].len()).reduce(|sum, n| (sum ?? 0) + n)}`); sleep(10); }";

impl Cluster {
    /// Starts the operator over these objects.
    async fn serving(settings: &str, script: &str, objects: Vec<Value>) -> Self {
        Self::disturbed(settings, script, objects, Vec::new()).await
    }

    /// Starts the operator over these objects and faults of the server.
    async fn disturbed(settings: &str, script: &str, objects: Vec<Value>, faults: Vec<Rule>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), settings, "", script);
        Self::of(folder, objects, faults).await
    }

    /// Starts the operator of a folder.
    async fn of(folder: tempfile::TempDir, objects: Vec<Value>, faults: Vec<Rule>) -> Self {
        let clock = Clock::starting_at("2020-01-01T00:00:00Z".parse().unwrap());
        let api = api_server(&clock);
        let (stop, mut tasks) = (Stop::new(), Tasks::default());
        spawn_controllers(&api, &mut tasks, &stop);
        bootstrap::apply(&api, objects).await.unwrap();
        for rule in faults {
            api.add_fault(rule);
        }
        let admission = Admission::in_process();
        let mut cluster = Self { api, clock, monitor: Arc::default(), stop, tasks, operator: None, admission, folder };
        cluster.serve();
        cluster
    }

    fn serve(&mut self) {
        let loaded = manifest::load(&[self.folder.path().join("operator.yaml")]);
        assert!(loaded.diagnostics.is_empty(), "{:?}", loaded.diagnostics);
        let operator = loaded.operators.into_iter().next().unwrap();
        let login = Box::new(InProcess::new(Service::new(self.api.clone())));
        let access = Access { login, ..Access::of_process(Options::default(), ServerChoice::Default) };
        let shared = Shared {
            clock: self.clock.clone(),
            scope: Scope::Cluster,
            precedence: Precedence::default(),
            monitor: Some(Arc::clone(&self.monitor)),
            events: EventStream::default(),
            has_change_log: false,
            script_threads: Threads::Current,
            seed: Some(1),
            exit_timeouts: ExitTimeouts::default(),
            fibers: Fibers::default(),
            endpoints: Endpoints::default(),
            digest_keys: Keys::default(),
            has_trials: false,
            pod: None,
            admission: self.admission.clone(),
            hooks: kopfd::reactor::HookReach::InProcess,
            peering: kopfd::engines::peering::ProcessPeering::of("test"),
            leading: None,
            checks_rights: false,
        };
        let serving =
            Box::pin(operator::serve(operator, access, shared, kopfd::reactor::reload::channel().1, self.stop.clone()));
        self.operator = Some(tokio::task::spawn_local(async move { serving.await.unwrap() }));
    }

    /// Sends a review to a webhook, and returns the response.
    async fn review(&self, webhook: &str, review: Value) -> Value {
        let url = format!("https://kopfd.internal/demo/{webhook}");
        let answer = local::answer(&self.admission.reviewers, &url, &review).expect("it is a URL of this process");
        answer.await.unwrap()["response"].clone()
    }

    async fn end(mut self) {
        self.stop.request("the end");
        self.operator.take().unwrap().await.unwrap();
        assert!(self.tasks.finish(Duration::from_mins(10)).await.is_empty());
    }
}

/// Returns how many names each team has.
fn teams(cluster: &Cluster) -> Value {
    let indexes = cluster.monitor.indexes()["demo"].get("by_team").unwrap().to_value();
    indexes
        .as_object()
        .unwrap()
        .iter()
        .map(|(team, names)| (team.clone(), json!(names.as_array().unwrap().len())))
        .collect()
}

#[test]
fn indexing_waits_for_no_worker_and_everything_else_for_the_indexes() {
    in_virtual_time(async {
        let (messages, _guard) = collect_messages(tracing::Level::INFO);
        let objects = vec![configmap("a", "web"), secret("s"), configmap("b", "web"), configmap("c", "db")];
        let cluster = Cluster::serving("settings: {queueing: {workerLimit: 1}}", SLOW, objects).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert!(!messages.lock().iter().any(|line| line.contains(": ")), "{:?}", messages.lock());
        // One worker of each kind runs, and sleeps.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let count = || messages.lock().iter().filter(|line| line.ends_with(": 3")).count();
        assert_eq!(count(), 2, "{:?}", messages.lock());
        bootstrap::apply(&cluster.api, vec![configmap("d", "db")]).await.unwrap();
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(teams(&cluster), json!({"db": 2, "web": 2}), "a new object is indexed while another one is handled");
        tokio::time::sleep(Duration::from_mins(1)).await;
        assert!(cluster.monitor.is_quiet());
        assert_eq!(messages.lock().iter().filter(|line| line.ends_with(": 4")).count(), 3, "{:?}", messages.lock());
        cluster.end().await;
    });
}

#[test]
fn an_operator_that_waits_for_its_indexes_stops_at_once() {
    in_virtual_time(async {
        let (messages, _guard) = collect_messages(tracing::Level::INFO);
        let script = "fn by_team(labels) { sleep(\"50m\"); return labels; } fn seen(logger) { logger.info(\"seen\"); }";
        let cluster = Cluster::serving(
            "settings: {queueing: {exitTimeout: 3s}}",
            script,
            vec![configmap("a", "web"), secret("s")],
        )
        .await;
        tokio::time::sleep(Duration::from_mins(1)).await;
        let began = Instant::now();
        cluster.end().await;
        assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());
        assert!(!messages.lock().iter().any(|line| line == "seen"), "{:?}", messages.lock());
        let warning =
            "No handlers are called before all indexes are filled: not indexed yet are 1 of the listed objects.";
        assert!(messages.lock().iter().any(|line| line == warning), "{:?}", messages.lock());
    });
}

#[test]
fn webhooks_and_conversions_are_answered_before_the_indexes_are_filled() {
    in_virtual_time(async {
        let (messages, _guard) = collect_messages(tracing::Level::INFO);
        let script =
            "fn by_team(labels, name) { if name == \"slow\" { sleep(\"50m\"); } return entry(labels.team, name); }
            fn seen(logger) { logger.info(\"seen\"); }
            fn check(by_team) { throw reject(`${by_team.len()} teams`, 403); }
            fn convert(body, version) { let object = body.copy(); object.apiVersion = version; return object; }";
        let names = json!({"kind": "Thing", "plural": "things"});
        let schema = json!({"openAPIV3Schema": {"type": "object"}});
        let versions =
            ["v1", "v2"].map(|name| json!({"name": name, "served": true, "storage": name == "v1", "schema": schema}));
        let spec = json!({"group": "ex.dev", "scope": "Namespaced", "names": names, "versions": versions});
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "things.ex.dev"}, "spec": spec,
        });
        let objects = vec![definition, configmap("fast", "web"), configmap("slow", "web")];
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "settings: {queueing: {exitTimeout: 3s}}", WEBHOOKS, script);
        let cluster = Cluster::of(folder, objects, Vec::new()).await;
        tokio::time::sleep(Duration::from_mins(1)).await;
        let warning =
            "No handlers are called before all indexes are filled: not indexed yet are 1 of the listed objects.";
        assert!(messages.lock().iter().any(|line| line == warning), "{:?}", messages.lock());
        let object = secret("s");
        let kind = json!({"group": "", "version": "v1", "kind": "Secret"});
        let resource = json!({"group": "", "version": "v1", "resource": "secrets"});
        let user = json!({"username": "ann"});
        let request = json!({
            "uid": "r", "kind": kind, "resource": resource, "name": "s", "operation": "CREATE", "userInfo": user, "object": object,
        });
        let response = cluster
            .review(
                "check",
                json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}),
            )
            .await;
        assert_eq!(
            (&response["allowed"], &response["status"]["message"]),
            (&json!(false), &json!("1 teams")),
            "{response}"
        );
        let thing = |version: &str| json!({"apiVersion": format!("ex.dev/{version}"), "kind": "Thing", "metadata": {"name": "a"}});
        let request = json!({"uid": "c", "desiredAPIVersion": "ex.dev/v2", "objects": [thing("v1")]});
        let review = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request});
        assert_eq!(cluster.review("convert", review).await["convertedObjects"], json!([thing("v2")]));
        assert!(!messages.lock().iter().any(|line| line == "seen"), "{:?}", messages.lock());
        cluster.end().await;
    });
}

#[test]
fn many_objects_are_indexed_before_the_first_handler() {
    in_virtual_time(async {
        let (messages, _guard) = collect_messages(tracing::Level::INFO);
        let script = "fn by_team(labels, name) { return entry(labels.team, name); }
            fn seen(by_team, type, logger) { logger.info(`${by_team[\"t1\"].len()} of ${by_team.len()}`); }";
        let objects =
            (0..1000).map(|number| configmap(&format!("c{number}"), &format!("t{}", number % 10))).chain([secret("s")]);
        let cluster = Cluster::serving("settings: {}", script, objects.collect()).await;
        tokio::time::sleep(Duration::from_mins(1)).await;
        assert!(cluster.monitor.is_quiet());
        let lines = messages.lock().iter().filter(|line| *line == "100 of 10").count();
        assert_eq!(lines, 1001, "{:?}", messages.lock().iter().find(|line| line.contains(" of ")));
        cluster.end().await;
    });
}

#[test]
fn a_list_that_fails_after_its_first_page_is_repeated_and_blocks_nothing() {
    in_virtual_time(async {
        let (messages, _guard) = collect_messages(tracing::Level::INFO);
        let script = "fn by_team(labels, name) { return entry(labels.team, name); }
            fn seen(by_team, type, logger) { logger.info(`${by_team[\"t1\"].len()} of ${by_team.len()}`); }";
        let objects = (0..1000).map(|number| configmap(&format!("c{number}"), &format!("t{}", number % 10)));
        let lists = Match { verb: "list".into(), resource: Some("configmaps".to_owned()), ..Match::default() };
        let (code, body) = (503, AnswerBody::Status);
        let refusal = Action::Status { code, reason: String::new(), message: String::new(), retry_after: None, body };
        let second_page = Rule { skip: 1, times: Some(1), ..Rule::new(lists, refusal) };
        let cluster = Cluster::disturbed("settings: {}", script, objects.collect(), vec![second_page]).await;
        tokio::time::sleep(Duration::from_mins(1)).await;
        assert_eq!(cluster.api.firings().len(), 1);
        assert!(cluster.monitor.is_quiet());
        let handled = messages.lock().iter().filter(|line| *line == "100 of 10").count();
        assert!(handled >= 1000, "{handled} calls");
        cluster.end().await;
    });
}
