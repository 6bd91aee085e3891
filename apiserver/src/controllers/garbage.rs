//! The garbage collector: deletes dependents of deleted owners, and completes foreground deletions.

use std::sync::Arc;

use serde_json::{Value, json};

use super::writes::{create, delete, release, write};
use crate::api::Api;
use crate::rules::{Propagation, time};
use crate::storage::resource::{Key, Resource, uid_of};
use crate::storage::store::Stored;
use crate::storage::work_item::{FOREGROUND, ORPHAN, WorkItem, has_finalizer};

/// The reporter of events about invalid owners.
const NAME: &str = "garbage-collector-controller";

/// The state of a referenced owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    /// It exists.
    There,
    /// It is being deleted and waits for its dependents.
    Waiting,
    /// It does not exist.
    Absent,
    /// Its kind is unknown or cannot be an owner: it may exist.
    Unknown,
}

fn owner_of(api: &Api, reference: &Value, namespace: &str) -> Owner {
    let text = |field: &str| reference[field].as_str().unwrap_or_default();
    let registry = api.registry();
    let served = registry.by_kind(text("apiVersion"), text("kind"));
    if served.is_some_and(|served| served.kind.namespaced) && namespace.is_empty() {
        return Owner::Unknown;
    }
    if api.with(|state| state.store.is_removed_owner(text("uid"))) {
        return Owner::Absent;
    }
    let Some(served) = served else { return Owner::Unknown };
    let owner_namespace = if served.kind.namespaced { namespace } else { "" };
    let found = api.read(&served.resource, &(owner_namespace.to_owned(), text("name").to_owned()));
    match found.filter(|found| uid_of(&found.value) == text("uid")) {
        None => Owner::Absent,
        Some(found) if is_waiting(&found.value) => Owner::Waiting,
        Some(_) => Owner::There,
    }
}

/// Tells whether an object is being deleted and waits for its dependents.
fn is_waiting(value: &Value) -> bool {
    value["metadata"]["deletionTimestamp"].is_string() && has_finalizer(value, FOREGROUND)
}

