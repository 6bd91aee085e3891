//! A revision on trial: it serves a share of the objects, until it takes effect for all of them or is rolled back.
//!
//! `handling::trial` decides; `operator` lets the decision take effect.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use crate::engines::status::TrialStatus;
use crate::engines::tally::Tally;
use crate::handling::Moment;
use crate::handling::trial::{self, Fault, Share, TrialScope, TrialVerdict};
use crate::manifest::canary::Canary;

use super::live_effects::LiveEffects;
use super::reload::Prepared;
use super::revision::Revision;
use super::status::{TrialView, shown};

/// The pause between decisions.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// A running trial.
pub(super) struct Trial {
    /// The revision on trial.
    pub prepared: Prepared,
    canary: Canary,
    began: Instant,
    /// The counts of the revision on trial, and of the one in service.
    tallies: [Arc<Tally>; 2],
    next_check: Instant,
}

impl Trial {
    /// Begins to count. The running revision is the one to compare with.
    pub(super) fn begin(prepared: Prepared, canary: Canary, running: &Revision<LiveEffects>) -> Self {
        let began = Instant::now();
        let tallies = [prepared.revision.effects.tally(), running.effects.tally()].map(Arc::clone);
        for tally in &tallies {
            tally.begin();
        }
        Self { prepared, canary, began, tallies, next_check: began + CHECK_INTERVAL }
    }

    /// Returns the digest of the revision.
    pub(super) fn revision(&self) -> &Arc<str> {
        &self.prepared.revision.digest
    }

    /// Returns the share of the objects.
    pub(super) fn share(&self) -> Share {
        Share::of_percent(self.canary.percent)
    }

    /// Returns the objects that the revision serves.
    pub(super) fn scope(&self) -> TrialScope {
        TrialScope::new(self.share(), self.prepared.revision.handlers.clone())
    }

    /// Describes the trial.
    pub(super) fn description(&self) -> String {
        let Canary { percent, time, .. } = self.canary;
        let operator = &self.prepared.operator.name;
        format!(
            "revision {} of operator '{operator}' is on trial for {percent} % of the objects, for {time:?}",
            self.revision()
        )
    }

    /// Returns the view of the trial for the status.
    pub(super) fn view(&self, now: Timestamp) -> TrialView {
        let status = TrialStatus {
            revision: self.revision().to_string(),
            percent: self.canary.percent,
            since: shown(now),
            until: shown(Moment::after(now, self.canary.time).at),
            ..TrialStatus::default()
        };
        TrialView { status, tallies: self.tallies.clone() }
    }

    /// Waits until the next decision is due.
    ///
    /// *Cancel safety*: the wait may be dropped and begun again.
    pub(super) async fn due(&self) {
        tokio::time::sleep_until(self.next_check).await;
    }

    /// Decides about the revision.
    pub(super) fn decide(&mut self) -> TrialVerdict {
        self.next_check = Instant::now() + CHECK_INTERVAL;
        let [new, old] = self.tallies.each_ref().map(|tally| tally.counts());
        trial::decide(&self.canary.rollback, self.began.elapsed() >= self.canary.time, &old, &new)
    }

    /// Ends the trial of a revision that does not take effect.
    pub(super) fn give_up(self) -> Prepared {
        self.prepared.revision.effects.stop_following();
        self.end()
    }

    /// Ends the counting.
    pub(super) fn end(self) -> Prepared {
        for tally in &self.tallies {
            tally.end();
        }
        self.prepared
    }
}

/// The reason why a trial has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TrialEnd {
    /// The revision has taken effect for all objects.
    Promoted,
    /// The files have changed to another revision.
    Replaced,
    /// The files are those of the revision in service again.
    Withdrawn,
    /// The revision is worse.
    RolledBack(Fault),
}

impl TrialEnd {
    /// Returns the label value for the metric.
    pub(super) fn outcome(&self) -> &'static str {
        match self {
            Self::Promoted => "promoted",
            Self::Replaced => "replaced",
            Self::Withdrawn => "withdrawn",
            Self::RolledBack(fault) => fault.figure.word(),
        }
    }
}
