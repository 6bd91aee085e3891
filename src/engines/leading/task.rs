//! The task of the election: it awaits the Lease, renews it, and gives it away at the end.

use std::sync::Arc;
use std::time::Duration;

use tracing::{debug, error, info, warn};

use super::lead::Lead;
use super::store::{LeaseStore, Stored};
use super::view::{LeadingView, Role, Seen};
use super::{LeadingOptions, Led};
use crate::cluster::{Client, Error};
use crate::handling::leading::{Candidate, LeaseRecord, Step, Timing};
use crate::kit::{Clock, Stop, Tasks};
use crate::telemetry::OperatorMetrics;

/// Time limit of the last request, which gives the Lease away.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(2);

/// The interval of warnings while work of an ended term still runs.
const WARNING_INTERVAL: Duration = Duration::from_secs(30);

/// The dependencies of an election that its operator provides.
pub struct Campaign {
    /// The operator's name.
    pub operator: String,
    /// The client, without a fence.
    pub client: Client,
    /// The clock.
    pub clock: Clock,
    /// Receives whether this replica leads.
    pub lead: Lead,
    /// Work that begins and ends with the leadership.
    pub led: Arc<dyn Led>,
    /// The metrics of the operator.
    pub metrics: OperatorMetrics,
    /// Receives the observed state of the election.
    pub view: LeadingView,
}

/// The running election of one operator.
pub struct Election {
    stop: Stop,
    tasks: Tasks<()>,
}

impl Election {
    /// Starts to apply for the Lease. The client has logged in.
    pub fn start(options: &LeadingOptions, campaign: Campaign) -> Self {
        let (name, namespace) = (options.lease_name(&campaign.operator), options.lease_namespace(&campaign.client));
        let task = Task {
            store: LeaseStore::new(&campaign.client, namespace, name),
            candidate: Candidate::new(&options.identity, options.timing),
            stored: None,
            campaign,
            announced: None,
            is_failing: false,
        };
        let stop = Stop::new();
        let mut tasks = Tasks::default();
        tasks.spawn("election", task.run(stop.clone()));
        Self { stop, tasks }
    }

    /// Gives the Lease away, if this replica holds it. The handling must have ended.
    pub async fn end(mut self) {
        self.stop.request("the operator ends");
        self.tasks.finish(RELEASE_TIMEOUT + Duration::from_secs(1)).await;
    }
}

struct Task {
    campaign: Campaign,
    store: LeaseStore,
    candidate: Candidate,
    /// The Lease as it was read or written last.
    stored: Option<Stored>,
    /// The holder that was logged last.
    announced: Option<String>,
    /// Whether the last request has failed, which was logged.
    is_failing: bool,
}

/// The reason why a term has ended.
enum End {
    /// The operator stops.
    Stopped,
    /// For a reason.
    Lost(String),
}

impl Task {
    async fn run(mut self, stop: Stop) {
        self.publish(Role::Standby);
        self.campaign.metrics.leading(false);
        loop {
            let renewed = tokio::select! {
                biased;
                () = stop.requested() => return,
                renewed = self.stand_by() => renewed,
            };
            // A replica that stops meanwhile gives the Lease away at once.
            tokio::select! {
                biased;
                () = stop.requested() => {}
                () = self.campaign.led.announce() => {}
            }
            self.begin(renewed);
            let end = self.lead(renewed, &stop).await;
            self.end(&end);
            match end {
                End::Stopped => return self.release().await,
                End::Lost(_) => self.quiesce().await,
            }
        }
    }

    /// Waits until this replica has got the Lease. Returns when the successful request was begun.
    async fn stand_by(&mut self) -> Duration {
        let retry = self.candidate.timing().retry_period;
        loop {
            let Some(stored) = self.look().await else {
                tokio::time::sleep(retry).await;
                continue;
            };
            let began = self.now();
            self.candidate.observe(stored.as_ref().map(|stored| stored.record.clone()), began);
            self.stored = stored;
            self.publish(Role::Standby);
            let pause = match self.candidate.decide(began) {
                Step::Wait(left) => {
                    self.announce();
                    left.min(retry)
                }
                Step::Create | Step::Take => match self.write().await {
                    Ok(()) if self.now() < began + self.candidate.timing().renew_deadline => return began,
                    Ok(()) => Duration::ZERO,
                    // Another replica was faster.
                    Err(error) if error.status() == Some(409) => Duration::ZERO,
                    Err(error) => {
                        self.complain("take", &error);
                        retry
                    }
                },
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.store.changed(self.stored.as_ref()) => {}
            }
        }
    }

