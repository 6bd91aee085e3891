//! Operations on arbitrary objects, for the host functions of scripts.

use std::sync::Arc;

use bytes::Bytes;
use http::Method;
use serde_json::{Map, Value, json};

use crate::object::Resource;

use super::address;
use super::apply::{JSON_PATCH, MERGE_PATCH};
use super::client::{Client, Repeat, Request};
use super::error::{AddressError, Error};
use super::exec::{self, Command};
use super::fence::is_write;
use super::other::{Guarded, OtherClusters};
use super::resource_resolver::ResourceResolver;
use super::selection::Selection;
use super::watch::Watcher;

/// The content type of server-side apply; JSON is also YAML.
const APPLY_PATCH: &str = "application/apply-patch+yaml";

const JSON: &str = "application/json";

/// Objects in a page of a list.
const PAGE: &str = "500";

/// The longest name of a field manager that API servers accept.
const MANAGER_LIMIT: usize = 128;

/// Operations on objects, with a field manager.
#[derive(Clone)]
pub struct ObjectClient {
    client: Client,
    manager: String,
}

/// The options of a deletion.
#[derive(Debug, Clone, Default)]
pub struct Deletion {
    /// The deletion of dependents: `Background`, `Foreground`, or `Orphan`.
    pub propagation: Option<String>,
    /// The grace period in seconds.
    pub grace: Option<u64>,
}

/// The address of an object.
#[derive(Debug, Clone, Copy)]
pub struct ObjectAddress<'a> {
    /// The resource.
    pub resource: &'a Resource,
    /// The namespace, for namespaced kinds.
    pub namespace: Option<&'a str>,
    /// The name.
    pub name: &'a str,
}

impl<'a> ObjectAddress<'a> {
    /// Returns the address of an object from its metadata.
    pub fn of(resource: &'a Resource, object: &'a Value) -> Self {
        let text = |pointer| object.pointer(pointer).and_then(Value::as_str);
        let namespace = text("/metadata/namespace").filter(|_| resource.namespaced);
        Self { resource, namespace, name: text("/metadata/name").unwrap_or_default() }
    }

    fn path(&self) -> Result<String, AddressError> {
        address::object(self.resource, self.namespace, self.name)
    }
}

impl ObjectClient {
    /// Returns the operations of a field manager.
    pub fn new(client: Client, manager: &str) -> Self {
        Self { client, manager: manager.chars().take(MANAGER_LIMIT).collect() }
    }

    /// Returns an object, or nothing if it does not exist.
    ///
    /// # Errors
    /// If the request fails.
    pub async fn get(&self, place: ObjectAddress<'_>) -> Result<Option<Value>, Error> {
        found(self.send(Request::get(place.path()?)).await)
    }

    /// Returns all objects of a resource, in one namespace or in all, with their kind and version. Large lists are read
    /// in pages.
    ///
    /// # Errors
    /// If a request fails.
    pub async fn list(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
        selection: &Selection,
    ) -> Result<Vec<Value>, Error> {
        let path = address::collection(resource, namespace)?;
        match self.pages(&path, Some(PAGE), selection).await {
            // The version of the first page has expired; a list in one piece cannot expire.
            Err(error) if error.status() == Some(410) => self.pages(&path, None, selection).await,
            other => other,
        }
        .map(|objects| objects.into_iter().map(|object| complete(object, resource)).collect())
    }

    async fn pages(&self, path: &str, limit: Option<&str>, selection: &Selection) -> Result<Vec<Value>, Error> {
        let mut objects = Vec::new();
        let mut next: Option<String> = None;
        loop {
            let pieces = [
                ("labelSelector", selection.labels.as_deref()),
                ("fieldSelector", selection.fields.as_deref()),
                ("limit", limit),
                ("continue", next.as_deref()),
            ];
            let parameters: Vec<(&str, &str)> =
                pieces.into_iter().filter_map(|(key, value)| Some((key, value?))).collect();
            let mut page = self.send(Request::get(path.to_owned() + &address::query(&parameters))).await?;
            if let Some(Value::Array(items)) = page.get_mut("items").map(Value::take) {
                objects.extend(items);
            }
            next = page
                .pointer("/metadata/continue")
                .and_then(Value::as_str)
                .filter(|next| !next.is_empty())
                .map(str::to_owned);
            if next.is_none() {
                return Ok(objects);
            }
        }
    }

