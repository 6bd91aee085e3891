//! The observer on the embedded server, in virtual time: what is served while kinds and namespaces come, change and go.
#![expect(clippy::unwrap_used, reason = "these are tests")]

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::future::BoxFuture;
use http::{Method, Request};
use kopfd::apiserver::faults::{Action, AnswerBody, Match, Rule};
use kopfd::apiserver::server::socket::Service;
use kopfd::apiserver::{ApiServer, admin_client, bootstrap};
use kopfd::cluster::in_process::InProcess;
use kopfd::cluster::transport::{Answer, Connection, Login, Transport};
use kopfd::cluster::{
    Applied, Client, Confirmation, ConnectionSettings, LoginError, Networking, ResourceResolver, Watching, apply,
};
use kopfd::engines::{
    Background, Effects, Environment, Error, EventStream, Health, Indexing, Lead, Patcher, Pause, Scripts,
};
use kopfd::handling::{Handler, Lifecycle, On, Policy, Verdict};
use kopfd::kit::{Clock, Stop, Tasks};
use kopfd::object::namespace::Pattern;
use kopfd::object::{Body, Patch, Resource, Selector};
use kopfd::reactor::observer::{Declared, Observer, Reviser};
use kopfd::reactor::precedence::Precedence;
use kopfd::reactor::revision::Revision;
use kopfd::reactor::{ActivityMonitor, Scope, WorkerSettings};
use kopfd::script::{Call, Evaluation, Returned, Subject};
use kopfd::telemetry::OperatorMetrics;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::world::api_server::{api_server, client, spawn_controllers};
use super::world::in_virtual_time;
use super::world::log::collect_messages;

/// Handlers that take some time and note what they are called for.
struct World {
    client: Client,
    clock: Clock,
    events: EventStream,
    /// How long each call takes.
    takes: Duration,
    /// What the handlers write into the status.
    status: Value,
    /// How many calls run, and how many have at most.
    running: Mutex<(usize, usize)>,
    /// The objects of the calls that have ended.
    calls: Mutex<Vec<String>>,
    /// Whether dropping a memory panics.
    is_broken: bool,
    /// The memories that were dropped.
    forgotten: Mutex<Vec<String>>,
    /// The subresources of the kind, each time that something was sent.
    sent_with: Mutex<Vec<Vec<String>>>,
}

impl Scripts for World {
    fn call<'a>(&'a self, _handler: &'a Handler, call: Call) -> BoxFuture<'a, Returned> {
        Box::pin(async move {
            let Subject::Event { object, .. } = &call.subject else { panic!("only events are handled") };
            let key = kopfd::object::ObjectKey::of(&object.body).to_string();
            {
                let (running, most) = &mut *self.running.lock();
                *running += 1;
                *most = (*most).max(*running);
            }
            tokio::time::sleep(self.takes).await;
            self.running.lock().0 -= 1;
            self.calls.lock().push(key);
            let mut patch = call.patch;
            if !self.status.is_null() {
                patch.merge.insert("status".to_owned(), self.status.clone());
            }
            Returned::new(Verdict::Returned(None), patch)
        })
    }

    fn evaluate<'a>(&'a self, _subject: &'a Subject, _evaluation: Evaluation) -> BoxFuture<'a, Result<bool, String>> {
        Box::pin(std::future::ready(Ok(true)))
    }

    fn forget(&self, memo: &Arc<str>) {
        assert!(!self.is_broken, "no memory can be dropped");
        self.forgotten.lock().push(memo.to_string());
    }
}

impl Patcher for World {
    fn apply<'a>(
        &'a self,
        resource: &'a Resource,
        body: &'a Body,
        patch: &'a Patch,
        confirmation: &'a dyn Confirmation,
    ) -> BoxFuture<'a, Result<Applied, Error>> {
        self.sent_with.lock().push(resource.subresources.clone());
        Box::pin(async move { Ok(apply::apply(&self.client, resource, body, patch, confirmation).await?) })
    }
}

impl Background for World {}

impl Indexing for World {}

impl Environment for World {
    fn clock(&self) -> &Clock {
        &self.clock
    }
}

