//! Ten thousand sleeping handlers at once, in a separate process, to measure its memory.
#![expect(clippy::unwrap_used, reason = "these are tests")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt as _};
use futures::stream::{self, StreamExt as _};
use http::{HeaderMap, Request};
use kopfd::cluster::transport::{Answer, Connection, Login, Transport};
use kopfd::cluster::{Client, ConnectionSettings, Error, LoginError, Networking, Seen, Sink, Watcher, Watching};
use kopfd::handling::{Reason, Verdict};
use kopfd::kit::{Clock, Stop, Tasks};
use kopfd::object::Resource;
use kopfd::script::{Limits, Subject, Threads};
use parking_lot::Mutex;
use serde_json::json;
use tokio::runtime::LocalOptions;

use super::world::{Operator, World};

const SLEEPERS: usize = 10_000;

/// Memory limit of each, in kilobytes: unoptimised, its stack has six touched pages, 24 kB, and its call, scope and
/// object take 13 kB of the heap. One more page of stack is too much.
const MAX_BYTES_EACH: usize = 40;

fn script_threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|name| name.starts_with("script-")).count()
}

/// Returns the keys of two memories that belong to different threads.
fn on_two_threads() -> [Arc<str>; 2] {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let thread = |name: &str| {
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        hasher.finish() % 2
    };
    let other = (0..1_000).map(|number| format!("u-{number}")).find(|name| thread(name) != thread("u-1")).unwrap();
    ["u-1".into(), other.into()]
}

#[test]
fn ten_thousand_handlers_sleep_in_little_memory_and_two_threads() {
    let _alone = super::alone();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let main = "fn f(spec, patch, memo) { memo.started = true; wait_for(spec); patch.status.done = spec.size; } fn wait_for(spec) { sleep(5); }";
        let operator = Operator::new(main).binds("f", Limits::default());
        let world = Arc::new(operator.start_on(Threads::Own(2)).await.unwrap());
        // The essences are shared; each object has its own body, as in a cluster.
        let change = world.change();
        let (before, begun) = (super::resident() >> 20, Instant::now());
        let done = Arc::new(AtomicUsize::new(0));
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..SLEEPERS {
            let (world, done, change) = (Arc::clone(&world), Arc::clone(&done), Arc::clone(&change));
            tasks.spawn(async move {
                let mut call = world.a_call(0);
                call.subject = Subject::Change { object: world.object(&format!("u-{number}")), reason: Reason::Create, change };
                let returned = world.host.call(&world.installed, call).await;
                assert_eq!(returned.verdict, Verdict::Returned(None));
                assert_eq!(serde_json::Value::Object(returned.patch.merge), json!({"status": {"done": 3}}));
                done.fetch_add(1, Ordering::Relaxed);
            });
        }
        tokio::time::sleep_until((begun + Duration::from_millis(4_800)).into()).await;
        let (grown, threads) = ((super::resident() >> 20) - before, script_threads());
        assert_eq!(done.load(Ordering::Relaxed), 0, "all are still asleep");
        assert_eq!(world.host.kept().await.memos, SLEEPERS, "all have started");
        while let Some(ended) = tasks.join_next().await {
            ended.unwrap();
        }
        println!("{SLEEPERS} handlers asleep took {grown} MB and {threads} threads; all were done after {:?}", begun.elapsed());
        assert!(grown * 1_000 <= SLEEPERS * MAX_BYTES_EACH, "{grown} MB");
        assert_eq!(threads, 2);
        stop(world).await;
        assert_eq!(script_threads(), 0);
    });
}

async fn stop(world: Arc<World>) {
    let world = Arc::into_inner(world).expect("all calls have ended");
    Arc::into_inner(world.host).expect("there is no other reference").stop().await;
}

/// A server whose watch sends an event every two milliseconds, with the time when it is due.
#[derive(Clone)]
struct Ticking {
    beginning: Instant,
}

