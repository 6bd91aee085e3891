//! The election of the replica that handles: one task renews or awaits the Lease of the operator, and [`Lead`] has the
//! result for everything else.
//!
//! `handling::leading` decides, `persistence::lease` has the stored form. Every replica is connected, watches, and
//! fills its indexes; only the leader calls handlers.

mod lead;
mod store;
mod task;
mod view;

use std::time::Duration;

use futures::future::BoxFuture;

use crate::cluster::Client;
use crate::handling::leading::Timing;

pub use lead::{Duty, Lead, PERMANENT};
pub use store::LeaseStore;
pub use task::{Campaign, Election};
pub use view::{LeadingView, Role, Seen};

/// The options of the election among the replicas of an operator.
#[derive(Debug, Clone)]
pub struct LeadingOptions {
    /// The name of the Lease; by default that of the operator.
    pub lease: Option<String>,
    /// The namespace of the Lease; by default that of the credentials.
    pub namespace: Option<String>,
    /// The identity of this replica.
    pub identity: String,
    /// The name of all replicas of the process, which are one peer among other operators.
    pub peer: String,
    /// The times.
    pub timing: Timing,
}

impl LeadingOptions {
    /// Returns the name of the Lease of an operator.
    pub fn lease_name(&self, operator: &str) -> String {
        self.lease.clone().unwrap_or_else(|| operator.to_owned())
    }

    /// Returns the namespace of the Lease. The client has logged in.
    pub fn lease_namespace(&self, client: &Client) -> String {
        self.namespace.clone().unwrap_or_else(|| client.default_namespace())
    }
}

/// Work that begins and ends with the leadership, besides the handling of events.
pub trait Led: Send + Sync {
    /// This replica has got the Lease: announces it to the peers, before it leads.
    fn announce(&self) -> BoxFuture<'_, ()>;

    /// This replica is about to lead.
    fn begin(&self);

    /// The leadership has ended: ends everything at once, and waits for that.
    fn end(&self) -> BoxFuture<'_, ()>;
}

/// How long everything that is being handled may continue when the leader exits: another replica takes over within a
/// second.
pub const HANDOVER_TIMEOUT: Duration = Duration::from_millis(400);
