//! The Lease in the cluster.

use std::time::Duration;

use futures::StreamExt as _;
use http::Method;
use parking_lot::Mutex;
use serde_json::Value;

use crate::cluster::transport::ByteStream;
use crate::cluster::{Client, Error, Repeat, Request, address};
use crate::handling::leading::LeaseRecord;
use crate::object::Resource;
use crate::persistence::lease;

/// How long one stream of changes lasts, in seconds. Streams end at the server, so that none is forgotten there.
const STREAM_TIME: &str = "290";

/// One Lease. Its requests wait neither for the budget of requests nor for other requests.
pub struct LeaseStore {
    client: Client,
    namespace: String,
    name: String,
    /// The open stream of changes. Streams are not `Sync`; the lock makes the store so, and is never contended.
    changes: Mutex<Option<ByteStream>>,
}

/// A Lease as it is stored.
#[derive(Debug, Clone)]
pub struct Stored {
    /// The contents of the Lease.
    pub record: LeaseRecord,
    /// The whole object.
    object: Value,
}

impl Stored {
    fn of(object: Value) -> Self {
        Self { record: lease::read(&object), object }
    }
}

impl LeaseStore {
    /// Returns a Lease by its name.
    pub fn new(client: &Client, namespace: String, name: String) -> Self {
        Self { client: client.urgent(), namespace, name, changes: Mutex::default() }
    }

    /// Returns the namespace.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Reads the Lease; `None` if it does not exist.
    ///
    /// # Errors
    /// If the request fails, or is not answered in time.
    pub async fn get(&self, limit: Duration) -> Result<Option<Stored>, Error> {
        match self.send(Request::get(self.path()?), limit).await {
            Err(error) if error.is_not_found() => Ok(None),
            found => found.map(Some),
        }
    }

    /// Creates the Lease.
    ///
    /// # Errors
    /// If the request fails: with the status 409 if it exists.
    pub async fn create(&self, record: &LeaseRecord, limit: Duration) -> Result<Stored, Error> {
        let object = lease::create(&self.namespace, &self.name, record);
        let path = address::collection(&resource(), Some(&self.namespace))?;
        self.send(Request::post(path).with_json("application/json", &object), limit).await
    }

    /// Replaces the contents of a Lease, if it is still the stored one.
    ///
    /// # Errors
    /// If the request fails: with the status 409 if it has changed.
    pub async fn replace(&self, stored: &Stored, record: &LeaseRecord, limit: Duration) -> Result<Stored, Error> {
        let mut object = stored.object.clone();
        lease::write(record, &mut object);
        self.send(Request::new(Method::PUT, self.path()?).with_json("application/json", &object), limit).await
    }

    /// Waits until the Lease changes. If changes cannot be watched, it waits forever: the caller also looks from time
    /// to time.
    ///
    /// *Cancel safety*: a change that arrives during another wait ends the next one.
    pub async fn changed(&mut self, stored: Option<&Stored>) {
        if self.changes.get_mut().is_none() {
            let version = stored
                .and_then(|stored| stored.object.pointer("/metadata/resourceVersion")?.as_str())
                .unwrap_or_default();
            let opened = self.watch(version).await.ok();
            *self.changes.get_mut() = opened;
        }
        let changes = self.changes.get_mut();
        let Some(stream) = changes else { return std::future::pending().await };
        if let Some(Ok(_)) = stream.next().await {
            return;
        }
        *changes = None;
        std::future::pending::<()>().await;
    }

    async fn watch(&self, version: &str) -> Result<ByteStream, Error> {
        let selector = format!("metadata.name={}", self.name);
        let mut parameters = vec![
            ("watch", "true"),
            ("fieldSelector", selector.as_str()),
            ("timeoutSeconds", STREAM_TIME),
            ("allowWatchBookmarks", "false"),
        ];
        if !version.is_empty() {
            parameters.push(("resourceVersion", version));
        }
        let path = address::collection(&resource(), Some(&self.namespace))?;
        self.client.open(&(path + &address::query(&parameters))).await
    }

    fn path(&self) -> Result<String, Error> {
        Ok(address::object(&resource(), Some(&self.namespace), &self.name)?)
    }

    async fn send(&self, request: Request, limit: Duration) -> Result<Stored, Error> {
        let request = request.repeated(Repeat::Never);
        let answered = tokio::time::timeout(limit, self.client.request(&request)).await;
        answered.unwrap_or(Err(Error::Timeout(limit)))?.json().map(Stored::of)
    }
}

fn resource() -> Resource {
    Resource {
        group: "coordination.k8s.io".to_owned(),
        version: "v1".to_owned(),
        plural: "leases".to_owned(),
        kind: "Lease".to_owned(),
        namespaced: true,
        ..Resource::default()
    }
}
