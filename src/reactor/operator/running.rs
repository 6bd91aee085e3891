//! A watching operator, which takes over new revisions: at once, or after a trial on a share of its objects.

use std::sync::Arc;

use jiff::Timestamp;
use tracing::{error, info, warn};

use super::super::activity::ActivityMonitor;
use super::super::change_log::ChangeLog;
use super::super::live_effects::LiveEffects;
use super::super::observer::Reviser;
use super::super::precedence::Precedence;
use super::super::reload::{self, Loaded, Preparation, Prepared, ReloadError, Reloaded, Revising};
use super::super::revision::Revision;
use super::super::status::{Functions, LiveStatus, shown};
use super::super::trial::{Trial, TrialEnd};
use super::declared::{connection, measure_indexes};
use super::process::ExitTimeouts;
use crate::cluster::Client;
use crate::engines::activities::Activities;
use crate::engines::admission::reviewer::{ReviewRevision, Reviewer};
use crate::engines::background::BackgroundOptions;
use crate::engines::deployment;
use crate::engines::effects::Scripts;
use crate::engines::health::Health;
use crate::engines::hooks::{Answerer, HookRevision};
use crate::engines::peering::Overrides;
use crate::engines::posting::Poster;
use crate::engines::schedules::{ScheduleContext, Schedules};
use crate::engines::status::RolledBack;
use crate::handling::Level;
use crate::handling::trial::{Fault, TrialVerdict};
use crate::kit::Stop;
use crate::manifest::canary::Canary;
use crate::manifest::operator::Moment;
use crate::manifest::{Operator, Settings};
use crate::telemetry::{Metrics, OperatorMetrics};

/// An operator that watches, and can be reloaded.
pub(super) struct RunningOperator {
    pub(super) status: Arc<LiveStatus<LiveEffects>>,
    pub(super) reviewer: Arc<Reviewer>,
    pub(super) answerer: Arc<Answerer>,
    /// Whether anything listens for hooks.
    pub(super) has_hook_listener: bool,
    /// Whether webhooks need a server of the settings.
    pub(super) needs_server: bool,
    /// The settings of the revision in service.
    pub(super) settings: Settings,
    pub(super) trial: Option<Trial>,
    /// The digest of the revision that was rolled back: it is not tried again while the files are the same.
    pub(super) refused: Option<Arc<str>>,
    pub(super) has_trials: bool,
    pub(super) pod: Option<String>,
    /// The options of peering, and whether the operator serves all namespaces.
    pub(super) peering: (Overrides, bool),
    pub(super) health: Health,
    pub(super) loaded: Loaded,
    pub(super) reviser: Reviser<LiveEffects>,
    pub(super) client: Client,
    pub(super) activities: Arc<Activities>,
    pub(super) schedules: Schedules,
    pub(super) schedule_context: ScheduleContext,
    pub(super) poster: Poster,
    pub(super) log: Option<Arc<ChangeLog>>,
    pub(super) metrics: OperatorMetrics,
    pub(super) process_metrics: Metrics,
    pub(super) monitor: Option<Arc<ActivityMonitor>>,
    pub(super) exit_timeouts: ExitTimeouts,
    pub(super) stop: Stop,
}

impl Revising for RunningOperator {
    async fn reload(
        &mut self,
        operator: Operator,
        earlier: Precedence,
        outdated: &Stop,
    ) -> Result<Reloaded, ReloadError> {
        // Boxed, because an operator has no place for the state of a rare event.
        let reloaded = Box::pin(self.replace(operator, earlier, outdated)).await;
        reloaded.inspect_err(|failure| {
            if !matches!(failure, ReloadError::Outdated | ReloadError::Ended) {
                self.metrics.load_failed();
            }
        })
    }

    async fn due(&self) {
        match &self.trial {
            Some(trial) => trial.due().await,
            None => std::future::pending().await,
        }
    }

    async fn act(&mut self) {
        match self.trial.as_mut().map(Trial::decide) {
            None | Some(TrialVerdict::Continue) => {}
            // Boxed, because an operator has no place for the state of a rare event.
            Some(TrialVerdict::Promote) => Box::pin(self.promote()).await,
            Some(TrialVerdict::RollBack(fault)) => self.roll_back(fault).await,
        }
    }
}