    /// Reads the Lease; returns `None` after a failure.
    async fn look(&mut self) -> Option<Option<Stored>> {
        match self.store.get(self.request_limit()).await {
            Ok(stored) => {
                self.is_failing = false;
                Some(stored)
            }
            Err(error) => {
                self.complain("read", &error);
                None
            }
        }
    }

    /// Creates or replaces the Lease, so that this replica holds it.
    async fn write(&mut self) -> Result<(), Error> {
        let record = self.candidate.claim(self.campaign.clock.now());
        let stored = self.put(&record, self.request_limit()).await?;
        self.candidate.observe(Some(stored.record.clone()), self.now());
        self.stored = Some(stored);
        self.is_failing = false;
        Ok(())
    }

    async fn put(&self, record: &LeaseRecord, limit: Duration) -> Result<Stored, Error> {
        match &self.stored {
            None => self.store.create(record, limit).await,
            Some(stored) => self.store.replace(stored, record, limit).await,
        }
    }

    fn begin(&mut self, renewed: Duration) {
        // First the parts that the events of the term need.
        self.campaign.led.begin();
        self.campaign.lead.begin(renewed + self.candidate.timing().renew_deadline);
        self.announced = None;
        self.publish(Role::Leader);
        self.campaign.metrics.leading(true);
        self.campaign.metrics.leadership("gained");
        let (operator, identity, lease) = (&self.campaign.operator, self.candidate.identity(), self.lease());
        info!(target: "kopfd::leading", "Operator '{operator}' leads: this replica, {identity}, has got the lease {lease}.");
    }

    /// Renews the Lease until that has not succeeded for the renew deadline, or another replica holds it.
    async fn lead(&mut self, mut renewed: Duration, stop: &Stop) -> End {
        let timing = self.candidate.timing();
        let mut next = renewed + timing.retry_period;
        let mut failure: Option<String> = None;
        loop {
            let over = renewed + timing.renew_deadline;
            tokio::select! {
                biased;
                () = stop.requested() => return End::Stopped,
                () = tokio::time::sleep(next.min(over).saturating_sub(self.now())) => {}
            }
            let began = self.now();
            // The process may have been stopped for a long time.
            if began >= over {
                let because = failure.map(|failure| format!(": {failure}")).unwrap_or_default();
                return End::Lost(format!(
                    "the lease {} was not renewed for {} seconds{because}",
                    self.lease(),
                    timing.renew_deadline.as_secs_f64()
                ));
            }
            next = began + timing.retry_period;
            match tokio::time::timeout(over.saturating_sub(began), self.renew()).await {
                Ok(Ok(true)) => {
                    if self.campaign.lead.extend(began + timing.renew_deadline) {
                        (renewed, failure) = (began, None);
                    }
                }
                // Another client has changed other fields of the Lease, or deleted it.
                Ok(Ok(false)) => next = began,
                Ok(Err(_)) if self.candidate.is_held_by_another() => {
                    return End::Lost(format!(
                        "{} holds the lease {}",
                        self.candidate.holder().unwrap_or_default(),
                        self.lease()
                    ));
                }
                Ok(Err(error)) => {
                    self.complain("renew", &error);
                    failure = Some(error.chain());
                }
                Err(_) => failure = Some("the API server does not answer".to_owned()),
            }
        }
    }

    /// Renews the Lease. Returns false if it has to be tried again at once, since the Lease was not as expected.
    async fn renew(&mut self) -> Result<bool, Error> {
        match self.write().await {
            Ok(()) => Ok(true),
            Err(error) if !matches!(error.status(), Some(404 | 409)) => Err(error),
            Err(error) => {
                let before = self.stored.take();
                let stored = self.store.get(self.request_limit()).await.inspect_err(|_| self.stored = before)?;
                self.candidate.observe(stored.as_ref().map(|stored| stored.record.clone()), self.now());
                self.stored = stored;
                if self.candidate.is_held_by_another() { Err(error) } else { Ok(false) }
            }
        }
    }