impl Effects for World {
    fn events(&self) -> &EventStream {
        &self.events
    }
}

/// An operator of things, and its cluster.
struct Cluster {
    api: ApiServer,
    world: Arc<World>,
    monitor: Arc<ActivityMonitor>,
    tasks: Tasks<()>,
    stop: Stop,
}

/// What the operator is like.
#[derive(Clone)]
struct Settled {
    scope: Scope,
    kind: &'static str,
    takes: Duration,
    status: Value,
    is_broken: bool,
    /// Whether the server sends unique ids of objects.
    has_uids: bool,
    exit_timeout: Duration,
}

impl Default for Settled {
    fn default() -> Self {
        Self {
            kind: "example.com/v1/things",
            scope: Scope::Cluster,
            takes: Duration::ZERO,
            status: Value::Null,
            is_broken: false,
            has_uids: true,
            exit_timeout: Duration::from_secs(10),
        }
    }
}

impl Cluster {
    /// Returns a cluster with these objects, and an observer of its things that has not begun.
    async fn with(objects: Vec<Value>, settled: Settled) -> (Self, Observer<World>) {
        let clock = Clock::starting_at("2020-01-01T00:00:00Z".parse().unwrap());
        let api = api_server(&clock);
        let stop = Stop::new();
        let mut tasks = Tasks::default();
        spawn_controllers(&api, &mut tasks, &stop);
        bootstrap::apply(&api, objects).await.unwrap();
        // What fails is not repeated here: the observer has its own way to go on.
        let networking = Networking { error_backoffs: Vec::new(), ..Networking::default() };
        let client = if settled.has_uids {
            client(&api, networking, &clock).await
        } else {
            let server = WithoutUids(InProcess::new(Service::new(api.clone())));
            Client::with_login(Box::new(server), networking, Watching::default(), clock.clone()).await.unwrap()
        };
        let world = Arc::new(World {
            client: client.clone(),
            clock,
            events: EventStream::default(),
            takes: settled.takes,
            status: settled.status,
            is_broken: settled.is_broken,
            running: Mutex::default(),
            calls: Mutex::default(),
            forgotten: Mutex::default(),
            sent_with: Mutex::default(),
        });
        let selectors = vec![Selector::parse(settled.kind).unwrap()];
        let monitor = Arc::new(ActivityMonitor::default());
        let declared = Declared {
            name: Arc::from("demo"),
            revision: Arc::from("0"),
            handlers: vec![Arc::new(Handler { selectors, ..Handler::simple("seen", On::Event) })],
            webhooks: Vec::new(),
            storages: Arc::default(),
            lifecycle: Lifecycle::default(),
            default_backoff: Duration::from_mins(1),
            sub_defaults: Policy::default(),
            settings: Arc::new(WorkerSettings::default()),
            worker_limit: None,
            exit_timeout: settled.exit_timeout,
            is_scanning_disabled: false,
            scope: settled.scope,
            earlier: Precedence::default(),
            monitor: Some(Arc::clone(&monitor)),
            health: Health::default(),
            pause: Pause::default(),
            metrics: OperatorMetrics::default(),
            lead: Lead::permanent(),
        };
        let kinds = Arc::new(ResourceResolver::new(client.clone()));
        let observer = Observer::new(declared, Arc::clone(&world), client, kinds);
        (Self { api, world, monitor, tasks, stop }, observer)
    }

    /// Returns a cluster whose things are served.
    async fn serving(objects: Vec<Value>, settled: Settled) -> Self {
        let (mut cluster, observer) = Self::with(objects, settled).await;
        let stop = cluster.stop.clone();
        cluster.tasks.spawn("observer", async move { observer.run(stop).await.unwrap() });
        pause().await;
        cluster
    }

    async fn send(&self, method: Method, path: &str, body: Value) {
        let content_type = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        admin_client::send(&self.api, method, path, Some(content_type), body.to_string()).await.unwrap();
    }

    async fn create(&self, path: &str, name: &str) {
        self.send(Method::POST, path, thing(name)).await;
        pause().await;
    }

