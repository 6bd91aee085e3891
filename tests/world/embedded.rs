//! The embedded API server for a scene: the same single object, but stored, patched, deleted and watched by the real
//! embedded server.
//!
//! Values assigned by the server are converted to those of the vectors: versions are counted from the object's first
//! one, and times and unique ids are those of the case.

use std::sync::Arc;

use jiff::SignedDuration;
use kopfd::apiserver::faults::{Action, Match, Rule};
use kopfd::apiserver::storage::resource::{Key, Resource};
use kopfd::apiserver::storage::store::Limits;
use kopfd::apiserver::{ApiServer, Settings, admin_client, bootstrap};
use kopfd::cluster::{Client, Error, Networking, Requests as _, Seen, Sink, Watcher};
use kopfd::kit::{Clock, Stop};
use kopfd::object::EventKind;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use super::api_server::client;
use super::declare;

/// The deletion timestamp of a blocked object in the vectors.
const DELETED_AT: &str = "2020-01-01T00:00:00Z";

/// Fields written by the server that the vectors do not have.
const SERVERS: [&str; 4] = ["creationTimestamp", "generation", "managedFields", "deletionGracePeriodSeconds"];

/// The embedded API server with one object.
pub(crate) struct Embedded {
    api: ApiServer,
    client: Client,
    /// The object to create.
    given: Value,
    resource: kopfd::object::Resource,
    /// The revision before the object.
    base: Mutex<u64>,
    last: Mutex<Value>,
}

impl Embedded {
    /// Returns a server with the kind of a case, without its object.
    pub(crate) async fn of(input: &Value, object: Value, clock: &Clock) -> Self {
        // The whole history is kept to count versions.
        let limits = Limits { changes: usize::MAX, age: SignedDuration::MAX, bytes: usize::MAX };
        let api = ApiServer::new(Settings { seed: Some(1), limits, ..Settings::default() }, clock.clone());
        let resource = (*declare::resource(&input["subresources"])).clone();
        let namespace = object.pointer("/metadata/namespace").cloned().unwrap_or_default();
        let objects = vec![
            definition(&input["subresources"]),
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}),
        ];
        bootstrap::apply(&api, objects).await.expect("the server takes the definition");
        // Kopf's client was recorded without retries.
        let networking = Networking { error_backoffs: Vec::new(), ..Networking::default() };
        let client = client(&api, networking, clock).await;
        for rule in faults(input) {
            api.add_fault(rule);
        }
        let base = Mutex::new(0);
        Self { api, client, last: Mutex::new(object.clone()), given: object, resource, base }
    }

    /// Creates the object, without the fields that only the server writes.
    pub(crate) async fn create(&self) {
        *self.base.lock() = self.api.revision();
        let mut object = self.given.clone();
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("uid");
            metadata.remove("resourceVersion");
        }
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
        let path = format!("/apis/kopf.dev/v1/namespaces/{namespace}/kopfexamples");
        let created =
            admin_client::send(&self.api, http::Method::POST, &path, Some("application/json"), object.to_string())
                .await;
        created.expect("the server takes the object");
    }

    fn key(&self) -> Key {
        let text = |key: &str| self.given["metadata"][key].as_str().unwrap_or_default().to_owned();
        (text("namespace"), text("name"))
    }

    fn place(&self) -> Resource {
        Resource { group: self.resource.group.clone(), plural: self.resource.plural.clone() }
    }

    /// Returns the object, or its last state.
    pub(crate) fn object(&self) -> Value {
        let history = self.history();
        let newest = history.last().and_then(|change| {
            let value = change.after().or_else(|| change.before())?;
            let mut value = (*value.value).clone();
            if change.after().is_none() {
                // An object removed with its last finalizer finally had none, and a new version.
                value["metadata"]["resourceVersion"] = json!(change.revision.to_string());
                value["metadata"].as_object_mut()?.remove("finalizers");
            }
            Some(value)
        });
        if let Some(newest) = newest {
            *self.last.lock() = self.shown(newest);
        }
        self.last.lock().clone()
    }

    /// Tells whether the object is removed.
    pub(crate) fn is_gone(&self) -> bool {
        self.api.read(&self.place(), &self.key()).is_none()
    }

    /// Sends a patch of the operator.
    pub(crate) async fn patch(
        &self,
        path: &str,
        content_type: &'static str,
        payload: &Value,
        wanted: Option<&Map<String, Value>>,
    ) -> Result<Value, Error> {
        let mut payload = payload.clone();
        for operation in payload.as_array_mut().into_iter().flatten() {
            if operation["path"] == "/metadata/resourceVersion" {
                operation["value"] = json!(self.actual(&operation["value"]));
            }
        }
        self.client.patch(path, content_type, &payload, wanted).await.map(|object| self.shown(object))
    }

    /// Changes the object as another client.
    pub(crate) async fn merge(&self, payload: &Value) {
        let Some(handle) = self.handle() else { return };
        let has_status = self.resource.has_subresource("status");
        let (status, main): (serde_json::Map<_, _>, serde_json::Map<_, _>) = payload
            .clone()
            .as_object()
            .cloned()
            .unwrap_or_default()
            .into_iter()
            .partition(|(key, _)| has_status && key == "status");
        for (subresource, part) in [(None, main), (Some("status"), status)] {
            if !part.is_empty() {
                let sent = admin_client::patch(
                    &self.api,
                    &handle,
                    subresource,
                    "application/merge-patch+json",
                    &Value::Object(part),
                )
                .await;
                sent.expect("the server takes what others change");
            }
        }
    }

    /// Deletes the object.
    pub(crate) async fn delete(&self) {
        if let Some(handle) = self.handle() {
            admin_client::delete(&self.api, &handle, None).await.expect("the server deletes the object");
        }
    }

    fn handle(&self) -> Option<admin_client::ObjectHandle> {
        let (namespace, name) = self.key();
        admin_client::find(&self.api, "kopfexamples.kopf.dev", &name, Some(&namespace))
            .ok()
            .filter(|handle| handle.stored.is_some())
    }

    /// Watches the object endlessly with the engine's own watcher.
    pub(crate) async fn follow(&self, tell: impl FnMut(EventKind, Arc<str>) + Send) {
        let mut watcher =
            Watcher::new(self.client.clone(), self.resource.clone(), None).expect("all namespaces can be watched");
        let mut sink = Following { embedded: self, tell };
        watcher.run(&mut sink, &Stop::new()).await;
    }

    fn history(&self) -> Vec<Arc<kopfd::apiserver::storage::store::Change>> {
        let base = *self.base.lock();
        self.api.changes_after(&self.place(), base).unwrap_or_default()
    }

    fn first_version(&self) -> u64 {
        self.given["metadata"]["resourceVersion"].as_str().and_then(|version| version.parse().ok()).unwrap_or(0)
    }

    /// Returns a version in the numbering of the case.
    fn version(&self, actual: &Value) -> Value {
        let revision: Option<u64> = actual.as_str().and_then(|version| version.parse().ok());
        let mut number = self.first_version();
        for (place, change) in self.history().iter().enumerate() {
            // The recorded server had no new version for an object that was removed without having been marked.
            let was_marked =
                || change.before().is_some_and(|old| old.value.pointer("/metadata/deletionTimestamp").is_some());
            number += u64::from(place > 0 && (change.after().is_some() || was_marked()));
            if Some(change.revision) == revision {
                return json!(number.to_string());
            }
        }
        actual.clone()
    }

    /// Returns the server's version for one of the case.
    fn actual(&self, shown: &Value) -> String {
        let number: u64 = shown.as_str().and_then(|version| version.parse().ok()).unwrap_or(0);
        let place = number.saturating_sub(self.first_version()) as usize;
        self.history().get(place).map_or_else(|| number.to_string(), |change| change.revision.to_string())
    }

    fn shown(&self, mut object: Value) -> Value {
        let version = self.version(&object["metadata"]["resourceVersion"]);
        if let Some(metadata) = object["metadata"].as_object_mut() {
            for key in SERVERS {
                metadata.remove(key);
            }
            metadata.insert("resourceVersion".to_owned(), version);
            metadata.insert("uid".to_owned(), self.given["metadata"]["uid"].clone());
            if let Some(deleted_at) = metadata.get_mut("deletionTimestamp") {
                *deleted_at = json!(DELETED_AT);
            }
        }
        object
    }
}