    /// Creates an object and returns it. With `generateName` the server chooses the name.
    ///
    /// # Errors
    /// If the request fails; it is retried only if the server certainly did not process it.
    pub async fn create(&self, resource: &Resource, object: &Value) -> Result<Value, Error> {
        let place = ObjectAddress::of(resource, object);
        if resource.namespaced && place.namespace.is_none() {
            return Err(AddressError::NoNamespace(resource.to_string()).into());
        }
        let path =
            address::collection(resource, place.namespace)? + &address::query(&[("fieldManager", &self.manager)]);
        self.send(Request::new(Method::POST, path).with_json(JSON, object).repeated(Repeat::Unreached)).await
    }

    /// Replaces an object and returns it. If it has a resource version, only that version is replaced.
    ///
    /// # Errors
    /// If the request fails.
    pub async fn update(&self, resource: &Resource, object: &Value) -> Result<Value, Error> {
        let path = ObjectAddress::of(resource, object).path()? + &address::query(&[("fieldManager", &self.manager)]);
        let has_version = object.pointer("/metadata/resourceVersion").is_some_and(Value::is_string);
        let repeat = if has_version { Repeat::Safe } else { Repeat::Unreached };
        self.send(Request::new(Method::PUT, path).with_json(JSON, object).repeated(repeat)).await
    }

    /// Applies the given fields of an object, and returns it (server-side apply).
    ///
    /// # Errors
    /// If the request fails; with status 409 if others own some of the fields and force is not allowed.
    pub async fn apply(&self, resource: &Resource, object: &Value, force: bool) -> Result<Value, Error> {
        let force = if force { "true" } else { "false" };
        let path = ObjectAddress::of(resource, object).path()?
            + &address::query(&[("fieldManager", &self.manager), ("force", force)]);
        self.send(Request::new(Method::PATCH, path).with_json(APPLY_PATCH, object)).await
    }

    /// Changes an object, or one of its subresources, by a merge patch (a mapping) or a JSON patch (an array), and
    /// returns it.
    ///
    /// # Errors
    /// If the request fails. JSON patches may append to lists, so they are retried only if the server certainly did not
    /// process them.
    pub async fn patch(
        &self,
        place: ObjectAddress<'_>,
        subresource: Option<&str>,
        patch: &Value,
    ) -> Result<Value, Error> {
        let mut path = place.path()?;
        if let Some(name) = subresource {
            path = address::subresource(path, name);
        }
        path.push_str(&address::query(&[("fieldManager", &self.manager)]));
        let (content_type, repeat) =
            if patch.is_array() { (JSON_PATCH, Repeat::Unreached) } else { (MERGE_PATCH, Repeat::Safe) };
        self.send(Request::new(Method::PATCH, path).with_json(content_type, patch).repeated(repeat)).await
    }

    /// Changes the status of an object, through the subresource if the kind has it.
    ///
    /// # Errors
    /// If the request fails.
    pub async fn patch_status(&self, place: ObjectAddress<'_>, patch: &Value) -> Result<Value, Error> {
        let subresource = place.resource.has_subresource("status").then_some("status");
        self.patch(place, subresource, patch).await
    }

    /// Requests the deletion of an object. Returns whether it existed.
    ///
    /// # Errors
    /// If the request fails.
    pub async fn delete(&self, place: ObjectAddress<'_>, deletion: &Deletion) -> Result<bool, Error> {
        let mut options =
            Map::from_iter([("apiVersion".to_owned(), json!("v1")), ("kind".to_owned(), json!("DeleteOptions"))]);
        if let Some(propagation) = &deletion.propagation {
            options.insert("propagationPolicy".to_owned(), json!(propagation));
        }
        if let Some(grace) = deletion.grace {
            options.insert("gracePeriodSeconds".to_owned(), json!(grace));
        }
        let request = Request::new(Method::DELETE, place.path()?).with_json(JSON, &Value::Object(options));
        Ok(found(self.send(request).await)?.is_some())
    }