fn references(value: &Value) -> Vec<Value> {
    value["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default()
}

/// Deletes an object if all its owners are gone or waiting, or removes the references to those owners.
pub(super) async fn collect(api: &Api, resource: &Resource, key: &Key) {
    let again = WorkItem::Owned(resource.clone(), key.clone());
    let Some(stored) = api.read(resource, key) else { return };
    if stored.value["metadata"]["deletionTimestamp"].is_string() {
        return;
    }
    let references = references(&stored.value);
    let states: Vec<Owner> = references.iter().map(|reference| owner_of(api, reference, &key.0)).collect();
    let has = |wanted: Owner| states.contains(&wanted);
    for (reference, _) in references.iter().zip(&states).filter(|(_, state)| **state == Owner::Absent) {
        write_cross_namespace_event(api, &stored.value, reference).await;
    }
    if states.is_empty() || !(has(Owner::Absent) || has(Owner::Waiting)) || has(Owner::Unknown) {
        return;
    }
    if has(Owner::There) {
        // A waiting owner would wait forever for a dependent that another owner keeps.
        let kept = references.into_iter().zip(&states).filter(|(_, state)| **state == Owner::There);
        let kept: Vec<Value> = kept.map(|(reference, _)| reference).collect();
        return set_owners(api, resource, &stored, &kept, &again).await;
    }
    let dependents = api.with(|state| state.store.dependents(uid_of(&stored.value)));
    if has(Owner::Waiting) && !dependents.is_empty() {
        return delete_with_dependents(api, resource, stored, &dependents, &again).await;
    }
    let propagation = match &*stored.value {
        value if has_finalizer(value, ORPHAN) => Propagation::Orphan,
        value if has_finalizer(value, FOREGROUND) => Propagation::Foreground,
        _ => Propagation::Background,
    };
    delete(api, resource, stored, Some(propagation), &again).await;
}

/// Deletes a dependent that an owner waits for, and that has dependents itself, so that the whole chain waits.
async fn delete_with_dependents(
    api: &Api,
    resource: &Resource,
    stored: Arc<Stored>,
    dependents: &[(Resource, Key)],
    again: &WorkItem,
) {
    let is_cycle =
        dependents.iter().any(|(resource, key)| api.read(resource, key).is_some_and(|one| is_waiting(&one.value)));
    let unblocked = unblocked(&stored.value);
    if is_cycle && unblocked != references(&stored.value) {
        // The write queues the object again.
        return set_owners(api, resource, &stored, &unblocked, again).await;
    }
    delete(api, resource, stored, Some(Propagation::Foreground), again).await;
}

/// Returns the owner references of an object without `blockOwnerDeletion`.
fn unblocked(value: &Value) -> Vec<Value> {
    let mut owners = references(value);
    for reference in owners.iter_mut().filter(|reference| reference["blockOwnerDeletion"] == true) {
        reference["blockOwnerDeletion"] = json!(false);
    }
    owners
}

/// Writes an event about an object whose owner is in another namespace, which is invalid.
async fn write_cross_namespace_event(api: &Api, dependent: &Value, reference: &Value) {
    let uid = reference["uid"].as_str().unwrap_or_default();
    let Some((_, (owner_namespace, _), _)) = api.with(|state| state.store.by_uid(uid)) else { return };
    let metadata = &dependent["metadata"];
    let namespace = metadata["namespace"].as_str().unwrap_or_default();
    if owner_namespace.is_empty() || owner_namespace == namespace {
        return;
    }
    let Some(events) = api.registry().find("", "v1", "events").cloned() else { return };
    let text = |field: &str| reference[field].as_str().unwrap_or_default();
    let owner =
        format!("{}/{}, namespace: {namespace}, name: {}, uid: {uid}", text("apiVersion"), text("kind"), text("name"));
    let now = time(api.now());
    create(
        api,
        &events,
        json!({
            "apiVersion": "v1", "kind": "Event",
            // It is reported once, however often the object is checked.
            "metadata": {"name": format!("{}.{uid}", metadata["name"].as_str().unwrap_or_default()), "namespace": namespace},
            "involvedObject": {"apiVersion": dependent["apiVersion"], "kind": dependent["kind"], "namespace": namespace,
                "name": metadata["name"], "uid": metadata["uid"]},
            "type": "Warning", "reason": "OwnerRefInvalidNamespace", "count": 1, "firstTimestamp": now, "lastTimestamp": now,
            "message": format!("ownerRef [{owner}] does not exist in namespace {namespace:?}"),
            "source": {"component": NAME}, "reportingComponent": NAME,
        }),
    )
    .await;
}

async fn set_owners(api: &Api, resource: &Resource, stored: &Arc<Stored>, owners: &[Value], again: &WorkItem) {
    let Some(served) = api.registry().stored(resource).cloned() else { return };
    let mut new = (*stored.value).clone();
    if let Some(metadata) = new["metadata"].as_object_mut() {
        if owners.is_empty() {
            metadata.remove("ownerReferences");
        } else {
            metadata.insert("ownerReferences".into(), json!(owners));
        }
    }
    write(api, &served, stored, new, again).await;
}

/// Checks the objects with an owner of a newly known kind again.
pub(super) async fn reconcile_kind(api: &Api, group: &str, kind: &str) {
    let is_of_kind = |reference: &Value| {
        let version = reference["apiVersion"].as_str().unwrap_or_default();
        reference["kind"] == kind && version.split_once('/').map_or("", |(group, _)| group) == group
    };
    for (resource, key) in api.with(|state| state.store.owned()) {
        if api.read(&resource, &key).is_some_and(|stored| references(&stored.value).iter().any(is_of_kind)) {
            collect(api, &resource, &key).await;
        }
    }
}

/// Processes the dependents of an object that is deleted, or waits for them.
pub(super) async fn reconcile_owner(api: &Api, uid: &str) {
    let dependents = api.with(|state| state.store.dependents(uid));
    let Some((resource, _, owner)) = api.with(|state| state.store.by_uid(uid)) else {
        for (resource, key) in dependents {
            collect(api, &resource, &key).await;
        }
        return;
    };
    if !owner.value["metadata"]["deletionTimestamp"].is_string() {
        return;
    }
    let again = WorkItem::Owner(uid.to_owned());
    if has_finalizer(&owner.value, ORPHAN) {
        for (resource, key) in dependents {
            let Some(stored) = api.read(&resource, &key) else { continue };
            let kept: Vec<Value> =
                references(&stored.value).into_iter().filter(|reference| reference["uid"] != uid).collect();
            set_owners(api, &resource, &stored, &kept, &again).await;
        }
        if api.with(|state| state.store.dependents(uid)).is_empty() {
            release(api, &resource, &owner, ORPHAN, &again).await;
        }
    } else if has_finalizer(&owner.value, FOREGROUND) {
        for (resource, key) in dependents {
            collect(api, &resource, &key).await;
        }
        let blocks = |value: &Value| {
            references(value).iter().any(|reference| reference["uid"] == uid && reference["blockOwnerDeletion"] == true)
        };
        let left = api.with(|state| state.store.dependents(uid));
        let is_blocked =
            left.iter().any(|(resource, key)| api.read(resource, key).is_some_and(|stored| blocks(&stored.value)));
        if !is_blocked {
            release(api, &resource, &owner, FOREGROUND, &again).await;
        }
    }
}
