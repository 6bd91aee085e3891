//! Fault injection, in the same process and over sockets; and the control API under `/_dev`.
#![expect(clippy::unwrap_used, reason = "the helpers of tests are tests, too")]

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use bytes::Bytes;
use futures::StreamExt as _;
use http::{Request, Response, header};
use kopfd_apiserver::Latency;
use kopfd_apiserver::auth::access::{Authentication, MASTERS, User};
use kopfd_apiserver::server::restart::Restart;
use kopfd_apiserver::server::socket::Listening;
use kopfd_apiserver::{ApiServer, Settings};
use kopfd_base::kit::{Clock, Stop, Tasks};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::Instant;

const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A server in the same process.
struct Server(ApiServer);

/// An answer, as far as it was received.
#[derive(Debug, Default)]
struct Answer {
    status: u16,
    text: String,
    value: Value,
    headers: http::HeaderMap,
    is_broken: bool,
}

impl Server {
    fn new() -> Self {
        let clock = Clock::starting_at("2020-01-01T00:00:00Z".parse().unwrap());
        Self(ApiServer::new(Settings { seed: Some(1), requests: 100, has_control: true, ..Settings::default() }, clock))
    }

    /// Adds a rule.
    fn fault(&self, matching: Value, action: Value) -> u64 {
        self.0.add_fault(serde_json::from_value(json!({"match": matching, "action": action})).unwrap())
    }

    async fn open(&self, method: &str, uri: &str, body: Value) -> Option<Response<axum::body::Body>> {
        let media = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
        let request = Request::builder()
            .method(method)
            .uri(uri)
            .header(header::CONTENT_TYPE, media)
            .header(header::USER_AGENT, "test/1");
        self.0.respond(request.body(body).unwrap()).await.ok()
    }

    async fn ask(&self, method: &str, uri: &str, body: Value) -> Answer {
        let Some(response) = self.open(method, uri, body).await else {
            return Answer { is_broken: true, ..Answer::default() };
        };
        read(response).await
    }

    async fn get(&self, uri: &str) -> Answer {
        self.ask("GET", uri, Value::Null).await
    }

    async fn create(&self, name: &str) -> Answer {
        self.ask("POST", CONFIGMAPS, json!({"metadata": {"name": name}, "data": {"n": "0"}})).await
    }

    async fn write(&self, name: &str, n: u64) -> Answer {
        self.ask("PATCH", &format!("{CONFIGMAPS}/{name}"), json!({"data": {"n": n.to_string()}})).await
    }

    async fn watch(&self, query: &str) -> Answer {
        self.get(&format!("{CONFIGMAPS}?watch=true&timeoutSeconds=30{query}")).await
    }

    fn revision(&self) -> u64 {
        self.0.revision()
    }
}

async fn read(response: Response<axum::body::Body>) -> Answer {
    let mut answer =
        Answer { status: response.status().as_u16(), headers: response.headers().clone(), ..Answer::default() };
    let mut pieces = response.into_body().into_data_stream();
    while let Some(piece) = pieces.next().await {
        match piece {
            Ok(piece) => answer.text.push_str(std::str::from_utf8(&piece).unwrap()),
            Err(_) => answer.is_broken = true,
        }
    }
    answer.value = serde_json::from_str(&answer.text).unwrap_or_default();
    answer
}

/// Returns the types and names of the events of a watch.
fn events(answer: &Answer) -> Vec<(String, String)> {
    let event = |line: &str| {
        let event: Value = serde_json::from_str(line).unwrap();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        (text(&event["type"]), text(&event["object"]["metadata"]["name"]))
    };
    answer.text.lines().map(event).collect()
}

fn added(name: &str) -> (String, String) {
    ("ADDED".to_owned(), name.to_owned())
}

