//! The controllers: garbage collection, namespaces, and the deletion of definitions.

mod definitions;
mod garbage;
mod namespaces;
pub(crate) mod run_loop;
mod writes;

use futures::FutureExt as _;
use serde_json::json;

use crate::api::Api;
use crate::rules::PROTECTED_NAMESPACES;
use crate::storage::work_item::WorkItem;
use namespaces::namespaces;

/// Creates the default namespaces.
pub(crate) fn create_namespaces(api: &Api) {
    let Some(served) = api.registry().find("", "v1", "namespaces").cloned() else { return };
    for name in PROTECTED_NAMESPACES {
        if api.read(&namespaces(), &(String::new(), (*name).to_owned())).is_none() {
            // There are no webhooks yet to wait for.
            writes::create(api, &served, json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}))
                .now_or_never();
        }
    }
}

/// Processes a work item.
pub(crate) async fn reconcile(api: &Api, item: &WorkItem) {
    match item {
        WorkItem::Owned(resource, key) => garbage::collect(api, resource, key).await,
        WorkItem::Owner(uid) => garbage::reconcile_owner(api, uid).await,
        WorkItem::Kind { group, kind } => garbage::reconcile_kind(api, group, kind).await,
        WorkItem::Namespace(name) => namespaces::reconcile_namespace(api, name).await,
        WorkItem::Definition(name) => definitions::reconcile_definition(api, name).await,
        WorkItem::Event(key) => api.expire_later(key),
    }
}