    /// Patches the definition of things.
    async fn redefine(&self, merge: Value) {
        self.send(Method::PATCH, DEFINITION, merge).await;
        pause().await;
    }

    /// Returns the objects that handlers were called for since it was asked last.
    fn calls(&self) -> Vec<String> {
        std::mem::take(&mut self.world.calls.lock())
    }

    async fn end(mut self) {
        self.stop.request("the end");
        assert!(self.tasks.finish(Duration::from_mins(10)).await.is_empty());
    }
}

/// A server of virtual kinds: its objects have no unique ids.
#[derive(Clone)]
struct WithoutUids(InProcess);

impl Login for WithoutUids {
    fn login(&self, _: Arc<ConnectionSettings>) -> BoxFuture<'_, Result<Vec<Connection>, LoginError>> {
        let connection = Connection::over(self.clone(), "without unique ids");
        Box::pin(async { Ok(vec![connection]) })
    }
}

impl Transport for WithoutUids {
    fn send(&self, request: Request<Bytes>) -> BoxFuture<'static, Result<Answer, kopfd::cluster::Error>> {
        let answer = self.0.send(request);
        let without_uids =
            |bytes: Bytes| Bytes::from(String::from_utf8(bytes.to_vec()).unwrap().replace("\"uid\":", "\"none\":"));
        Box::pin(async move {
            let answer = answer.await?;
            Ok(Answer { body: answer.body.map(move |part| part.map(without_uids)).boxed(), ..answer })
        })
    }
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.example.com";

const THINGS: &str = "/apis/example.com/v1/namespaces/default/things";

/// Longer than anything takes that is not asked to, and than all looks at the kinds after a change.
async fn pause() {
    tokio::time::sleep(Duration::from_secs(10)).await;
}

fn thing(name: &str) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": name}})
}

fn version(name: &str, is_stored: bool) -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    json!({"name": name, "served": true, "storage": is_stored, "schema": schema})
}

/// Returns the change of the definition by which the version of the operator is served, or not.
fn versions(is_served: bool) -> Value {
    let mut first = version("v1", false);
    first["served"] = json!(is_served);
    json!({"spec": {"versions": [first, version("v2", true)]}})
}

fn definition(scope: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": scope, "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [version("v1", false), version("v2", true)],
        },
    })
}

#[test]
fn kinds_are_served_from_their_definition_to_their_end_and_then_forgotten() {
    in_virtual_time(async {
        let cluster = Cluster::serving(Vec::new(), Settled::default()).await;
        assert_eq!(cluster.monitor.unserved().len(), 1, "the kind is missing");
        cluster.send(Method::POST, DEFINITIONS, definition("Namespaced")).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert!(!cluster.monitor.is_quiet(), "the last look comes after four seconds");
        pause().await;
        assert!(cluster.monitor.unserved().is_empty());
        cluster.create(THINGS, "a").await;
        assert_eq!(cluster.calls(), ["default/a"]);
        // The objects stay, and nothing tells of them any more.
        cluster.redefine(versions(false)).await;
        assert!(cluster.monitor.is_quiet());
        assert_eq!(cluster.world.forgotten.lock().len(), 1, "the memory of the object is dropped");
        cluster.redefine(versions(true)).await;
        assert_eq!(cluster.calls(), ["default/a"], "it is listed anew");
        assert_eq!(cluster.world.forgotten.lock().len(), 1);
        cluster.end().await;
    });
}

#[test]
fn objects_without_unique_ids_are_forgotten_with_their_kind() {
    in_virtual_time(async {
        let settled = Settled { has_uids: false, ..Settled::default() };
        let cluster = Cluster::serving(vec![definition("Namespaced")], settled).await;
        cluster.create(THINGS, "a").await;
        cluster.create(THINGS, "b").await;
        assert_eq!(cluster.calls(), ["default/a", "default/b"]);
        cluster.redefine(versions(false)).await;
        let mut forgotten = cluster.world.forgotten.lock().clone();
        forgotten.sort();
        let expected = ["a", "b"].map(|name| format!("demo/Thing//example.com/v1//{name}//default//2020-01-01T00:00:"));
        assert!(
            forgotten.iter().zip(&expected).all(|(found, expected)| found.starts_with(expected))
                && forgotten.len() == 2,
            "{forgotten:?}"
        );
        cluster.end().await;
    });
}

