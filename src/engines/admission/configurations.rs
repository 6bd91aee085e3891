//! Keeps the webhook configurations of an operator true: created, updated when anything about the webhooks changes, restored after edits and
//! deletions by others, and narrowed to the persistent webhooks at the end.

mod observe;
mod task;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::watch;

use crate::cluster::{self, Client};
use crate::handling::admission::configuration::{self, Naming, Situation};
use crate::handling::admission::{ConfigurationKind, Webhook};
use crate::kit::Stop;
use crate::object::Resource;

/// The group of webhook configurations.
const GROUP: &str = "admissionregistration.k8s.io";

/// What the configurations contain.
#[derive(Debug, Clone, Default)]
pub struct Declared {
    /// The webhooks in their order.
    pub webhooks: Arc<[Webhook]>,
    /// The served resources of the webhooks.
    pub resources: BTreeSet<Arc<Resource>>,
    /// Whether filters become conditions that the API server checks.
    pub derives_conditions: bool,
}

/// Returns the `clientConfig` of the webhook with an id.
pub type Addresses = Arc<dyn Fn(&str) -> Value + Send + Sync>;

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
    /// What they contain.
    pub declared: watch::Receiver<Declared>,
    /// How the API server reaches the webhooks; `None` before the server listens.
    pub addresses: watch::Receiver<Option<Addresses>>,
    /// The pauses after the first, second, … failure in a row.
    pub error_delays: Arc<[Duration]>,
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
    pub async fn run(self, stop: Stop) -> Result<(), ConfigurationError> {
        let [validating, mutating] = ConfigurationKind::ALL.map(|kind| task::Task::new(kind, &self, stop.clone()).run());
        tokio::try_join!(validating, mutating).map(drop)
    }

    /// Returns the webhooks of a configuration.
    fn webhooks(&self, kind: ConfigurationKind, declared: &Declared, addresses: &Addresses, which: Which) -> Value {
        let resources: Vec<&Resource> = declared.resources.iter().map(AsRef::as_ref).collect();
        let situation = Situation {
            managed: &self.managed,
            naming: self.naming,
            resources: &resources,
            client_config: &**addresses,
            derives_conditions: declared.derives_conditions,
        };
        match which {
            Which::All => configuration::webhooks(kind, &*declared.webhooks, situation),
            Which::Persistent => configuration::webhooks(kind, configuration::persistent(&*declared.webhooks), situation),
        }
    }

    fn resource(kind: ConfigurationKind) -> Resource {
        let (plural, kind) = (kind.plural().to_owned(), kind.kind().to_owned());
        Resource { group: GROUP.to_owned(), version: "v1".to_owned(), plural, kind, preferred: true, ..Resource::default() }
    }
}

/// Which webhooks a configuration has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Which {
    /// All, while the operator runs.
    All,
    /// Those that stay.
    Persistent,
}