#[tokio::test(start_paused = true)]
async fn an_injected_answer_has_no_other_effect() {
    let server = Server::new();
    let status = json!({"status": {"code": 429, "retryAfter": 7, "body": "text", "message": "go away"}});
    let id = server.fault(json!({"verb": "create", "resource": "configmaps"}), status);
    let answer = server.create("a").await;
    assert_eq!((answer.status, answer.text.as_str()), (429, "go away\n"));
    assert_eq!(answer.headers[header::RETRY_AFTER], "7");
    assert_eq!(server.get(&format!("{CONFIGMAPS}/a")).await.status, 404);
    assert!(server.0.remove_fault(id));
    assert_eq!(server.create("a").await.status, 201);
    server.fault(json!({}), json!({"status": {"code": 503}}));
    let answer = server.get("/api").await;
    assert_eq!((answer.status, &answer.value["reason"]), (503, &json!("ServiceUnavailable")));
    let firings = server.0.firings();
    assert_eq!((firings.len(), firings[0].verb.as_str(), firings[0].resource.as_str()), (2, "create", "configmaps"));
}

#[tokio::test(start_paused = true)]
async fn an_answer_may_be_lost_after_the_write_is_stored() {
    let server = Server::new();
    server.fault(json!({"name": "a"}), json!({"statusAfter": {"code": 504}}));
    server.fault(json!({"verb": "create"}), json!({"reset": {"phase": "after"}}));
    assert!(server.create("a").await.is_broken);
    let answer = server.write("a", 1).await;
    assert_eq!((answer.status, &answer.value["reason"]), (504, &json!("Timeout")));
    let stored = server.get(&format!("{CONFIGMAPS}?limit=500")).await.value;
    assert_eq!(stored["items"][0]["data"]["n"], "1");
}

#[tokio::test(start_paused = true)]
async fn a_connection_breaks_before_or_in_the_middle_of_an_answer() {
    let server = Server::new();
    server.fault(json!({"verb": "create"}), json!({"reset": {}}));
    server.fault(json!({"verb": "list"}), json!({"reset": {"phase": "mid-body"}}));
    assert!(server.create("a").await.is_broken);
    let answer = server.get(CONFIGMAPS).await;
    assert!(
        answer.is_broken && answer.status == 200 && answer.text.starts_with('{') && answer.value.is_null(),
        "{answer:?}"
    );
    assert_eq!(server.get(&format!("{CONFIGMAPS}/a")).await.status, 404);
}

#[tokio::test(start_paused = true)]
async fn delays_are_those_of_the_runtime() {
    let server = Server::new();
    server.fault(json!({"verb": "create"}), json!({"delay": {"ms": 60_000}}));
    server.fault(json!({"verb": "list"}), json!({"slowBody": {"bytesPerSec": 10}}));
    let begun_at = Instant::now();
    server.create("a").await;
    assert_eq!(begun_at.elapsed().as_secs(), 60);
    let answer = server.get(CONFIGMAPS).await;
    assert_eq!(begun_at.elapsed().as_secs(), 60 + answer.text.len() as u64 / 10);
}

#[tokio::test(start_paused = true)]
async fn requests_end_at_their_timeout() {
    let server = Server::new();
    let named = |name: &str| json!({"metadata": {"name": name}});
    server.fault(json!({"verb": "create"}), json!({"delay": {"ms": 90_000}}));
    for (query, seconds) in [("?timeout=2s", 2), ("?timeout=5m", 60), ("", 60)] {
        let begun_at = Instant::now();
        let answer = server.ask("POST", &format!("{CONFIGMAPS}{query}"), named("a")).await;
        assert_eq!(
            (answer.status, begun_at.elapsed().as_secs(), &answer.value["reason"]),
            (504, seconds, &json!("Timeout")),
            "{query}"
        );
    }
    // Nothing is stored afterwards, either.
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert_eq!(server.get(&format!("{CONFIGMAPS}/a")).await.status, 404);
    let begun_at = Instant::now();
    let answer = server.get(&format!("{CONFIGMAPS}?resourceVersion=99999999&timeout=1s")).await;
    assert_eq!((answer.status, begun_at.elapsed().as_secs()), (504, 1));
    // Watches have their own time limits.
    let begun_at = Instant::now();
    assert_eq!(server.watch("&timeout=1s").await.status, 200);
    assert_eq!(begun_at.elapsed().as_secs(), 30);
}

