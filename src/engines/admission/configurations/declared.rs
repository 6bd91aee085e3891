//! The inputs of an operator's webhook configurations, and the reasons why they cannot be managed.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::cluster::{self, Client};
use crate::engines::admission::client_config::ClientConfig;
use crate::engines::admission::reviewer::{ReviewRevision, WebhookKinds};
use crate::handling::admission::configuration::Naming;

/// The configurations of one operator: a validating and a mutating one of the same name.
pub struct Configurations {
    /// The client and the declarations for writing them.
    pub upkeep: Upkeep,
    /// The name of both.
    pub managed: String,
    /// The names of webhooks in them.
    pub naming: Naming,
    /// Whether filters become conditions that the API server checks.
    pub derives_conditions: bool,
    /// Dropped when both configurations are written.
    pub unwritten: Arc<dyn Any + Send + Sync>,
}

/// The definitions of one operator: those of the kinds that its functions convert.
pub struct Definitions {
    /// The client and the declarations for writing them.
    pub upkeep: Upkeep,
    /// Dropped when all definitions are written.
    pub unwritten: Arc<dyn Any + Send + Sync>,
}

/// The client and the declarations for writing managed objects. Cheap to clone.
#[derive(Clone)]
pub struct Upkeep {
    /// The client.
    pub client: Client,
    /// The field manager.
    pub operator: String,
    /// The webhooks and conversions.
    pub revisions: watch::Receiver<Arc<ReviewRevision>>,
    /// The kinds of the webhooks: nothing is written before they are known.
    pub kinds: watch::Receiver<WebhookKinds>,
    /// The address of the webhooks for the API server.
    pub address: watch::Receiver<ClientConfig>,
    /// The pauses after the first, second, … failure in a row.
    pub error_delays: Arc<[Duration]>,
}

/// The reason why the configurations or definitions cannot be managed.
#[derive(Debug, thiserror::Error)]
pub enum ConfigurationError {
    /// The operator has no permission.
    #[error("no permission to {verb} {resource}: the verbs {needed} are needed for {name:?}")]
    Forbidden {
        /// The verb of the refused request.
        verb: &'static str,
        /// The resource with its group.
        resource: String,
        /// All verbs that are needed.
        needed: &'static str,
        /// The name of the object.
        name: String,
        /// The answer.
        #[source]
        source: cluster::Error,
    },
    /// The API server does not accept the configuration or definition.
    #[error("failed to {verb} the {kind} {name:?}")]
    Refused {
        /// The verb of the refused request.
        verb: &'static str,
        /// The kind.
        kind: &'static str,
        /// The name of the object.
        name: String,
        /// The answer.
        #[source]
        source: cluster::Error,
    },
}
