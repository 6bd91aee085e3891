//! Sends the changes of one object: up to four requests, split by the status subresource and by operations that need an
//! exact version.

use std::sync::LazyLock;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;
use tracing::debug;

use crate::object::equality::is_falsy;
use crate::object::{Body, Patch, Resource, Scope, Transform, diff};
use crate::wire;

use super::address;
use super::client::{Client, Request};
use super::error::Error;

/// The content type of a merge patch.
pub const MERGE_PATCH: &str = "application/merge-patch+json";

/// The content type of a JSON patch.
pub const JSON_PATCH: &str = "application/json-patch+json";

/// Appended to a version that no event will ever have.
const NEVER: &str = "~which~never~arrives";

/// Sends patches: the client, or a scripted server in tests.
pub trait Requests: Sync {
    /// Sends a patch and returns the changed object: at least the fields of `wanted` and the metadata that determine
    /// the version to wait for; without `wanted`, the whole object.
    fn patch(
        &self,
        path: &str,
        content_type: &'static str,
        payload: &(impl Serialize + Sync),
        wanted: Option<&Map<String, Value>>,
    ) -> impl Future<Output = Result<Value, Error>> + Send;
}

impl Requests for Client {
    /// Both kinds of patches are safe to repeat: merge patches are idempotent, and our JSON patches test the version.
    async fn patch(
        &self,
        path: &str,
        content_type: &'static str,
        payload: &(impl Serialize + Sync),
        wanted: Option<&Map<String, Value>>,
    ) -> Result<Value, Error> {
        let request = Request::new(http::Method::PATCH, path).with_json(content_type, payload);
        let response = self.request(&request).await?;
        match wanted {
            Some(wanted) => wire::excerpt(&response.body, [wanted, &DETERMINING_THE_VERSION])
                .map_err(|error| Error::Payload(error.into())),
            None => response.json(),
        }
    }
}

/// The result of a patch.
#[derive(Debug, Default)]
pub struct Applied {
    /// The version whose event confirms the changes; `None` if nothing was sent.
    pub version: Option<String>,
    /// The versions after each of the requests, the last one included.
    pub versions: Vec<String>,
    /// The functions that met a newer version of the object; they are retried on the body of the next event.
    pub remaining: Vec<Transform>,
    /// Differences between the sent and the stored values, such as fields that the kind's schema does not have.
    pub inconsistencies: Vec<diff::Item>,
    /// Whether the object no longer exists.
    pub is_gone: bool,
}

impl Applied {
    /// Returns the version whose event the next handling waits for. If a later request found no object, only the
    /// deletion event is new: events of the earlier requests may still be on their way, and must not be handled.
    pub fn expected_version(&self) -> Option<String> {
        let outdated = self.versions.last().filter(|_| self.is_gone);
        outdated.map(|version| [version, NEVER].concat()).or_else(|| self.version.clone())
    }
}

/// Reports when the event of a request has arrived.
pub trait Confirmation: Send + Sync {
    /// Waits for the event of the last request, up to a limit.
    fn awaited(&self) -> BoxFuture<'_, ()>;
}

/// Awaits no events.
pub struct Unconfirmed;

impl Confirmation for Unconfirmed {
    fn awaited(&self) -> BoxFuture<'_, ()> {
        std::future::ready(()).boxed()
    }
}