#[tokio::test(start_paused = true)]
async fn every_answer_has_the_id_of_its_request() {
    let ids = || async {
        let server = Server::new();
        let first = server.create("a").await;
        let second = server.get("/nope").await;
        let id = |answer: &Answer| answer.headers["audit-id"].to_str().unwrap().to_owned();
        (id(&first), id(&second), first.value["metadata"]["uid"].clone())
    };
    let (first, second, uid) = ids().await;
    assert!(first.len() == 36 && first != second && uid != first.as_str(), "{first} {second} {uid}");
    assert_eq!(ids().await, (first, second, uid));
    let request = Request::get(CONFIGMAPS).header("Audit-Id", "mine").body(Bytes::new()).unwrap();
    assert_eq!(Server::new().0.respond(request).await.unwrap().headers()["audit-id"], "mine");
}

#[tokio::test(start_paused = true)]
async fn a_dropped_watch_continues_from_its_last_revision() {
    let server = Server::new();
    for name in ["a", "b", "c"] {
        server.create(name).await;
    }
    for (how, is_broken) in [("clean", false), ("rst", true)] {
        server.0.replace_faults(vec![
            serde_json::from_value(json!({"times": 1, "action": {"watchDrop": {"afterEvents": 2, "how": how}}}))
                .unwrap(),
        ]);
        let answer = server.watch("").await;
        assert_eq!((events(&answer), answer.is_broken), (vec![added("a"), added("b")], is_broken));
        let answer = server.watch(&format!("&resourceVersion={}", server.revision() - 1)).await;
        assert_eq!(events(&answer), [added("c")]);
    }
    server.fault(json!({}), json!({"watchDrop": {"afterMs": 5000, "how": "mid-line"}}));
    let begun_at = Instant::now();
    let answer = server.watch("").await;
    assert!(answer.is_broken && answer.text.ends_with("\"object\":{\"apiVersion\":\""), "{answer:?}");
    assert_eq!(begun_at.elapsed().as_secs(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_with_an_expired_event() {
    let server = Server::new();
    server.fault(json!({"userAgent": "test*"}), json!({"watchExpire": {"how": "http"}}));
    assert_eq!(server.watch("").await.status, 410);
    server.0.replace_faults(Vec::new());
    server.fault(json!({}), json!({"watchExpire": {}}));
    let answer = server.watch("&resourceVersion=5000").await;
    assert_eq!(
        (answer.status, &answer.value["type"], &answer.value["object"]["code"]),
        (200, &json!("ERROR"), &json!(410))
    );
    server.0.replace_faults(Vec::new());
    server.fault(json!({}), json!({"watchError": {"code": 500}}));
    assert_eq!(server.watch("").await.value["object"]["reason"], "InternalError");
}

#[tokio::test(start_paused = true)]
async fn a_watch_is_silent_or_late_or_repeats_itself() {
    let server = Server::new();
    server.create("a").await;
    server.fault(json!({}), json!({"watchStall": {"ms": 90_000}}));
    let begun_at = Instant::now();
    assert_eq!((events(&server.watch("").await), begun_at.elapsed().as_secs()), (vec![added("a")], 90));
    server.0.replace_faults(Vec::new());
    server.fault(json!({}), json!({"watchDelay": {"ms": 3000}}));
    let mut pieces =
        server.open("GET", &format!("{CONFIGMAPS}?watch=1"), Value::Null).await.unwrap().into_body().into_data_stream();
    let begun_at = Instant::now();
    assert!(pieces.next().await.is_some());
    assert_eq!(begun_at.elapsed().as_secs(), 3);
    server.0.replace_faults(Vec::new());
    server.fault(json!({}), json!({"watchDuplicate": {}}));
    let answer = server.watch(&format!("&resourceVersion={}", server.revision())).await;
    assert_eq!(events(&answer), [added("a")]);
}

#[tokio::test(start_paused = true)]
async fn bookmarks_are_kept_from_a_watch() {
    let server = Server::new();
    let query = "&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    assert_eq!(events(&server.watch(query).await).len(), 1);
    server.fault(json!({"verb": "watch"}), json!({"watchNoBookmarks": {}}));
    assert_eq!(events(&server.watch(query).await), []);
}

#[tokio::test(start_paused = true)]
async fn reads_are_stale_and_writes_are_not() {
    let server = Server::new();
    server.create("a").await;
    server.write("a", 1).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    server.write("a", 2).await;
    let path = format!("{CONFIGMAPS}/a");
    for (action, n) in [(json!({"ms": 5000}), "1"), (json!({"revisions": 1}), "1"), (json!({"revisions": 2}), "0")] {
        server.0.replace_faults(Vec::new());
        server.fault(json!({}), json!({"staleRead": action}));
        assert_eq!(server.get(&path).await.value["data"]["n"], n);
        let list = server.get(CONFIGMAPS).await.value;
        assert_eq!(list["items"][0]["data"]["n"], n);
        assert!(list["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap() < server.revision());
        assert_eq!(events(&server.watch("&limit=1").await)[0], added("a"));
    }
    server.0.replace_faults(Vec::new());
    server.fault(json!({}), json!({"staleRead": {"revisions": 3}}));
    assert_eq!(server.get(&path).await.status, 404);
    assert_eq!(server.create("a").await.status, 409);
}

#[tokio::test(start_paused = true)]
async fn a_conflicting_write_comes_first() {
    let server = Server::new();
    let created = server.create("a").await.value;
    server.fault(json!({"userAgent": "test/*"}), json!({"conflict": {"times": 1}}));
    let uri = format!("{CONFIGMAPS}/a");
    assert_eq!(server.ask("PUT", &uri, created).await.status, 409);
    let fresh = server.get(&uri).await.value;
    assert!(fresh["metadata"]["labels"]["kopfd.dev/fault"].is_string());
    assert_eq!(server.ask("PUT", &uri, fresh).await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn users_are_throttled_and_forgotten() {
    let server = Server::new();
    server.fault(json!({}), json!({"throttle": {"qps": 1.0, "burst": 2, "retryAfter": 3}}));
    let statuses = [server.get("/api").await.status, server.get("/api").await.status, server.get("/api").await.status];
    assert_eq!(statuses, [200, 200, 429]);
    server.0.replace_faults(Vec::new());
    server.fault(json!({}), json!({"unauthorized": {"afterMs": 1000}}));
    assert_eq!(server.get("/api").await.status, 200);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(server.get("/api").await.status, 401);
}

#[tokio::test(start_paused = true)]
async fn a_new_kind_is_not_ready_and_its_group_is_broken_in_discovery() {
    let server = Server::new();
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    let definition = json!({"metadata": {"name": "widgets.ex.dev"}, "spec": {"group": "ex.dev", "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"}, "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]}});
    server.fault(json!({}), json!({"notReady": {"ms": 500}}));
    server.fault(json!({}), json!({"discoveryFail": {"group": "ex.dev", "code": 503}}));
    assert_eq!(
        server.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await.status,
        201
    );
    let answer = server.get("/apis/ex.dev/v1/widgets").await;
    assert_eq!((answer.status, &answer.value["details"]["retryAfterSeconds"]), (429, &json!(1)));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(server.get("/apis/ex.dev/v1/widgets").await.status, 200);
    assert_eq!(server.get("/apis/ex.dev/v1").await.status, 503);
    assert_eq!(server.get("/apis/apps/v1").await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn requests_are_on_record() {
    let server = Server::new();
    server.create("a").await;
    server.fault(json!({"verb": "patch"}), json!({"reset": {}}));
    server.write("a", 1).await;
    let watch = server.open("GET", &format!("{CONFIGMAPS}?watch=true"), Value::Null).await.unwrap();
    let mut pieces = watch.into_body().into_data_stream();
    assert!(pieces.next().await.is_some());
    let requests = server.0.requests();
    let told: Vec<_> = requests
        .iter()
        .map(|asked| (asked.verb.as_str(), asked.name.as_str(), asked.status, asked.fault, asked.events))
        .collect();
    assert_eq!(
        told,
        [("create", "", Some(201), None, 0), ("patch", "a", None, Some(1), 0), ("watch", "", Some(200), None, 1)]
    );
    assert_eq!(
        (requests[0].user_agent.as_str(), requests[0].user.as_str(), requests[0].resource.as_str()),
        ("test/1", "dev-admin", "configmaps")
    );
    assert_eq!(server.get("/_dev/watchers").await.value["watchers"][0]["number"], 3);
    drop(pieces);
    assert_eq!(server.get("/_dev/watchers").await.value["watchers"], json!([]));
    server.fault(json!({"verb": "list"}), json!({"delay": {"ms": 60_000}}));
    let given_up = tokio::time::timeout(Duration::from_secs(1), server.get(CONFIGMAPS)).await;
    let last = server.0.requests().pop().unwrap();
    assert!(given_up.is_err() && last.status.is_none() && last.fault == Some(2), "{last:?}");
    assert!(server.0.is_idle());
}

#[tokio::test(start_paused = true)]
async fn the_control_api_accepts_rules_and_lists_their_firings() {
    let server = Server::new();
    let rule = json!({"match": {"verb": "list"}, "times": 1, "action": {"status": {"code": 500}}});
    let id = server.ask("POST", "/_dev/faults", rule).await.value["id"].clone();
    assert_eq!(server.ask("POST", "/_dev/faults", json!({"action": {"explode": {}}})).await.status, 400);
    assert_eq!(server.get(CONFIGMAPS).await.status, 500);
    assert_eq!(server.get("/_dev/log").await.value["firings"][0]["rule"], id);
    assert_eq!(server.get(&format!("/_dev/faults/{id}")).await.value["rule"]["times"], 1);
    assert_eq!(server.ask("DELETE", &format!("/_dev/faults/{id}"), Value::Null).await.status, 200);
    assert_eq!(server.get("/_dev/faults").await.value["faults"], json!([]));
    let now = server.ask("POST", "/_dev/clock", json!({"offsetMs": 3_600_000})).await.value["now"].clone();
    assert_eq!(now, "2020-01-01T01:00:00Z");
    assert_eq!(server.create("a").await.value["metadata"]["creationTimestamp"], now);
    server.ask("POST", "/_dev/compact", Value::Null).await;
    assert_eq!(server.watch("&resourceVersion=1001").await.value["object"]["code"], 410);
    assert_eq!(server.get("/_dev/nothing").await.status, 404);
}

#[tokio::test(start_paused = true)]
async fn the_control_is_for_administrators_of_servers_that_have_one() {
    let clock = Clock::starting_at("2020-01-01T00:00:00Z".parse().unwrap());
    let status = async |settings: Settings| {
        let api = ApiServer::new(settings, clock.clone());
        api.respond(Request::get("/_dev/log").body(Bytes::new()).unwrap()).await.unwrap().status().as_u16()
    };
    assert_eq!(status(Settings::default()).await, 404);
    let tokens = Authentication::Tokens(BTreeMap::new());
    assert_eq!(status(Settings { authentication: tokens, has_control: true, ..Settings::default() }).await, 403);
}

#[tokio::test(start_paused = true)]
async fn a_restart_ends_watches_and_may_reset_revisions() {
    let server = Server::new();
    server.create("a").await;
    for n in 0..50 {
        server.write("a", n).await;
    }
    let before = server.revision();
    let watching = server.watch("");
    let restarting = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        server.0.restart(Restart { reset_revision: true, down_ms: 2000, ..Restart::default() }).unwrap();
    };
    let begun_at = Instant::now();
    let (watched, ()) = tokio::join!(watching, restarting);
    assert_eq!((events(&watched), begun_at.elapsed().as_secs()), (vec![added("a")], 1));
    assert!(server.get("/api").await.is_broken);
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(server.get(&format!("{CONFIGMAPS}/a")).await.value["data"]["n"], "49");
    assert!(server.revision() < before);
    assert_eq!(server.get(&format!("{CONFIGMAPS}?resourceVersion={before}")).await.status, 504);
    let dump = server.get("/_dev/dump").await.value;
    server.ask("POST", "/_dev/reset", json!({"objects": true})).await;
    assert_eq!(server.get(&format!("{CONFIGMAPS}/a")).await.status, 404);
    let object = dump["objects"].as_array().unwrap().iter().find(|object| object["kind"] == "ConfigMap").unwrap();
    server.ask("POST", "/_dev/load", json!({"objects": [object]})).await;
    assert_eq!(&server.get(&format!("{CONFIGMAPS}/a")).await.value, object);
    assert_eq!(server.ask("POST", "/_dev/settle", Value::Null).await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn events_expire_an_hour_after_their_last_write() {
    let clock = Clock::starting_at("2020-01-01T00:00:00Z".parse().unwrap());
    let latency = Latency { events: Some(Latency::EVENTS), ..Latency::default() };
    let server = Server(ApiServer::new(Settings { seed: Some(1), latency, ..Settings::default() }, clock));
    let (stop, mut tasks) = (Stop::new(), Tasks::default());
    tasks.spawn("controllers", {
        let (api, stop) = (server.0.clone(), stop.clone());
        async move { api.run_controllers(stop).await }
    });
    let path = "/api/v1/namespaces/default/events";
    for name in ["a", "b"] {
        let event = json!({"metadata": {"name": name}, "involvedObject": {"namespace": "default"}, "reason": "R"});
        assert_eq!(server.ask("POST", path, event).await.status, 201);
    }
    tokio::time::sleep(Duration::from_mins(30)).await;
    server.ask("PATCH", &format!("{path}/b"), json!({"count": 2})).await;
    let count = async || server.get(path).await.value["items"].as_array().unwrap().len();
    tokio::time::sleep(Duration::from_mins(31)).await;
    assert_eq!(count().await, 1);
    server.0.shift_time(jiff::SignedDuration::from_mins(30));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(count().await, 0);
    // Later events may expire earlier, if the clock is set back in between.
    let event =
        |name: &str| json!({"metadata": {"name": name}, "involvedObject": {"namespace": "default"}, "reason": "R"});
    server.ask("POST", path, event("late")).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    server.0.shift_time(jiff::SignedDuration::ZERO);
    server.ask("POST", path, event("early")).await;
    tokio::time::sleep(Duration::from_mins(61)).await;
    assert_eq!(server.get(path).await.value["items"][0]["metadata"]["name"], "late");
    assert_eq!(count().await, 1);
    stop.request("the end");
    assert!(tasks.finish(Duration::from_secs(1)).await.is_empty());
}

/// A server on a socket, until it is dropped.
struct Socket {
    api: ApiServer,
    address: SocketAddr,
    tls: tokio_rustls::TlsConnector,
    stop: Stop,
    tasks: Tasks<()>,
}

impl Socket {
    async fn open() -> Self {
        // Only the first test installs it.
        kopfd_base::http::install_crypto_provider();
        let administrator = User::new("admin", &[MASTERS]);
        let authentication = Authentication::Tokens(BTreeMap::from([("token".to_owned(), administrator)]));
        let api = ApiServer::new(Settings { authentication, requests: 100, ..Settings::default() }, Clock::system());
        let listening = Listening::open(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await.unwrap();
        let address = listening.address();
        let config = kopfd_base::yaml::parse(&listening.kubeconfig("token")).unwrap().remove(0);
        let authority = config["clusters"][0]["cluster"]["certificate-authority-data"].as_str().unwrap();
        let authority = base64::engine::general_purpose::STANDARD.decode(authority).unwrap();
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(&authority).unwrap()).unwrap();
        let tls = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        let (stop, mut tasks) = (Stop::new(), Tasks::default());
        tasks.spawn("server", listening.serve(api.clone(), stop.clone()));
        Self { api, address, tls: tokio_rustls::TlsConnector::from(Arc::new(tls)), stop, tasks }
    }

    fn fault(&self, matching: Value, action: Value) {
        self.api.replace_faults(vec![serde_json::from_value(json!({"match": matching, "action": action})).unwrap()]);
    }

    /// Sends a request on its own connection, and returns the received data and the end of the connection.
    async fn get(&self, uri: &str) -> (String, std::io::Result<()>) {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let mut stream = self.tls.connect(ServerName::try_from("localhost").unwrap(), stream).await.unwrap();
        let request = format!(
            "GET {uri} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer token\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut bytes = Vec::new();
        let ended = tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut bytes))
            .await
            .expect("the connection ends");
        (String::from_utf8(bytes).unwrap(), ended.map(|_| ()))
    }

    async fn close(mut self) {
        self.stop.request("the end");
        assert!(self.tasks.finish(Duration::from_secs(3)).await.is_empty());
    }
}

#[tokio::test]
async fn over_a_socket_the_connection_really_breaks() {
    let server = Socket::open().await;
    let is_reset =
        |ended: std::io::Result<()>| ended.is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset);
    assert!(server.get("/api").await.1.is_ok());
    server.fault(json!({}), json!({"reset": {}}));
    let (text, ended) = server.get("/api").await;
    assert!(text.is_empty() && is_reset(ended), "{text}");
    server.fault(json!({}), json!({"reset": {"phase": "mid-body"}}));
    let (text, ended) = server.get("/api").await;
    assert!(text.contains("\"kind\"") && !text.contains('}') && is_reset(ended), "{text}");
    server.fault(json!({"verb": "watch"}), json!({"watchDrop": {"afterEvents": 1, "how": "rst"}}));
    let (text, ended) = server.get("/api/v1/namespaces?watch=true").await;
    assert!(text.matches("ADDED").count() == 1 && is_reset(ended), "{text}");
    server.fault(json!({"verb": "watch"}), json!({"watchDrop": {"afterEvents": 1, "how": "clean"}}));
    let (text, ended) = server.get("/api/v1/namespaces?watch=true").await;
    assert!(text.matches("ADDED").count() == 1 && text.ends_with("0\r\n\r\n") && ended.is_ok(), "{text}");
    server.close().await;
}

#[tokio::test]
async fn a_restart_breaks_open_connections() {
    let server = Socket::open().await;
    let restart = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        server.api.restart(Restart::default()).unwrap();
    };
    let ((text, ended), ()) = tokio::join!(server.get("/api/v1/namespaces?watch=true"), restart);
    assert!(text.contains("ADDED") && !text.ends_with("0\r\n\r\n") && ended.is_err(), "{text}");
    assert!(server.get("/api").await.1.is_ok());
    server.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_realistic_server_takes_its_time() {
    let clock = Clock::starting_at("2020-01-01T00:00:00Z".parse().unwrap());
    let server =
        Server(ApiServer::new(Settings { seed: Some(1), latency: Latency::realistic(), ..Settings::default() }, clock));
    let (stop, mut tasks) = (Stop::new(), Tasks::default());
    tasks.spawn("controllers", {
        let (api, stop) = (server.0.clone(), stop.clone());
        async move { api.run_controllers(stop).await }
    });
    server.ask("POST", "/api/v1/namespaces", json!({"metadata": {"name": "n"}})).await;
    server.ask("POST", "/api/v1/namespaces/n/configmaps", json!({"metadata": {"name": "a"}})).await;
    server.ask("DELETE", "/api/v1/namespaces/n", Value::Null).await;
    let after = async |seconds: u64| {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        server.get("/api/v1/namespaces/n").await.status
    };
    assert_eq!([after(4).await, after(2).await], [200, 404]);
    let owner = server.create("owner").await.value;
    let reference =
        json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}]);
    server.ask("POST", CONFIGMAPS, json!({"metadata": {"name": "child", "ownerReferences": reference}})).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    server.ask("DELETE", &format!("{CONFIGMAPS}/owner"), Value::Null).await;
    let child = format!("{CONFIGMAPS}/child");
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(server.get(&child).await.status, 200);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(server.get(&child).await.status, 404);
    stop.request("the end");
    assert!(tasks.finish(Duration::from_secs(1)).await.is_empty());
}