impl Transport for Ticking {
    fn send(&self, request: Request<Bytes>) -> BoxFuture<'static, Result<Answer, Error>> {
        let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let beginning = self.beginning;
        let body = if is_watch {
            let next = move |number: u64| async move {
                // The watch may share the thread of the script: then the event is late, too.
                let due = beginning.elapsed() + Duration::from_millis(2);
                tokio::time::sleep(Duration::from_millis(2)).await;
                let metadata = format!(
                    r#"{{"name":"o{number}","uid":"{number}","resourceVersion":"{}","generation":{}}}"#,
                    number + 2,
                    due.as_micros()
                );
                let line = format!("{{\"type\":\"ADDED\",\"object\":{{\"metadata\":{metadata}}}}}\n");
                Some((Ok(Bytes::from(line)), number + 1))
            };
            stream::unfold(0, next).boxed()
        } else {
            stream::iter([Ok(Bytes::from_static(br#"{"metadata":{"resourceVersion":"1"},"items":[]}"#))]).boxed()
        };
        std::future::ready(Ok(Answer { status: 200, headers: HeaderMap::new(), body })).boxed()
    }
}

impl Login for Ticking {
    fn login(&self, _: Arc<ConnectionSettings>) -> BoxFuture<'_, Result<Vec<Connection>, LoginError>> {
        std::future::ready(Ok(vec![Connection::over(self.clone(), "memory")])).boxed()
    }
}

/// The start of all ticks.
static BEGINNING: LazyLock<Instant> = LazyLock::new(Instant::now);

async fn watcher() -> Watcher {
    let login = Box::new(Ticking { beginning: *BEGINNING });
    let client = Client::with_login(login, Networking::default(), Watching::default(), Clock::system()).await.unwrap();
    let resource = Resource { version: "v1".to_owned(), plural: "ticks".to_owned(), ..Resource::default() };
    Watcher::new(client, resource, None).unwrap()
}

/// Measures the delay of events from the server to the sink.
struct Delays(Arc<Mutex<Vec<Duration>>>);

impl Sink for Delays {
    async fn seen(&mut self, seen: Seen<'_>) {
        let due = Duration::from_micros(seen.head.metadata.generation.unwrap().try_into().unwrap());
        self.0.lock().push(BEGINNING.elapsed().saturating_sub(due));
    }

    async fn listed(&mut self) {}
}

/// A script that computes gives way after 4 ms. Half of what happens beside it is done within some of these slices.
const TYPICAL: Duration = Duration::from_millis(20);

/// The limit of everything: the machine may be busy.
const LONGEST: Duration = Duration::from_millis(200);

/// Measures what happens beside a script that spins for a second: the ticks of a timer, the calls of another object,
/// and the events of a watch.
async fn check_beside_a_spinning_script(threads: Threads, [spinning, other]: [Arc<str>; 2]) {
    let main = "fn spin() { loop {} } fn ready() { return 1; }";
    // Long enough for many calls and events, however fast the interpreter is.
    let limits = Limits { operations: u64::MAX, time: Some(Duration::from_secs(1)), ..Limits::default() };
    let operator = Operator::new(main).binds("spin", limits).binds("ready", Limits::default());
    let world = Arc::new(operator.start_on(threads).await.unwrap());
    let mut call = world.a_call(0);
    call.subject = world.creation(&spinning);
    let spinner = Arc::clone(&world);
    let mut spun = tokio::task::JoinSet::from_iter([async move { spinner.host.call(&spinner.installed, call).await }]);
    let (events, stop) = (Arc::new(Mutex::new(Vec::new())), Stop::new());
    let mut watcher = watcher().await;
    let mut sink = Delays(Arc::clone(&events));
    let heard = stop.clone();
    let mut watching = Tasks::default();
    watching.spawn("watch", async move { watcher.run(&mut sink, &heard).await });
    let (mut ticks, mut calls) = (Vec::new(), Vec::new());
    while spun.try_join_next().is_none() {
        let begun = Instant::now();
        tokio::time::sleep(Duration::from_millis(2)).await;
        ticks.push(begun.elapsed());
        let begun = Instant::now();
        let mut ready = world.a_call(1);
        ready.subject = world.creation(&other);
        assert_eq!(world.host.call(&world.installed, ready).await.verdict, Verdict::Returned(Some(json!(1))));
        calls.push(begun.elapsed());
    }
    stop.request("the script has ended");
    assert_eq!(watching.finish(Duration::from_secs(5)).await, [""; 0]);
    for (what, mut delays) in
        [("ticks of 2 ms", ticks), ("calls", calls), ("events of a watch", std::mem::take(&mut *events.lock()))]
    {
        delays.sort();
        assert!(delays.len() > 10, "{threads:?}: {} {what}", delays.len());
        let (typical, longest) = (delays[delays.len() / 2], delays[delays.len() - 1]);
        assert!(
            typical < TYPICAL && longest < LONGEST,
            "{threads:?}: {what}: half of them within {typical:?}, the longest {longest:?}"
        );
    }
}

#[test]
fn a_spinning_script_delays_neither_the_other_thread_nor_other_tasks_nor_watches() {
    let _alone = super::alone();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(check_beside_a_spinning_script(Threads::Own(2), on_two_threads()));
}

#[test]
fn a_spinning_script_on_the_thread_of_the_engine_gives_way_to_calls_other_tasks_and_watches() {
    let _alone = super::alone();
    // As `kopfd run` with up to two processors.
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build_local(LocalOptions::default()).unwrap();
    runtime.block_on(check_beside_a_spinning_script(Threads::Current, ["u-1", "u-2"].map(Into::into)));
}
