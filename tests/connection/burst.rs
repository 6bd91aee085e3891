//! A burst of 10,000 events of 10,000 objects over real connections, counted by the server.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use futures::future::{BoxFuture, FutureExt as _};
use futures::{StreamExt as _, stream};
use hyper_util::rt::TokioIo;
use kopfd::cluster::transport::IN_FLIGHT;
use kopfd::cluster::{Applied, Client, Confirmation, Options, Watcher, apply};
use kopfd::engines::{Background, Effects, Environment, Error, EventStream, Indexing, Patcher, Scripts};
use kopfd::handling::{Handler, Lifecycle, On, Verdict};
use kopfd::kit::{Clock, Stop, Tasks};
use kopfd::object::{Patch, Resource};
use kopfd::persistence::Storages;
use kopfd::reactor::WorkerSettings;
use kopfd::reactor::cycle::Served;
use kopfd::reactor::kind::{Kind, KindSink};
use kopfd::script::{Call, Evaluation, Returned, Subject};
use tempfile::TempDir;
use tokio::net::TcpListener;

use crate::child::Deadline;

const OBJECTS: usize = 10_000;

/// The most connections that are opened for requests, also for the list. Each request in flight has one of its own,
/// which later requests use again. A request may also get that of another one that has just ended, while its own is
/// still being opened: that one becomes idle, and as many idle ones are kept as requests may be in flight.
const CONNECTIONS: usize = 2 * IN_FLIGHT;

/// A server whose watch sends events of all objects at once.
#[derive(Clone, Default)]
struct Server {
    /// The number of all connections, including closed ones.
    opened: Arc<AtomicUsize>,
    /// The number of those of watches.
    opened_for_watches: Arc<AtomicUsize>,
    /// The number of patches that are being answered, and its maximum.
    in_flight: Arc<AtomicUsize>,
    most_in_flight: Arc<AtomicUsize>,
    patched: Arc<AtomicUsize>,
}

impl Server {
    async fn start(&self, tasks: &mut Tasks<()>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let server = self.clone();
        tasks.spawn("server", async move {
            let mut connections = Tasks::default();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                server.opened.fetch_add(1, Ordering::SeqCst);
                let server = server.clone();
                connections.spawn("connection", async move {
                    let is_of_watch = AtomicBool::new(false);
                    let answer = |request: hyper::Request<hyper::body::Incoming>| {
                        if is_watch(request.uri()) && !is_of_watch.swap(true, Ordering::SeqCst) {
                            server.opened_for_watches.fetch_add(1, Ordering::SeqCst);
                        }
                        let server = server.clone();
                        async move { Ok::<_, Infallible>(server.answer(request.map(Body::new)).await) }
                    };
                    let service = hyper::service::service_fn(answer);
                    drop(
                        hyper::server::conn::http1::Builder::new()
                            .serve_connection(TokioIo::new(stream), service)
                            .await,
                    );
                });
            }
        });
        address
    }

    async fn answer(&self, request: Request) -> Response {
        if request.method() == http::Method::PATCH {
            let in_flight = self.in_flight.fetch_add(1, Ordering::SeqCst) + 1;
            self.most_in_flight.fetch_max(in_flight, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(3)).await;
            self.in_flight.fetch_sub(1, Ordering::SeqCst);
            self.patched.fetch_add(1, Ordering::SeqCst);
            return r#"{"metadata":{}}"#.into_response();
        }
        if !is_watch(request.uri()) {
            return r#"{"metadata":{"resourceVersion":"1"},"items":[]}"#.into_response();
        }
        let mut text = String::new();
        for number in 0..OBJECTS {
            let metadata = format!(
                r#"{{"name":"o{number}","namespace":"n","uid":"u{number}","resourceVersion":"{}"}}"#,
                number + 2
            );
            let object =
                format!(r#"{{"apiVersion":"burst.dev/v1","kind":"Thing","metadata":{metadata},"spec":{{"size":1}}}}"#);
            writeln!(text, r#"{{"type":"ADDED","object":{object}}}"#).unwrap();
        }
        let chunks = stream::iter([Ok::<_, Infallible>(Bytes::from(text))]).chain(stream::pending());
        Body::from_stream(chunks).into_response()
    }
}

fn is_watch(uri: &http::Uri) -> bool {
    uri.query().unwrap_or_default().contains("watch=true")
}

/// Every handler succeeds at once; patches are sent.
struct Sending {
    client: Client,
    clock: Clock,
    events: EventStream,
}

impl Scripts for Sending {
    fn call<'a>(&'a self, _handler: &'a Handler, call: Call) -> BoxFuture<'a, Returned> {
        std::future::ready(Returned::new(Verdict::Returned(None), call.patch)).boxed()
    }

    fn evaluate<'a>(&'a self, _subject: &'a Subject, _evaluation: Evaluation) -> BoxFuture<'a, Result<bool, String>> {
        std::future::ready(Ok(true)).boxed()
    }
}

impl Patcher for Sending {
    fn apply<'a>(
        &'a self,
        resource: &'a Resource,
        body: &'a kopfd::object::Body,
        patch: &'a Patch,
        confirmation: &'a dyn Confirmation,
    ) -> BoxFuture<'a, Result<Applied, Error>> {
        async move { Ok(apply::apply(&self.client, resource, body, patch, confirmation).await?) }.boxed()
    }
}

