//! The waits until nothing is pending.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use crate::apiserver::admin_client;

use super::super::compare::FOREIGN_ANNOTATION;
use super::super::operator_run;
use super::super::timeline::Subject;
use super::Environment;

/// How often to check for pending work when no notification arrives.
pub(super) const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The smallest step of the clock. Virtual time advances by it only after every task has become idle.
pub(super) const TICK: Duration = Duration::from_millis(1);

/// How often an object with a failed cycle is written to trigger another one.
const MAX_TOUCHES: usize = 10;

impl Environment {
    /// Waits until nothing is pending, up to a time limit.
    ///
    /// # Errors
    /// The work still pending after the limit.
    pub(crate) async fn settle(&self, within: Duration) -> Result<(), String> {
        let deadline = Instant::now() + within;
        loop {
            let Some(pending) = self.pending().await? else {
                tokio::time::sleep(TICK).await;
                if self.pending().await?.is_none() {
                    self.invariants.settled();
                    return Ok(());
                }
                continue;
            };
            if Instant::now() >= deadline {
                return Err(pending);
            }
            self.wait_for_change(deadline.min(Instant::now() + POLL_INTERVAL)).await;
        }
    }

    /// Settles, then writes the objects whose last cycle failed, and repeats: such an object is processed again only at
    /// its next event.
    ///
    /// # Errors
    /// The work still pending after the limit.
    pub(crate) async fn settle_all(&self, within: Duration) -> Result<(), String> {
        let deadline = Instant::now() + within;
        let mut attempts = 0;
        loop {
            self.settle(deadline.saturating_duration_since(Instant::now())).await?;
            let failed = self.invariants.failed_objects();
            if failed.is_empty() || attempts >= MAX_TOUCHES {
                return Ok(());
            }
            for subject in &failed {
                self.touch(subject).await;
            }
            attempts += 1;
        }
    }

    /// Writes an object as another client would, without changing fields that operators read.
    async fn touch(&self, subject: &Subject) {
        let Subject { group, kind, namespace, name } = subject;
        let registry = self.api.registry();
        let served = registry
            .all()
            .find(|served| served.kind.group == *group && served.kind.kind == *kind)
            .map(|served| served.full_name());
        let namespace = Some(namespace.as_str()).filter(|namespace| !namespace.is_empty());
        let Some(Ok(found)) = served.map(|resource| admin_client::find(&self.api, &resource, name, namespace)) else {
            return;
        };
        self.record(format!("another client writes {subject}, whose last cycle failed"));
        let patch = json!({"metadata": {"annotations": {FOREIGN_ANNOTATION: self.api.revision().to_string()}}});
        // An object that is being deleted at this moment needs no event.
        let _ = admin_client::patch(&self.api, &found, None, "application/merge-patch+json", &patch).await;
    }

    /// Describes the pending work, or `None` if there is none.
    async fn pending(&self) -> Result<Option<String>, String> {
        let mut current = self.run.lock().await;
        let Some(run) = current.as_mut() else {
            let has_failed = self.exit.lock().as_ref().is_some_and(|exit| exit.code != 0);
            return Ok((!has_failed).then(|| "the operator is stopped".to_owned()));
        };
        if let Some(exit) = run.exit().await {
            return self.handle_exit(exit, &mut current).await.map(|()| Some("the operator has exited".to_owned()));
        }
        if !run.is_ready() {
            return Ok(Some("the operator has not listed everything yet".to_owned()));
        }
        if !run.is_quiet() {
            return Ok(Some(run.pending()));
        }
        if !self.api.is_settled() {
            return Ok(Some("the controllers of the server are still working".to_owned()));
        }
        Ok(run.transport.pending())
    }

    async fn wait_for_change(&self, until: Instant) {
        let current = self.run.lock().await;
        let sources = current.as_ref().map(|run| (run.monitors.clone(), run.transport.clone()));
        drop(current);
        let Some((monitors, transport)) = sources else { return tokio::time::sleep_until(until).await };
        tokio::select! {
            biased;
            () = operator_run::changed(&monitors) => {}
            () = transport.changed() => {}
            () = tokio::time::sleep_until(until) => {}
        }
    }
}
