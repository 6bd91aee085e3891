//! Weeks of churn in virtual time: objects with their timers, daemons and entries of indexes, labels, sub-handlers,
//! conditions, revisions of scripts and kinds appear and vanish, and memory does not grow.
//!
//! `KOPFD_SOAK_OBJECTS` is the number of objects.

#![expect(clippy::unwrap_used, reason = "these are tests")]

use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt as _};
use futures::stream::{self, StreamExt as _};
use http::{HeaderMap, Request};
use kopfd::cluster::transport::{Answer, Connection, Login, Transport};
use kopfd::cluster::{
    Applied, Client, Confirmation, ConnectionSettings, Error, LoginError, Networking, Seen, Sink, Watcher, Watching,
};
use kopfd::engines::Error as EngineError;
use kopfd::engines::background::BackgroundOptions;
use kopfd::engines::{
    Background, BackgroundTasks, Effects, Environment, EventStream, IndexEvent, Indexer, Indexing, ObjectEvent,
    Patcher, Readiness, Scripts,
};
use kopfd::handling::spawning::BackgroundDemand;
use kopfd::handling::{Handler, Lifecycle};
use kopfd::kit::{Clock, Stop};
use kopfd::object::{Body, Patch, Resource};
use kopfd::reactor::WorkerSettings;
use kopfd::reactor::cycle::Served;
use kopfd::reactor::kind::{Kind, KindSink};
use kopfd::script::host::Threads;
use kopfd::script::{Call, Evaluation, Host, Installed, Options, Program, Returned, Subject};
use kopfd::telemetry::OperatorMetrics;

const OBJECTS: usize = 10_000;

/// Number of rounds. In each one, the operator has a new revision of its scripts, and another kind.
const ROUNDS: usize = 20;

/// Objects that exist at the same time.
const ALIVE: usize = 100;

const MANIFEST: &str = "apiVersion: kopfd.dev/v1
kind: Operator
metadata: {name: soak}
spec:
  resources:
    - resource: {any: everything}
      script: soak.rhai
      handlers:
        - {on: create, fn: create, labels: {app: chosen}}
        - {on: event, fn: see, labels: {app: chosen}}
      timers:
        - {fn: tick, interval: 5s, labels: {app: chosen}}
      daemons:
        - {fn: follow, labels: {app: chosen}, cancellationTimeout: 1s}
      indexes:
        - {fn: by_name, labels: {app: chosen}}
";

/// Every object has memories, its own sub-handler and condition, and a transformation.
const SCRIPT: &str = r#"
fn see(memo, name) { memo.seen = name; }
fn tick(memo) { memo.ticks = (memo.ticks ?? 0) + 1; }
fn follow(memo, stopped) { memo.followed = true; stopped.wait(); }
fn by_name(name, spec) { let entries = #{}; entries[name] = spec.text; return entries; }
fn create(memo, name, patch) {
    memo.created = name;
    patch.transform(|body| { body.spec.size = 2; body });
    subhandler(`of-${name}`, #{when: `name == "${name}"`}, || { return 1; });
}
"#;

/// The effects: scripts run, patches are dropped, and one in ten fails.
struct Soaked {
    host: Host,
    scripts: Installed,
    clock: Clock,
    patches: AtomicUsize,
    /// Calls of timers and daemons.
    background_calls: AtomicUsize,
    events: EventStream,
    background: BackgroundTasks<Soaked>,
    indexer: Indexer,
}

impl Scripts for Soaked {
    fn call<'a>(&'a self, handler: &'a Handler, call: Call) -> BoxFuture<'a, Returned> {
        self.background_calls.fetch_add(usize::from(handler.on.is_spawning()), Ordering::Relaxed);
        self.host.call(&self.scripts, call).boxed()
    }

    fn evaluate<'a>(&'a self, subject: &'a Subject, evaluation: Evaluation) -> BoxFuture<'a, Result<bool, String>> {
        self.host.evaluate(&self.scripts, subject, evaluation).boxed()
    }

    fn forget(&self, memo: &Arc<str>) {
        self.host.forget(memo);
    }
}

impl Patcher for Soaked {
    fn apply<'a>(
        &'a self,
        _resource: &'a Resource,
        _body: &'a Body,
        patch: &'a Patch,
        _: &'a dyn Confirmation,
    ) -> BoxFuture<'a, Result<Applied, EngineError>> {
        let number = self.patches.fetch_add(1, Ordering::Relaxed);
        let applied = match number % 10 {
            0 => Err(Error::of_answer(500, None, b"").into()),
            // Sometimes newer changes prevent transformations.
            1 => Ok(Applied { remaining: patch.transforms.clone(), ..Applied::default() }),
            _ => Ok(Applied::default()),
        };
        std::future::ready(applied).boxed()
    }
}

impl Background for Soaked {
    fn update_background<'a>(&'a self, event: ObjectEvent<'a>) -> BoxFuture<'a, Result<BackgroundDemand, EngineError>> {
        self.background.update(event).boxed()
    }

    fn follows(&self, memo: &str) -> bool {
        self.background.follows(memo)
    }

