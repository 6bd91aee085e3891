//! A proxy between an operator and the API server that counts writes and can stop after the n-th: the server has carried it out, but the
//! operator gets no answer. Killing the operator then is a crash between two known steps.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use http::StatusCode;
use http::header::{ACCEPT_ENCODING, AUTHORIZATION, HOST};

use super::client::Client;
use super::cluster::kubeconfig;

/// The largest forwarded request: larger than any of ours.
const MAX_REQUEST: usize = 8 << 20;

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
    let is_write = !matches!(request.method().as_str(), "GET" | "HEAD" | "OPTIONS");
    let answer = forward(&state.client, request).await;
    if is_write && state.writes.fetch_add(1, Ordering::SeqCst) + 1 >= state.shut_after.load(Ordering::SeqCst) {
        state.shut.store(true, Ordering::SeqCst);
        return std::future::pending().await;
    }
    answer.unwrap_or_else(|error| {
        let mut refusal = Response::new(Body::from(error));
        *refusal.status_mut() = StatusCode::BAD_GATEWAY;
        refusal
    })
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
