//! kube-rs: its watcher and its controller.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::{FutureExt as _, StreamExt as _};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use kube::core::PartialObjectMeta;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::controller::{Action, Controller};
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Resource as _, ResourceExt as _};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio_util::task::TaskTracker;

use crate::cases::{Case, cases};
use crate::context::{CaseContext, GROUP, Server};
use crate::embedded::Embedded;
use crate::harness::{Client, TIMEOUT, eventually};

pub(crate) const CASES: &[Case] = cases![Each:
    a_watcher_lists_in_pages_and_watches,
    a_watcher_streams_its_first_list,
    a_watcher_of_metadata_sees_no_more,
    a_controller_reconciles_owned_objects,
];
pub(crate) const OWN: &[Case] =
    cases![Own: a_watcher_continues_after_restarts, a_watcher_continues_after_broken_watches];

fn gauges() -> ApiResource {
    ApiResource {
        group: GROUP.to_owned(),
        version: "v1".to_owned(),
        api_version: format!("{GROUP}/v1"),
        kind: "Gauge".to_owned(),
        plural: "gauges".to_owned(),
    }
}

fn gauge(name: &str, size: u64) -> Value {
    json!({"apiVersion": format!("{GROUP}/v1"), "kind": "Gauge", "metadata": {"name": name}, "spec": {"size": size}})
}

/// The events of a watcher, as `apply NAME SIZE` and the like; it ends with this value.
struct Seen {
    lines: Arc<Mutex<Vec<String>>>,
    task: tokio::task::AbortHandle,
}

impl Seen {
    /// Collects the events of a stream.
    fn collect<K: Send + 'static>(
        client: &Client,
        events: impl futures::Stream<Item = watcher::Result<Event<K>>> + Send + 'static,
        show: impl Fn(&K) -> String + Send + 'static,
    ) -> Self {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let collected = Arc::clone(&lines);
        let work = events.for_each(move |event| {
            let line = match event {
                Ok(Event::Init) => "init".to_owned(),
                Ok(Event::InitApply(object)) => format!("first {}", show(&object)),
                Ok(Event::InitDone) => "done".to_owned(),
                Ok(Event::Apply(object)) => format!("apply {}", show(&object)),
                Ok(Event::Delete(object)) => format!("delete {}", show(&object)),
                Err(error) => format!("error {error}"),
            };
            collected.lock().push(line);
            std::future::ready(())
        });
        let task = TaskTracker::new().spawn_on(work, client.parts().1.handle()).abort_handle();
        Self { lines, task }
    }

    fn has(&self, line: &str) {
        eventually(&format!("the watcher tells {line:?}, not only {:?}", self.lines.lock()), TIMEOUT / 2, || {
            self.lines.lock().iter().any(|one| one == line).then_some(())
        });
    }

    fn lines(&self) -> Vec<String> {
        self.lines.lock().clone()
    }
}

impl Drop for Seen {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Retries after a moment, without limit.
struct Steady;

impl Iterator for Steady {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        Some(Duration::from_millis(300))
    }
}

impl Backoff for Steady {
    fn reset(&mut self) {}
}

fn show(object: &DynamicObject) -> String {
    format!("{} {}", object.name_any(), object.data["spec"]["size"])
}

fn api(context: &CaseContext<'_>, client: &Client) -> Api<DynamicObject> {
    Api::namespaced_with(client.parts().0, &context.namespace, &gauges())
}

/// Follows existing objects with a watcher, and then each change.
fn follow(context: &CaseContext<'_>, server: &Server, config: watcher::Config) {
    let collection = context.path("clients.kopfd.dev/v1/gauges");
    for (name, size) in [("a", 1), ("b", 2), ("c", 3)] {
        server.client.create(&collection, &gauge(name, size));
    }
    // A list that is streamed has what the server's watch cache has seen.
    let cached = format!("{collection}?resourceVersion=0");
    eventually("the cache of the server has all objects", TIMEOUT / 2, || {
        (server.client.list(&cached).len() == 3).then_some(())
    });
    let seen = Seen::collect(&server.client, watcher(api(context, &server.client), config), show);
    seen.has("done");
    let mut first = seen.lines();
    first.sort();
    assert_eq!(first, ["done", "first a 1", "first b 2", "first c 3", "init"]);
    server.client.create(&collection, &gauge("d", 4));
    server.client.merge(&format!("{collection}/a"), &json!({"spec": {"size": 9}}));
    server.client.delete(&format!("{collection}/b"));
    seen.has("delete b 2");
    assert_eq!(seen.lines()[5..], ["apply d 4", "apply a 9", "delete b 2"]);
}