/// Sends a patch of an object, and waits before each further request of it for the event of the earlier one. API
/// servers first try a patch on the state from their own watch: while that is outdated, the try fails in the store, and
/// they make it a second time.
///
/// # Errors
/// If a request fails, unless the object is gone or a function met a newer version. Requests sent before the failure
/// stay in effect.
pub async fn apply(
    api: &impl Requests,
    resource: &Resource,
    body: &Body,
    patch: &Patch,
    confirmation: &dyn Confirmation,
) -> Result<Applied, Error> {
    let namespace = body.namespace().filter(|_| resource.namespaced);
    let path = address::object(resource, namespace, body.name())?;
    let has_status = resource.has_subresource("status");
    let status_path = has_status.then(|| address::subresource(path.clone(), "status"));
    let (merge, before) = (&patch.merge, body.resource_version());
    let mut sender = Sender { api, path, status_path, merge, confirmation, before, latest: None, versions: Vec::new() };
    let remaining = match sender.send(body, patch).await {
        Ok(remaining) => remaining,
        Err(error) if error.is_not_found() => {
            return Ok(Applied { is_gone: true, versions: sender.versions, ..Applied::default() });
        }
        Err(error) => return Err(error),
    };
    let Sender { latest, versions, .. } = sender;
    let inconsistencies = latest.as_ref().map(|latest| inconsistencies(&patch.merge, latest)).unwrap_or_default();
    Ok(Applied {
        version: latest.as_ref().and_then(awaited_version),
        versions,
        remaining,
        inconsistencies,
        is_gone: false,
    })
}

/// Returns a body with a change made.
///
/// # Errors
/// The text of the error of a script.
pub async fn transformed(transform: &Transform, body: Value) -> Result<Value, String> {
    let (sender, changed) = oneshot::channel();
    // Without a receiver, the caller has stopped waiting.
    transform.start(body, Box::new(move |result| drop(sender.send(result))));
    changed.await.unwrap_or_else(|_| Err("the script thread has ended".to_owned()))
}

struct Sender<'a, R> {
    api: &'a R,
    path: String,
    status_path: Option<String>,
    /// The patched fields, which are checked after the last request.
    merge: &'a Map<String, Value>,
    confirmation: &'a dyn Confirmation,
    /// The version before the first request.
    before: Option<&'a str>,
    /// The object after the last request.
    latest: Option<Value>,
    /// The versions to wait for after each of the requests.
    versions: Vec<String>,
}

impl<R: Requests> Sender<'_, R> {
    /// Sends all requests and returns the functions to retry.
    async fn send(&mut self, body: &Body, patch: &Patch) -> Result<Vec<Transform>, Error> {
        self.send_merge(patch.transforms.is_empty()).await?;
        if patch.transforms.is_empty() {
            return Ok(Vec::new());
        }
        match self.send_transforms(body, &patch.transforms).await {
            Err(error) if error.status() == Some(422) => {
                debug!(error = error.chain(), "A newer change has prevented the functions over the whole object.");
                Ok(patch.transforms.clone())
            }
            other => other.map(|()| Vec::new()),
        }
    }

    /// The functions after it need the whole object, so only parts of it are read after the last request.
    async fn send_merge(&mut self, is_last: bool) -> Result<(), Error> {
        let Some(status_path) = self.status_path.clone() else {
            return self.send_fields(self.path.clone(), self.merge.iter().collect(), is_last).await;
        };
        let (status, main): (Vec<_>, Vec<_>) = self.merge.iter().partition(|(key, _)| *key == "status");
        self.send_fields(self.path.clone(), main, is_last).await?;
        let status = status.into_iter().filter(|(_, status)| !status.is_null()).collect();
        self.send_fields(status_path, status, is_last).await
    }

    async fn send_fields(&mut self, path: String, fields: Vec<(&String, &Value)>, is_last: bool) -> Result<(), Error> {
        if !fields.is_empty() {
            self.await_confirmation().await;
            let wanted = is_last.then_some(self.merge);
            let object = self.api.patch(&path, MERGE_PATCH, &Fields(fields), wanted).await?;
            self.note(object);
        }
        Ok(())
    }

    /// Waits for the event of the last request, unless there is none: nothing was sent, or nothing has changed.
    async fn await_confirmation(&self) {
        let has_changed = match &*self.versions {
            [] => false,
            [first] => self.before != Some(first),
            [.., earlier, last] => earlier != last,
        };
        if has_changed {
            self.confirmation.awaited().await;
        }
    }

    fn note(&mut self, object: Value) {
        self.versions.extend(awaited_version(&object));
        self.latest = Some(object);
    }

    async fn send_transforms(&mut self, body: &Body, transforms: &[Transform]) -> Result<(), Error> {
        let base = self.latest.clone().unwrap_or_else(|| (**body).clone());
        let mut changed = base.clone();
        for transform in transforms {
            changed = transformed(transform, changed).await.map_err(Error::Transform)?;
        }
        let operations = operations(&base, &changed);
        let (status, main): (Vec<Value>, Vec<Value>) =
            operations.into_iter().partition(|operation| self.status_path.is_some() && is_of_status(operation));
        self.send_operations(self.path.clone(), &base, main).await?;
        match self.status_path.clone() {
            Some(path) => self.send_operations(path, &base, status).await,
            None => Ok(()),
        }
    }

    /// Sends operations that are valid only for the version after the last request.
    async fn send_operations(&mut self, path: String, base: &Value, mut operations: Vec<Value>) -> Result<(), Error> {
        if operations.is_empty() {
            return Ok(());
        }
        self.await_confirmation().await;
        let version = self.latest.as_ref().unwrap_or(base).pointer("/metadata/resourceVersion");
        operations.insert(0, json!({"op": "test", "path": "/metadata/resourceVersion", "value": version}));
        let object = self.api.patch(&path, JSON_PATCH, &operations, Some(self.merge)).await?;
        self.note(object);
        Ok(())
    }
}

