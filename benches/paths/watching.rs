//! From the bytes of a watch to the end of a handling cycle: one in a hundred events concerns a handler.

use std::fmt::Write as _;
use std::io::BufRead;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt};
use futures::stream::{self, StreamExt};
use http::{HeaderMap, Request};
use kopfd::cluster::transport::{Answer, Connection, Login, Transport};
use kopfd::cluster::{
    Applied, Client, Confirmation, ConnectionSettings, Error, LoginError, Networking, Options, Seen, Sink, Watcher,
    Watching,
};
use kopfd::engines::Error as EngineError;
use kopfd::engines::{Background, Effects, Environment, EventStream, Indexing, Patcher, Scripts};
use kopfd::handling::{Handler, Lifecycle, Verdict};
use kopfd::kit::{Clock, Stop};
use kopfd::object::{Body, Patch, Resource};
use kopfd::reactor::WorkerSettings;
use kopfd::reactor::cycle::Served;
use kopfd::reactor::kind::{Kind, KindSink};
use kopfd::script::{Call, Evaluation, Returned, Subject};

use crate::support::objects::{self, State};
use crate::support::table::{median, verdict};

/// The argument that starts this program as the server of the stream.
pub(crate) const SERVE: &str = "serve-a-stream";

/// The number of events.
const EVENTS: usize = 300_000;

/// The number of objects of the events.
const OBJECTS: usize = 3_000;

/// One event in this many concerns a handler.
const MATCHING: usize = 100;

/// The bytes of a chunk, as connections with TLS deliver them.
const CHUNK: usize = 16 << 10;

const GOAL: f64 = 60_000.0;

const ROUNDS: usize = 5;

/// Returns rows of figures.
pub(crate) fn measure() -> Vec<Vec<String>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let line_bytes = chunks().iter().map(Bytes::len).sum::<usize>() / OBJECTS;
    let in_memory: Vec<f64> = (0..ROUNDS).map(|_| runtime.block_on(follow(in_memory()))).collect();
    let server = Server::start();
    let connected: Vec<f64> = (0..ROUNDS).map(|_| runtime.block_on(follow(connected(&server)))).collect();
    let figure = |title: &str, rates: &[f64]| {
        let rate = median(rates);
        let title = format!("watch: {line_bytes} bytes an event, 1 % matching, {title}, one thread");
        vec![title, format!("{:.0} events/s", rate), format!("{GOAL:.0}"), verdict(rate >= GOAL)]
    };
    vec![figure("stream in memory", &in_memory), figure("over a connection", &connected)]
}

/// Returns the number of processed events per second.
async fn follow(client: impl Future<Output = Client>) -> f64 {
    let directory = tempfile::tempdir().expect("a directory for the operator");
    let manifest =
        crate::write(directory.path(), &[("operator.yaml", MANIFEST), ("bench.rhai", "fn create(spec) {}\n")]);
    let operator = crate::load(manifest);
    let handlers: Vec<Arc<Handler>> = operator.handlers.into_iter().map(Arc::new).collect();
    let storages = Arc::new(operator.settings.persistence.storages.clone());
    let served = Served::new(Arc::new(resource()), &handlers, storages, Lifecycle::Asap, Duration::from_mins(1));
    let world = Arc::new(Nothing { clock: Clock::system(), events: EventStream::default() });
    let kind =
        Arc::new(Kind::new(world, Arc::new(served), Arc::new(WorkerSettings::default()), None, Arc::from("bench")));
    let mut watcher = Watcher::new(client.await, resource(), None).expect("the kind can be watched");
    let stop = Stop::new();
    let mut sink = Counting { sink: KindSink::new(Arc::clone(&kind)), left: EVENTS, stop: stop.clone(), began: None };
    watcher.run(&mut sink, &stop).await;
    let elapsed = sink.began.expect("events have come").elapsed();
    kind.finish(Duration::from_secs(10)).await;
    EVENTS as f64 / elapsed.as_secs_f64()
}

const MANIFEST: &str = "apiVersion: kopfd.dev/v1
kind: Operator
metadata: {name: bench}
spec:
  resources:
    - resource: things.bench.kopfd.dev
      script: bench.rhai
      handlers:
        - {on: create, fn: create, labels: {app: chosen}}
";

fn resource() -> Resource {
    let text = |text: &str| text.to_owned();
    Resource {
        group: text(objects::GROUP),
        version: text("v1"),
        plural: text("things"),
        kind: text("Thing"),
        namespaced: true,
        preferred: true,
        subresources: vec![text("status")],
        ..Resource::default()
    }
}

/// Passes events on until the number is reached.
struct Counting {
    sink: KindSink<Nothing>,
    left: usize,
    stop: Stop,
    began: Option<Instant>,
}

impl Sink for Counting {
    async fn seen(&mut self, seen: Seen<'_>) {
        self.began.get_or_insert_with(Instant::now);
        self.sink.seen(seen).await;
        self.left = self.left.saturating_sub(1);
        if self.left == 0 {
            self.stop.request("enough");
        }
    }

    async fn listed(&mut self) {
        self.sink.listed().await;
    }
}

/// Effects in which every handler succeeds and every patch is dropped.
struct Nothing {
    clock: Clock,
    events: EventStream,
}

