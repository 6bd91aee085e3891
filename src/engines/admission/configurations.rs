//! Keeps the webhook configurations of an operator true: created, updated when anything about the webhooks changes, restored after edits and
//! deletions by others, and narrowed to the persistent webhooks at the end.

mod observe;
mod task;

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::client_config::ClientConfig;
use super::reviewer::{ReviewRevision, WebhookKinds};
use crate::cluster::{self, Client};
use crate::handling::admission::ConfigurationKind;
use crate::handling::admission::configuration::Naming;
use crate::kit::Stop;
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
    /// Manages both configurations until the stop is requested.
    ///
    /// # Errors
    /// If the API server refuses a request. Other failures are logged, and the request is repeated.
    pub async fn run(mut self, stop: Stop) -> Result<(), ConfigurationError> {
        // Only the tasks keep it.
        let unwritten = std::mem::replace(&mut self.unwritten, Arc::new(()));
        let begin = |kind| task::Task::new(kind, &self, Arc::clone(&unwritten), stop.clone()).run();
        let [validating, mutating] = ConfigurationKind::ALL.map(begin);
        drop(unwritten);
        tokio::try_join!(validating, mutating).map(drop)
    }

    fn resource(kind: ConfigurationKind) -> Resource {
        let (plural, kind) = (kind.plural().to_owned(), kind.kind().to_owned());
        Resource { group: GROUP.to_owned(), version: "v1".to_owned(), plural, kind, preferred: true, ..Resource::default() }
    }
}
