//! The ground on which a new revision of an operator is prepared.

use crate::cluster::Client;
use crate::kit::Stop;
use crate::telemetry::OperatorMetrics;

use super::super::live_effects::LiveEffects;
use super::super::observer::Reviser;
use super::error::ReloadError;

/// The ground on which a new revision of an operator is prepared.
pub(crate) struct Preparation<'a> {
    /// The running revision.
    pub reviser: &'a Reviser<LiveEffects>,
    /// The connection to the cluster.
    pub client: &'a Client,
    /// The metrics of the operator.
    pub metrics: &'a OperatorMetrics,
    /// Requested when the operator ends.
    pub stop: &'a Stop,
    /// Requested when a newer revision is asked for.
    pub outdated: &'a Stop,
}

impl Preparation<'_> {
    /// Waits until the revision is not needed.
    pub(super) async fn interrupted(&self) -> ReloadError {
        tokio::select! {
            biased;
            () = self.stop.requested() => ReloadError::Ended,
            () = self.outdated.requested() => ReloadError::Outdated,
        }
    }
}
