//! A generated API server: one kind with any number of objects, generated on request.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::Method;
use axum::response::Response;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::objects::{self, GROUP};

/// The path of the collection.
const THINGS: &str = "/apis/bench.kopfd.dev/v1/things";

/// A running server. It ends with its runtime.
pub(crate) struct Generated {
    state: Arc<Content>,
    address: SocketAddr,
}

struct Content {
    objects: usize,
    state: objects::State,
    /// The bytes of an object.
    size: usize,
    patches: AtomicUsize,
    /// The time of the first patch.
    patched_at: watch::Sender<Option<Instant>>,
    /// The time of the first list, and the start of the last watch.
    listed_at: watch::Sender<Option<Instant>>,
    watched: watch::Sender<usize>,
}

impl Generated {
    /// Starts a server with this many objects of the usual size.
    pub(crate) async fn start(objects: usize, state: objects::State) -> Self {
        Self::sized(objects, state, objects::SIZE).await
    }

    /// Starts a server with this many objects of a size in bytes.
    pub(crate) async fn sized(objects: usize, state: objects::State, size: usize) -> Self {
        let state = Arc::new(Content {
            objects,
            state,
            size,
            patches: AtomicUsize::new(0),
            patched_at: watch::Sender::new(None),
            listed_at: watch::Sender::new(None),
            watched: watch::Sender::new(0),
        });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port on loopback");
        let address = listener.local_addr().expect("a bound listener has an address");
        let service = axum::Router::new().fallback(answer).with_state(Arc::clone(&state));
        let server =
            async move { axum::serve(listener, service).await.expect("the server serves until its runtime ends") };
        drop(tokio_util::task::TaskTracker::new().spawn(server));
        Self { state, address }
    }

    /// Writes a kubeconfig for the server.
    pub(crate) fn kubeconfig(&self, directory: &Path) -> PathBuf {
        let path = directory.join(format!("{}.kubeconfig", self.address.port()));
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "bench",
            "clusters": [{"name": "bench", "cluster": {"server": format!("http://{}", self.address)}}],
            "users": [{"name": "bench", "user": {"token": "not-looked-at"}}],
            "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
        });
        std::fs::write(&path, config.to_string()).expect("our own kubeconfig can be written");
        path
    }

    /// Waits for the first list of the objects, and returns its time.
    pub(crate) async fn listed_at(&self) -> Instant {
        let mut listed_at = self.state.listed_at.subscribe();
        let found = listed_at.wait_for(Option::is_some).await.expect("the server lives");
        found.expect("it was waited for")
    }

    /// Waits for the first patch, and returns its time.
    #[allow(dead_code, reason = "not every benchmark waits for one")]
    pub(crate) async fn patched_at(&self) -> Instant {
        let mut patched_at = self.state.patched_at.subscribe();
        let found = patched_at.wait_for(Option::is_some).await.expect("the server lives");
        found.expect("it was waited for")
    }

    /// Waits until a client has listed all the objects, and watches.
    pub(crate) async fn watched(&self) {
        self.state.watched.subscribe().wait_for(|count| *count > 0).await.expect("the server lives");
    }

    /// Returns the number of received patches.
    pub(crate) fn patches(&self) -> usize {
        self.state.patches.load(Ordering::SeqCst)
    }
}

async fn answer(State(content): State<Arc<Content>>, request: Request) -> Response {
    let path = request.uri().path();
    let query = request.uri().query().unwrap_or_default();
    let parameter = |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
    let is_watch = matches!(parameter("watch"), Some("true" | "1"));
    match path {
        "/api" => json_answer(&json!({"kind": "APIVersions", "versions": ["v1"]})),
        "/apis" => json_answer(&groups()),
        "/apis/bench.kopfd.dev/v1" => json_answer(&kinds()),
        THINGS if is_watch => {
            content.watched.send_modify(|count| *count += 1);
            silence()
        }
        THINGS => {
            content.listed_at.send_if_modified(|at| at.is_none() && at.replace(Instant::now()).is_none());
            let limit = parameter("limit").and_then(|text| text.parse().ok()).unwrap_or(usize::MAX);
            let from = parameter("continue").and_then(|text| text.parse().ok()).unwrap_or(0);
            Response::new(Body::from(page(&content, from, limit)))
        }
        _ if request.method() == Method::PATCH => {
            content.patches.fetch_add(1, Ordering::SeqCst);
            content.patched_at.send_if_modified(|at| at.is_none() && at.replace(Instant::now()).is_none());
            json_answer(&json!({"metadata": {"resourceVersion": "1"}}))
        }
        _ if is_watch => silence(),
        _ => json_answer(&json!({"kind": "List", "metadata": {"resourceVersion": "1"}, "items": [], "resources": []})),
    }
}

fn page(content: &Content, from: usize, limit: usize) -> String {
    let until = from.saturating_add(limit).min(content.objects);
    let items: Vec<String> = (from..until).map(|number| objects::object(number, content.state, content.size)).collect();
    let next = if until < content.objects { until.to_string() } else { String::new() };
    let metadata = json!({"resourceVersion": "1000000", "continue": next});
    format!(r#"{{"apiVersion":"{GROUP}/v1","kind":"ThingList","metadata":{metadata},"items":[{}]}}"#, items.join(","))
}

fn silence() -> Response {
    Response::new(Body::from_stream(futures::stream::pending::<Result<String, std::io::Error>>()))
}

fn json_answer(value: &Value) -> Response {
    Response::new(Body::from(value.to_string()))
}

fn groups() -> Value {
    let version = json!({"groupVersion": format!("{GROUP}/v1"), "version": "v1"});
    json!({"kind": "APIGroupList", "groups": [{"name": GROUP, "versions": [version], "preferredVersion": version}]})
}

fn kinds() -> Value {
    let verbs = json!(["create", "delete", "get", "list", "patch", "update", "watch"]);
    json!({"kind": "APIResourceList", "groupVersion": format!("{GROUP}/v1"), "resources": [
        {"name": "things", "singularName": "thing", "namespaced": true, "kind": "Thing", "verbs": verbs},
        {"name": "things/status", "singularName": "", "namespaced": true, "kind": "Thing", "verbs": ["get", "patch", "update"]},
    ]})
}