/// The fields that determine the version to wait for.
static DETERMINING_THE_VERSION: LazyLock<Map<String, Value>> = LazyLock::new(|| {
    let metadata = ["resourceVersion", "deletionTimestamp", "finalizers"].map(|key| (key.to_owned(), Value::Null));
    Map::from_iter([("metadata".to_owned(), Value::Object(Map::from_iter(metadata)))])
});

/// Some fields of a mapping.
struct Fields<'a>(Vec<(&'a String, &'a Value)>);

impl Serialize for Fields<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().copied())
    }
}

/// Returns the operations of a JSON patch that turns one object into another.
pub fn operations(base: &Value, changed: &Value) -> Vec<Value> {
    let patch = json_patch::diff(base, changed);
    patch.iter().map(|operation| serde_json::to_value(operation).expect("an operation is plain data")).collect()
}

fn is_of_status(operation: &Value) -> bool {
    let path = operation.get("path").and_then(Value::as_str).unwrap_or_default();
    path == "/status" || path.starts_with("/status/")
}

/// Returns the version to wait for. After the removal of the last finalizer only the deletion event follows, whose
/// version is different; events before it must not be handled.
fn awaited_version(object: &Value) -> Option<String> {
    let metadata = object.get("metadata")?;
    let version = metadata.get("resourceVersion")?.as_str()?;
    let is_set = |key| metadata.get(key).is_some_and(|value| !is_falsy(value));
    Some(if is_set("deletionTimestamp") && !is_set("finalizers") {
        format!("{version}{NEVER}")
    } else {
        version.to_owned()
    })
}

fn inconsistencies(merge: &Map<String, Value>, object: &Value) -> Vec<diff::Item> {
    let mut items = diff::diff(&Value::Object(merge.clone()), object, Scope::Left);
    items.retain(|item| !(is_dropped_when_empty(&item.path) && is_falsy(&item.old) && is_falsy(&item.new)));
    items
}

/// The server drops these fields of the metadata when they are empty.
fn is_dropped_when_empty(path: &[String]) -> bool {
    matches!(path, [metadata, stanza] if metadata == "metadata" && ["annotations", "labels", "finalizers"].contains(&stanza.as_str()))
}