    /// Creates a subresource of an object, such as the eviction of a pod, and returns the answer.
    ///
    /// # Errors
    /// If the request fails; it is sent once, since an answer such as "too many requests" is about the object, and not
    /// about the server.
    pub async fn create_subresource(
        &self,
        place: ObjectAddress<'_>,
        subresource: &str,
        object: &Value,
    ) -> Result<Value, Error> {
        let path = address::subresource(place.path()?, subresource);
        self.send(Request::new(Method::POST, path).with_json(JSON, object).repeated(Repeat::Never)).await
    }

    /// Returns the log of a container of a pod, with the parameters of the API.
    ///
    /// # Errors
    /// If the request fails.
    pub async fn log(&self, place: ObjectAddress<'_>, parameters: &[(&str, &str)]) -> Result<Bytes, Error> {
        let path = address::subresource(place.path()?, "log") + &address::query(parameters);
        Ok(self.client.request(&Request::get(path)).await?.body)
    }

    /// Runs a command in a container of a pod. The client holds nothing of it when the future is dropped.
    pub async fn exec(&self, place: ObjectAddress<'_>, command: Command) -> exec::CommandResult {
        match place.path() {
            Ok(path) => exec::run(&self.client, path, command).await,
            Err(error) => (Err(Error::from(error).into()), exec::Output::default()),
        }
    }

    /// Sends a request to any path. Its answer is returned as it is.
    ///
    /// # Errors
    /// If the request fails; only reading is repeated if the server may have processed it.
    pub async fn raw(
        &self,
        method: &str,
        path: &str,
        content_type: &'static str,
        body: Option<&Value>,
    ) -> Result<Bytes, Error> {
        let method = Method::from_bytes(method.as_bytes()).map_err(|error| Error::Payload(error.into()))?;
        let repeat = if is_write(&method) { Repeat::Unreached } else { Repeat::Safe };
        let request = Request::new(method, path).repeated(repeat);
        let request = match body {
            Some(body) => request.with_json(content_type, body),
            None => request,
        };
        Ok(self.client.request(&request).await?.body)
    }

    /// Returns the operations of the same field manager in the cluster of a kubeconfig, with its kinds. Writes have the
    /// same fence.
    ///
    /// # Errors
    /// If the kubeconfig cannot be used.
    pub fn of_other_cluster(
        &self,
        others: &OtherClusters,
        kubeconfig: &str,
        guarded: &Guarded,
    ) -> Result<(Self, Arc<ResourceResolver>), Error> {
        let (client, resolver) = others.client(kubeconfig, guarded, &self.client)?;
        Ok((Self { client, manager: self.manager.clone() }, resolver))
    }

    /// Returns a watcher of some objects of a resource.
    ///
    /// # Errors
    /// If a namespace is given for a kind without namespaces.
    pub fn watcher(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
        selection: Selection,
    ) -> Result<Watcher, Error> {
        Ok(Watcher::new(self.client.clone(), resource.clone(), namespace)?.selecting(selection))
    }

    /// Sets the number of replicas of an object that has the `scale` subresource, and returns the scale.
    ///
    /// # Errors
    /// If the request fails.
    pub async fn scale(&self, place: ObjectAddress<'_>, replicas: i64) -> Result<Value, Error> {
        self.patch(place, Some("scale"), &json!({"spec": {"replicas": replicas}})).await
    }

    async fn send(&self, request: Request) -> Result<Value, Error> {
        self.client.request(&request).await?.json()
    }
}

fn found(result: Result<Value, Error>) -> Result<Option<Value>, Error> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Items of lists lack their kind and version.
fn complete(mut object: Value, resource: &Resource) -> Value {
    if let Some(object) = object.as_object_mut() {
        object.entry("kind").or_insert_with(|| Value::String(resource.kind.clone()));
        object.entry("apiVersion").or_insert_with(|| Value::String(resource.api_version()));
    }
    object
}

#[cfg(test)]
mod tests {
    use super::super::client::script::{Script, answer, refused};
    use super::*;
    use std::collections::VecDeque;

    fn pods() -> Resource {
        Resource {
            version: "v1".into(),
            plural: "pods".into(),
            kind: "Pod".into(),
            namespaced: true,
            subresources: vec!["status".into()],
            ..Resource::default()
        }
    }

