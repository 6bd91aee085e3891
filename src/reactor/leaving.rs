//! The end of a kind that was removed from the manifest: the finalizers and records left on its objects are counted and
//! logged.

use std::sync::Arc;
use std::time::Duration;

use tracing::{debug, info, warn};

use crate::cluster::{self, Client, Seen, Sink, Watcher};
use crate::kit::Stop;
use crate::object::Resource;
use crate::persistence::{Storages, essence};

/// Time limit of the list of the objects.
const LIST_TIMEOUT: Duration = Duration::from_mins(5);

/// A kind that is left, in some namespaces or in all.
pub(crate) struct Leaving {
    /// The operator's name.
    pub operator: Arc<str>,
    /// The connection to the cluster.
    pub client: Client,
    /// The kind.
    pub resource: Arc<Resource>,
    /// The namespaces; `None` stands for all.
    pub namespaces: Vec<Option<String>>,
    /// The storages of the operator's state.
    pub storages: Arc<Storages>,
}

/// Finalizers and records of the operator that remain on objects.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Kept {
    finalizers: usize,
    records: usize,
}

impl Leaving {
    /// Lists the objects once, and logs how many of them keep the finalizer or records.
    pub(crate) async fn report(self, stop: &Stop) {
        let Self { operator, resource, .. } = &self;
        let mut kept = Kept::default();
        for namespace in &self.namespaces {
            let Some(counted) = self.count(namespace.as_deref(), stop).await else {
                debug!(target: "kopfd::reactor", %resource, namespace, "The objects of a kind that is left cannot be listed.");
                info!(target: "kopfd::reactor", "Operator '{operator}' has left {resource}. What its objects keep is not known.");
                return;
            };
            kept.finalizers += counted.finalizers;
            kept.records += counted.records;
        }
        let Kept { finalizers, records } = kept;
        if finalizers > 0 {
            warn!(
                target: "kopfd::reactor",
                finalizers,
                records,
                "Operator '{operator}' has left {resource}. {finalizers} of its objects keep the finalizer {}, which blocks their deletion \
                 until it is removed or the kind is declared again; {records} keep records.",
                self.storages.finalizer
            );
        } else {
            info!(target: "kopfd::reactor", records, "Operator '{operator}' has left {resource}. {records} of its objects keep records.");
        }
    }

    /// Returns nothing if the objects cannot be listed.
    async fn count(&self, namespace: Option<&str>, stop: &Stop) -> Option<Kept> {
        let mut watcher = Watcher::new(self.client.clone(), (*self.resource).clone(), namespace).ok()?;
        let mut sink =
            Counter { storages: &self.storages, kept: Kept::default(), is_complete: false, end: stop.child() };
        let end = sink.end.clone();
        // The sink ends the watcher after the list.
        let _ = tokio::time::timeout(LIST_TIMEOUT, watcher.run(&mut sink, &end)).await;
        sink.is_complete.then_some(sink.kept)
    }
}

/// Counts the objects of one list.
struct Counter<'a> {
    storages: &'a Storages,
    kept: Kept,
    is_complete: bool,
    end: Stop,
}

impl Sink for Counter<'_> {
    async fn seen(&mut self, seen: Seen<'_>) {
        if self.is_complete {
            return;
        }
        self.kept.finalizers += usize::from(seen.head.has_finalizer(&self.storages.finalizer));
        let stored = seen.body().ok().and_then(|body| essence::change(self.storages, &body, &[]).ok());
        self.kept.records += usize::from(stored.is_some_and(|change| change.old.is_some()));
    }

    async fn listed(&mut self) {
        self.is_complete = true;
        self.end.request("the objects are counted");
    }

    fn request_failed(&mut self, _error: &cluster::Error) {
        self.end.request("the objects cannot be listed");
    }
}
