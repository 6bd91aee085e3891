//! The client: an API server's requests over persistent TLS connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::future::join_all;
use rustls::pki_types::ServerName;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::engine::Server;

/// The paths of the webhooks, which are asked in turn.
const PATHS: [&str; 2] = ["/check", "/complete"];

/// Connections to one server.
pub(crate) struct Client {
    connections: Vec<Connection>,
}

impl Client {
    pub(crate) async fn connect(server: &Server, connections: usize) -> Self {
        let config = Arc::new(kopfd::http::Trust::of_pem(server.authority.as_bytes()).client_config());
        let connect = || async {
            let stream = TcpStream::connect(server.address).await.expect("the server listens");
            stream.set_nodelay(true).expect("an open socket");
            let name = ServerName::try_from("localhost").expect("a name");
            let stream = TlsConnector::from(Arc::clone(&config))
                .connect(name, stream)
                .await
                .expect("the certificate is trusted");
            Connection { stream, buffer: Vec::new() }
        };
        Self { connections: join_all((0..connections).map(|_| connect())).await }
    }

    /// Sends reviews until both webhooks have run often.
    pub(crate) async fn warm_up(&mut self) {
        self.send_all(500).await;
    }

    /// Sends reviews as fast as the server answers, on all connections.
    pub(crate) async fn send_all(&mut self, reviews: usize) {
        let (sent, requests) = (AtomicUsize::new(0), requests(300));
        join_all(self.connections.iter_mut().map(|connection| async {
            loop {
                let number = sent.fetch_add(1, Ordering::Relaxed);
                if number >= reviews {
                    return;
                }
                connection.ask(&requests[number % requests.len()]).await;
            }
        }))
        .await;
    }

    /// Sends reviews at a rate. Returns the times from when each was due to its answer.
    pub(crate) async fn send_paced(&mut self, reviews: usize, per_second: usize) -> Vec<Duration> {
        let (sent, requests, began) = (AtomicUsize::new(0), requests(300), Instant::now());
        let times = join_all(self.connections.iter_mut().map(|connection| async {
            let mut times = Vec::new();
            loop {
                let number = sent.fetch_add(1, Ordering::Relaxed);
                if number >= reviews {
                    return times;
                }
                let due = began + Duration::from_secs_f64(number as f64 / per_second as f64);
                let counted_from = wait_until(due).await;
                connection.ask(&requests[number % requests.len()]).await;
                times.push(counted_from.elapsed());
            }
        }));
        times.await.concat()
    }

    /// Sends reviews of a large object, one after another. Returns their times.
    pub(crate) async fn send_large(&mut self, bytes: usize, reviews: usize) -> Vec<Duration> {
        let requests = requests(bytes);
        let mut times = Vec::new();
        for number in 0..reviews {
            let began = Instant::now();
            self.connections[0].ask(&requests[number % requests.len()]).await;
            times.push(began.elapsed());
        }
        times
    }
}

/// Waits until a review is due. Returns the moment from which it counts: if its connection was still busy then, also
/// the time that it has waited for the answers before it, so that a slow answer is not left out of the later ones. The
/// lateness of the client's own timer, which has a resolution of a millisecond, does not count.
async fn wait_until(due: Instant) -> Instant {
    if due <= Instant::now() {
        return due;
    }
    tokio::time::sleep_until(due.into()).await;
    Instant::now()
}

struct Connection {
    stream: TlsStream<TcpStream>,
    buffer: Vec<u8>,
}

impl Connection {
    /// Sends a request, and reads its answer, which must allow the request.
    async fn ask(&mut self, request: &[u8]) {
        self.stream.write_all(request).await.expect("the server reads");
        self.stream.flush().await.expect("the server reads");
        self.buffer.clear();
        let end = loop {
            let read = self.stream.read_buf(&mut self.buffer).await.expect("the server answers");
            assert!(read > 0, "the server has closed the connection");
            let Some(head) = self.buffer.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
            let text = String::from_utf8_lossy(&self.buffer[..head]).to_lowercase();
            let length =
                text.lines().find_map(|line| line.strip_prefix("content-length:")).expect("answers have a length");
            break head + 4 + length.trim().parse::<usize>().expect("a number");
        };
        while self.buffer.len() < end {
            self.stream.read_buf(&mut self.buffer).await.expect("the server answers");
        }
        let answer = String::from_utf8_lossy(&self.buffer);
        assert!(answer.contains(r#""allowed":true"#) || answer.contains(r#""allowed": true"#), "{answer}");
    }
}

/// Returns the requests to both webhooks, about an object of about this size.
fn requests(bytes: usize) -> Vec<Vec<u8>> {
    let items: Vec<Value> =
        (0..bytes / 100).map(|number| json!({"name": format!("item-{number}"), "value": "x".repeat(60)})).collect();
    let object = json!({
        "apiVersion": "kopfd.dev/v1", "kind": "KopfdExample",
        "metadata": {"name": "one", "namespace": "default", "uid": "u-1"},
        "spec": {"size": 3, "owner": "ann", "items": items},
    });
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "r-1", "kind": {"group": "kopfd.dev", "version": "v1", "kind": "KopfdExample"},
        "resource": {"group": "kopfd.dev", "version": "v1", "resource": "kopfdexamples"},
        "name": "one", "namespace": "default", "operation": "UPDATE",
        "userInfo": {"username": "ann", "groups": ["system:authenticated"]}, "object": object, "oldObject": object, "dryRun": false,
    }})
    .to_string();
    let head = |path: &str| {
        format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            review.len()
        )
    };
    PATHS.map(|path| format!("{}{review}", head(path)).into_bytes()).to_vec()
}