    fn answering(answers: &[(u16, &'static str)]) -> Script {
        let mut answers: VecDeque<(u16, &'static str)> = answers.iter().copied().collect();
        Script::new(move |_| match answers.pop_front().unwrap_or((200, "{}")) {
            (0, _) => Err(refused()),
            (1, _) => Err(Error::Connection("reset".into())),
            (status, body) => Ok(answer(status, body)),
        })
    }

    async fn connected(script: &Script) -> ObjectClient {
        ObjectClient::new(script.client().await, "me")
    }

    #[tokio::test(start_paused = true)]
    async fn each_operation_has_its_request() {
        let script = answering(&[]);
        let client = connected(&script).await;
        let pods = pods();
        let place = ObjectAddress { resource: &pods, namespace: Some("n"), name: "a" };
        let object = json!({"metadata": {"name": "a", "namespace": "n"}});
        client.get(place).await.unwrap();
        client.create(&pods, &object).await.unwrap();
        client.update(&pods, &object).await.unwrap();
        client.apply(&pods, &object, true).await.unwrap();
        client.patch(place, None, &json!({})).await.unwrap();
        client.patch_status(place, &json!({})).await.unwrap();
        client.scale(place, 3).await.unwrap();
        assert!(client.delete(place, &Deletion { propagation: Some("Orphan".into()), grace: Some(1) }).await.unwrap());
        let expected = [
            "GET /api/v1/namespaces/n/pods/a",
            "POST /api/v1/namespaces/n/pods?fieldManager=me",
            "PUT /api/v1/namespaces/n/pods/a?fieldManager=me",
            "PATCH /api/v1/namespaces/n/pods/a?fieldManager=me&force=true",
            "PATCH /api/v1/namespaces/n/pods/a?fieldManager=me",
            "PATCH /api/v1/namespaces/n/pods/a/status?fieldManager=me",
            "PATCH /api/v1/namespaces/n/pods/a/scale?fieldManager=me",
            "DELETE /api/v1/namespaces/n/pods/a",
        ];
        assert_eq!(*script.requests.lock(), expected);
    }

    #[tokio::test(start_paused = true)]
    async fn lists_are_read_in_pages_and_completed() {
        let script = answering(&[
            (200, r#"{"metadata":{"continue":"x y"},"items":[{"metadata":{"name":"a"}}]}"#),
            (410, ""),
            (200, r#"{"metadata":{},"items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b"}}]}"#),
        ]);
        let selection = Selection { labels: Some("app=x".into()), fields: None };
        let found = connected(&script).await.list(&pods(), None, &selection).await.unwrap();
        assert_eq!(found[1], json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "b"}}));
        let expected = [
            "GET /api/v1/pods?labelSelector=app%3Dx&limit=500",
            "GET /api/v1/pods?labelSelector=app%3Dx&limit=500&continue=x+y",
            "GET /api/v1/pods?labelSelector=app%3Dx",
        ];
        assert_eq!(*script.requests.lock(), expected);
    }

    #[tokio::test(start_paused = true)]
    async fn a_missing_object_is_an_answer_and_not_an_error() {
        let script = answering(&[(404, ""), (404, ""), (404, "")]);
        let client = connected(&script).await;
        let pods = pods();
        let place = ObjectAddress { resource: &pods, namespace: Some("n"), name: "a" };
        assert_eq!(client.get(place).await.unwrap(), None);
        assert!(!client.delete(place, &Deletion::default()).await.unwrap());
        assert!(client.scale(place, 1).await.unwrap_err().is_not_found());
    }

    #[tokio::test(start_paused = true)]
    async fn only_idempotent_requests_are_repeated() {
        let pods = pods();
        let object = json!({"metadata": {"name": "a", "namespace": "n"}});
        let place = ObjectAddress::of(&pods, &object);
        let script = answering(&[(0, ""), (1, "")]);
        assert!(connected(&script).await.create(&pods, &object).await.is_err());
        assert_eq!(script.requests.lock().len(), 2);
        let script = answering(&[(1, "")]);
        assert!(connected(&script).await.patch(place, None, &json!([])).await.is_err());
        let script = answering(&[(1, ""), (503, "")]);
        connected(&script).await.apply(&pods, &object, false).await.unwrap();
        assert_eq!(script.requests.lock().len(), 3);
    }
}