#[test]
fn panics_at_the_end_of_a_watch_are_reported_while_the_operator_runs() {
    in_virtual_time(async {
        let settled = Settled { is_broken: true, ..Settled::default() };
        let cluster = Cluster::serving(vec![definition("Namespaced")], settled).await;
        cluster.create(THINGS, "a").await;
        let (messages, _guard) = collect_messages(tracing::Level::WARN);
        let reports = || {
            messages
                .lock()
                .iter()
                .filter(|line| *line == "A task has failed because of a defect of the engine.")
                .count()
        };
        cluster.redefine(versions(false)).await;
        assert_eq!(reports(), 1, "{:?}", messages.lock());
        cluster.end().await;
        assert_eq!(reports(), 1, "{:?}", messages.lock());
    });
}

#[test]
fn a_kind_that_has_changed_is_served_as_it_is() {
    in_virtual_time(async {
        let settled = Settled { status: json!({"seen": true}), ..Settled::default() };
        let cluster = Cluster::serving(vec![definition("Namespaced")], settled).await;
        cluster.create(THINGS, "a").await;
        let sent_with = || std::mem::take(&mut *cluster.world.sent_with.lock());
        let none: Vec<String> = Vec::new();
        let sent = sent_with();
        assert!(!sent.is_empty() && sent.iter().all(|subresources| *subresources == none), "{sent:?}");
        let with_status = |name, is_stored| {
            let mut version = version(name, is_stored);
            version["subresources"] = json!({"status": {}});
            version
        };
        cluster.redefine(json!({"spec": {"versions": [with_status("v1", false), with_status("v2", true)]}})).await;
        sent_with();
        cluster.create(THINGS, "b").await;
        let sent = sent_with();
        assert!(!sent.is_empty() && sent.iter().all(|subresources| *subresources == ["status"]), "{sent:?}");
        cluster.end().await;
    });
}

#[test]
fn objects_that_vanish_while_their_kind_is_served_anew_are_forgotten() {
    in_virtual_time(async {
        let mut existing = thing("a");
        existing["metadata"]["namespace"] = json!("default");
        let (mut cluster, observer) = Cluster::with(vec![definition("Namespaced"), existing], Settled::default()).await;
        // The first watch does not tell of the deletion.
        let watches = Match { verb: "watch".into(), resource: Some("things".to_owned()), ..Match::default() };
        cluster.api.add_fault(Rule { times: Some(1), ..Rule::new(watches, Action::WatchStall { ms: None }) });
        let stop = cluster.stop.clone();
        cluster.tasks.spawn("observer", async move { observer.run(stop).await.unwrap() });
        pause().await;
        assert_eq!(cluster.calls(), ["default/a"]);
        cluster.send(Method::DELETE, &format!("{THINGS}/a"), Value::Null).await;
        pause().await;
        assert!(cluster.world.forgotten.lock().is_empty(), "nothing has told of it");
        cluster.redefine(json!({"spec": {"names": {"shortNames": ["th"]}}})).await;
        assert_eq!(cluster.world.forgotten.lock().len(), 1);
        assert_eq!(cluster.calls(), ["default/a"], "its deletion is an event");
        cluster.end().await;
    });
}

#[test]
fn an_object_keeps_its_memory_and_has_one_worker_while_its_kind_is_served_anew() {
    let short_names = json!({"spec": {"names": {"shortNames": ["th"]}}});
    let mut second = version("v2", false);
    second["served"] = json!(false);
    let first_version = json!({"spec": {"versions": [version("v1", true), second]}});
    for change in [short_names, first_version] {
        in_virtual_time(async {
            let settled =
                Settled { kind: "things.example.com", takes: Duration::from_millis(1500), ..Settled::default() };
            let cluster = Cluster::serving(vec![definition("Namespaced")], settled).await;
            cluster.send(Method::POST, THINGS, thing("a")).await;
            tokio::time::sleep(Duration::from_millis(100)).await;
            cluster.redefine(change).await;
            assert_eq!(cluster.calls(), ["default/a"; 2], "it is listed anew");
            assert_eq!(cluster.world.running.lock().1, 1, "one call at a time");
            assert!(cluster.world.forgotten.lock().is_empty());
            cluster.end().await;
        });
    }
}

