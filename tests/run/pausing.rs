//! A paused operator: its watches are closed and its handlers end, while probes, Kubernetes Events and webhooks go on.

use std::time::Instant;

use http::Method;
use kopfd::cluster::{Error, Request, Response};
use serde_json::{Value, json};

use super::{Api, Cluster, object, path};
use crate::child::{LIFETIME, LIMIT, Process, ask};

const PEERING: &str = "/apis/kopf.dev/v1/clusterkopfpeerings/default";

const DEFINITIONS: &str = include_str!("../../manifests/peering/kopf.dev.yaml");

const MANIFEST: &str = "apiVersion: kopfd.dev/v1
kind: Operator
metadata: {name: tested}
spec:
  settings:
    peering: {mandatory: true}
    admission: {server: {kind: server, addr: 127.0.0.1}, managed: tested.example.com}
  resources:
    - resource: v1/configmaps
      script: code.rhai
      labels: {app: tested}
      handlers: [{on: create, fn: follow}]
      webhooks: [{on: validate, fn: check}]
  activities:
    probe: [{id: asked, script: code.rhai, fn: asked}]
";

/// The handler ends when the test has made the Secret that it waits for.
const SCRIPT: &str = r#"
fn follow(name, logger) {
    logger.info(`${name} waits`);
    while k8s::get("v1/secrets", "default", `end-of-${name}`) == () { sleep(0.05); }
    k8s::event("Ended", `${name} has ended`);
}
fn check(body) {
    if body.data?.wrong == "yes" { throw reject("this is wrong", 422); }
}
fn asked() { return "yes"; }
"#;

/// An operator and its API server, which records requests.
struct Pausing {
    cluster: Cluster,
    api: Api,
    _process: Process,
    log: std::path::PathBuf,
}

impl Pausing {
    fn start() -> Self {
        let peering =
            json!({"apiVersion": "kopf.dev/v1", "kind": "ClusterKopfPeering", "metadata": {"name": "default"}});
        let objects = format!("{DEFINITIONS}\n---\n{peering}\n---\n{}", object("default", "one"));
        let cluster = Cluster::start_with_options(&objects, LIFETIME, &["--control"]);
        cluster.write("operator.yaml", MANIFEST);
        cluster.write("code.rhai", SCRIPT);
        let log = cluster.path("log");
        let mut command = cluster.kopfd();
        command.args([
            "run",
            "operator.yaml",
            "--kubeconfig",
            "kubeconfig",
            "--log-format",
            "plain",
            "-L",
            "http://127.0.0.1:0/healthz",
        ]);
        let process = Process::start(command.stderr(std::fs::File::create(&log).unwrap()));
        let api = cluster.client();
        Self { cluster, api, _process: process, log }
    }

