//! The ConfigMap that remembers until when the ticks of schedules are done. Only schedules that catch up missed ticks
//! use it.

use serde_json::{Value, json};

use crate::cluster::object_client::{ObjectAddress, ObjectClient};
use crate::cluster::{Client, Error};
use crate::object::Resource;
use crate::persistence::ScheduleRecord;
use crate::persistence::schedule::{config_map, key};

/// The ConfigMap of one operator, in the namespace of its credentials.
#[derive(Clone)]
pub struct ScheduleStore {
    client: Client,
    objects: ObjectClient,
    resource: Resource,
    name: String,
}

impl ScheduleStore {
    /// Returns the store of an operator.
    pub fn new(client: Client, operator: &str) -> Self {
        let objects = ObjectClient::new(client.clone(), operator);
        let (version, plural, kind) = ("v1".to_owned(), "configmaps".to_owned(), "ConfigMap".to_owned());
        let resource = Resource { version, plural, kind, namespaced: true, ..Resource::default() };
        Self { client, objects, resource, name: config_map(operator) }
    }

    /// Returns the record of a schedule, if there is one.
    ///
    /// # Errors
    /// If the request fails.
    pub async fn get(&self, id: &str) -> Result<Option<ScheduleRecord>, Error> {
        let namespace = self.client.default_namespace();
        let found = self.objects.get(self.address(&namespace)).await?;
        let item = found.as_ref().and_then(|found| found.get("data")?.get(key(id))?.as_str());
        Ok(item.and_then(ScheduleRecord::read))
    }

    /// Stores the record of a schedule.
    ///
    /// *Cancel safety*: the record is stored or not; the next one replaces it.
    ///
    /// # Errors
    /// If a request fails.
    pub async fn put(&self, id: &str, record: &ScheduleRecord) -> Result<(), Error> {
        let namespace = self.client.default_namespace();
        let data = json!({key(id): record.write()});
        let patch = json!({"data": data});
        match self.objects.patch(self.address(&namespace), None, &patch).await {
            Err(error) if error.status() == Some(404) => {}
            patched => return patched.map(drop),
        }
        let created = self.objects.create(&self.resource, &self.config_map(&namespace, &data)).await;
        match created {
            // Another schedule has created it.
            Err(error) if error.status() == Some(409) => {
                self.objects.patch(self.address(&namespace), None, &patch).await.map(drop)
            }
            created => created.map(drop),
        }
    }

    fn config_map(&self, namespace: &str, data: &Value) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": self.name,
                "namespace": namespace,
                "labels": {"app.kubernetes.io/managed-by": "kopfd"},
            },
            "data": data,
        })
    }

    fn address<'a>(&'a self, namespace: &'a str) -> ObjectAddress<'a> {
        ObjectAddress { resource: &self.resource, namespace: Some(namespace), name: &self.name }
    }
}
