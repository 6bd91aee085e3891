//! The admission webhooks of a running operator: how the API server reaches them, and the memos of the objects that are watched.

use std::sync::Arc;

use tokio::sync::watch;

use crate::engines::admission::memos::WatchedObjects;
use crate::engines::admission::servers::ServersError;
use crate::engines::admission::{Reviewer, Reviewers, Servers};
use crate::engines::effects::Effects;
use crate::kit::{Clock, Stop};
use crate::manifest::Settings;
use crate::object::Resource;
use crate::script::OperatorMemo;

use super::status::ServedKinds;

/// The admission webhooks of the operators of a process.
#[derive(Debug, Clone, Default)]
pub struct Admission {
    /// The reviewers of all operators.
    pub reviewers: Reviewers,
    /// How the API server reaches them.
    pub reach: Reach,
}

/// How the API server reaches webhooks.
#[derive(Debug, Clone)]
pub enum Reach {
    /// By the servers of the settings.
    Network(Servers),
    /// It is in the same process, and calls the reviewers.
    InProcess,
}

impl Default for Reach {
    fn default() -> Self {
        Self::Network(Servers::default())
    }
}

/// Why the webhooks of an operator cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum AdmissionError {
    /// The settings have no server.
    #[error("there are webhooks, but `settings.admission.server` is not set")]
    NoServer,
    /// The server of the settings cannot be started.
    #[error(transparent)]
    Server(#[from] ServersError),
}

impl Admission {
    /// Returns the webhooks of operators whose API server is in the same process.
    pub fn in_process() -> Self {
        Self { reviewers: Reviewers::default(), reach: Reach::InProcess }
    }

    /// Has the reviews of an operator answered until the stop. A server is started when the cluster is discovered: before, every kind would
    /// be unknown.
    ///
    /// # Errors
    /// If the webhooks have no server, or it cannot be started.
    pub(super) async fn serve(
        &self,
        reviewer: Arc<Reviewer>,
        settings: &Settings,
        clock: &Clock,
        stop: &Stop,
    ) -> Result<(), AdmissionError> {
        let _listed = self.reviewers.add(Arc::clone(&reviewer));
        let mut kinds = reviewer.kinds();
        let discovered = async { kinds.wait_for(Option::is_some).await.is_ok() };
        let is_discovered = tokio::select! {
            () = stop.requested() => false,
            is_discovered = discovered => is_discovered,
        };
        if !is_discovered {
            // Without a sender there is no observer, and the stop follows.
            stop.requested().await;
            return Ok(());
        }
        match (&self.reach, &settings.admission.server) {
            (Reach::Network(servers), Some(server)) => {
                let serving = servers.open(server, reviewer, clock).await?;
                stop.requested().await;
                serving.close().await;
            }
            (Reach::Network(_), None) if reviewer.has_webhooks() => return Err(AdmissionError::NoServer),
            _ => stop.requested().await,
        }
        Ok(())
    }
}

/// The objects that an operator watches.
pub(super) struct WatchedKinds<W: Effects>(pub watch::Receiver<ServedKinds<W>>);

impl<W: Effects + 'static> WatchedObjects for WatchedKinds<W> {
    fn origin(&self, resource: &Resource, uid: &str) -> Option<Arc<OperatorMemo>> {
        let kinds = self.0.borrow();
        // A review may be about another version than the watch.
        let is_same = |other: &Resource| other.group == resource.group && other.plural == resource.plural;
        kinds.iter().filter(|kind| is_same(&kind.resource)).find_map(|kind| kind.memories.origin(uid))
    }
}