impl Background for Sending {}

impl Indexing for Sending {}

impl Environment for Sending {
    fn clock(&self) -> &Clock {
        &self.clock
    }
}

impl Effects for Sending {
    fn events(&self) -> &EventStream {
        &self.events
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_events_of_ten_thousand_objects_open_few_connections() {
    let _deadline = Deadline::of_test();
    let (server, mut tasks, folder) = (Server::default(), Tasks::default(), TempDir::new().unwrap());
    let address = server.start(&mut tasks).await;
    let path = folder.path().join("config");
    let text = format!(
        "{{current-context: c, contexts: [{{name: c, context: {{cluster: c, user: u}}}}],
          clusters: [{{name: c, cluster: {{server: '{address}'}}}}], users: [{{name: u, user: {{token: t}}}}]}}"
    );
    std::fs::write(&path, text).unwrap();
    let clock = Clock::system();
    let client =
        Client::connect(Options { kubeconfig: Some(path), ..Options::default() }, clock.clone()).await.unwrap();
    let text = |text: &str| text.to_owned();
    let resource = Resource {
        group: text("burst.dev"),
        version: text("v1"),
        plural: text("things"),
        kind: text("Thing"),
        namespaced: true,
        preferred: true,
        ..Resource::default()
    };
    let selectors = vec![kopfd::object::Selector::parse("things.burst.dev").unwrap()];
    let handlers = [Arc::new(Handler { selectors, ..Handler::simple("create", On::Create) })];
    let storages = Arc::new(Storages::default());
    let served =
        Arc::new(Served::new(Arc::new(resource.clone()), &handlers, storages, Lifecycle::Asap, Duration::from_mins(1)));
    let settings = WorkerSettings { consistency_timeout: Duration::ZERO, ..WorkerSettings::default() };
    let world = Arc::new(Sending { client: client.clone(), clock, events: EventStream::default() });
    let kind = Arc::new(Kind::new(world, served, Arc::new(settings), None, Arc::from("burst")));
    let mut watcher = Watcher::new(client, resource, None).unwrap();
    let (mut sink, stop) = (KindSink::new(Arc::clone(&kind)), Stop::new());
    let done = async {
        while server.patched.load(Ordering::SeqCst) < OBJECTS {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        () = watcher.run(&mut sink, &stop) => unreachable!("the stop is never requested"),
        ended = tokio::time::timeout(Duration::from_mins(2), done) => {
            assert!(ended.is_ok(), "only {} of {OBJECTS} objects were patched", server.patched.load(Ordering::SeqCst));
        }
    }
    kind.finish(Duration::from_secs(10)).await;
    let (most_in_flight, watches) =
        (server.most_in_flight.load(Ordering::SeqCst), server.opened_for_watches.load(Ordering::SeqCst));
    let connections = server.opened.load(Ordering::SeqCst) - watches;
    println!("{OBJECTS} objects were patched over {connections} connections, {most_in_flight} at once");
    assert!(most_in_flight <= IN_FLIGHT, "{most_in_flight} patches were in flight at once");
    assert!(most_in_flight > 2, "the server saw no burst: {most_in_flight} patches were in flight at once");
    assert!(connections <= CONNECTIONS, "{connections} connections were opened");
    assert_eq!(watches, 1, "the watch has a connection of its own");
}
