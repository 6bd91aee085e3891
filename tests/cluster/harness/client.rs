//! A small client of the API server: paths and JSON, without a model of Kubernetes that could have the same errors as
//! the engine.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::AsyncBufReadExt;
use futures::TryStreamExt;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::Value;
use tokio::runtime::Runtime;

/// A failed request.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    /// The HTTP status; 0 if there was no answer.
    pub(crate) status: u16,
    /// The message of the server or of the connection.
    pub(crate) message: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} ({})", self.message, self.status)
    }
}

impl Failure {
    fn of(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self { status: status.code, message: status.message.clone() },
            other => Self { status: 0, message: other.to_string() },
        }
    }
}

/// The pause before a failed watch begins again.
const RECONNECTION: Duration = Duration::from_millis(100);

/// A client of one API server, usable from many threads.
#[derive(Clone)]
pub(crate) struct Client {
    runtime: Arc<Runtime>,
    client: kube::Client,
}

impl Client {
    /// Connects to the server of a kubeconfig.
    pub(crate) fn new(runtime: Arc<Runtime>, kubeconfig: &str) -> Self {
        let client = runtime.block_on(async {
            let parsed = Kubeconfig::from_yaml(kubeconfig).expect("our own kubeconfig is well-formed");
            let mut config = kube::Config::from_custom_kubeconfig(parsed, &KubeConfigOptions::default())
                .await
                .expect("our own kubeconfig is complete");
            config.read_timeout = None;
            // Cases need the answers of the server itself.
            config.default_retry = false;
            kube::Client::try_from(config).expect("a client for our own kubeconfig")
        });
        Self { runtime, client }
    }

    /// Returns the connection itself and its runtime.
    pub(crate) fn parts(&self) -> (kube::Client, Arc<Runtime>) {
        (self.client.clone(), Arc::clone(&self.runtime))
    }

    /// Sends one request and waits for the answer, for at most half a minute.
    pub(crate) fn request(&self, method: &str, path: &str, kind: &str, body: Option<&Value>) -> Result<Value, Failure> {
        let bytes = body.map(|body| serde_json::to_vec(body).expect("JSON can be written")).unwrap_or_default();
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", kind)
            .body(bytes)
            .expect("a request from well-formed parts");
        self.runtime.block_on(async {
            match tokio::time::timeout(Duration::from_secs(30), self.client.request::<Value>(request)).await {
                Ok(answer) => answer.map_err(Failure::of),
                Err(_) => Err(Failure { status: 0, message: "no answer in 30 seconds".into() }),
            }
        })
    }

    /// Returns an object, or `None` if it does not exist.
    pub(crate) fn get(&self, path: &str) -> Option<Value> {
        match self.request("GET", path, "application/json", None) {
            Ok(object) => Some(object),
            Err(failure) if failure.status == 404 => None,
            Err(failure) => panic!("GET {path}: {failure}"),
        }
    }

    /// Returns the items of a list.
    pub(crate) fn list(&self, path: &str) -> Vec<Value> {
        let mut list = self
            .request("GET", path, "application/json", None)
            .unwrap_or_else(|failure| panic!("GET {path}: {failure}"));
        match list["items"].take() {
            Value::Array(items) => items,
            _ => Vec::new(),
        }
    }

    /// Creates an object in a collection.
    pub(crate) fn create(&self, path: &str, object: &Value) -> Value {
        self.request("POST", path, "application/json", Some(object))
            .unwrap_or_else(|failure| panic!("POST {path}: {failure}"))
    }

    /// Creates an object unless it is already there.
    pub(crate) fn ensure(&self, path: &str, object: &Value) {
        match self.request("POST", path, "application/json", Some(object)) {
            Ok(_) => {}
            Err(failure) if failure.status == 409 => {}
            Err(failure) => panic!("POST {path}: {failure}"),
        }
    }

    /// Applies a merge patch.
    pub(crate) fn merge(&self, path: &str, patch: &Value) -> Value {
        self.request("PATCH", path, "application/merge-patch+json", Some(patch))
            .unwrap_or_else(|failure| panic!("PATCH {path}: {failure}"))
    }

    /// Deletes an object, if it exists.
    pub(crate) fn delete(&self, path: &str) {
        match self.request("DELETE", path, "application/json", None) {
            Ok(_) => {}
            Err(failure) if failure.status == 404 => {}
            Err(failure) => panic!("DELETE {path}: {failure}"),
        }
    }

    /// Collects the watch events of a collection from now on.
    pub(crate) fn watch_all(&self, path: &str) -> Watch {
        let list = self
            .request("GET", path, "application/json", None)
            .unwrap_or_else(|failure| panic!("GET {path}: {failure}"));
        self.watch(path, list["metadata"]["resourceVersion"].as_str().expect("a list has a revision"))
    }

    /// Collects the watch events of a collection from a revision on, until the result is dropped.
    pub(crate) fn watch(&self, path: &str, revision: &str) -> Watch {
        let events = Arc::new(Mutex::new(Vec::new()));
        let (client, collected) = (self.client.clone(), Arc::clone(&events));
        let (path, mut revision) = (path.to_owned(), revision.to_owned());
        let tasks = tokio_util::task::TaskTracker::new();
        let task = tasks.spawn_on(
            async move {
                // A server ends watches for reasons of its own, and a case needs all events.
                loop {
                    let uri = format!("{path}?watch=1&resourceVersion={revision}");
                    let request = http::Request::get(uri).body(Vec::new()).expect("a request from well-formed parts");
                    let Ok(stream) = client.request_stream(request).await else {
                        tokio::time::sleep(RECONNECTION).await;
                        continue;
                    };
                    let mut lines = std::pin::pin!(stream.lines());
                    while let Ok(Some(line)) = lines.try_next().await {
                        let event: Value = serde_json::from_str(&line).expect("a watch event is JSON");
                        assert_ne!(event["type"], "ERROR", "the watch of {path} fails: {event}");
                        event["object"]["metadata"]["resourceVersion"]
                            .as_str()
                            .expect("objects have versions")
                            .clone_into(&mut revision);
                        collected.lock().expect("no thread panics while holding the events").push(event);
                    }
                }
            },
            self.runtime.handle(),
        );
        Watch { events, task: task.abort_handle() }
    }
}

/// The events of a running watch.
pub(crate) struct Watch {
    events: Arc<Mutex<Vec<Value>>>,
    task: tokio::task::AbortHandle,
}

impl Watch {
    /// Returns the events so far.
    pub(crate) fn events(&self) -> Vec<Value> {
        self.events_from(0)
    }

    /// Returns the events from a position on.
    pub(crate) fn events_from(&self, position: usize) -> Vec<Value> {
        self.events.lock().expect("no thread panics while holding the events")[position..].to_vec()
    }

    /// Returns the last event about an object with this name.
    pub(crate) fn last_of(&self, name: &str) -> Option<Value> {
        let events = self.events.lock().expect("no thread panics while holding the events");
        events.iter().rfind(|event| event["object"]["metadata"]["name"] == name).cloned()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}
