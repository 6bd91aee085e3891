//! The load generator: creates objects, and watches until they are finished.

use std::cell::Cell;
use std::collections::HashMap;
use std::time::{Duration, Instant};

use futures::{AsyncBufReadExt as _, StreamExt as _, TryStreamExt as _, stream};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::harness::{Client, Kind, eventually};
use super::support::objects::spec;

/// Concurrent creations in a burst.
const AT_ONCE: usize = 32;

/// Time limit for all objects of one load. Python on two busy cores needs a while.
const TIMEOUT: Duration = Duration::from_mins(10);

/// One kind of objects, with the clients that create and watch them.
pub(crate) struct Load {
    client: Client,
    kind: Kind,
    made: Cell<usize>,
    done: watch::Receiver<HashMap<String, Instant>>,
    task: tokio::task::AbortHandle,
}

/// The pace of creations.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Pace {
    /// As fast as possible.
    Burst,
    /// One per interval, independent of the others.
    Steady(Duration),
}

#[derive(Deserialize)]
struct Line {
    object: Object,
}

#[derive(Deserialize)]
struct Object {
    metadata: Metadata,
    #[serde(default)]
    status: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: String,
    resource_version: String,
}

impl Load {
    /// Defines the kind `things` of a group, and starts to watch it.
    pub(crate) fn new(client: &Client, group: &str) -> Self {
        let kind = Kind::of_group(group);
        let (path, definition) = kind.definition();
        client.ensure(path, &definition);
        let collection = kind.collection("default");
        let list = eventually("the kind is served", TIMEOUT, || {
            client.request("GET", &collection, "application/json", None).ok()
        });
        let revision = list["metadata"]["resourceVersion"].as_str().expect("lists have a revision").to_owned();
        let (sender, done) = watch::channel(HashMap::new());
        let (kube, runtime) = client.parts();
        let follow = async move {
            let mut revision = revision;
            // The server ends watches when the definition of a kind settles.
            loop {
                let uri = format!("{collection}?watch=1&resourceVersion={revision}");
                let request = http::Request::get(uri).body(Vec::new()).expect("a request from well-formed parts");
                let stream = kube.request_stream(request).await.expect("the watch begins");
                let mut lines = std::pin::pin!(stream.lines());
                while let Ok(Some(line)) = lines.try_next().await {
                    let Ok(Line { object }) = serde_json::from_str(&line) else { continue };
                    revision = object.metadata.resource_version;
                    if object.status.get("create").is_some() {
                        let now = Instant::now();
                        sender.send_if_modified(|done| done.insert(object.metadata.name, now).is_none());
                    }
                }
            }
        };
        let task = tokio_util::task::TaskTracker::new().spawn_on(follow, runtime.handle()).abort_handle();
        Self { client: client.clone(), kind, made: Cell::new(0), done, task }
    }

    /// Creates objects, and returns the time of each request.
    pub(crate) fn make(&self, prefix: &str, count: usize, pace: Pace, filling: usize) -> HashMap<String, Instant> {
        let began = tokio::time::Instant::now();
        let send = |number: usize| {
            let name = format!("{prefix}-{number}");
            let (client, request) = (self.client.parts().0, self.request(&name, filling));
            async move {
                if let Pace::Steady(pause) = pace {
                    tokio::time::sleep_until(began + pause * u32::try_from(number).expect("a small number")).await;
                }
                let sent_at = Instant::now();
                client.request::<Value>(request).await.expect("the object is made");
                (name, sent_at)
            }
        };
        self.made.set(self.made.get() + count);
        self.run(stream::iter(0..count).map(send).buffer_unordered(AT_ONCE).collect())
    }

    /// Waits until all objects are finished, and returns the time of each.
    pub(crate) fn wait(&self) -> HashMap<String, Instant> {
        let mut done = self.done.clone();
        let all = async move { done.wait_for(|done| done.len() >= self.made.get()).await.map(|done| done.clone()) };
        let all = self.run(async { tokio::time::timeout(TIMEOUT, all).await });
        all.unwrap_or_else(|_| panic!("{} of {} objects are done", self.done.borrow().len(), self.made.get()))
            .expect("the watch goes on")
    }

    /// Returns how many patches of the kind the server has counted.
    pub(crate) fn patches(&self) -> u64 {
        let request = http::Request::get("/metrics").body(Vec::new()).expect("a request from well-formed parts");
        let text =
            self.run(async { self.client.parts().0.request_text(request).await }).expect("the server has metrics");
        let group = format!("group=\"{}\"", self.kind.group);
        let is_meant = |line: &&str| {
            line.starts_with("apiserver_request_total{") && line.contains(&group) && line.contains("verb=\"PATCH\"")
        };
        let count = |line: &str| {
            line.rsplit(' ').next().and_then(|count| count.parse::<f64>().ok()).expect("metrics are numbers")
        };
        text.lines().filter(is_meant).map(|line| count(line) as u64).sum()
    }

    fn run<T>(&self, work: impl Future<Output = T>) -> T {
        self.client.parts().1.block_on(work)
    }

    fn request(&self, name: &str, filling: usize) -> http::Request<Vec<u8>> {
        let mut spec = spec(filling);
        spec["size"] = json!(3);
        let object = json!({
            "apiVersion": self.kind.api_version(), "kind": self.kind.name, "metadata": {"name": name}, "spec": spec,
        });
        let body = object.to_string().into_bytes();
        // Without a name, the server would take it for one client with the bare loop, and keep one entry of managed
        // fields for both.
        let address = format!("{}?fieldManager=load", self.kind.collection("default"));
        let request = http::Request::post(address).header("content-type", "application/json");
        request.body(body).expect("a request from well-formed parts")
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.task.abort();
    }
}