    /// Returns the rest of the first line of the log that has a text.
    fn wait_for(&self, text: &str) -> String {
        let began = Instant::now();
        loop {
            let printed = std::fs::read_to_string(&self.log).unwrap();
            if let Some((_, rest)) = printed.lines().find_map(|line| line.split_once(text)) {
                return rest.to_owned();
            }
            assert!(began.elapsed() < LIMIT, "no line has {text:?}:\n{printed}");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }

    fn endpoint(&self) -> String {
        self.wait_for("Probes are answered at").rsplit_once('(').unwrap().1.trim_end_matches(").").to_owned()
    }

    /// Writes or removes the record of a peer with a higher priority.
    fn set_peer(&self, record: &Value) {
        let patch = Request::new(Method::PATCH, format!("{PEERING}?fieldManager=test"));
        self.api.send(&patch.with_json("application/merge-patch+json", &json!({"status": {"other": record}}))).unwrap();
    }

    /// Waits until the operator has this number of open watches of a resource.
    fn wait_for_watches(&self, resource: &str, count: usize) {
        self.api.wait("/_dev/watchers", |found| watches(found, resource) == count);
    }

    /// Returns the number of requests of the operator that have listed config maps.
    fn lists(&self) -> usize {
        let recorded = self.api.send(&Request::get("/_dev/requests")).unwrap();
        let requests = recorded["requests"].as_array().unwrap().iter();
        let is_list = |request: &Value| {
            request["verb"] == "list" || request["path"].as_str().unwrap().contains("sendInitialEvents=true")
        };
        requests.filter(|request| request["resource"] == "configmaps" && is_list(request)).count()
    }

    fn review(&self, name: &str, wrong: &str) -> Result<Response, Error> {
        let mut reviewed = object("default", name);
        reviewed["data"] = json!({"wrong": wrong});
        let request = Request::new(Method::POST, format!("{}?fieldManager=test&dryRun=All", path(&reviewed)));
        self.api.runtime.block_on(self.api.client.request(&request.with_json("application/json", &reviewed)))
    }

    fn end_handler(&self, name: &str) {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": format!("end-of-{name}"), "namespace": "default"}});
        let request = Request::new(Method::POST, "/api/v1/namespaces/default/secrets?fieldManager=test");
        self.api.send(&request.with_json("application/json", &secret)).unwrap();
    }
}

fn watches(found: &Value, resource: &str) -> usize {
    found["watchers"].as_array().unwrap().iter().filter(|watch| watch["resource"] == resource).count()
}

#[test]
fn a_pause_closes_watches_and_lets_handlers_end_while_probes_events_and_webhooks_go_on() {
    let operator = Pausing::start();
    let endpoint = operator.endpoint();
    operator.wait_for("one waits");
    operator.wait_for_watches("configmaps", 1);
    let lists = operator.lists();
    operator.set_peer(&json!({"priority": 100, "lifetime": 600}));
    operator.wait_for("Pausing operations in favour of [<Peer other: priority=100");
    operator.wait_for_watches("configmaps", 0);
    // Those of peers and kinds stay.
    operator.wait_for_watches("clusterkopfpeerings", 1);
    operator.wait_for_watches("customresourcedefinitions", 1);

    // The probe function was not called before the pause.
    let (_, probes) = ask(&endpoint, "GET", "/healthz");
    assert!(probes.contains("200 OK") && probes.contains(r#""asked":"yes""#), "{probes}");
    let (_, ready) = ask(&endpoint, "GET", "/readyz");
    assert!(ready.contains("200 OK") && ready.contains("operator 'tested' is paused"), "{ready}");
    assert_eq!(operator.review("right", "no").unwrap().status, 201);
    let refused = operator.review("wrong", "yes").unwrap_err();
    assert!(refused.status() == Some(422) && refused.to_string().contains("this is wrong"), "{refused}");

    // The running handler ends, its success is stored, and its Event is posted.
    operator.api.create(&object("default", "two"));
    operator.end_handler("one");
    operator.api.wait_until_handled("default", "one");
    operator.api.wait("/api/v1/namespaces/default/events", |events| {
        let mut posted = events["items"].as_array().unwrap().iter();
        posted.any(|event| {
            event["reason"] == "Ended"
                && event["message"] == "one has ended"
                && event["involvedObject"]["name"] == "one"
        })
    });
    let found = operator.api.send(&Request::get("/_dev/watchers")).unwrap();
    assert_eq!(watches(&found, "configmaps"), 0, "{found}");
    assert_eq!(operator.lists(), lists, "a paused operator lists nothing");
    let printed = std::fs::read_to_string(&operator.log).unwrap();
    assert!(!printed.contains("two waits"), "{printed}");

    operator.set_peer(&Value::Null);
    operator.wait_for("Resuming operations after the pause.");
    operator.wait_for("two waits");
    assert!(operator.lists() > lists, "after the pause, all objects are listed");
    operator.wait_for_watches("configmaps", 1);
    operator.end_handler("two");
    operator.api.wait_until_handled("default", "two");
    drop(operator.cluster);
}