#[test]
fn an_object_of_a_kind_that_has_gone_is_forgotten_after_its_last_event() {
    in_virtual_time(async {
        let settled = Settled { takes: Duration::from_secs(2), ..Settled::default() };
        let cluster = Cluster::serving(vec![definition("Namespaced")], settled).await;
        cluster.send(Method::POST, THINGS, thing("a")).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        cluster.send(Method::PATCH, &format!("{THINGS}/a"), json!({"spec": {"x": 1}})).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        cluster.redefine(versions(false)).await;
        assert_eq!(cluster.calls().len(), 2, "queued events are still processed");
        let forgotten = cluster.world.forgotten.lock().len();
        assert_eq!(forgotten, 2, "once when its kind has gone, and once after its last event");
        cluster.end().await;
    });
}

#[test]
fn handlers_of_a_kind_that_has_gone_get_as_long_as_at_the_exit() {
    let calls = |takes| {
        in_virtual_time(async {
            let settled = Settled {
                takes: Duration::from_secs(takes),
                exit_timeout: Duration::from_secs(5),
                ..Settled::default()
            };
            let cluster = Cluster::serving(vec![definition("Namespaced")], settled).await;
            cluster.send(Method::POST, THINGS, thing("a")).await;
            tokio::time::sleep(Duration::from_millis(100)).await;
            cluster.redefine(versions(false)).await;
            tokio::time::sleep(Duration::from_mins(5)).await;
            let calls = cluster.calls();
            cluster.end().await;
            calls.len()
        })
    };
    assert_eq!((calls(4), calls(60)), (1, 0));
}

#[test]
fn running_handlers_are_waited_for_at_the_exit() {
    in_virtual_time(async {
        let settled = Settled { takes: Duration::from_secs(5), ..Settled::default() };
        let (cluster, observer) = Cluster::with(vec![definition("Namespaced")], settled).await;
        let stop = Stop::new();
        let act = async {
            pause().await;
            cluster.send(Method::POST, THINGS, thing("a")).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
            stop.request("the end");
            Instant::now()
        };
        let (result, stopped_at) = tokio::join!(observer.run(stop.clone()), act);
        result.unwrap();
        assert_eq!(stopped_at.elapsed().as_secs(), 4);
        assert_eq!(cluster.calls(), ["default/a"]);
        cluster.end().await;
    });
}

#[test]
fn an_operator_that_is_dropped_ends_its_handlers() {
    in_virtual_time(async {
        let settled = Settled { takes: Duration::from_secs(5), ..Settled::default() };
        let (cluster, observer) = Cluster::with(vec![definition("Namespaced")], settled).await;
        let act = async {
            pause().await;
            cluster.send(Method::POST, THINGS, thing("a")).await;
            // The kinds are to be looked at again.
            cluster.send(Method::PATCH, DEFINITION, json!({"metadata": {"labels": {"a": "b"}}})).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert!(!cluster.monitor.is_quiet());
        };
        tokio::select! {
            _ = observer.run(cluster.stop.clone()) => unreachable!("nobody stops it"),
            () = act => {}
        }
        pause().await;
        assert!(cluster.calls().is_empty() && cluster.monitor.is_quiet());
        cluster.end().await;
    });
}

