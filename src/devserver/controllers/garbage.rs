//! The garbage collector: what owners leave behind, and what waits for them.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{delete, release, write};
use crate::devserver::api::Api;
use crate::devserver::chores::{Chore, FOREGROUND, ORPHAN, has_finalizer};
use crate::devserver::store::{Key, Resource, Stored, uid_of};

/// What an owner reference points to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    /// There is such an object.
    There,
    /// There is one, which waits for its dependents.
    Waiting,
    /// There is none.
    Absent,
    /// Nobody knows such a kind, so there may be one.
    Unknown,
}

fn owner_of(api: &Api, reference: &Value, namespace: &str) -> Owner {
    let text = |field: &str| reference[field].as_str().unwrap_or_default();
    let registry = api.registry();
    let Some(served) = registry.by_kind(text("apiVersion"), text("kind")) else { return Owner::Unknown };
    let place = if served.kind.namespaced { namespace } else { "" };
    let found = api.read(&served.resource, &(place.to_owned(), text("name").to_owned()));
    match found.filter(|found| uid_of(&found.value) == text("uid")) {
        None => Owner::Absent,
        Some(found) if found.value["metadata"]["deletionTimestamp"].is_string() && has_finalizer(&found.value, FOREGROUND) => {
            Owner::Waiting
        }
        Some(_) => Owner::There,
    }
}

/// Deletes an object whose owners are all gone, or takes away the references to those that are.
pub(super) async fn collect(api: &Api, resource: &Resource, key: &Key) {
    let again = Chore::Owned(resource.clone(), key.clone());
    let Some(stored) = api.read(resource, key) else { return };
    if stored.value["metadata"]["deletionTimestamp"].is_string() && !has_finalizer(&stored.value, FOREGROUND) {
        return;
    }
    let references = stored.value["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
    let states: Vec<Owner> = references.iter().map(|reference| owner_of(api, reference, &key.0)).collect();
    let has = |wanted: Owner| states.contains(&wanted);
    if states.is_empty() || !(has(Owner::Absent) || has(Owner::Waiting)) || has(Owner::Unknown) {
        return;
    }
    if !has(Owner::There) {
        return delete(api, resource, stored, &again).await;
    }
    if has(Owner::Absent) {
        let kept: Vec<Value> =
            references.into_iter().zip(&states).filter(|(_, state)| **state != Owner::Absent).map(|(reference, _)| reference).collect();
        set_owners(api, resource, &stored, &kept, &again).await;
    }
}

async fn set_owners(api: &Api, resource: &Resource, stored: &Arc<Stored>, owners: &[Value], again: &Chore) {
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

/// Looks after the dependents of an object that is gone, or going and waiting.
pub(super) async fn attend_owner(api: &Api, uid: &str) {
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
    let again = Chore::Owner(uid.to_owned());
    if has_finalizer(&owner.value, ORPHAN) {
        for (resource, key) in dependents {
            let Some(stored) = api.read(&resource, &key) else { continue };
            let references = stored.value["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
            let kept: Vec<Value> = references.into_iter().filter(|reference| reference["uid"] != uid).collect();
            set_owners(api, &resource, &stored, &kept, &Chore::Owner(uid.to_owned())).await;
        }
        if api.with(|state| state.store.dependents(uid)).is_empty() {
            release(api, &resource, &owner, ORPHAN, &again).await;
        }
    } else if has_finalizer(&owner.value, FOREGROUND) {
        for (resource, key) in dependents {
            collect(api, &resource, &key).await;
        }
        let blocks = |value: &Value| {
            let references = value["metadata"]["ownerReferences"].as_array();
            references.is_some_and(|all| all.iter().any(|one| one["uid"] == uid && one["blockOwnerDeletion"] == true))
        };
        let left = api.with(|state| state.store.dependents(uid));
        let is_blocked = left.iter().any(|(resource, key)| api.read(resource, key).is_some_and(|stored| blocks(&stored.value)));
        if !is_blocked {
            release(api, &resource, &owner, FOREGROUND, &again).await;
        }
    }
}