/// Returns the inconsistencies as a text for a log.
pub fn describe(items: &[diff::Item]) -> String {
    let described =
        items.iter().map(|item| format!("{} {}: {} -> {}", item.op.as_str(), item.path.join("."), item.old, item.new));
    described.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;

    /// A server that answers with an object of the next version in its list, or that there is none; and the requests
    /// and waits so far.
    #[derive(Default)]
    struct Scripted {
        versions: Mutex<Vec<&'static str>>,
        seen: Mutex<Vec<String>>,
    }

    impl Requests for Scripted {
        async fn patch(
            &self,
            path: &str,
            _: &'static str,
            _: &(impl Serialize + Sync),
            _: Option<&Map<String, Value>>,
        ) -> Result<Value, Error> {
            self.seen.lock().push(path.rsplit('/').next().unwrap_or_default().to_owned());
            let mut versions = self.versions.lock();
            if versions.is_empty() {
                return Err(Error::of_answer(404, None, b""));
            }
            Ok(json!({"metadata": {"name": "a", "resourceVersion": versions.remove(0)}}))
        }
    }

    /// Sends a patch of an object of version 1.
    async fn applied(server: &Scripted, merge: Value, transforms: Vec<Transform>) -> Applied {
        let resource = Resource {
            version: "v1".into(),
            plural: "things".into(),
            kind: "Thing".into(),
            subresources: vec!["status".into()],
            ..Resource::default()
        };
        let body = Body::from(json!({"metadata": {"name": "a", "resourceVersion": "1"}}));
        let Value::Object(merge) = merge else { panic!("a patch is a mapping") };
        apply(server, &resource, &body, &Patch { merge, transforms }, server).await.unwrap()
    }

    impl Confirmation for Scripted {
        fn awaited(&self) -> BoxFuture<'_, ()> {
            self.seen.lock().push("wait".to_owned());
            std::future::ready(()).boxed()
        }
    }

    /// Returns the requests and waits for a patch of an object of version 1.
    async fn steps(merge: Value, transforms: Vec<Transform>, versions: &[&'static str]) -> String {
        let server = Scripted { versions: Mutex::new(versions.to_vec()), seen: Mutex::default() };
        applied(&server, merge, transforms).await;
        server.seen.into_inner().join(" ")
    }

    #[tokio::test]
    async fn each_further_request_waits_for_the_event_of_the_earlier_one() {
        let both = json!({"metadata": {"labels": {"x": "y"}}, "status": {"n": 1}});
        assert_eq!(steps(both.clone(), Vec::new(), &["2", "3"]).await, "a wait status");
        let finalizer = vec![Transform::AddFinalizer("f".into())];
        assert_eq!(steps(both, finalizer, &["2", "3", "4"]).await, "a wait status wait a");
        assert_eq!(steps(json!({"status": {"n": 1}}), Vec::new(), &["2"]).await, "status", "it is the only one");
    }

    #[tokio::test]
    async fn a_request_that_changed_nothing_has_no_event() {
        let both = json!({"metadata": {"labels": {"x": "y"}}, "status": {"n": 1}});
        assert_eq!(steps(both.clone(), Vec::new(), &["1", "2"]).await, "a status");
        let finalizer = vec![Transform::AddFinalizer("f".into())];
        assert_eq!(steps(both, finalizer, &["2", "2", "3"]).await, "a wait status a");
    }

    #[tokio::test]
    async fn after_a_request_that_found_no_object_the_events_of_the_earlier_ones_are_outdated() {
        let both = json!({"metadata": {"labels": {"x": "y"}}, "status": {"n": 1}});
        let server = Scripted { versions: Mutex::new(vec!["2"]), seen: Mutex::default() };
        let found = applied(&server, both.clone(), Vec::new()).await;
        assert!(found.is_gone);
        assert_eq!((found.version.as_deref(), found.expected_version()), (None, Some(format!("2{NEVER}"))));
        let found = applied(&Scripted::default(), both.clone(), Vec::new()).await;
        assert!(found.is_gone);
        assert_eq!(found.expected_version(), None, "there were none");
        let server = Scripted { versions: Mutex::new(vec!["2", "3"]), seen: Mutex::default() };
        assert_eq!(applied(&server, both, Vec::new()).await.expected_version().as_deref(), Some("3"));
    }
}
