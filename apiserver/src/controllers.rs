//! The few controllers: garbage collection, namespaces, and the end of definitions.

mod garbage;
pub mod run_loop;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use serde_json::{Map, Value, json};

use crate::admission::Operation;
use crate::api::Api;
use crate::auth::access::User;
use crate::http::request::Options;
use crate::kinds::registry::Served;
use crate::rules::{Deletion, PROTECTED_NAMESPACES, Propagation, Writer, time};
use crate::storage::resource::{Key, Resource, uid_of};
use crate::storage::store::Stored;
use crate::storage::work_item::{CLEANUP, WorkItem, has_finalizer};
use crate::verbs::admission_chain::{By, Gate, Passage};
use crate::verbs::{deleting, writing};

/// Who writes, in managed fields.
const NAME: &str = "kube-controller-manager";
/// When something is tried again that a webhook has prevented.
const AGAIN: Duration = Duration::from_secs(1);

/// Creates what is always there.
pub fn create_namespaces(api: &Api) {
    let Some(served) = api.registry().find("", "v1", "namespaces").cloned() else { return };
    for name in PROTECTED_NAMESPACES {
        if api.read(&namespaces(), &(String::new(), (*name).to_owned())).is_none() {
            // There are no webhooks yet that it would have to wait for.
            create(api, &served, json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})).now_or_never();
        }
    }
}

/// Looks at what a write has left to be done.
pub async fn reconcile(api: &Api, item: &WorkItem) {
    match item {
        WorkItem::Owned(resource, key) => garbage::collect(api, resource, key).await,
        WorkItem::Owner(uid) => garbage::reconcile_owner(api, uid).await,
        WorkItem::Kind { group, kind } => garbage::reconcile_kind(api, group, kind).await,
        WorkItem::Namespace(name) => reconcile_namespace(api, name).await,
        WorkItem::Definition(name) => reconcile_definition(api, name).await,
        WorkItem::Event(key) => api.expire_later(key),
    }
}

async fn create(api: &Api, served: &Arc<Served>, value: Value) {
    let options = Options::default();
    let writer = Writer { served, subresource: "", options: &options, manager: NAME, now: api.now(), is_patch: false };
    let user = user();
    let gate = Gate::new(api, served, "", By { user: &user, options: &options, fault: None });
    // What is there already is as good; what cannot be created now is looked at again with the next write.
    drop(writing::create_received(api, &writer, &gate, value).await);
}

/// As whom the controllers write.
fn user() -> User {
    User::new(&format!("system:{NAME}"), &["system:masters", "system:authenticated"])
}

/// Writes a changed form of an object, if nobody else has written it meanwhile; if so, there is another item.
async fn write(api: &Api, served: &Arc<Served>, stored: &Arc<Stored>, new: Value, again: &WorkItem) {
    let options = Options::default();
    let writer = Writer { served, subresource: "finalize", options: &options, manager: NAME, now: api.now(), is_patch: true };
    let user = user();
    let gate = Gate::new(api, served, "", By { user: &user, options: &options, fault: None });
    let (namespace, name) = crate::storage::resource::key_of(&new);
    let passage =
        Passage { operation: Operation::Update, name: &name, namespace: &namespace, object: Some(&new), old: Some(&stored.value) };
    let Ok((changed, _)) = gate.mutate(passage).await else { return api.enqueue_after(again.clone(), AGAIN) };
    let new = changed.unwrap_or_else(|| new.clone());
    if gate.validate(Passage { object: Some(&new), ..passage }).await.is_err() {
        return api.enqueue_after(again.clone(), AGAIN);
    }
    let Ok(decision) = writer.finish(&stored.value, new) else { return };
    if api.commit(served, Some(stored), decision).is_err() {
        api.enqueue(again.clone());
    }
}

