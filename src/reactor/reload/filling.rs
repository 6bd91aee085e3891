//! Fills added and changed indexes before a revision takes effect.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tracing::warn;

use crate::cluster::discovery;
use crate::cluster::{self, KnownObjects, Seen, Sink, Watcher};
use crate::handling::Handler;
use crate::kit::Stop;
use crate::object::{EventKind, Resource};
use crate::script::Object;

use super::super::live_effects::LiveEffects;
use super::super::observation::{Insights, Purposes};
use super::super::observer::Filled;
use super::error::ReloadError;
use super::ground::Preparation;

/// The pause before the kinds of the cluster are asked for again.
const DISCOVERY_PAUSE: Duration = Duration::from_secs(5);

/// The failures of a list after which a revision does not take effect, because its indexes would be incomplete.
const MAX_LIST_FAILURES: usize = 5;

impl Preparation<'_> {
    /// Fills changed indexes by lists of all their kinds, while events are passed on to them.
    pub(super) async fn fill(
        &self,
        operator: &str,
        effects: &Arc<LiveEffects>,
        handlers: &[Arc<Handler>],
        changed: &BTreeSet<&str>,
    ) -> Result<Vec<Filled>, ReloadError> {
        effects.follow_earlier();
        let mut filled = Vec::new();
        if !changed.is_empty() {
            let purposes = Purposes::of_handlers(
                handlers.iter().map(AsRef::as_ref).filter(|handler| changed.contains(&*handler.id)),
            );
            for resource in self.resources_of(&purposes).await? {
                for namespace in self.reviser.namespaces_of(&resource) {
                    let known = self.list(operator, (effects, changed), &resource, namespace.as_deref()).await?;
                    filled.extend(known.map(|known| Filled { resource: Arc::clone(&resource), namespace, known }));
                }
            }
        }
        effects.filled();
        Ok(filled)
    }

    async fn resources_of(&self, purposes: &Purposes) -> Result<BTreeSet<Arc<Resource>>, ReloadError> {
        let groups = purposes.groups().map(|groups| groups.into_iter().map(str::to_owned).collect());
        loop {
            let scan = tokio::select! {
                biased;
                reason = self.interrupted() => return Err(reason),
                scan = discovery::scan(self.client, groups.as_ref()) => scan,
            };
            match scan {
                Ok(scan) => {
                    let discovered: Vec<Arc<Resource>> = scan.resources.into_iter().map(Arc::new).collect();
                    let mut insights = Insights::default();
                    // Kinds that cannot be served are reported when the revision takes effect.
                    let _ = insights.revise(purposes, None, &discovered);
                    return Ok(insights.watched);
                }
                Err(failure) => {
                    warn!(target: "kopfd::reload", error = failure.chain(), "Cannot look at the kinds of the cluster, whose objects are to be indexed. Will look again.");
                    tokio::select! {
                        biased;
                        reason = self.interrupted() => return Err(reason),
                        () = tokio::time::sleep(DISCOVERY_PAUSE) => {}
                    }
                }
            }
        }
    }

    /// Indexes all objects of a kind. Returns nothing if the kind is gone.
    ///
    /// # Errors
    /// If it cannot be listed. Without its objects, the indexes would have less than those of the running revision.
    async fn list(
        &self,
        operator: &str,
        (effects, changed): (&LiveEffects, &BTreeSet<&str>),
        resource: &Arc<Resource>,
        namespace: Option<&str>,
    ) -> Result<Option<KnownObjects>, ReloadError> {
        let failed = |reason| ReloadError::Index { resource: resource.to_string(), reason };
        let watcher = Watcher::new(self.client.clone(), (**resource).clone(), namespace);
        let mut watcher = watcher.map_err(|failure| failed(failure.chain()))?;
        let end = self.stop.child();
        let mut sink = FillSink {
            operator,
            effects,
            changed,
            resource,
            stop: self.stop,
            end: end.clone(),
            is_complete: false,
            failures: 0,
            failure: None,
        };
        tokio::select! {
            biased;
            reason = self.interrupted() => return Err(reason),
            () = watcher.run(&mut sink, &end) => {}
        }
        match sink.failure {
            Some((Some(404), _)) => Ok(None),
            Some((_, reason)) => Err(failed(reason)),
            None => Ok(sink.is_complete.then(|| watcher.into_known())),
        }
    }
}

/// Indexes the objects of one list.
struct FillSink<'a> {
    operator: &'a str,
    effects: &'a LiveEffects,
    /// The indexes that are filled.
    changed: &'a BTreeSet<&'a str>,
    resource: &'a Arc<Resource>,
    stop: &'a Stop,
    /// Ends the watcher.
    end: Stop,
    is_complete: bool,
    failures: usize,
    /// The reason why the kind cannot be listed, with the status of the answer.
    failure: Option<(Option<u16>, String)>,
}

impl Sink for FillSink<'_> {
    async fn seen(&mut self, seen: Seen<'_>) {
        // An object that cannot be read is not indexed, and is reported by its worker.
        let Ok(body) = seen.body() else { return };
        if self.is_complete || seen.event_kind != EventKind::Listed {
            return;
        }
        let memo = self.effects.memo_for_indexes(format!("{}/{}", self.operator, body.uid().unwrap_or_default()));
        let object = Object { resource: Arc::clone(self.resource), body, memo };
        if let Err(failure) = self.effects.fill(&object, self.stop, |name| self.changed.contains(name)).await {
            warn!(
                target: "kopfd::reload",
                resource = %self.resource,
                namespace = object.body.namespace(),
                name = object.body.name(),
                "The object cannot be indexed: {failure}"
            );
        }
    }

    async fn listed(&mut self) {
        self.is_complete = true;
        self.end.request("the objects are indexed");
    }

    fn request_failed(&mut self, failure: &cluster::Error) {
        self.failures += 1;
        let is_refused = failure.status().is_some_and(|status| status < 429);
        if is_refused || self.failures >= MAX_LIST_FAILURES {
            self.failure = Some((failure.status(), failure.chain()));
            self.end.request("the kind cannot be listed");
        }
    }
}