impl RunningOperator {
    async fn replace(
        &mut self,
        mut operator: Operator,
        earlier: Precedence,
        outdated: &Stop,
    ) -> Result<Reloaded, ReloadError> {
        let (overrides, is_clusterwide) = &self.peering;
        overrides.apply(&mut operator.settings.peering, *is_clusterwide);
        let program = operator.program().map_err(ReloadError::Scripts)?;
        let program = program.after(self.reviser.newest().effects.scripts().installed.program());
        let revision = operator.revision(&program);
        if revision == self.loaded.revision {
            self.metrics.loaded(&revision, self.now());
            self.withdraw().await;
            return Ok(Reloaded::Unchanged);
        }
        let is_on_trial = self.trial.as_ref().is_some_and(|trial| **trial.revision() == *revision);
        if is_on_trial || self.refused.as_deref() == Some(&*revision) {
            return Ok(Reloaded::Unchanged);
        }
        let (reviser, client, metrics, stop) = (&self.reviser, &self.client, &self.metrics, &self.stop);
        let preparation = Preparation { reviser, client, metrics, stop, outdated };
        let prepared = preparation.prepare(operator, earlier, program, &mut self.loaded).await?;
        if let Some(trial) = self.trial.take() {
            self.report_end(&trial.give_up(), &TrialEnd::Replaced);
        }
        self.forget_rollback();
        if let Some(canary) = prepared.settings.reload.canary.filter(|_| self.has_trials) {
            self.try_out(prepared, canary).await;
            return Ok(Reloaded::OnTrial(revision));
        }
        self.take_effect(prepared).await;
        Ok(Reloaded::Changed(revision))
    }

    fn now(&self) -> Timestamp {
        self.schedule_context.clock.now()
    }

    /// Lets a revision serve a share of the objects. The settings, the kinds and what belongs to the operator itself
    /// stay as they are.
    async fn try_out(&mut self, prepared: Prepared, canary: Canary) {
        let running = self.reviser.newest();
        let revision = prepared.revision.with_settings_of(&running);
        let options = self.background_options(&prepared, &self.settings);
        let trial = Trial::begin(prepared, canary, &running);
        if let Some(background) = revision.effects.background() {
            background.try_out(revision.number, Arc::downgrade(&revision.effects), options, trial.scope());
        }
        self.metrics.loaded(&self.loaded.revision, self.now());
        self.metrics.trial_began(trial.revision());
        self.note_trial(Some(trial.description()));
        *self.status.trial.lock() = Some(trial.view(self.now()));
        let name = &trial.prepared.operator.name;
        info!(target: "kopfd::reload", revision = &**trial.revision(), before = self.loaded.revision, "Operator '{name}' is reloaded: {}.", trial.description());
        self.reviser.try_out(revision, trial.share()).await;
        self.trial = Some(trial);
    }

    /// Lets the revision on trial take effect for all objects.
    async fn promote(&mut self) {
        let Some(trial) = self.trial.take() else { return };
        let prepared = trial.end();
        let message = format!("Revision {} was tried, and takes effect for all objects.", prepared.revision.digest);
        self.report_end(&prepared, &TrialEnd::Promoted);
        self.take_effect(prepared).await;
        self.report_to_deployment(Level::Info, "RevisionPromoted", &message).await;
    }

    /// Lets the revision before serve all objects again.
    async fn roll_back(&mut self, fault: Fault) {
        let Some(trial) = self.trial.take() else { return };
        let prepared = trial.give_up();
        self.leave_trial().await;
        let (revision, before, reason) =
            (Arc::clone(&prepared.revision.digest), self.loaded.revision.clone(), fault.text.clone());
        self.report_end(&prepared, &TrialEnd::RolledBack(fault));
        let name = &prepared.operator.name;
        let message = format!("Revision {revision} is rolled back to {before}: {reason}.");
        error!(target: "kopfd::reload", revision = &*revision, before, "Operator '{name}': {message} It is not tried again until the files change.");
        self.note_trial(Some(format!(
            "revision {revision} of operator '{name}' was rolled back to {before}: {reason}"
        )));
        *self.status.rolled_back.lock() =
            Some(RolledBack { revision: revision.to_string(), at: shown(self.now()), reason });
        self.refused = Some(revision);
        self.report_to_deployment(Level::Error, "RevisionRolledBack", &message).await;
    }

    /// Ends the trial, if there is one, since the files are those of the revision in service again.
    async fn withdraw(&mut self) {
        self.forget_rollback();
        let Some(trial) = self.trial.take() else { return };
        let prepared = trial.give_up();
        self.leave_trial().await;
        self.report_end(&prepared, &TrialEnd::Withdrawn);
        let (name, revision, before) = (&prepared.operator.name, &*prepared.revision.digest, &self.loaded.revision);
        info!(target: "kopfd::reload", revision, before, "Operator '{name}': the trial of revision {revision} has ended, since the files are those of {before} again.");
    }

    /// Lets the revision in service follow all objects: first the tasks of objects, then all events.
    async fn leave_trial(&self) {
        let running = self.reviser.newest();
        if let Some(background) = running.effects.background() {
            background.withdraw();
        }
        self.reviser.withdraw().await;
    }