#[test]
fn operators_of_namespaces_serve_those_that_match_and_cluster_scoped_kinds_only_beside_them() {
    let served = |scope: &'static str, path: &'static str| {
        in_virtual_time(async move {
            let settled = Settled { scope: Scope::Namespaces(vec![Pattern::of_globs("demo-*")]), ..Settled::default() };
            let cluster = Cluster::serving(vec![definition(scope)], settled).await;
            let namespace = |name: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            cluster.send(Method::POST, "/api/v1/namespaces", namespace("other")).await;
            cluster.create(path, "early").await;
            let before = cluster.calls();
            cluster.send(Method::POST, "/api/v1/namespaces", namespace("demo-1")).await;
            pause().await;
            if scope == "Namespaced" {
                cluster.create("/apis/example.com/v1/namespaces/demo-1/things", "late").await;
            }
            let after = cluster.calls();
            cluster.end().await;
            (before, after)
        })
    };
    let none: Vec<String> = Vec::new();
    assert_eq!(
        served("Namespaced", "/apis/example.com/v1/namespaces/other/things"),
        (none.clone(), vec!["demo-1/late".to_owned()])
    );
    assert_eq!(served("Cluster", "/apis/example.com/v1/things"), (none, vec!["early".to_owned()]));
}

#[test]
fn kinds_that_cannot_be_looked_at_are_looked_at_again_half_a_minute_later() {
    let looked = |group: Option<&'static str>, warning: &'static str, of_each_look: usize| {
        in_virtual_time(async move {
            let cluster = Cluster::serving(Vec::new(), Settled::default()).await;
            let (messages, _guard) = collect_messages(tracing::Level::WARN);
            let code = Action::Status {
                code: 503,
                reason: String::new(),
                message: String::new(),
                retry_after: None,
                body: AnswerBody::default(),
            };
            let matching = Match { group: group.map(str::to_owned), ..Match::default() };
            let fault = cluster.api.add_fault(Rule::new(matching, code));
            cluster.send(Method::POST, DEFINITIONS, definition("Namespaced")).await;
            pause().await;
            assert!(!cluster.monitor.is_quiet(), "a look is to come");
            let failures = messages.lock().iter().filter(|line| line.contains(warning)).count();
            // After a definition has changed there are three looks.
            assert_eq!(failures, 3 * of_each_look, "{:?}", messages.lock());
            cluster.api.remove_fault(fault);
            cluster.create(THINGS, "a").await;
            assert!(cluster.calls().is_empty(), "it is too early");
            tokio::time::sleep(Duration::from_secs(30)).await;
            assert_eq!(cluster.calls(), ["default/a"]);
            cluster.end().await;
        });
    };
    looked(None, "Cannot look at the kinds of the cluster.", 1);
    // The group has two versions.
    looked(Some("example.com"), "An API group cannot be read and is skipped.", 2);
}

#[test]
fn a_kind_that_the_server_does_not_serve_yet_at_the_start_is_found_seconds_later() {
    in_virtual_time(async {
        let (mut cluster, observer) = Cluster::with(vec![definition("Namespaced")], Settled::default()).await;
        let missing = Action::Status {
            code: 404,
            reason: String::new(),
            message: String::new(),
            retry_after: None,
            body: AnswerBody::default(),
        };
        let fault = cluster
            .api
            .add_fault(Rule::new(Match { group: Some("example.com".to_owned()), ..Match::default() }, missing));
        let stop = cluster.stop.clone();
        cluster.tasks.spawn("observer", async move { observer.run(stop).await.unwrap() });
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(cluster.monitor.unserved().len(), 1);
        assert!(!cluster.monitor.is_quiet(), "the last look comes after four seconds");
        cluster.api.remove_fault(fault);
        pause().await;
        assert!(cluster.monitor.unserved().is_empty());
        cluster.create(THINGS, "a").await;
        assert_eq!(cluster.calls(), ["default/a"]);
        cluster.end().await;
    });
}

#[test]
fn an_operator_of_namespaces_without_any_says_so() {
    in_virtual_time(async {
        let (messages, _guard) = collect_messages(tracing::Level::WARN);
        let serving = async |pattern| {
            let settled = Settled { scope: Scope::Namespaces(vec![Pattern::of_globs(pattern)]), ..Settled::default() };
            Cluster::serving(vec![definition("Namespaced")], settled).await.end().await;
            std::mem::take(&mut *messages.lock())
        };
        assert_eq!(
            serving("demo-*").await,
            ["No namespace matches the patterns. Nothing is served until one appears."]
        );
        assert!(serving("def*").await.is_empty());
    });
}

