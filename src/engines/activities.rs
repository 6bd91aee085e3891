//! Activities of an operator: startup, cleanup, logins and probes. The handlers of one run are called one after
//! another; their state is in memory.

pub(crate) mod login;
pub(crate) mod probes;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use serde_json::Value;

use crate::handling::{ActivityRun, FailedHandler, Handler, Message, Outcome, Record, attempt};
use crate::kit::{Clock, Stop};
use crate::manifest::operator::{Activity, Moment};
use crate::manifest::{Settings, settings_tree};
use crate::object::Patch;
use crate::script::interface::subject::Activity as Kind;
use crate::script::{Call, Subject};

use super::effects::Scripts;
use super::events::{EngineEvent, EventStream};

/// The activities of one operator.
pub struct Activities {
    /// The newest revision: each run reads it once.
    revision: RwLock<Arc<ActivityRevision>>,
    clock: Clock,
    /// The pause between attempts after arbitrary errors.
    default_backoff: Mutex<Duration>,
    events: EventStream,
    /// The settings as scripts see them.
    settings: RwLock<Arc<Value>>,
}

/// The scripts and the handlers of one revision.
struct ActivityRevision {
    scripts: Arc<dyn Scripts>,
    handlers: Vec<(Moment, Arc<Handler>)>,
}

impl ActivityRevision {
    fn new(scripts: Arc<dyn Scripts>, activities: Vec<Activity>) -> Arc<Self> {
        let handlers = activities.into_iter().map(|activity| (activity.moment, Arc::new(activity.handler))).collect();
        Arc::new(Self { scripts, handlers })
    }
}

/// The reason why a run of an activity has no results.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ActivityError {
    /// A handler has failed for good.
    #[error("{activity} '{}' has failed: {}", .failed.id, .failed.error)]
    Failed {
        /// The name of the activity for messages.
        activity: &'static str,
        /// The first failed handler.
        failed: FailedHandler,
    },
    /// It took too long.
    #[error("{activity} has not ended within {} seconds", .limit.as_secs_f64())]
    Timeout {
        /// The name of the activity for messages.
        activity: &'static str,
        /// The time limit.
        limit: Duration,
    },
    /// The operator stops.
    #[error("the operator stops")]
    Stopped,
}

/// A run of an activity: its end is reported, also if it is dropped.
struct Ending<'a> {
    events: &'a EventStream,
    activity: Moment,
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.events.emit(&EngineEvent::ActivityEnded { activity: self.activity });
    }
}

/// Whether failed attempts are repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attempts {
    /// As the error policies say.
    Repeated,
    /// Each handler is called once, and an unfinished one counts as failed.
    Single,
}

impl Activities {
    /// Returns the activities of an operator with its settings.
    pub fn new(
        scripts: Arc<dyn Scripts>,
        activities: Vec<Activity>,
        settings: &Settings,
        clock: Clock,
        events: EventStream,
    ) -> Self {
        Self {
            revision: RwLock::new(ActivityRevision::new(scripts, activities)),
            clock,
            default_backoff: Mutex::new(settings.execution.default_backoff),
            events,
            settings: RwLock::new(Arc::new(settings_tree::to_value(settings))),
        }
    }

    /// Tells whether handlers are declared for a moment.
    pub fn has(&self, moment: Moment) -> bool {
        self.revision.read().handlers.iter().any(|(own, _)| *own == moment)
    }

    /// Follows another revision of the operator: runs that begin from now on call its handlers. Startup handlers are
    /// not called again.
    pub fn revise(&self, scripts: Arc<dyn Scripts>, activities: Vec<Activity>, settings: &Settings) {
        *self.revision.write() = ActivityRevision::new(scripts, activities);
        *self.default_backoff.lock() = settings.execution.default_backoff;
        *self.settings.write() = Arc::new(settings_tree::to_value(settings));
    }

    /// Returns the settings as scripts see them.
    pub fn settings(&self) -> Arc<Value> {
        Arc::clone(&self.settings.read())
    }

    /// Runs the startup handlers. Returns the settings, which they may have changed.
    ///
    /// # Errors
    /// If a handler fails for good, or the stop is requested.
    pub async fn start_up(&self, settings: Settings, stop: &Stop) -> Result<Settings, ActivityError> {
        self.run(Moment::Startup, Attempts::Repeated, stop).await?;
        let changed = settings_tree::from_value(&self.settings());
        Ok(changed.unwrap_or(settings))
    }

