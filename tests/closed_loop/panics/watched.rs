//! The one-object server behind the engine's own client: its object is listed and watched as on any other server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::{self, StreamExt as _};
use http::{HeaderMap, Request};
use kopfd::cluster::transport::{Answer, ByteStream, Connection, Login, Transport};
use kopfd::cluster::{Client, ConnectionSettings, Error, LoginError, Networking, Watching};
use kopfd::kit::Clock;
use kopfd::object::EventKind;
use kopfd::reactor::Event;
use serde_json::{Value, json};

use crate::world::server::Server;

/// A connection to the server of one object. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Watched {
    server: Arc<Server>,
    exists: Arc<AtomicBool>,
}

impl Watched {
    /// Returns a connection to a server that has its object from the beginning, or from [`Self::create`] on.
    pub(crate) fn new(server: &Arc<Server>, exists: bool) -> Self {
        Self { server: Arc::clone(server), exists: Arc::new(AtomicBool::new(exists)) }
    }

    /// Creates the object.
    pub(crate) fn create(&self) {
        self.exists.store(true, Ordering::SeqCst);
        self.server.announce(EventKind::Added);
    }

    /// Returns a client for the server.
    pub(crate) async fn client(&self, clock: &Clock) -> Client {
        // The server sends no bookmarks.
        let watching = Watching { inactivity_timeout: None, ..Watching::default() };
        let client = Client::with_login(Box::new(self.clone()), Networking::default(), watching, clock.clone());
        client.await.expect("no credentials are needed")
    }

    fn list(&self) -> ByteStream {
        // It has what the events on their way would tell.
        self.server.disconnect();
        let object = self.server.object();
        let version = object["metadata"]["resourceVersion"].clone();
        let exists = self.exists.load(Ordering::SeqCst) && !self.server.is_gone();
        let items: Vec<Value> = exists.then_some(object).into_iter().collect();
        let text = json!({"metadata": {"resourceVersion": version}, "items": items}).to_string();
        stream::iter([Ok(text.into())]).boxed()
    }

    fn events(&self) -> ByteStream {
        let next = |server: Arc<Server>| async move {
            let Event { event_kind, raw, .. } = server.next_event().await;
            let kind = event_kind.event_type().expect("the server lists nothing by itself");
            Some((Ok(Bytes::from(format!("{{\"type\":\"{kind}\",\"object\":{raw}}}\n"))), server))
        };
        stream::unfold(Arc::clone(&self.server), next).boxed()
    }
}

impl Transport for Watched {
    fn send(&self, request: Request<Bytes>) -> BoxFuture<'static, Result<Answer, Error>> {
        let watched = self.clone();
        Box::pin(async move {
            // As on a network, other tasks run in between.
            tokio::task::yield_now().await;
            let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
            let body = if is_watch { watched.events() } else { watched.list() };
            Ok(Answer { status: 200, headers: HeaderMap::new(), body })
        })
    }
}

impl Login for Watched {
    fn login(&self, _: Arc<ConnectionSettings>) -> BoxFuture<'_, Result<Vec<Connection>, LoginError>> {
        let connection = Connection::over(self.clone(), "the scene");
        Box::pin(async { Ok(vec![connection]) })
    }
}
