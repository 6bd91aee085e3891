//! The controller of deleted definitions: deletes their objects first.

use serde_json::{Value, json};

use super::writes::{delete, release, write};
use crate::api::Api;
use crate::rules::time;
use crate::storage::resource::Resource;
use crate::storage::work_item::{CLEANUP, WorkItem, has_finalizer};

/// Deletes the objects of a definition that is being deleted, and releases it when there are none.
pub(super) async fn reconcile_definition(api: &Api, name: &str) {
    let again = WorkItem::Definition(name.to_owned());
    let definitions =
        Resource { group: "apiextensions.k8s.io".to_owned(), plural: "customresourcedefinitions".to_owned() };
    let Some(stored) = api.read(&definitions, &(String::new(), name.to_owned())) else { return };
    if !stored.value["metadata"]["deletionTimestamp"].is_string() || !has_finalizer(&stored.value, CLEANUP) {
        return;
    }
    let text = |field: &Value| field.as_str().unwrap_or_default().to_owned();
    let resource = Resource {
        group: text(&stored.value["spec"]["group"]),
        plural: text(&stored.value["spec"]["names"]["plural"]),
    };
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