async fn delete(api: &Api, resource: &Resource, stored: Arc<Stored>, propagation: Option<Propagation>, again: &WorkItem) {
    let Some(served) = api.registry().stored(resource).cloned() else { return };
    let uid = Some(uid_of(&stored.value).to_owned());
    let deletion = Deletion { propagation, uid, ..Deletion::default() };
    let mut told = Map::from_iter([("preconditions".to_owned(), json!({"uid": deletion.uid}))]);
    told.extend(propagation.map(|propagation| ("propagationPolicy".to_owned(), json!(propagation.name()))));
    let (user, options) = (user(), Options { deletion: told, ..Options::default() });
    let by = By { user: &user, options: &options, fault: None };
    match deleting::delete_one(api, &served, stored, &deletion, by).await {
        Ok(_) => {}
        Err(failure) if matches!(failure.code, 404 | 409) => api.enqueue(again.clone()),
        // A webhook objects, or cannot be called.
        Err(_) => api.enqueue_after(again.clone(), AGAIN),
    }
}

/// Takes a finalizer away.
async fn release(api: &Api, resource: &Resource, stored: &Arc<Stored>, finalizer: &str, again: &WorkItem) {
    let Some(served) = api.registry().stored(resource).cloned() else { return };
    let mut new = (*stored.value).clone();
    if let Some(finalizers) = new["metadata"]["finalizers"].as_array_mut() {
        finalizers.retain(|one| one != finalizer);
    }
    if new["metadata"]["finalizers"].as_array().is_some_and(Vec::is_empty) {
        new["metadata"].as_object_mut().map(|metadata| metadata.remove("finalizers"));
    }
    write(api, &served, stored, new, again).await;
}

/// What is in a namespace: the objects of each resource.
type Content = Vec<(Resource, Vec<(Key, Arc<Stored>)>)>;

fn namespaces() -> Resource {
    Resource { group: String::new(), plural: "namespaces".to_owned() }
}

/// Gives a namespace its service account, and empties one that is going.
async fn reconcile_namespace(api: &Api, name: &str) {
    let again = WorkItem::Namespace(name.to_owned());
    let Some(stored) = api.read(&namespaces(), &(String::new(), name.to_owned())) else { return };
    let registry = api.registry();
    if !stored.value["metadata"]["deletionTimestamp"].is_string() {
        let accounts = Resource { group: String::new(), plural: "serviceaccounts".to_owned() };
        let is_furnished = api.read(&accounts, &(name.to_owned(), "default".to_owned())).is_some();
        if let (false, Some(served)) = (is_furnished, registry.find("", "v1", "serviceaccounts")) {
            let metadata = json!({"name": "default", "namespace": name});
            create(api, served, json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})).await;
        }
        return;
    }
    let content = || -> Content {
        api.with(|state| {
            let resources: Vec<Resource> = state.store.resources().cloned().collect();
            let listed = resources.into_iter().map(|resource| {
                let objects = state.store.list(&resource, Some(name));
                (resource, objects)
            });
            listed.filter(|(_, objects)| !objects.is_empty()).collect()
        })
    };
    for (resource, objects) in content() {
        for (_, stored) in objects {
            if !stored.value["metadata"]["deletionTimestamp"].is_string() {
                delete(api, &resource, stored, Some(Propagation::Background), &again).await;
            }
        }
    }
    let left = content();
    let Some(served) = registry.stored(&namespaces()).cloned() else { return };
    let Some(stored) = api.read(&namespaces(), &(String::new(), name.to_owned())) else { return };
    let mut new = (*stored.value).clone();
    if left.is_empty() {
        if let Some(finalizers) = new["spec"]["finalizers"].as_array_mut() {
            finalizers.retain(|one| one != "kubernetes");
        }
    } else {
        new["status"]["conditions"] = remaining(&stored.value, &left, &time(api.now()));
    }
    // What would change nothing is not written: each write is looked at again.
    if new != *stored.value {
        write(api, &served, &stored, new, &again).await;
    }
}

