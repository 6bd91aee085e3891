//! A server for tests that answers with a function, in virtual time and without a network.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::{self, StreamExt};
use http::{HeaderMap, Request};
use parking_lot::Mutex;

use super::super::error::{Error, LoginError};
use super::super::settings::{ConnectionSettings, Networking, Watching};
use super::super::transport::{Answer, ByteStream, Connection, Login, Transport};
use super::Client;
use crate::kit::Clock;

/// Answers one request.
pub(crate) type Handler = Box<dyn FnMut(&Request<Bytes>) -> Result<Answer, Error> + Send>;

#[derive(Clone)]
pub(crate) struct Script {
    handler: Arc<Mutex<Handler>>,
    /// The requests so far: method and path.
    pub(crate) requests: Arc<Mutex<Vec<String>>>,
    logins: Arc<AtomicU64>,
    /// The number of logins that return different credentials.
    different_logins: u64,
    expires_at: Option<jiff::Timestamp>,
}

impl Script {
    pub(crate) fn new(handler: impl FnMut(&Request<Bytes>) -> Result<Answer, Error> + Send + 'static) -> Self {
        let handler: Handler = Box::new(handler);
        Self {
            handler: Arc::new(Mutex::new(handler)),
            requests: Arc::default(),
            logins: Arc::default(),
            different_logins: 1,
            expires_at: None,
        }
    }

    pub(crate) fn with_logins(self, different_logins: u64) -> Self {
        Self { different_logins, ..self }
    }

    pub(crate) fn expiring_at(self, expires_at: jiff::Timestamp) -> Self {
        Self { expires_at: Some(expires_at), ..self }
    }

    pub(crate) fn logins(&self) -> u64 {
        self.logins.load(Ordering::SeqCst)
    }

    pub(crate) async fn client(&self) -> Client {
        self.client_with(Networking::default(), Watching::default()).await
    }

    pub(crate) async fn client_with(&self, networking: Networking, watching: Watching) -> Client {
        let clock = Clock::starting_at("2020-01-01T00:00:00Z".parse().unwrap());
        Client::with_login(Box::new(self.clone()), networking, watching, clock).await.unwrap()
    }
}

impl Transport for Script {
    fn send(&self, request: Request<Bytes>) -> BoxFuture<'static, Result<Answer, Error>> {
        self.requests.lock().push(format!("{} {}", request.method(), request.uri()));
        let answer = (self.handler.lock())(&request);
        Box::pin(async {
            // As on a network, other tasks run in between.
            tokio::task::yield_now().await;
            answer
        })
    }
}

impl Login for Script {
    fn login(&self, _: Arc<ConnectionSettings>) -> BoxFuture<'_, Result<Vec<Connection>, LoginError>> {
        let number = self.logins.fetch_add(1, Ordering::SeqCst) + 1;
        let transport: Arc<dyn Transport> = Arc::new(self.clone());
        let connection = Connection {
            calls: Arc::clone(&transport),
            watches: transport,
            expires_at: self.expires_at.filter(|_| number == 1),
            default_namespace: "default".to_owned(),
            server: "script".to_owned(),
            id: String::new(),
            fingerprint: number.min(self.different_logins),
        };
        Box::pin(async { Ok(vec![connection]) })
    }
}

/// Returns an answer with a body.
pub(crate) fn answer(status: u16, body: impl Into<Bytes>) -> Answer {
    let body: Bytes = body.into();
    Answer { status, headers: HeaderMap::new(), body: stream::iter([Ok(body)]).boxed() }
}

/// Returns an answer with a streamed body.
pub(crate) fn streamed(body: ByteStream) -> Answer {
    Answer { status: 200, headers: HeaderMap::new(), body }
}

/// Returns a failed connection.
pub(crate) fn refused() -> Error {
    Error::Connect("connection refused".into())
}