    fn report_end(&self, prepared: &Prepared, end: &TrialEnd) {
        self.metrics.trial_ended(&prepared.revision.digest, end.outcome());
        self.note_trial(None);
        *self.status.trial.lock() = None;
    }

    /// Leaves nothing of a trial or a rollback to be shown, since the operator ends.
    pub(super) fn end_trial(&mut self) {
        self.forget_rollback();
        if let Some(trial) = self.trial.take() {
            self.report_end(&trial.give_up(), &TrialEnd::Withdrawn);
        }
    }

    fn forget_rollback(&mut self) {
        if self.refused.take().is_some() {
            self.note_trial(None);
            *self.status.rolled_back.lock() = None;
        }
    }

    fn note_trial(&self, note: Option<String>) {
        self.health.note(&format!("trial of {}", self.status.name), note);
    }

    async fn report_to_deployment(&self, level: Level, reason: &str, message: &str) {
        if let Some(pod) = &self.pod {
            let message = format!("Operator '{}': {message}", self.status.name);
            deployment::report(&self.client, pod, &self.poster, level, reason, &message).await;
        }
    }

    fn background_options(&self, prepared: &Prepared, settings: &Settings) -> BackgroundOptions {
        let Operator { timers, daemons, .. } = &prepared.operator;
        let options = BackgroundOptions::of(timers, daemons, &prepared.program, settings, &self.metrics);
        BackgroundOptions { revision: Arc::clone(&prepared.revision.digest), ..options }
    }

    /// Lets everything follow a revision: first the tasks of objects, then all events, and then what belongs to the
    /// operator itself.
    async fn take_effect(&mut self, prepared: Prepared) {
        let before = prepared.take_place_in(&mut self.loaded);
        let options = self.background_options(&prepared, &prepared.settings);
        let now = self.now();
        let Prepared { operator, revision, settings, filled, earlier, .. } = prepared;
        let (operator, revision) = (&operator, Revision { since: now, ..revision });
        let digest = Arc::clone(&revision.digest);
        let effects = Arc::clone(&revision.effects);
        if let Some(background) = effects.background() {
            background.revise(revision.number, Arc::downgrade(&effects), options);
        }
        *self.status.functions.lock() = Functions::of(operator);
        self.configure(operator, &settings);
        let indexes = effects.scripts().installed.indexes();
        measure_indexes(&self.process_metrics, &self.metrics, indexes);
        if let Some(monitor) = &self.monitor {
            monitor.indexes_installed(&operator.name, indexes);
        }
        effects.follow_alone();
        let scripts = Arc::clone(effects.scripts()) as Arc<dyn Scripts>;
        reload::warn_of_login(operator, self.activities.has(Moment::Login));
        self.activities.revise(Arc::clone(&scripts), operator.activities.clone(), &settings);
        let (webhooks, conversions) = (operator.webhooks.clone(), operator.conversions.clone());
        self.reviewer.revise(ReviewRevision { scripts: Arc::clone(&scripts), webhooks, conversions });
        self.answerer.revise(HookRevision::new(Arc::clone(&scripts), operator.hooks.clone()));
        self.reviser.replace(revision, earlier, filled).await;
        self.schedule_context.scripts = scripts;
        self.schedule_context.settings = self.activities.settings();
        self.schedule_context.default_backoff = settings.execution.default_backoff;
        self.schedule_context.error_delays = settings.queueing.error_delays.clone().into();
        self.schedules.revise(operator.schedules.clone(), &self.schedule_context);
        self.settings = settings;
        reload::report(&operator.name, &before, &digest, &self.metrics, &self.schedule_context.clock);
    }

    fn configure(&mut self, operator: &Operator, settings: &Settings) {
        self.loaded.warn_of_fixed_settings(&operator.name, settings);
        let is_reviewing = !operator.webhooks.is_empty() || !operator.conversions.is_empty();
        if self.needs_server && is_reviewing && self.settings.admission.server.is_none() {
            warn!(target: "kopfd::reload", "The webhooks of operator '{}' have no server. Restart it to start one.", operator.name);
        }
        if !operator.hooks.is_empty() && !self.has_hook_listener {
            let name = &operator.name;
            warn!(target: "kopfd::reload", "Nothing listens for the hooks of operator '{name}'. Restart it with `settings.hooks.server` or --liveness.");
        }
        self.exit_timeouts.set(&operator.name, settings.process.ultimate_exiting_timeout);
        self.client.configure(connection(settings));
        self.reviser.newest().effects.scripts().host.set_memory(settings.scripts.memory);
        self.poster.configure(settings.posting.clone());
        if let Some(log) = &self.log {
            log.set_prefix(settings.persistence.storages.prefix());
        }
    }
}
