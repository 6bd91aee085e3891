//! Takes an operator out of the cluster: waits for its handlers of deletions, stops it, removes its records, and frees
//! the objects that it holds by its finalizer.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use tracing::{info, warn};

use crate::cluster::object_client::{Deletion, ObjectAddress, ObjectClient};
use crate::cluster::selection::Selection;
use crate::cluster::{Client, Error, discovery};
use crate::handling::conversion::definition;
use crate::kit::Clock;
use crate::object::namespace::{self, Pattern};
use crate::object::{Resource, Selector};
use crate::persistence::{lease, peering};

/// The field manager of the changes.
const MANAGER: &str = "kopfd-uninstall";

/// The pause between checks of an awaited state.
const PAUSE: Duration = Duration::from_secs(1);

/// Attempts to change an object that others change, too.
const ATTEMPTS: usize = 10;

/// The letters of generated names in Kubernetes: without vowels, and without what is read as one.
const RANDOM_LETTERS: &str = "bcdfghjklmnpqrstvwxz2456789";

/// An object with a finalizer of an operator.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Held {
    /// Its resource.
    pub resource: Resource,
    /// Its namespace.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// Whether its deletion was requested.
    pub is_deleting: bool,
}

impl Held {
    /// Returns its kind, namespace and name.
    pub(crate) fn title(&self) -> String {
        let namespace = self.namespace.as_ref().map(|namespace| format!("{namespace}/")).unwrap_or_default();
        let group = if self.resource.group.is_empty() { String::new() } else { format!(".{}", self.resource.group) };
        format!("{}{group} {namespace}{}", self.resource.plural, self.name)
    }

    fn place(&self) -> ObjectAddress<'_> {
        ObjectAddress { resource: &self.resource, namespace: self.namespace.as_deref(), name: &self.name }
    }
}

/// The result of stopping a Deployment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stopped {
    /// There is none.
    Absent,
    /// All of its pods have ended.
    Ended,
    /// It still has pods.
    Running,
}

/// The access to the cluster.
pub(crate) struct Uninstaller {
    client: Client,
    objects: ObjectClient,
    clock: Clock,
    resources: Vec<Resource>,
}

impl Uninstaller {
    /// Discovers the kinds of the cluster.
    ///
    /// # Errors
    /// If they cannot be read.
    pub(crate) async fn new(client: Client, clock: Clock) -> Result<Self, Error> {
        let resources = discovery::scan(&client, None).await?.resources;
        Ok(Self { objects: ObjectClient::new(client.clone(), MANAGER), client, clock, resources })
    }

    /// Returns the namespace of the credentials.
    pub(crate) fn default_namespace(&self) -> String {
        self.client.default_namespace()
    }