impl Scripts for Nothing {
    fn call<'a>(&'a self, _handler: &'a Handler, call: Call) -> BoxFuture<'a, Returned> {
        std::future::ready(Returned::new(Verdict::Returned(None), call.patch)).boxed()
    }

    fn evaluate<'a>(&'a self, _subject: &'a Subject, _evaluation: Evaluation) -> BoxFuture<'a, Result<bool, String>> {
        std::future::ready(Ok(true)).boxed()
    }
}

impl Patcher for Nothing {
    fn apply<'a>(
        &'a self,
        _resource: &'a Resource,
        _body: &'a Body,
        _patch: &'a Patch,
        _: &'a dyn Confirmation,
    ) -> BoxFuture<'a, Result<Applied, EngineError>> {
        std::future::ready(Ok(Applied::default())).boxed()
    }
}

impl Background for Nothing {}

impl Indexing for Nothing {}

impl Environment for Nothing {
    fn clock(&self) -> &Clock {
        &self.clock
    }
}

impl Effects for Nothing {
    fn events(&self) -> &EventStream {
        &self.events
    }
}

/// Returns one event of each object, split like the data of connections.
fn chunks() -> Vec<Bytes> {
    let mut text = String::new();
    for number in 0..OBJECTS {
        let state = if number % MATCHING == 0 { State::New } else { State::Unmatched };
        writeln!(text, r#"{{"type":"MODIFIED","object":{}}}"#, objects::object(number, state, objects::SIZE))
            .expect("texts can be written to");
    }
    let whole = Bytes::from(text);
    (0..whole.len()).step_by(CHUNK).map(|start| whole.slice(start..whole.len().min(start + CHUNK))).collect()
}

async fn in_memory() -> Client {
    let login = Box::new(Memory { chunks: Arc::new(chunks()) });
    Client::with_login(login, Networking::default(), Watching::default(), Clock::system())
        .await
        .expect("a client without a server")
}

#[derive(Clone)]
struct Memory {
    chunks: Arc<Vec<Bytes>>,
}

impl Transport for Memory {
    fn send(&self, request: Request<Bytes>) -> BoxFuture<'static, Result<Answer, Error>> {
        let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let chunks = Arc::clone(&self.chunks);
        let body = if is_watch {
            let next = move |number: usize| {
                let chunk = chunks[number % chunks.len()].clone();
                async move {
                    // A connection would let other tasks run from time to time.
                    tokio::task::coop::consume_budget().await;
                    Some((Ok(chunk), number + 1))
                }
            };
            stream::unfold(0, next).boxed()
        } else {
            stream::iter([Ok(Bytes::from_static(EMPTY_LIST))]).boxed()
        };
        std::future::ready(Ok(Answer { status: 200, headers: HeaderMap::new(), body })).boxed()
    }
}

const EMPTY_LIST: &[u8] = br#"{"metadata":{"resourceVersion":"1"},"items":[]}"#;

impl Login for Memory {
    fn login(&self, _: Arc<ConnectionSettings>) -> BoxFuture<'_, Result<Vec<Connection>, LoginError>> {
        let connection = Connection::over(self.clone(), "memory");
        std::future::ready(Ok(vec![connection])).boxed()
    }
}

/// A process that serves the same stream over HTTP, so that the work of the server is not measured.
struct Server {
    process: Child,
    address: String,
}

impl Server {
    fn start() -> Self {
        let own = std::env::current_exe().expect("this program has a file");
        let mut process =
            Command::new(own).arg(SERVE).stdout(Stdio::piped()).spawn().expect("this program can be started");
        let output = process.stdout.take().expect("the output is piped");
        let mut address = String::new();
        std::io::BufReader::new(output).read_line(&mut address).expect("the server tells its address");
        Self { process, address: address.trim().to_owned() }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A server that has ended cannot be killed, and need not be.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

async fn connected(server: &Server) -> Client {
    let directory = tempfile::tempdir().expect("a directory for the kubeconfig");
    let text = format!(
        "{{current-context: b, contexts: [{{name: b, context: {{cluster: b, user: b}}}}],
          clusters: [{{name: b, cluster: {{server: 'http://{}'}}}}], users: [{{name: b, user: {{token: t}}}}]}}",
        server.address
    );
    let kubeconfig = crate::write(directory.path(), &[("kubeconfig", &text)]);
    let options = Options { kubeconfig: Some(kubeconfig), ..Options::default() };
    Client::connect(options, Clock::system()).await.expect("the kubeconfig can be used")
}

/// Serves the stream, and prints the address to standard output.
pub(crate) fn serve() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port on loopback");
        println!("{}", listener.local_addr().expect("a bound listener has an address"));
        let memory = Memory { chunks: Arc::new(chunks()) };
        let answer = move |request: axum::extract::Request| {
            let memory = memory.clone();
            async move {
                let (parts, _) = request.into_parts();
                let answer =
                    memory.send(Request::from_parts(parts, Bytes::new())).await.expect("memory has no failures");
                axum::response::Response::new(axum::body::Body::from_stream(answer.body))
            }
        };
        axum::serve(listener, axum::Router::new().fallback(answer))
            .await
            .expect("the server serves until it is killed");
    });
}
