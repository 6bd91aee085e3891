//! The loop of the controllers: takes work from the queue, and runs it at once or after the configured latency.

use std::time::Duration;

use futures::FutureExt as _;
use tokio::time::Instant;

use crate::api::Api;
use crate::api::work_queue::events;
use crate::controllers;
use crate::rules::Decision;
use crate::storage::resource::Resource;
use crate::storage::work_item::WorkItem;
use crate::verbs::admission_chain;
use kopfd_base::kit::Stop;

/// How long the controllers sleep when no work is queued or delayed.
const IDLE: Duration = Duration::from_hours(1);

/// Runs all queued controller work now, ignoring delays: garbage collection, namespaces, definitions. If there are
/// webhooks, which may have to be awaited, all work is left to [`run`].
pub(crate) fn settle(api: &Api) {
    while !admission_chain::has_webhooks(api) {
        let Some(work) = api.dequeue() else { return };
        if controllers::reconcile(api, &work.item).now_or_never().is_none() {
            // A webhook was added in the meantime.
            return api.enqueue(work.item.clone());
        }
    }
}

/// Runs the controllers until the stop.
pub(crate) async fn run(api: &Api, stop: Stop) {
    let mut activity = api.activity();
    loop {
        while let Some(work) = api.dequeue() {
            match delay(api, &work.item) {
                Duration::ZERO => controllers::reconcile(api, &work.item).await,
                delay => api.enqueue_after(work.item.clone(), delay),
            }
        }
        for work in api.dequeue_due() {
            controllers::reconcile(api, &work.item).await;
        }
        if api.has_work() {
            continue;
        }
        remove_expired_events(api);
        let next_at = api.next_due().unwrap_or_else(|| Instant::now() + IDLE);
        tokio::select! {
            biased;
            () = stop.requested() => return,
            changed = activity.changed() => if changed.is_err() { return },
            () = tokio::time::sleep_until(next_at) => {}
        }
    }
}

fn delay(api: &Api, item: &WorkItem) -> Duration {
    let is_terminating = |name: &str| {
        let namespaces = Resource { group: String::new(), plural: "namespaces".to_owned() };
        let found = api.read(&namespaces, &(String::new(), name.to_owned()));
        found.is_some_and(|found| found.value["metadata"]["deletionTimestamp"].is_string())
    };
    api.latency().delay(item, matches!(item, WorkItem::Namespace(name) if is_terminating(name)))
}

/// Removes expired events, except those written again.
fn remove_expired_events(api: &Api) {
    let expired = api.take_expired();
    let registry = api.registry();
    let Some(served) = registry.stored(&events()) else { return };
    for (key, revision) in expired {
        if let Some(stored) = api.read(&served.resource, &key).filter(|stored| stored.revision == revision) {
            // An event that is being written stays.
            drop(api.commit(served, Some(&stored), Decision::Remove((*stored.value).clone())));
        }
    }
}