/// Returns the next revision, with these handlers of kinds.
fn next_revision(reviser: &Reviser<World>, handlers: &[(&str, &str, On)]) -> Revision<World> {
    let newest = reviser.newest();
    let handlers = handlers.iter().map(|(id, kind, on)| {
        let selectors = vec![Selector::parse(kind).unwrap()];
        Arc::new(Handler { selectors, ..Handler::simple(id, *on) })
    });
    Revision {
        number: newest.number + 1,
        digest: Arc::from((newest.number + 1).to_string()),
        effects: Arc::clone(&newest.effects),
        handlers: handlers.collect(),
        webhooks: Vec::new(),
        storages: Arc::clone(&newest.storages),
        lifecycle: newest.lifecycle,
        default_backoff: newest.default_backoff,
        sub_defaults: newest.sub_defaults.clone(),
        settings: Arc::clone(&newest.settings),
        since: newest.since,
    }
}

/// Runs a cluster with one thing, and what is done with its operator.
fn revised<T>(settled: Settled, act: impl AsyncFnOnce(&Cluster, &Reviser<World>) -> T) -> T {
    in_virtual_time(async {
        let mut existing = thing("a");
        existing["metadata"]["namespace"] = json!("default");
        let (mut cluster, observer) = Cluster::with(vec![definition("Namespaced"), existing], settled).await;
        let (stop, reviser) = (cluster.stop.clone(), observer.reviser());
        cluster.tasks.spawn("observer", async move { observer.run(stop).await.unwrap() });
        pause().await;
        let result = act(&cluster, &reviser).await;
        cluster.end().await;
        result
    })
}

#[test]
fn a_new_revision_calls_other_handlers_and_no_handler_of_raw_events_for_known_objects() {
    revised(Settled::default(), async |cluster: &Cluster, reviser: &Reviser<World>| {
        assert_eq!(cluster.calls(), ["default/a"]);
        let thing = "example.com/v1/things";
        reviser
            .replace(
                next_revision(reviser, &[("seen", thing, On::Event), ("again", thing, On::Event)]),
                Precedence::default(),
                Vec::new(),
            )
            .await;
        pause().await;
        assert!(cluster.calls().is_empty(), "nothing has happened to the object");
        cluster.create(THINGS, "b").await;
        assert_eq!(cluster.calls(), ["default/b"; 2]);
    });
}

#[test]
fn added_kinds_are_watched_and_removed_kinds_are_left_after_the_end_of_their_calls() {
    let settled = Settled { takes: Duration::from_mins(1), exit_timeout: Duration::from_secs(2), ..Settled::default() };
    revised(settled, async |cluster: &Cluster, reviser: &Reviser<World>| {
        tokio::time::sleep(Duration::from_mins(2)).await;
        assert_eq!(cluster.calls(), ["default/a"]);
        cluster.send(Method::POST, THINGS, thing("b")).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        cluster.send(Method::PATCH, &format!("{THINGS}/b"), json!({"spec": {"x": 1}})).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let (messages, _guard) = collect_messages(tracing::Level::INFO);
        reviser
            .replace(next_revision(reviser, &[("seen", "v1/namespaces", On::Event)]), Precedence::default(), Vec::new())
            .await;
        tokio::time::sleep(Duration::from_mins(5)).await;
        let calls = cluster.calls();
        assert_eq!(calls[0], "default/b", "{calls:?}");
        assert!(
            !calls[1..].contains(&"default/b".to_owned()),
            "the call has ended, and no other one has begun: {calls:?}"
        );
        assert!(calls.contains(&"default".to_owned()), "namespaces are watched: {calls:?}");
        let left = "Operator 'demo' has left things.v1.example.com. 0 of its objects keep records.";
        assert!(messages.lock().iter().any(|line| line == left), "{:?}", messages.lock());
        reviser
            .replace(
                next_revision(reviser, &[("seen", "things.example.com", On::Event)]),
                Precedence::default(),
                Vec::new(),
            )
            .await;
        tokio::time::sleep(Duration::from_mins(5)).await;
        let mut calls = cluster.calls();
        calls.retain(|call| call.starts_with("default/"));
        calls.sort();
        assert_eq!(calls, ["default/a", "default/b"], "they are listed anew");
    });
}
