//! Writes of the controllers: with admission, as their own user, and retried after conflicts.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::admission::Operation;
use crate::api::Api;
use crate::auth::access::User;
use crate::http::request::Options;
use crate::kinds::registry::ServedKind;
use crate::rules::{Deletion, Propagation, Writer};
use crate::storage::resource::{Resource, Stored, key_of, uid_of};
use crate::storage::work_item::WorkItem;
use crate::verbs::admission_chain::{AdmissionChain, AdmissionRequest, Requester};
use crate::verbs::{deleting, writing};

/// The field manager and the user of the controllers.
const NAME: &str = "kube-controller-manager";
/// Delay before a write denied by a webhook is retried.
const AGAIN: Duration = Duration::from_secs(1);

pub(super) async fn create(api: &Api, served: &Arc<ServedKind>, value: Value) {
    let options = Options::default();
    let writer = Writer { served, subresource: "", options: &options, manager: NAME, now: api.now(), is_patch: false };
    let user = user();
    let chain = AdmissionChain::new(api, served, "", Requester { user: &user, options: &options, fault: None });
    // An existing object is fine; a failed creation is retried with the next write.
    drop(writing::create_received(api, &writer, &chain, value).await);
}

/// Returns the user of the controllers.
fn user() -> User {
    User::new(&format!("system:{NAME}"), &["system:masters", "system:authenticated"])
}

/// Writes a changed object; if another write came first, queues another item.
pub(super) async fn write(api: &Api, served: &Arc<ServedKind>, stored: &Arc<Stored>, new: Value, again: &WorkItem) {
    let options = Options::default();
    let writer =
        Writer { served, subresource: "finalize", options: &options, manager: NAME, now: api.now(), is_patch: true };
    let user = user();
    let chain = AdmissionChain::new(api, served, "", Requester { user: &user, options: &options, fault: None });
    let (namespace, name) = key_of(&new);
    let request = AdmissionRequest {
        operation: Operation::Update,
        name: &name,
        namespace: &namespace,
        object: Some(&new),
        old: Some(&stored.value),
    };
    let Ok((changed, _)) = chain.mutate(request).await else { return api.enqueue_after(again.clone(), AGAIN) };
    let new = changed.unwrap_or_else(|| new.clone());
    if chain.validate(AdmissionRequest { object: Some(&new), ..request }).await.is_err() {
        return api.enqueue_after(again.clone(), AGAIN);
    }
    let decision = writer.finish(&stored.value, new);
    if api.commit(served, Some(stored), decision).is_err() {
        api.enqueue(again.clone());
    }
}

pub(super) async fn delete(
    api: &Api,
    resource: &Resource,
    stored: Arc<Stored>,
    propagation: Option<Propagation>,
    again: &WorkItem,
) {
    let Some(served) = api.registry().stored(resource).cloned() else { return };
    let uid = Some(uid_of(&stored.value).to_owned());
    let deletion = Deletion { propagation, uid, ..Deletion::default() };
    let mut webhook_options = Map::from_iter([("preconditions".to_owned(), json!({"uid": deletion.uid}))]);
    webhook_options.extend(propagation.map(|propagation| ("propagationPolicy".to_owned(), json!(propagation.name()))));
    let (user, options) = (user(), Options { deletion: webhook_options, ..Options::default() });
    let requester = Requester { user: &user, options: &options, fault: None };
    match deleting::delete_one(api, &served, stored, &deletion, requester).await {
        Ok(_) => {}
        Err(failure) if matches!(failure.code, 404 | 409) => api.enqueue(again.clone()),
        // A webhook denies it, or cannot be called.
        Err(_) => api.enqueue_after(again.clone(), AGAIN),
    }
}

/// Removes a finalizer.
pub(super) async fn release(api: &Api, resource: &Resource, stored: &Arc<Stored>, finalizer: &str, again: &WorkItem) {
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