    /// Returns the kinds that selectors select, whose objects can be listed and changed.
    pub(crate) fn select<'s>(&self, selectors: impl IntoIterator<Item = &'s Selector>) -> BTreeSet<Resource> {
        let selected = selectors.into_iter().flat_map(|selector| selector.select(&self.resources));
        let can = |resource: &Resource| ["list", "patch"].iter().all(|verb| resource.has_verb(verb));
        selected.filter(|resource| can(resource)).cloned().collect()
    }

    /// Returns the objects of a kind, in all namespaces or those of patterns.
    async fn list(&self, resource: &Resource, namespaces: &[Pattern]) -> Result<Vec<Value>, Error> {
        let all = Selection::default();
        if namespaces.is_empty() || !resource.namespaced {
            return self.objects.list(resource, None, &all).await;
        }
        let exact = namespace::exact(namespaces);
        if exact.len() == namespaces.len() {
            let mut found = Vec::new();
            for namespace in exact {
                found.extend(self.objects.list(resource, Some(&namespace), &all).await?);
            }
            return Ok(found);
        }
        let mut found = self.objects.list(resource, None, &all).await?;
        found.retain(|object| {
            text(object, "/metadata/namespace").is_some_and(|name| namespace::any_matches(namespaces, name))
        });
        Ok(found)
    }

    /// Returns the objects of a kind that have a finalizer.
    ///
    /// # Errors
    /// If they cannot be listed.
    pub(crate) async fn held(
        &self,
        resource: &Resource,
        namespaces: &[Pattern],
        finalizer: &str,
    ) -> Result<Vec<Held>, Error> {
        let objects = self.list(resource, namespaces).await?;
        let held = objects.iter().filter(|object| has(object, finalizer)).map(|object| held(resource, object));
        Ok(held.collect())
    }

    /// Requests the deletion of all objects of a kind, and returns their number.
    ///
    /// # Errors
    /// If they cannot be listed, or one cannot be deleted.
    pub(crate) async fn delete_all(&self, resource: &Resource, namespaces: &[Pattern]) -> Result<usize, Error> {
        let mut number = 0;
        for object in self.list(resource, namespaces).await? {
            let held = held(resource, &object);
            if !held.is_deleting {
                number += usize::from(self.objects.delete(held.place(), &Deletion::default()).await?);
            }
        }
        Ok(number)
    }

    /// Waits until no object of these kinds that is being deleted has its finalizer. Returns those that are left at the
    /// time limit.
    ///
    /// # Errors
    /// If the objects cannot be listed.
    pub(crate) async fn drain(
        &self,
        kinds: &[(Resource, String)],
        namespaces: &[Pattern],
        timeout: Duration,
    ) -> Result<Vec<Held>, Error> {
        let deadline = self.clock.uptime() + timeout;
        let mut told = None;
        loop {
            let mut waiting = Vec::new();
            for (resource, finalizer) in kinds {
                waiting.extend(
                    self.held(resource, namespaces, finalizer).await?.into_iter().filter(|held| held.is_deleting),
                );
            }
            if waiting.is_empty() || self.clock.uptime() >= deadline {
                return Ok(waiting);
            }
            if told.replace(waiting.len()) != Some(waiting.len()) {
                info!(target: "kopfd::uninstall", "{} objects wait for the operator's handlers of their deletion, such as {}.", waiting.len(), waiting[0].title());
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Scales a Deployment to zero, and waits until it has no pods.
    ///
    /// # Errors
    /// If a request fails.
    pub(crate) async fn stop(&self, namespace: &str, name: &str, timeout: Duration) -> Result<Stopped, Error> {
        let deployments = known("apps", "deployments", "Deployment");
        let pods = known("", "pods", "Pod");
        let place = ObjectAddress { resource: &deployments, namespace: Some(namespace), name };
        let Some(deployment) = self.objects.get(place).await? else { return Ok(Stopped::Absent) };
        self.objects.scale(place, 0).await?;
        let labels = deployment.pointer("/spec/selector/matchLabels").and_then(Value::as_object);
        let labels = labels.into_iter().flatten().filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?)));
        let selection = Selection { labels: Some(labels.collect::<Vec<_>>().join(",")), fields: None };
        let deadline = self.clock.uptime() + timeout;
        loop {
            // The pods end by their grace period, in which the operator leaves its peers and gives its Lease up.
            if self.objects.list(&pods, Some(namespace), &selection).await?.is_empty() {
                return Ok(Stopped::Ended);
            }
            if self.clock.uptime() >= deadline {
                return Ok(Stopped::Running);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Returns the identity of the replica that leads by a Lease, if its time has not run out.
    ///
    /// # Errors
    /// If the Lease cannot be read.
    pub(crate) async fn leader(&self, namespace: &str, name: &str) -> Result<Option<String>, Error> {
        let leases = known("coordination.k8s.io", "leases", "Lease");
        let place = ObjectAddress { resource: &leases, namespace: Some(namespace), name };
        let Some(found) = self.objects.get(place).await? else { return Ok(None) };
        let record = lease::read(&found);
        let lasts = record.renewed_at.is_some_and(|renewed_at| renewed_at + record.duration > self.clock.now());
        Ok(Some(record.holder).filter(|holder| !holder.is_empty() && lasts))
    }

    /// Deletes an object of the operator itself. Returns whether it existed.
    ///
    /// # Errors
    /// If the request fails.
    pub(crate) async fn remove(&self, record: &OwnObject) -> Result<bool, Error> {
        let OwnObject { group, plural, kind, namespace, name } = record;
        let resource = Resource { namespaced: namespace.is_some(), ..known(group, plural, kind) };
        let place = ObjectAddress { resource: &resource, namespace: namespace.as_deref(), name };
        self.objects.delete(place, &Deletion::default()).await
    }

    /// Returns the names of the definitions of kinds whose objects a webhook converts.
    ///
    /// # Errors
    /// If a definition cannot be read.
    pub(crate) async fn converting(&self, kinds: &[Selector]) -> Result<Vec<String>, Error> {
        let definitions = Resource {
            namespaced: false,
            ..known("apiextensions.k8s.io", "customresourcedefinitions", "CustomResourceDefinition")
        };
        let selected = kinds.iter().flat_map(|selector| selector.select(&self.resources));
        let names: BTreeSet<String> = selected.map(definition::name_of).collect();
        let mut converting = Vec::new();
        for name in names {
            let place = ObjectAddress { resource: &definitions, namespace: None, name: &name };
            let stored = self.objects.get(place).await?.map(|found| definition::stored(&found)).unwrap_or_default();
            if text(&stored, "/strategy") == Some("Webhook") {
                converting.push(name);
            }
        }
        Ok(converting)
    }

    /// Removes the records of the operator among its peers, and returns their identities.
    ///
    /// # Errors
    /// If a peering object cannot be read or changed.
    pub(crate) async fn leave_peering(
        &self,
        selectors: &[Selector],
        namespaces: &[Pattern],
        name: &str,
        is_own: impl Fn(&str) -> bool,
    ) -> Result<Vec<String>, Error> {
        let mut removed = Vec::new();
        for resource in self.select(selectors) {
            for object in self
                .list(&resource, namespaces)
                .await?
                .iter()
                .filter(|object| text(object, "/metadata/name") == Some(name))
            {
                let records = object.get("status").and_then(Value::as_object);
                let own: Vec<String> =
                    records.into_iter().flatten().map(|(key, _)| key.clone()).filter(|key| is_own(key)).collect();
                if !own.is_empty() {
                    let patch = Value::Object(peering::removal(&own));
                    self.objects.patch_status(ObjectAddress::of(&resource, object), &patch).await?;
                    removed.extend(own);
                }
            }
        }
        Ok(removed)
    }

    /// Removes a finalizer from an object, and leaves all others.
    ///
    /// # Errors
    /// If the object cannot be changed.
    pub(crate) async fn free(&self, held: &Held, finalizer: &str) -> Result<(), Error> {
        let mut attempts = 1;
        loop {
            let Some(object) = self.objects.get(held.place()).await? else { return Ok(()) };
            if !has(&object, finalizer) {
                return Ok(());
            }
            let others: Vec<&Value> = finalizers(&object).iter().filter(|one| **one != finalizer).collect();
            // Another client may change the list meanwhile.
            let version = &object["metadata"]["resourceVersion"];
            let patch = json!({"metadata": {"finalizers": others, "resourceVersion": version}});
            match self.objects.patch(held.place(), None, &patch).await {
                Ok(_) => return Ok(()),
                Err(error) if error.is_not_found() => return Ok(()),
                Err(error) if error.status() == Some(409) && attempts < ATTEMPTS => attempts += 1,
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the objects that have a finalizer shortly after all were freed: an operator puts it back at once.
    ///
    /// # Errors
    /// If the objects cannot be listed.
    pub(crate) async fn held_again(
        &self,
        kinds: &[(Resource, String)],
        namespaces: &[Pattern],
    ) -> Result<Vec<Held>, Error> {
        tokio::time::sleep(PAUSE).await;
        let mut held = Vec::new();
        for (resource, finalizer) in kinds {
            held.extend(self.held(resource, namespaces, finalizer).await?);
        }
        Ok(held)
    }

    /// Removes a finalizer from all objects of kinds, and returns the freed ones and those that are left, with the
    /// reasons.
    pub(crate) async fn free_all(
        &self,
        kinds: &[(Resource, String)],
        namespaces: &[Pattern],
    ) -> (Vec<Held>, Vec<String>) {
        let (mut freed, mut left) = (Vec::new(), Vec::new());
        for (resource, finalizer) in kinds {
            let held = match self.held(resource, namespaces, finalizer).await {
                Ok(held) => held,
                Err(error) => {
                    left.push(format!("objects of {}.{}: {}", resource.plural, resource.group, error.chain()));
                    continue;
                }
            };
            for one in held {
                match self.free(&one, finalizer).await {
                    Ok(()) => freed.push(one),
                    Err(error) => {
                        warn!(target: "kopfd::uninstall", "{} keeps the finalizer: {}", one.title(), error.chain());
                        left.push(format!("{}: {}", one.title(), error.chain()));
                    }
                }
            }
        }
        (freed, left)
    }
}

/// An object that an operator has made for itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OwnObject {
    /// Its group.
    pub group: &'static str,
    /// The plural name of its kind.
    pub plural: &'static str,
    /// Its kind.
    pub kind: &'static str,
    /// Its namespace.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

impl OwnObject {
    /// Returns its kind, namespace and name.
    pub(crate) fn title(&self) -> String {
        let namespace = self.namespace.as_ref().map(|namespace| format!("{namespace}/")).unwrap_or_default();
        format!("{} {namespace}{}", self.kind, self.name)
    }
}

/// Tells whether a name is that of a pod of a Deployment (`NAME-TEMPLATE-RANDOM`), of a StatefulSet (`NAME-0`), or of
/// another workload (`NAME-RANDOM`). The pods of another workload may begin with the same words: those of `db-backup`
/// are not pods of `db`.
pub(crate) fn is_pod_of(name: &str, workload: &str) -> bool {
    let Some(rest) = name.strip_prefix(workload).and_then(|rest| rest.strip_prefix('-')) else { return false };
    let is_random = |text: &str| !text.is_empty() && text.chars().all(|letter| RANDOM_LETTERS.contains(letter));
    match rest.split_once('-') {
        Some((template, random)) => is_random(template) && is_random(random),
        None => is_random(rest) || (!rest.is_empty() && rest.chars().all(|letter| letter.is_ascii_digit())),
    }
}

fn known(group: &str, plural: &str, kind: &str) -> Resource {
    let [group, version, plural, kind] = [group, "v1", plural, kind].map(str::to_owned);
    Resource { group, version, plural, kind, namespaced: true, ..Resource::default() }
}

fn text<'o>(object: &'o Value, pointer: &str) -> Option<&'o str> {
    object.pointer(pointer).and_then(Value::as_str)
}

fn finalizers(object: &Value) -> &[Value] {
    object.pointer("/metadata/finalizers").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn has(object: &Value, finalizer: &str) -> bool {
    finalizers(object).iter().any(|one| one == finalizer)
}

fn held(resource: &Resource, object: &Value) -> Held {
    Held {
        resource: resource.clone(),
        namespace: text(object, "/metadata/namespace").map(str::to_owned),
        name: text(object, "/metadata/name").unwrap_or_default().to_owned(),
        is_deleting: object.pointer("/metadata/deletionTimestamp").is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_are_known_by_the_name_of_their_workload() {
        for pod in ["db-0", "db-12", "db-7d4b9c5f6-x2x9z", "db-x2x9z"] {
            assert!(is_pod_of(pod, "db"), "{pod}");
        }
        for other in [
            "db",
            "db-",
            "db2-0",
            "db-backup-0",
            "db-backup-7d4b9c5f6-x2x9z",
            "db-7d4b9c5f6-x2x9z-",
            "me@host/20240131120000/abc",
        ] {
            assert!(!is_pod_of(other, "db"), "{other}");
        }
    }
}