fn a_watcher_lists_in_pages_and_watches(context: &CaseContext<'_>, server: &Server) {
    follow(context, server, watcher::Config::default().page_size(2));
}

fn a_watcher_streams_its_first_list(context: &CaseContext<'_>, server: &Server) {
    follow(context, server, watcher::Config::default().streaming_lists());
}

fn a_watcher_of_metadata_sees_no_more(context: &CaseContext<'_>, server: &Server) {
    let collection = context.path("clients.kopfd.dev/v1/gauges");
    server.client.create(&collection, &gauge("a", 1));
    let api: Api<PartialObjectMeta<DynamicObject>> =
        Api::namespaced_with(server.client.parts().0, &context.namespace, &gauges());
    let events = watcher(api, watcher::Config::default());
    let seen = Seen::collect(&server.client, events, |object| {
        format!("{} {}", object.name_any(), object.types.as_ref().map(|types| types.kind.clone()).unwrap_or_default())
    });
    seen.has("first a PartialObjectMetadata");
    server.client.create(&collection, &gauge("b", 1));
    seen.has("apply b PartialObjectMetadata");
}

/// The context of the reconciler.
struct Context {
    client: kube::Client,
    calls: AtomicUsize,
}

/// Maintains a config map for each gauge, and reports it in the status.
async fn reconcile(object: Arc<DynamicObject>, context: Arc<Context>) -> Result<Action, kube::Error> {
    context.calls.fetch_add(1, Ordering::Relaxed);
    let namespace = object.namespace().unwrap_or_default();
    let owner = object.controller_owner_ref(&gauges());
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": object.name_any(), "ownerReferences": [owner]},
        "data": {"size": object.data["spec"]["size"].to_string()},
    });
    let manager = PatchParams::apply("reconciler").force();
    let maps: Api<ConfigMap> = Api::namespaced(context.client.clone(), &namespace);
    let map = maps.patch(&object.name_any(), &manager, &Patch::Apply(map)).await?;
    let own: Api<DynamicObject> = Api::namespaced_with(context.client.clone(), &namespace, &gauges());
    let status = json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": "Gauge",
        "status": {"phase": format!("kept in {}", map.name_any())},
    });
    own.patch_status(&object.name_any(), &manager, &Patch::Apply(status)).await?;
    Ok(Action::requeue(Duration::from_mins(5)))
}

