//! A peering object, and the requests that change its records.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::cluster::{Client, Error, Unconfirmed, apply};
use crate::handling::peering::{Own, keep_alive_message};
use crate::handling::{Level, Message};
use crate::kit::Clock;
use crate::object::{Body, Patch, Resource};
use crate::persistence::peering;

/// The groups of peerings: kopf's, and the one of its earlier versions. If a cluster has both, both are used.
pub const GROUPS: [&str; 2] = ["kopf.dev", "zalando.org"];

/// This operator, as it describes itself.
#[derive(Debug, Clone)]
pub(crate) struct OwnPeer {
    /// The key of its record.
    pub identity: Arc<str>,
    /// Its priority.
    pub priority: i64,
    /// How many seconds its record is valid. A record that is not valid at all is removed.
    pub lifetime: i64,
    /// How long it may take until another replica leads and continues the record; `None` without replicas.
    pub election: Option<Duration>,
}

impl OwnPeer {
    /// Returns what decisions need of it.
    pub(crate) fn own(&self) -> Own<'_> {
        Own { identity: &self.identity, priority: self.priority }
    }

    /// Returns how long the record that it leaves behind is valid, in seconds.
    pub(crate) fn last_lifetime(&self) -> i64 {
        let Some(election) = self.election else { return 0 };
        i64::try_from(election.as_secs()).unwrap_or(i64::MAX).min(self.lifetime)
    }

    /// Returns how long a keep-alive is enough: if there are replicas, until the next one leads after the loss of this
    /// one.
    pub(crate) fn keep_alive_lifetime(&self) -> Duration {
        Duration::from_secs(u64::try_from(self.lifetime).unwrap_or_default())
            .saturating_sub(self.election.unwrap_or_default())
    }
}

/// A peering object, which may not exist.
pub(crate) struct PeeringObject {
    /// The connection to the cluster.
    pub client: Client,
    /// The peering resource.
    pub resource: Arc<Resource>,
    /// The namespace; `None` for a cluster-wide peering.
    pub namespace: Option<String>,
    /// The name of the object.
    pub name: String,
    /// This operator.
    pub peer: OwnPeer,
    /// Whether successful keep-alives are not logged.
    pub is_stealthy: bool,
    /// The clock.
    pub clock: Clock,
}

impl PeeringObject {
    /// Returns the words for the object in messages.
    pub(crate) fn title(&self) -> String {
        let group =
            if self.resource.group == GROUPS[0] { String::new() } else { format!(" of {}", self.resource.group) };
        match &self.namespace {
            Some(namespace) => format!("the peering '{}'{group} in '{namespace}'", self.name),
            None => format!("the peering '{}'{group}", self.name),
        }
    }

    /// Writes the own record. Returns whether the object exists.
    ///
    /// # Errors
    /// If the request fails.
    pub(crate) async fn touch(&self) -> Result<bool, Error> {
        self.write(self.peer.lifetime).await
    }

    /// Removes the own record, or leaves it to the replica that leads next. Returns whether the object exists.
    ///
    /// # Errors
    /// If the request fails.
    pub(crate) async fn leave(&self) -> Result<bool, Error> {
        self.write(self.peer.last_lifetime()).await
    }

    async fn write(&self, lifetime: i64) -> Result<bool, Error> {
        let OwnPeer { identity, priority, .. } = &self.peer;
        let is_found = self.patch(peering::keep_alive(identity, *priority, lifetime, self.clock.now())).await?;
        if !(is_found && self.is_stealthy) {
            log(&keep_alive_message(&self.name, self.namespace.as_deref(), is_found));
        }
        Ok(is_found)
    }

    /// Removes the records of peers.
    ///
    /// # Errors
    /// If the request fails.
    pub(crate) async fn remove(&self, identities: &[String]) -> Result<(), Error> {
        self.patch(peering::removal(identities)).await.map(drop)
    }

    async fn patch(&self, merge: Map<String, Value>) -> Result<bool, Error> {
        let body = Body::from(json!({"metadata": {"name": self.name, "namespace": self.namespace}}));
        let applied =
            apply::apply(&self.client, &self.resource, &body, &Patch { merge, ..Patch::default() }, &Unconfirmed)
                .await?;
        Ok(!applied.is_gone)
    }
}

/// Logs a message about peers.
pub(super) fn log(message: &Message) {
    match message.level {
        Level::Debug | Level::Step => tracing::debug!(target: "kopfd::peering", "{message}"),
        Level::Info => tracing::info!(target: "kopfd::peering", "{message}"),
        Level::Warning => tracing::warn!(target: "kopfd::peering", "{message}"),
        Level::Error => tracing::error!(target: "kopfd::peering", "{message}"),
    }
}