struct Following<'a, F> {
    embedded: &'a Embedded,
    tell: F,
}

impl<F: FnMut(EventKind, Arc<str>) + Send> Sink for Following<'_, F> {
    async fn seen(&mut self, seen: Seen<'_>) {
        let object: Value = serde_json::from_str(seen.text).expect("the server sends JSON");
        (self.tell)(seen.event_kind, Arc::from(self.embedded.shown(object).to_string()));
    }

    async fn listed(&mut self) {}
}

fn definition(subresources: &Value) -> Value {
    let names: Vec<&str> = subresources.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let subresources = if names.contains(&"status") { json!({"status": {}}) } else { json!({}) };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "kopfexamples.kopf.dev"},
        "spec": {
            "group": "kopf.dev",
            "scope": "Namespaced",
            "names": {"plural": "kopfexamples", "singular": "kopfexample", "kind": "KopfExample"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": subresources,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    })
}

/// Returns the failing requests of the case as fault rules. A rule does not count the requests of an earlier one.
fn faults(input: &Value) -> Vec<Rule> {
    let failures = input.get("fail_requests").or(input.get("fail")).and_then(Value::as_array).into_iter().flatten();
    let rule = |(index, failure): (usize, &Value)| Rule {
        matching: Match { verb: "patch".into(), resource: Some("kopfexamples".to_owned()), ..Match::default() },
        skip: failure["nth"].as_u64().unwrap_or(1).saturating_sub(1 + index as u64),
        times: Some(1),
        probability: 1.0,
        seed: 0,
        action: Action::Status {
            code: failure["status"].as_u64().unwrap_or(500) as u16,
            reason: String::new(),
            message: String::new(),
            retry_after: None,
            body: kopfd::apiserver::faults::AnswerBody::Status,
        },
    };
    failures.enumerate().map(rule).collect()
}