fn a_controller_reconciles_owned_objects(context: &CaseContext<'_>, server: &Server) {
    let (client, runtime) = server.client.parts();
    let shared = Arc::new(Context { client: client.clone(), calls: AtomicUsize::new(0) });
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let controller = Controller::new_with(api(context, &server.client), watcher::Config::default(), gauges())
        .owns(Api::<ConfigMap>::namespaced(client, &context.namespace), watcher::Config::default())
        .graceful_shutdown_on(stopped.map(drop))
        .run(reconcile, |_, _, _| Action::requeue(Duration::from_secs(1)), Arc::clone(&shared));
    let failures = Arc::new(Mutex::new(Vec::new()));
    let received = Arc::clone(&failures);
    let work = controller.for_each(move |result| {
        // An object may be gone before its turn comes.
        let is_worth_telling = |error: &String| !error.contains("ObjectNotFound");
        received.lock().extend(result.err().map(|error| format!("{error:?}")).filter(is_worth_telling));
        std::future::ready(())
    });
    let task = TaskTracker::new().spawn_on(work, runtime.handle());

    let (collection, maps) = (context.path("clients.kopfd.dev/v1/gauges"), context.path("configmaps"));
    server.client.create(&collection, &gauge("one", 1));
    server.object(&format!("{collection}/one"), "is reconciled", |object| {
        assert_eq!(*failures.lock(), Vec::<String>::new());
        object["status"]["phase"] == "kept in one"
    });
    let size = |size: &'static str| move |object: &Value| object["data"]["size"] == size;
    server.object(&format!("{maps}/one"), "has the size", size("1"));
    server.client.merge(&format!("{collection}/one"), &json!({"spec": {"size": 2}}));
    server.object(&format!("{maps}/one"), "has the new size", size("2"));
    // An owned object is created again, and deleted with its owner.
    server.client.delete(&format!("{maps}/one"));
    server.object(&format!("{maps}/one"), "is made anew", size("2"));
    server.client.merge(&format!("{maps}/one"), &json!({"data": {"size": "wrong"}}));
    server.object(&format!("{maps}/one"), "is corrected", size("2"));
    // A running reconciliation must not create the owned object again after its owner is gone.
    std::thread::sleep(Duration::from_millis(500));
    server.client.delete(&format!("{collection}/one"));
    server.gone(&format!("{maps}/one"));
    drop(stop);
    runtime
        .block_on(async { tokio::time::timeout(Duration::from_secs(10), task).await })
        .expect("the controller stops")
        .expect("well");
    let calls = shared.calls.load(Ordering::Relaxed);
    assert!((4..30).contains(&calls), "{calls} calls");
    assert_eq!(*failures.lock(), Vec::<String>::new());
}

/// A server with durable objects stops or crashes, and restarts: the watcher misses nothing.
fn a_watcher_continues_after_restarts(context: &CaseContext<'_>) {
    let servers = context.servers();
    let mut server =
        Embedded::start_with_data(&servers.tools().kopfd, &context.directory.join("server"), servers.runtime());
    let client = server.client();
    client.create(
        "/api/v1/namespaces",
        &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": context.namespace}}),
    );
    let maps = context.path("configmaps");
    let map = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    let api: Api<ConfigMap> = Api::namespaced(client.parts().0, &context.namespace);
    client.create(&maps, &map("before"));
    let events = watcher(api, watcher::Config::default()).backoff(Steady);
    let seen = Seen::collect(&client, events, |object: &ConfigMap| object.meta().name.clone().unwrap_or_default());
    seen.has("first before");
    for (round, is_crash) in [false, true].into_iter().enumerate() {
        server.restart(is_crash);
        let name = format!("after-{round}");
        server.client().create(&maps, &map(&name));
        let is_seen =
            || seen.lines().iter().any(|line| *line == format!("apply {name}") || *line == format!("first {name}"));
        eventually("the watcher sees what came after the restart", TIMEOUT, || is_seen().then_some(()));
    }
    server.client().delete(&format!("{maps}/before"));
    seen.has("delete before");
}

/// Watches end in all possible ways: finally the watcher knows all existing objects.
fn a_watcher_continues_after_broken_watches(context: &CaseContext<'_>) {
    let servers = context.servers();
    let directory = context.directory.join("server");
    let server =
        Embedded::start_with_broken_watches(&servers.tools().kopfd, &directory, servers.runtime(), "configmaps");
    let client = server.client();
    client.create(
        "/api/v1/namespaces",
        &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": context.namespace}}),
    );
    let api: Api<ConfigMap> = Api::namespaced(client.parts().0, &context.namespace);
    let events = watcher(api, watcher::Config::default()).backoff(Steady);
    let seen = Seen::collect(&client, events, |object: &ConfigMap| object.meta().name.clone().unwrap_or_default());
    for number in 0..20 {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("m{number}")}});
        client.create(&context.path("configmaps"), &map);
        std::thread::sleep(Duration::from_millis(100));
    }
    eventually("every fault has struck", TIMEOUT, || (server.strikes() == 6).then_some(()));
    client.delete(&context.path("configmaps/m0"));
    seen.has("delete m0");
    for number in 0..20 {
        let is_told = |line: &String| *line == format!("apply m{number}") || *line == format!("first m{number}");
        assert!(seen.lines().iter().any(is_told), "m{number} is reported");
    }
}
