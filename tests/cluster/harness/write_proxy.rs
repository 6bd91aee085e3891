//! A proxy between an operator and the API server that records writes, and can stop after the n-th: the server has
//! carried it out, but the operator gets no answer. Killing the operator then is a crash between two known steps.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use http::StatusCode;
use http::header::{ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, HOST};
use serde_json::Value;

use super::client::Client;
use super::cluster::kubeconfig;

/// The largest forwarded request: larger than any of ours.
const MAX_REQUEST: usize = 8 << 20;

/// Requests with this credential are refused as the API server refuses expired ones. Any other credential is accepted.
const REFUSED: &str = "Bearer refused";

/// A request that changes something.
#[derive(Debug, Clone)]
pub(crate) struct Write {
    /// The method.
    pub(crate) method: String,
    /// The path without the query.
    pub(crate) path: String,
    /// The content type of the body.
    pub(crate) content_type: String,
    /// The body; null if it is not JSON.
    pub(crate) body: Value,
    /// The status of the answer.
    pub(crate) status: u16,
}

/// A running proxy. It stops when this is dropped.
pub(crate) struct WriteProxy {
    state: Arc<ProxyState>,
    port: u16,
    task: tokio::task::AbortHandle,
}

struct ProxyState {
    client: kube::Client,
    writes: AtomicUsize,
    shut_after: AtomicUsize,
    shut: AtomicBool,
    recorded: Mutex<Vec<Write>>,
}

impl WriteProxy {
    /// Starts a proxy to the server of a client, which stops after this many writes.
    pub(crate) fn open(client: &Client, shut_after: usize) -> Self {
        let (client, runtime) = client.parts();
        let state = Arc::new(ProxyState {
            client,
            writes: AtomicUsize::new(0),
            shut_after: AtomicUsize::new(shut_after),
            shut: AtomicBool::new(false),
            recorded: Mutex::default(),
        });
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).expect("a free port on loopback");
        let port = listener.local_addr().expect("a bound listener has an address").port();
        let service = axum::Router::new().fallback(pass).with_state(Arc::clone(&state));
        let server = async move { axum::serve(listener, service).await.expect("the proxy serves until it is aborted") };
        let task = tokio_util::task::TaskTracker::new().spawn_on(server, runtime.handle()).abort_handle();
        Self { state, port, task }
    }

    /// Writes a kubeconfig that uses the proxy.
    pub(crate) fn kubeconfig(&self, directory: &std::path::Path) -> PathBuf {
        let path = directory.join(format!("proxy-{}.kubeconfig", self.port));
        std::fs::write(&path, kubeconfig(&format!("http://127.0.0.1:{}", self.port), "not-looked-at"))
            .expect("our own kubeconfig can be written");
        path
    }

    /// Tells whether the proxy has stopped forwarding.
    pub(crate) fn is_shut(&self) -> bool {
        self.state.shut.load(Ordering::SeqCst)
    }

    /// Returns the answered writes so far, in the order of their answers.
    pub(crate) fn writes(&self) -> Vec<Write> {
        self.state.recorded.lock().expect("no thread panics while holding the writes").clone()
    }

    /// Forwards all requests from now on.
    pub(crate) fn reopen(&self) {
        self.state.shut_after.store(usize::MAX, Ordering::SeqCst);
        self.state.shut.store(false, Ordering::SeqCst);
    }
}

impl Drop for WriteProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn pass(State(state): State<Arc<ProxyState>>, request: Request) -> Response {
    if state.shut.load(Ordering::SeqCst) {
        return std::future::pending().await;
    }
    if request.headers().get(AUTHORIZATION).is_some_and(|credential| credential == REFUSED) {
        return refusal(StatusCode::UNAUTHORIZED, "this credential is refused".to_owned());
    }
    if matches!(request.method().as_str(), "GET" | "HEAD" | "OPTIONS") {
        return forward(&state.client, request).await.unwrap_or_else(|error| refusal(StatusCode::BAD_GATEWAY, error));
    }
    let (mut write, request) = match read(request).await {
        Ok(read) => read,
        Err(error) => return refusal(StatusCode::BAD_GATEWAY, error),
    };
    let answer = forward(&state.client, request).await.unwrap_or_else(|error| refusal(StatusCode::BAD_GATEWAY, error));
    write.status = answer.status().as_u16();
    state.recorded.lock().expect("no thread panics while holding the writes").push(write);
    if state.writes.fetch_add(1, Ordering::SeqCst) + 1 >= state.shut_after.load(Ordering::SeqCst) {
        state.shut.store(true, Ordering::SeqCst);
        return std::future::pending().await;
    }
    answer
}

/// Reads the body of a write, and returns its record without a status, and the request with the same body.
async fn read(request: Request) -> Result<(Write, Request), String> {
    let (parts, body) = request.into_parts();
    let bytes = to_bytes(body, MAX_REQUEST).await.map_err(|error| error.to_string())?;
    let content_type = parts.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let write = Write {
        method: parts.method.to_string(),
        path: parts.uri.path().to_owned(),
        content_type: content_type.split(';').next().unwrap_or_default().to_owned(),
        body: serde_json::from_slice(&bytes).unwrap_or_default(),
        status: 0,
    };
    Ok((write, Request::from_parts(parts, Body::from(bytes))))
}

fn refusal(status: StatusCode, text: String) -> Response {
    let mut refusal = Response::new(Body::from(text));
    *refusal.status_mut() = status;
    refusal
}

async fn forward(client: &kube::Client, request: Request) -> Result<Response, String> {
    let (mut parts, body) = request.into_parts();
    for name in [HOST, AUTHORIZATION, ACCEPT_ENCODING] {
        parts.headers.remove(name);
    }
    let bytes = to_bytes(body, MAX_REQUEST).await.map_err(|error| error.to_string())?;
    let request = http::Request::from_parts(parts, kube::client::Body::from(bytes));
    client.send(request).await.map(|answer| answer.map(Body::new)).map_err(|error| error.to_string())
}
