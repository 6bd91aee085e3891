//! What the configurations of an operator depend on, and why they cannot be managed.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::cluster::{self, Client};
use crate::engines::admission::client_config::ClientConfig;
use crate::engines::admission::reviewer::{ReviewRevision, WebhookKinds};
use crate::handling::admission::ConfigurationKind;
use crate::handling::admission::configuration::Naming;
use crate::object::Resource;

/// The group of webhook configurations.
const GROUP: &str = "admissionregistration.k8s.io";

/// The configurations of one operator: a validating and a mutating one of the same name.
pub struct Configurations {
    /// The client.
    pub client: Client,
    /// The field manager.
    pub operator: String,
    /// The name of both.
    pub managed: String,
    /// How webhooks are named in them.
    pub naming: Naming,
    /// Whether filters become conditions that the API server checks.
    pub derives_conditions: bool,
    /// The webhooks.
    pub revisions: watch::Receiver<Arc<ReviewRevision>>,
    /// The kinds of the webhooks: nothing is written before they are known.
    pub kinds: watch::Receiver<WebhookKinds>,
    /// How the API server reaches the webhooks.
    pub address: watch::Receiver<ClientConfig>,
    /// The pauses after the first, second, … failure in a row.
    pub error_delays: Arc<[Duration]>,
    /// Dropped when both configurations are written.
    pub unwritten: Arc<dyn Any + Send + Sync>,
}

/// Why the configurations cannot be managed.
#[derive(Debug, thiserror::Error)]
pub enum ConfigurationError {
    /// The operator has no permission.
    #[error("no permission to {verb} {plural}.{group}: the verbs create, patch, list and watch are needed for {name:?}", group = GROUP)]
    Forbidden {
        /// The verb of the refused request.
        verb: &'static str,
        /// The resource.
        plural: &'static str,
        /// The name of the configuration.
        name: String,
        /// The answer.
        #[source]
        source: cluster::Error,
    },
    /// The API server does not accept the configuration.
    #[error("failed to {verb} the {kind} {name:?}")]
    Refused {
        /// The verb of the refused request.
        verb: &'static str,
        /// The kind.
        kind: &'static str,
        /// The name of the configuration.
        name: String,
        /// The answer.
        #[source]
        source: cluster::Error,
    },
}

impl Configurations {
    /// Returns the resource of a kind of configurations.
    pub(super) fn resource(kind: ConfigurationKind) -> Resource {
        let (plural, kind) = (kind.plural().to_owned(), kind.kind().to_owned());
        Resource { group: GROUP.to_owned(), version: "v1".to_owned(), plural, kind, preferred: true, ..Resource::default() }
    }
}
