//! The pause of an operator: its watches are closed, its timers and daemons are stopped, and its workers wait for
//! nothing. Queued events and running calls continue to their end.
//!
//! After the pause, the watches list their objects anew (`watching`): nothing is lost, since the state is on the
//! objects.

use std::sync::Arc;

use tracing::debug;

use super::revision::Revisions;
use crate::engines::effects::Effects;
use crate::engines::events::EngineEvent;
use crate::engines::health::Health;
use crate::engines::pause::Pause;
use crate::kit::Stop;
use crate::telemetry::OperatorMetrics;

/// Stops and restarts everything but the watches of one operator when it pauses or continues.
pub(super) struct Follower<W> {
    pub operator: Arc<str>,
    pub pause: Pause,
    pub revisions: Arc<Revisions<W>>,
    pub health: Health,
    pub metrics: OperatorMetrics,
}

impl<W: Effects> Follower<W> {
    /// Stops timers and daemons at each pause, allows them again after it, and reports both, until the stop is
    /// requested.
    pub(super) async fn run(self, stop: Stop) {
        tokio::select! {
            biased;
            () = stop.requested() => {}
            () = self.follow() => {}
        }
        self.note();
    }

    /// Returns the effects of the newest revision: timers and daemons, and the events of an operator, are the same for
    /// all revisions.
    fn effects(&self) -> Arc<W> {
        Arc::clone(&self.revisions.newest().effects)
    }

    async fn follow(&self) {
        let mut changes = self.pause.changes();
        self.metrics.paused(false);
        loop {
            self.pause.paused().await;
            self.begin();
            self.effects().pause_background();
            while self.pause.is_paused() {
                self.tell();
                changes.changed().await;
            }
            self.end();
        }
    }

    fn begin(&self) {
        let causes = self.pause.causes();
        self.metrics.paused(true);
        self.effects().events().emit(&EngineEvent::OperatorPaused { causes: &causes });
    }

    fn end(&self) {
        self.effects().resume_background();
        self.metrics.paused(false);
        self.note();
        debug!(target: "kopfd::reactor", operator = &*self.operator, "The operator is not paused any more.");
        self.effects().events().emit(&EngineEvent::OperatorResumed);
    }

    fn tell(&self) {
        let causes = self.pause.causes().join(", ");
        debug!(target: "kopfd::reactor", operator = &*self.operator, causes, "The operator is paused.");
        self.note();
    }

    fn note(&self) {
        let causes = self.pause.causes().join(", ");
        let note = self.pause.is_standing_by().then(|| format!("operator '{}' is paused ({causes})", self.operator));
        self.health.note(&format!("pause of {}", self.operator), note);
    }
}