    fn has_background(&self, memo: &str) -> bool {
        self.background.has_tasks(memo)
    }
}

impl Indexing for Soaked {
    fn index<'a>(&'a self, event: IndexEvent<'a>) -> BoxFuture<'a, Result<(), EngineError>> {
        self.indexer.index(self, &self.events, event).boxed()
    }

    fn unindex(&self, uid: &str) {
        self.indexer.remove(uid);
    }

    fn readiness(&self) -> Option<&Arc<Readiness>> {
        Some(self.indexer.readiness())
    }
}

impl Environment for Soaked {
    fn clock(&self) -> &Clock {
        &self.clock
    }
}

impl Effects for Soaked {
    fn events(&self) -> &EventStream {
        &self.events
    }
}

/// A server whose watch sends the events of one round.
#[derive(Clone)]
struct Memory {
    round: usize,
    objects: usize,
}

impl Transport for Memory {
    fn send(&self, request: Request<Bytes>) -> BoxFuture<'static, Result<Answer, Error>> {
        let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let Self { round, objects } = *self;
        let body = if is_watch {
            let next = move |number: usize| async move {
                // Objects exist for a while: their sleeps and throttles end in between.
                tokio::time::sleep(Duration::from_millis(100)).await;
                (number < objects + 2 * ALIVE).then(|| (Ok(lines(round, number, objects)), number + 1))
            };
            stream::unfold(0, next).boxed()
        } else {
            stream::iter([Ok(Bytes::from_static(br#"{"metadata":{"resourceVersion":"1"},"items":[]}"#))]).boxed()
        };
        std::future::ready(Ok(Answer { status: 200, headers: HeaderMap::new(), body })).boxed()
    }
}

impl Login for Memory {
    fn login(&self, _: Arc<ConnectionSettings>) -> BoxFuture<'_, Result<Vec<Connection>, LoginError>> {
        std::future::ready(Ok(vec![Connection::over(self.clone(), "memory")])).boxed()
    }
}

/// Returns the events of one moment: one object is added, an older one no longer matches, and one that stopped matching
/// earlier is deleted.
fn lines(round: usize, number: usize, objects: usize) -> Bytes {
    let mut text = String::new();
    let mut line = |kind: &str, number: usize, app: &str| {
        let metadata = format!(
            r#"{{"name":"o{round}-{number}","namespace":"n","uid":"u{round}-{number}","resourceVersion":"{}","labels":{{"app":"{app}"}}}}"#,
            number + 2
        );
        let spec = format!(r#"{{"size":1,"text":"{}"}}"#, "x".repeat(500));
        let object =
            format!(r#"{{"apiVersion":"soak.dev/v1","kind":"Thing{round}","metadata":{metadata},"spec":{spec}}}"#);
        writeln!(text, r#"{{"type":"{kind}","object":{object}}}"#).unwrap();
    };
    if number < objects {
        line("ADDED", number, "chosen");
    }
    // Every third object is deleted while it matches; the others are deleted without any handler noticing.
    if let Some(older) = number.checked_sub(ALIVE).filter(|older| *older < objects && older % 3 != 0) {
        line("MODIFIED", older, "another");
    }
    if let Some(oldest) = number.checked_sub(2 * ALIVE).filter(|oldest| *oldest < objects) {
        line("DELETED", oldest, if oldest % 3 == 0 { "chosen" } else { "another" });
    }
    Bytes::from(text)
}

/// Passes events on until all objects are deleted.
struct Counting {
    sink: KindSink<Soaked>,
    left: usize,
    stop: Stop,
}

impl Sink for Counting {
    async fn seen(&mut self, seen: Seen<'_>) {
        self.left -= usize::from(seen.event_kind == kopfd::object::EventKind::Deleted);
        self.sink.seen(seen).await;
        if self.left == 0 {
            self.stop.request("everything has gone");
        }
    }

    async fn listed(&mut self) {
        self.sink.listed().await;
    }
}

/// Runs one round with a new revision and another kind. Returns the number of sent patches.
async fn round(host: Host, number: usize, objects: usize, clock: &Clock) -> (Host, usize) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("operator.yaml"), MANIFEST).unwrap();
    std::fs::write(folder.path().join("soak.rhai"), format!("// Revision {number}\n{SCRIPT}")).unwrap();
    let mut loaded = kopfd::manifest::load(&[folder.path().join("operator.yaml")]);
    assert!(!loaded.has_errors(), "{:?}", loaded.diagnostics);
    let operator = loaded.operators.remove(0);
    let program = Arc::new(Program::load(operator.declaration.clone()).unwrap());
    let scripts = host.install(Arc::clone(&program)).await.unwrap();
    let indexes = Arc::clone(scripts.indexes());
    let metrics = OperatorMetrics::default();
    let background = BackgroundOptions::of(&operator.timers, &operator.daemons, &program, &operator.settings, &metrics);
    drop(program);
    let text = |text: &str| text.to_owned();
    let resource = Resource {
        group: text("soak.dev"),
        version: text("v1"),
        plural: format!("things{number}"),
        kind: format!("Thing{number}"),
        namespaced: true,
        preferred: true,
        ..Resource::default()
    };
    let handlers: Vec<Arc<Handler>> =
        operator.object_handlers().chain(&operator.indexes).cloned().map(Arc::new).collect();
    let storages = Arc::new(operator.settings.persistence.storages);
    let served =
        Arc::new(Served::new(Arc::new(resource.clone()), &handlers, storages, Lifecycle::Asap, Duration::from_mins(1)));
    let world = Arc::new_cyclic(|world| Soaked {
        host,
        scripts,
        clock: clock.clone(),
        patches: AtomicUsize::new(0),
        background_calls: AtomicUsize::new(0),
        events: EventStream::default(),
        background: BackgroundTasks::new(Weak::clone(world), background),
        indexer: Indexer::new(Arc::clone(&indexes)),
    });
    let kind =
        Arc::new(Kind::new(Arc::clone(&world), served, Arc::new(WorkerSettings::default()), None, Arc::from("soak")));
    let login = Box::new(Memory { round: number, objects });
    let client = Client::with_login(login, Networking::default(), Watching::default(), clock.clone()).await.unwrap();
    let mut watcher = Watcher::new(client, resource, None).unwrap();
    let stop = Stop::new();
    let mut sink = Counting { sink: KindSink::new(Arc::clone(&kind)), left: objects, stop: stop.clone() };
    watcher.run(&mut sink, &stop).await;
    kind.finish(Duration::from_hours(1)).await;
    world.background.end().await;
    let index = indexes.get("by_name").unwrap();
    assert_eq!((index.objects(), index.keys()), (0, 0), "entries of indexes");
    // A daemon begins once, and a timer has further calls.
    let background_calls = world.background_calls.load(Ordering::Relaxed);
    assert!(background_calls >= 3 * objects, "only {background_calls} calls of timers and daemons");
    assert_eq!(
        (kind.memories.len(), kind.queues.len(), watcher.len()),
        (0, 0, 0),
        "memories, mailboxes, known objects"
    );
    let kept = world.host.kept().await;
    assert_eq!((kept.memos, kept.transforms, kept.generations), (0, 0, 1), "{kept:?}");
    assert!(kept.conditions <= 1_000, "{kept:?}");
    drop((kind, sink, watcher, indexes));
    let Soaked { host, scripts, patches, background, indexer, .. } =
        Arc::into_inner(world).expect("all workers and tasks have ended");
    drop((scripts, background, indexer));
    assert_eq!(
        host.kept().await,
        kopfd::script::host::MemoryCounts::default(),
        "a revision that is replaced is dropped"
    );
    (host, patches.into_inner())
}

#[test]
fn empty_pages_of_the_allocator_are_returned_at_once() {
    /// Sizes of blocks in KiB, each with pages of its own in the allocator.
    const SIZES: [usize; 11] = [80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448];
    /// The bytes of all blocks of a size together.
    const EACH: usize = 4 << 20;

    let _alone = super::alone();
    let before = super::resident();
    let blocks: Vec<Vec<u8>> = SIZES
        .map(|size| size << 10)
        .into_iter()
        .flat_map(|size| std::iter::repeat_with(move || vec![1; size]).take(EACH / size))
        .collect();
    let used = super::resident() - before;
    drop(blocks);
    kopfd::cli::Heap::release_unused();
    let left = super::resident().saturating_sub(before);
    assert!(used > SIZES.len() * EACH / 2 && left < used / 4, "{left} of {used} bytes are still resident");
}

#[test]
fn memory_of_deleted_objects_is_freed() {
    let _alone = super::alone();
    let objects =
        std::env::var("KOPFD_SOAK_OBJECTS").map_or(OBJECTS, |number| number.parse().expect("a number of objects"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let clock = Clock::starting_at("2020-01-01T00:00:00Z".parse().unwrap());
        let options = Options { threads: Threads::Current, clock: clock.clone(), ..Options::default() };
        let mut host = Host::start(options).unwrap();
        let (mut residents, begun) = (Vec::new(), std::time::Instant::now());
        for number in 0..ROUNDS {
            let (back, patches) = round(host, number, objects / ROUNDS, &clock).await;
            host = back;
            assert!(patches >= objects / ROUNDS, "only {patches} patches");
            residents.push(super::resident() as f64 / 1024.0);
        }
        println!(
            "{objects} objects in {ROUNDS} rounds and {:?}; resident after each: {residents:?} kB",
            begun.elapsed()
        );
        // The first quarter fills caches and the allocator's pages. Single rounds are a few percent lower.
        let mut second_quarter = residents[ROUNDS / 4..ROUNDS / 2].to_vec();
        second_quarter.sort_by(f64::total_cmp);
        let settled = second_quarter[second_quarter.len() / 2];
        let highest = residents[ROUNDS / 4..].iter().copied().fold(0.0, f64::max);
        assert!(highest <= settled * 1.05, "the memory has grown from {settled} kB to {highest} kB: {residents:?}");
    });
}
