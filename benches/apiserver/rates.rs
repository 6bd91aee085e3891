//! Requests and deliveries per second of CPU time, compared with the real server and its store.
//!
//! A server on one core has one second of CPU time per second: slow clients and other programs do not count. Wall time
//! shows servers that wait.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use futures::{AsyncReadExt as _, StreamExt as _, stream};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::embedded::Embedded;
use super::harness::{Client, Cluster, Kind, TIMEOUT, eventually};
use super::support::objects::spec;
use super::support::process::{children, cpu};
use super::support::ratios::{Ratios, count, rounds};
use super::support::table::{median, print, row, verdict};

/// Objects of one round.
const OBJECTS: usize = 3_000;

/// Concurrent requests.
const AT_ONCE: usize = 32;

/// The bytes that fill a specification: objects of one KiB.
const FILLING: usize = 512;

/// Target ratio to the real server.
const GOAL: f64 = 5.0;

/// The same for wall time: the client, which needs more time than the embedded server, is the limit.
const CLOCK_GOAL: f64 = 1.0;

/// The rates of one round.
#[derive(Debug, Clone, Copy)]
struct Rate {
    /// Per second of the processes' CPU time.
    of_processors: f64,
    /// Per second of wall time, which the client and other programs of the machine share.
    of_clock: f64,
}

/// Measures, and prints a table.
pub(crate) fn measure(real: Option<&Cluster>, runtime: &Arc<Runtime>, directory: &Path, ratios: &mut Ratios) {
    let mut of_processors = vec![row(["per second of processor time", "real", "embedded", "ratio", "goal", ""])];
    let mut of_clock = vec![row(["per second by the clock", "real", "embedded", "ratio", "goal", ""])];
    for watchers in [1, 50] {
        let mut played = (Vec::new(), Vec::new());
        for round in 0..rounds() {
            let group = format!("w{watchers}-r{round}.bench.kopfd.dev");
            let play_embedded = || {
                let embedded = Embedded::start(runtime, directory);
                play(&embedded.client, watchers, &group, &[embedded.program.id()])
            };
            // Before and after the real server: the speed of a machine changes from one minute to the next.
            let before = play_embedded();
            if let Some(cluster) = real {
                let rates = play(cluster.client(), watchers, &group, &children());
                played.0.extend([rates; 2]);
            }
            played.1.extend([before, play_embedded()]);
        }
        for (index, title) in ["creations", "merge patches", "deliveries"].into_iter().enumerate() {
            let title = format!("{title}, {watchers} watching");
            let mut compare = |rows: &mut Vec<Vec<String>>, figure: fn(&Rate) -> f64, goal: f64| {
                let figures =
                    |rounds: &[[Rate; 3]]| -> Vec<f64> { rounds.iter().map(|rates| figure(&rates[index])).collect() };
                let (real, embedded) = (figures(&played.0), figures(&played.1));
                // Both servers of a round met the same state of the machine.
                let ratio =
                    median(&real.iter().zip(&embedded).map(|(real, embedded)| embedded / real).collect::<Vec<_>>());
                rows.push(cells(&title, median(&real), median(&embedded), ratio, goal));
                if ratio.is_finite() {
                    ratios.add_higher(format!("embedded server, {title}, {}", rows[0][0]), ratio);
                }
            };
            compare(&mut of_processors, |rate| rate.of_processors, GOAL);
            compare(&mut of_clock, |rate| rate.of_clock, CLOCK_GOAL);
        }
    }
    print(&of_processors);
    println!();
    print(&of_clock);
    println!();
}

fn cells(title: &str, real: f64, embedded: f64, ratio: f64, goal: f64) -> Vec<String> {
    if !ratio.is_finite() {
        return row([title, "", &format!("{embedded:.0}"), "", "", ""]);
    }
    let (real, embedded, clock_ratio) = (format!("{real:.0}"), format!("{embedded:.0}"), format!("{ratio:.1} ×"));
    row([title, &real, &embedded, &clock_ratio, &format!("{goal} ×"), &verdict(ratio >= goal)])
}