/// The conditions of a namespace that cannot go yet.
fn remaining(namespace: &Value, left: &Content, now: &str) -> Value {
    let full = |resource: &Resource| {
        if resource.group.is_empty() { format!("{}.", resource.plural) } else { format!("{}.{}", resource.plural, resource.group) }
    };
    let counted: Vec<String> =
        left.iter().map(|(resource, objects)| format!("{} has {} resource instances", full(resource), objects.len())).collect();
    let finalizers = |stored: &Stored| -> Vec<String> {
        let all = stored.value["metadata"]["finalizers"].as_array().into_iter().flatten();
        all.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let held: Vec<String> = left.iter().flat_map(|(_, objects)| objects.iter().flat_map(|(_, stored)| finalizers(stored))).collect();
    let names: BTreeSet<&String> = held.iter().collect();
    let held: Vec<String> = names
        .into_iter()
        .map(|name| format!("{name} in {} resource instances", held.iter().filter(|other| *other == name).count()))
        .collect();
    let condition = |kind: &str, is_true: bool, reason: &str, message: String| {
        let status = if is_true { "True" } else { "False" };
        let known =
            namespace["status"]["conditions"].as_array().into_iter().flatten().find(|one| one["type"] == kind && one["status"] == status);
        let since = known.and_then(|one| one["lastTransitionTime"].as_str()).unwrap_or(now);
        json!({"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": since})
    };
    json!([
        condition("NamespaceDeletionDiscoveryFailure", false, "ResourcesDiscovered", "All resources successfully discovered".into()),
        condition(
            "NamespaceDeletionGroupVersionParsingFailure",
            false,
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed".into()
        ),
        condition(
            "NamespaceDeletionContentFailure",
            false,
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization".into()
        ),
        condition(
            "NamespaceContentRemaining",
            true,
            "SomeResourcesRemain",
            format!("Some resources are remaining: {}", counted.join(", "))
        ),
        condition(
            "NamespaceFinalizersRemaining",
            !held.is_empty(),
            if held.is_empty() { "ContentHasNoFinalizers" } else { "SomeFinalizersRemain" },
            if held.is_empty() {
                "All content-preserving finalizers finished".to_owned()
            } else {
                format!("Some content in the namespace has finalizers remaining: {}", held.join(", "))
            }
        ),
    ])
}

/// Deletes the objects of a definition that is going, and lets it go when there are none.
async fn reconcile_definition(api: &Api, name: &str) {
    let again = WorkItem::Definition(name.to_owned());
    let definitions = Resource { group: "apiextensions.k8s.io".to_owned(), plural: "customresourcedefinitions".to_owned() };
    let Some(stored) = api.read(&definitions, &(String::new(), name.to_owned())) else { return };
    if !stored.value["metadata"]["deletionTimestamp"].is_string() || !has_finalizer(&stored.value, CLEANUP) {
        return;
    }
    let text = |field: &Value| field.as_str().unwrap_or_default().to_owned();
    let resource = Resource { group: text(&stored.value["spec"]["group"]), plural: text(&stored.value["spec"]["names"]["plural"]) };
    for (_, instance) in api.with(|state| state.store.list(&resource, None)) {
        if !instance.value["metadata"]["deletionTimestamp"].is_string() {
            delete(api, &resource, instance, None, &again).await;
        }
    }
    if api.with(|state| state.store.list(&resource, None)).is_empty() {
        release(api, &definitions, &stored, CLEANUP, &again).await;
        return;
    }
    let mut new = (*stored.value).clone();
    let Some(conditions) = new["status"]["conditions"].as_array_mut() else { return };
    if conditions.iter().any(|one| one["type"] == "Terminating") {
        return;
    }
    conditions.push(json!({
        "type": "Terminating", "status": "True", "reason": "InstanceDeletionInProgress",
        "message": "CustomResource deletion is in progress", "lastTransitionTime": time(api.now()),
    }));
    if let Some(served) = api.registry().stored(&definitions).cloned() {
        write(api, &served, &stored, new, &again).await;
    }
}