    /// Runs the cleanup handlers, up to a time limit.
    ///
    /// # Errors
    /// If a handler fails for good, or the time is over.
    pub async fn clean_up(&self, limit: Option<Duration>) -> Result<(), ActivityError> {
        let stop = Stop::new();
        let run = self.run(Moment::Cleanup, Attempts::Repeated, &stop);
        let Some(limit) = limit else { return run.await.map(drop) };
        match tokio::time::timeout(limit, run).await {
            Ok(ended) => ended.map(drop),
            Err(_) => Err(ActivityError::Timeout { activity: title(Moment::Cleanup), limit }),
        }
    }

    /// Calls the handlers of a moment until all of them have finished. Returns their results by id, in the order of
    /// declaration.
    async fn run(
        &self,
        moment: Moment,
        attempts: Attempts,
        stop: &Stop,
    ) -> Result<Vec<(String, Value)>, ActivityError> {
        let revision = Arc::clone(&self.revision.read());
        let handlers =
            revision.handlers.iter().filter(|(own, _)| *own == moment).map(|(_, handler)| Arc::clone(handler));
        let mut run = ActivityRun::new(handlers, self.clock.now());
        let _ending = Ending { events: &self.events, activity: moment };
        loop {
            for (handler, record) in run.due(self.clock.now()) {
                self.events.emit(&EngineEvent::ActivityCalled {
                    activity: moment,
                    handler: &handler,
                    retry: record.retries,
                });
                let outcome =
                    self.attempt(&revision, moment, &handler, &record, stop).await.ok_or(ActivityError::Stopped)?;
                self.events.emit(&EngineEvent::ActivityJudged {
                    activity: moment,
                    handler: &handler,
                    retry: record.retries,
                    outcome: &outcome,
                });
                run.conclude(&handler.id, outcome, self.clock.now());
            }
            match run.delay(self.clock.now()) {
                Some(_) if attempts == Attempts::Single => break,
                Some(delay) => {
                    tokio::select! {
                        biased;
                        () = stop.requested() => return Err(ActivityError::Stopped),
                        () = pause(delay) => {}
                    }
                }
                None => break,
            }
        }
        match run.first_failure() {
            Some(failed) => Err(ActivityError::Failed { activity: title(moment), failed }),
            None => Ok(run.results()),
        }
    }

    /// Calls a handler once. Returns nothing if the operator stops meanwhile.
    async fn attempt(
        &self,
        revision: &ActivityRevision,
        moment: Moment,
        handler: &Handler,
        record: &Record,
        stop: &Stop,
    ) -> Option<Outcome> {
        self.events.log_message(&attempt::announce(handler));
        if let Some((outcome, message)) = attempt::check_limits(handler, record, self.clock.now()) {
            self.events.log_message(&message);
            return Some(outcome);
        }
        let call = Call {
            target: handler.target,
            subject: Subject::Activity { activity: kind(moment), settings: self.settings() },
            patch: Patch::default(),
            retry: record.retries,
            started: record.started.at,
            param: handler.param.clone(),
            subhandling: None,
            stop: stop.clone(),
            span: tracing::Span::current(),
        };
        let returned = revision.scripts.call(handler, call).await;
        if returned.is_cancelled {
            return None;
        }
        if let Some(problems) = returned.settings.and_then(|changed| self.change_settings(changed)) {
            let text = format!("it leaves invalid settings: {}", problems.join("; "));
            self.events.log_message(&Message::error(format!("{} failed permanently: {text}", handler.title())));
            return Some(Outcome { is_final: true, error: Some(text), ..Outcome::default() });
        }
        let backoff = *self.default_backoff.lock();
        let (outcome, message) = attempt::judge(handler, record, returned.verdict, self.clock.now(), backoff);
        self.events.log_message(&message);
        Some(outcome)
    }

    /// Takes over changed settings. Returns the mistakes in them, if there are any.
    fn change_settings(&self, changed: Value) -> Option<Vec<String>> {
        if *self.settings() == changed {
            return None;
        }
        match settings_tree::from_value(&changed) {
            Err(problems) => Some(problems),
            Ok(settings) => {
                *self.default_backoff.lock() = settings.execution.default_backoff;
                *self.settings.write() = Arc::new(changed);
                None
            }
        }
    }
}

/// Waits for the next attempt. Other tasks run even if it is due at once.
async fn pause(delay: Duration) {
    if delay.is_zero() { tokio::task::yield_now().await } else { tokio::time::sleep(delay).await }
}

fn kind(moment: Moment) -> Kind {
    match moment {
        Moment::Startup => Kind::Startup,
        Moment::Cleanup => Kind::Cleanup,
        Moment::Login => Kind::Login,
        Moment::Probe => Kind::Probe,
    }
}

/// Returns the name of an activity in messages.
pub(crate) fn title(moment: Moment) -> &'static str {
    match moment {
        Moment::Startup => "the startup activity",
        Moment::Cleanup => "the cleanup activity",
        Moment::Login => "the login activity",
        Moment::Probe => "the probe",
    }
}