/// Returns the rates of creations, patches, and deliveries.
fn play(client: &Client, watchers: usize, group: &str, processes: &[u32]) -> [Rate; 3] {
    let kind = Kind::of_group(group);
    let (path, definition) = kind.definition();
    client.ensure(path, &definition);
    let collection = kind.collection("default");
    let list =
        eventually("the kind is served", TIMEOUT, || client.request("GET", &collection, "application/json", None).ok());
    // The real server serves a new kind before it has settled, and then ends watches.
    sleep(Duration::from_secs(3));
    let revision = list["metadata"]["resourceVersion"].as_str().expect("lists have a revision");
    let audience = Audience::new(client, &collection, revision, watchers);
    let time = || (processes.iter().map(|id| cpu(*id)).sum::<Duration>(), Instant::now());

    let objects = count(OBJECTS);
    let before = time();
    send(client, objects, |number| create(&kind, &collection, number));
    audience.wait(watchers * objects);
    let created = time();
    send(client, objects, |number| patch(&collection, number));
    audience.wait(2 * watchers * objects);
    let patched = time();
    let rate = |count: usize, from: (Duration, Instant), to: (Duration, Instant)| Rate {
        of_processors: count as f64 / (to.0.as_secs_f64() - from.0.as_secs_f64()),
        of_clock: count as f64 / to.1.duration_since(from.1).as_secs_f64(),
    };
    [rate(objects, before, created), rate(objects, created, patched), rate(2 * watchers * objects, before, patched)]
}

fn send(client: &Client, objects: usize, request: impl Fn(usize) -> http::Request<Vec<u8>>) {
    let (client, runtime) = client.parts();
    let requests =
        stream::iter(0..objects).map(|number| client.request::<Value>(request(number))).buffer_unordered(AT_ONCE);
    let all = requests.for_each(|answer| async move {
        answer.expect("the server does what it is asked for");
    });
    runtime.block_on(all);
}

fn create(kind: &Kind, collection: &str, number: usize) -> http::Request<Vec<u8>> {
    let object = json!({
        "apiVersion": kind.api_version(), "kind": kind.name, "metadata": {"name": format!("thing-{number}")}, "spec": spec(FILLING),
    });
    let request = http::Request::post(collection).header("content-type", "application/json");
    request.body(object.to_string().into_bytes()).expect("a request from well-formed parts")
}

fn patch(collection: &str, number: usize) -> http::Request<Vec<u8>> {
    let request = http::Request::patch(format!("{collection}/thing-{number}"))
        .header("content-type", "application/merge-patch+json");
    request
        .body(json!({"spec": {"size": number + 10}}).to_string().into_bytes())
        .expect("a request from well-formed parts")
}

/// The watchers, with the number of received events.
struct Audience {
    received: Arc<AtomicU64>,
    tasks: Vec<tokio::task::AbortHandle>,
}

impl Audience {
    fn new(client: &Client, collection: &str, revision: &str, watchers: usize) -> Self {
        let (client, runtime) = client.parts();
        let received = Arc::new(AtomicU64::new(0));
        let tasks = tokio_util::task::TaskTracker::new();
        let watch = |_| {
            let listener = listen(client.clone(), collection.to_owned(), revision.to_owned(), Arc::clone(&received));
            tasks.spawn_on(listener, runtime.handle()).abort_handle()
        };
        let tasks = (0..watchers).map(watch).collect();
        Self { received, tasks }
    }

    fn wait(&self, count: usize) {
        let began = Instant::now();
        while self.received.load(Ordering::Relaxed) < count as u64 {
            assert!(
                began.elapsed() < Duration::from_mins(2),
                "{} of {count} events came",
                self.received.load(Ordering::Relaxed)
            );
            sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Audience {
    fn drop(&mut self) {
        self.tasks.iter().for_each(tokio::task::AbortHandle::abort);
    }
}

/// Counts the events of watches. The real server ends slow watches, which then continue from their position.
async fn listen(client: kube::Client, collection: String, mut revision: String, received: Arc<AtomicU64>) {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let uri = format!("{collection}?watch=1&resourceVersion={revision}");
        let request = http::Request::get(uri).body(Vec::new()).expect("a request from well-formed parts");
        let stream = client.request_stream(request).await.expect("the watch begins");
        let mut stream = std::pin::pin!(stream);
        let mut last = Vec::new();
        let mut rest = Vec::new();
        while let Ok(count @ 1..) = stream.read(&mut buffer).await {
            let mut lines = buffer[..count].split(|byte| *byte == b'\n').peekable();
            while let Some(piece) = lines.next() {
                rest.extend_from_slice(piece);
                if lines.peek().is_some() {
                    std::mem::swap(&mut last, &mut rest);
                    rest.clear();
                    received.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        if let Some(version) = serde_json::from_slice::<Value>(&last).ok().as_ref().and_then(revision_of) {
            revision = version;
        }
    }
}

fn revision_of(event: &Value) -> Option<String> {
    event["object"]["metadata"]["resourceVersion"].as_str().map(str::to_owned)
}
