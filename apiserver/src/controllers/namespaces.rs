//! The controller of namespaces: creates the service accounts of new ones, and empties deleted ones.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

use super::writes::{create, delete, write};
use crate::api::Api;
use crate::rules::{Propagation, time};
use crate::storage::resource::{Key, Resource, Stored};
use crate::storage::work_item::WorkItem;

/// Returns the resource of namespaces.
pub(super) fn namespaces() -> Resource {
    Resource { group: String::new(), plural: "namespaces".to_owned() }
}

/// The objects in a namespace, by resource.
type Content = Vec<(Resource, Vec<(Key, Arc<Stored>)>)>;

/// Creates the service account of a namespace, or empties a namespace that is being deleted.
pub(super) async fn reconcile_namespace(api: &Api, name: &str) {
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
    // A write without changes is skipped: each write queues the namespace again.
    if new != *stored.value {
        write(api, &served, &stored, new, &again).await;
    }
}

/// Returns the conditions of a namespace that still has objects.
fn remaining(namespace: &Value, left: &Content, now: &str) -> Value {
    let full = |resource: &Resource| {
        if resource.group.is_empty() {
            format!("{}.", resource.plural)
        } else {
            format!("{}.{}", resource.plural, resource.group)
        }
    };
    let counted: Vec<String> = left
        .iter()
        .map(|(resource, objects)| format!("{} has {} resource instances", full(resource), objects.len()))
        .collect();
    let finalizers = |stored: &Stored| -> Vec<String> {
        let all = stored.value["metadata"]["finalizers"].as_array().into_iter().flatten();
        all.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let held: Vec<String> =
        left.iter().flat_map(|(_, objects)| objects.iter().flat_map(|(_, stored)| finalizers(stored))).collect();
    let names: BTreeSet<&String> = held.iter().collect();
    let held: Vec<String> = names
        .into_iter()
        .map(|name| format!("{name} in {} resource instances", held.iter().filter(|other| *other == name).count()))
        .collect();
    let condition = |kind: &str, is_true: bool, reason: &str, message: String| {
        let status = if is_true { "True" } else { "False" };
        let known = namespace["status"]["conditions"]
            .as_array()
            .into_iter()
            .flatten()
            .find(|one| one["type"] == kind && one["status"] == status);
        let since = known.and_then(|one| one["lastTransitionTime"].as_str()).unwrap_or(now);
        json!({"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": since})
    };
    json!([
        condition(
            "NamespaceDeletionDiscoveryFailure",
            false,
            "ResourcesDiscovered",
            "All resources successfully discovered".into()
        ),
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