    fn end(&mut self, end: &End) {
        self.campaign.lead.end();
        self.campaign.metrics.leading(false);
        self.publish(Role::Standby);
        if let End::Lost(reason) = end {
            self.campaign.metrics.leadership("lost");
            let operator = &self.campaign.operator;
            error!(target: "kopfd::leading", "Operator '{operator}' does not lead any more and stands by: {reason}.");
        }
    }

    /// Waits until everything of the term has ended: nothing of it may mix with the next one.
    async fn quiesce(&self) {
        let ended = async {
            self.campaign.led.end().await;
            self.campaign.lead.idle().await;
        };
        let mut ended = std::pin::pin!(ended);
        while tokio::time::timeout(WARNING_INTERVAL, &mut ended).await.is_err() {
            warn!(target: "kopfd::leading", "Operator '{}' does not apply for the lease before all of its calls have ended.", self.campaign.operator);
        }
    }

    /// Gives the Lease away, so that another replica need not wait for it to run out.
    async fn release(&mut self) {
        let record = self.candidate.release(self.campaign.clock.now());
        let (operator, lease) = (self.campaign.operator.clone(), self.lease());
        let Timing { lease_duration, renew_deadline, .. } = self.candidate.timing();
        if self.campaign.lead.has_unanswered(lease_duration.saturating_sub(renew_deadline)) {
            warn!(
                target: "kopfd::leading",
                "Operator '{operator}' lets the lease {lease} run out by itself, since a request without an answer may still reach the API server."
            );
            return;
        }
        match self.put(&record, RELEASE_TIMEOUT).await {
            Ok(_) => {
                self.campaign.metrics.leadership("released");
                info!(target: "kopfd::leading", "Operator '{operator}' has released the lease {lease}.");
            }
            Err(error) => {
                let error = error.chain();
                warn!(target: "kopfd::leading", "Operator '{operator}' cannot release the lease {lease}, which runs out by itself: {error}");
            }
        }
    }

    /// Logs once which replica leads.
    fn announce(&mut self) {
        let Some(holder) = self.candidate.holder().map(str::to_owned) else { return };
        if self.announced.as_ref() != Some(&holder) {
            let (operator, identity, lease) = (&self.campaign.operator, self.candidate.identity(), self.lease());
            info!(target: "kopfd::leading", "Operator '{operator}' stands by as {identity}: {holder} holds the lease {lease}.");
            self.announced = Some(holder);
        }
    }

    /// Logs a failure once, and its repetitions only at the level `debug`.
    fn complain(&mut self, verb: &str, failure: &Error) {
        let (operator, lease, text) = (&self.campaign.operator, self.lease(), failure.chain());
        if std::mem::replace(&mut self.is_failing, true) {
            debug!(target: "kopfd::leading", "Operator '{operator}' still fails to {verb} the lease {lease}: {text}");
        } else {
            let seconds = self.candidate.timing().retry_period.as_secs_f64();
            warn!(target: "kopfd::leading", "Operator '{operator}' fails to {verb} the lease {lease}, and tries again every {seconds} seconds: {text}");
        }
    }

    fn publish(&self, role: Role) {
        let record = self.candidate.record();
        self.campaign.view.set(Seen {
            lease: self.lease(),
            identity: self.candidate.identity().to_owned(),
            role,
            holder: self.candidate.holder().map(str::to_owned),
            transitions: record.map(|record| record.transitions).unwrap_or_default(),
        });
    }

    fn lease(&self) -> String {
        format!("{}/{}", self.store.namespace(), self.store.name())
    }

    /// Time limit of one request: there must be time for another one, as in client-go.
    fn request_limit(&self) -> Duration {
        self.candidate.timing().renew_deadline / 2
    }

    fn now(&self) -> Duration {
        self.campaign.clock.uptime()
    }
}
