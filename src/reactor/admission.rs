//! The admission webhooks of a running operator: how the API server reaches them, and the memos of the objects that are
//! watched.

use std::any::Any;
use std::sync::Arc;

use tokio::sync::watch;

use crate::cluster::Client;
use crate::engines::admission::configurations::{ConfigurationError, Configurations, Definitions, Upkeep};
use crate::engines::admission::memos::WatchedObjects;
use crate::engines::admission::servers::ServersError;
use crate::engines::admission::{ClientConfig, Reviewer, Reviewers, Servers, local};
use crate::engines::effects::Effects;
use crate::handling::admission::configuration::Naming;
use crate::kit::{Clock, Stop};
use crate::manifest::Settings;
use crate::object::Resource;
use crate::script::OperatorMemo;

use super::status::ServedKinds;

/// The end of the names of webhook configurations for an API server in the same process.
const LOCAL: &str = "kopfd.dev";

/// The admission webhooks of the operators of a process.
#[derive(Debug, Clone, Default)]
pub struct Admission {
    /// The reviewers of all operators.
    pub reviewers: Reviewers,
    /// The way in which the API server reaches them.
    pub reach: Reach,
}

/// The way in which the API server reaches webhooks.
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

/// The reason why the webhooks of an operator cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum AdmissionError {
    /// The settings have no server.
    #[error("there are webhooks, but `settings.admission.server` is not set")]
    NoServer,
    /// The server of the settings cannot be started.
    #[error(transparent)]
    Server(#[from] ServersError),
    /// The webhook configurations cannot be managed.
    #[error(transparent)]
    Configurations(#[from] ConfigurationError),
}

/// The operator whose reviews are answered.
pub(super) struct Reviewed<'a> {
    /// Its reviewer.
    pub reviewer: Arc<Reviewer>,
    /// The settings at its start.
    pub settings: &'a Settings,
    /// The client of the API server.
    pub client: &'a Client,
    /// The clock.
    pub clock: &'a Clock,
    /// Dropped when the API server knows the webhooks, or need not know them.
    pub unready: Unready,
}

/// Guard that keeps the operator unready until the API server knows the webhooks.
pub(super) type Unready = Arc<dyn Any + Send + Sync>;

impl Admission {
    /// Returns the webhooks of operators whose API server is in the same process.
    pub fn in_process() -> Self {
        Self { reviewers: Reviewers::default(), reach: Reach::InProcess }
    }

    /// Serves the reviews of an operator until the stop. A server is started when the cluster is discovered: before,
    /// every kind would be unknown.
    ///
    /// # Errors
    /// If the webhooks have no server, it cannot be started, or the webhook configurations cannot be managed.
    pub(super) async fn serve(&self, reviewed: Reviewed<'_>, stop: &Stop) -> Result<(), AdmissionError> {
        let reviewer = &reviewed.reviewer;
        let _listed = self.reviewers.add(Arc::clone(reviewer));
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
        match (&self.reach, &reviewed.settings.admission.server) {
            (Reach::Network(servers), Some(server)) => {
                let serving = servers.open(server, Arc::clone(reviewer), reviewed.client, reviewed.clock).await?;
                let managed = reviewed.settings.admission.managed.clone().map(|name| (name, Naming::Kopf));
                // The configurations are narrowed while the server still answers.
                let definitions = managed.as_ref().map(|_| reviewed.define(serving.client_config(), stop));
                let configured = reviewed.configure(managed, serving.client_config(), stop);
                let ended = match definitions {
                    Some(definitions) => tokio::try_join!(definitions, configured).map(drop),
                    None => configured.await,
                };
                serving.close().await;
                ended
            }
            (Reach::Network(_), None) if reviewer.has_webhooks() || reviewer.has_conversions() => {
                Err(AdmissionError::NoServer)
            }
            (Reach::Network(_), None) => {
                drop(reviewed.unready);
                stop.requested().await;
                Ok(())
            }
            (Reach::InProcess, _) => {
                let address = watch::Sender::new(local::address(reviewer.operator()));
                let managed = reviewed.settings.admission.managed.clone().map(|name| (name, Naming::Kopf));
                let managed = managed.unwrap_or_else(|| (format!("{}.{LOCAL}", reviewer.operator()), Naming::Valid));
                let definitions = reviewed.define(address.subscribe(), stop);
                let configured = reviewed.configure_once_needed(managed, address.subscribe(), stop);
                tokio::try_join!(definitions, configured).map(drop)
            }
        }
    }
}

impl Reviewed<'_> {
    fn upkeep(&self, address: watch::Receiver<ClientConfig>) -> Upkeep {
        Upkeep {
            client: self.client.clone(),
            operator: self.reviewer.operator().to_string(),
            revisions: self.reviewer.revisions(),
            kinds: self.reviewer.kinds(),
            address,
            error_delays: self.settings.queueing.error_delays.clone().into(),
        }
    }

    /// Manages the definitions of converted kinds until the stop.
    fn define(
        &self,
        address: watch::Receiver<ClientConfig>,
        stop: &Stop,
    ) -> impl Future<Output = Result<(), AdmissionError>> + use<> {
        let definitions = Definitions { upkeep: self.upkeep(address), unwritten: Arc::clone(&self.unready) };
        let stop = stop.clone();
        // An operator without managed definitions has no place for their state.
        Box::pin(async move { Ok(definitions.run(stop).await?) })
    }

    /// Manages the webhook configurations until the stop, if they have a name.
    async fn configure(
        self,
        managed: Option<(String, Naming)>,
        address: watch::Receiver<ClientConfig>,
        stop: &Stop,
    ) -> Result<(), AdmissionError> {
        let Some((managed, naming)) = managed else {
            drop(self.unready);
            stop.requested().await;
            return Ok(());
        };
        let configurations = Configurations {
            upkeep: self.upkeep(address),
            managed,
            naming,
            derives_conditions: self.settings.admission.derived_conditions,
            unwritten: self.unready,
        };
        // An operator without managed configurations has no place for their state.
        Ok(Box::pin(configurations.run(stop.clone())).await?)
    }

    /// Manages the webhook configurations from the first revision on that has webhooks.
    async fn configure_once_needed(
        mut self,
        managed: (String, Naming),
        address: watch::Receiver<ClientConfig>,
        stop: &Stop,
    ) -> Result<(), AdmissionError> {
        if !self.reviewer.has_webhooks() {
            self.unready = Arc::new(());
        }
        let mut revisions = self.reviewer.revisions();
        let needed = async { revisions.wait_for(|revision| !revision.webhooks.is_empty()).await.is_ok() };
        let is_needed = tokio::select! {
            () = stop.requested() => false,
            is_needed = needed => is_needed,
        };
        if !is_needed {
            stop.requested().await;
            return Ok(());
        }
        self.configure(Some(managed), address, stop).await
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
