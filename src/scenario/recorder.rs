//! Records the events of the reactor in the timeline, and passes them to the invariants.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;

use crate::engines::{EngineEvent, EventSink};
use crate::handling::message::seconds;
use crate::handling::spawning::Stage;
use crate::handling::{Handler, On, Outcome, Reason, Verdict};
use crate::manifest::operator::Moment;
use crate::object::secret::Values;
use crate::object::{Body, EventKind};
use crate::reactor::activity::shown;

use super::invariants::{Invariants, Process, TaskEvent};
use super::model::Call;
use super::pending::PendingCalls;
use super::timeline::{Event, Subject, Timeline};

/// The running timers and daemons of one run: objects with ids of handlers.
pub(super) type RunningTasks = BTreeSet<(Subject, String)>;

/// The end of a call that was cancelled.
const CANCELLED: &str = "cancelled";

/// Records the events of one operator during one run of it.
pub(super) struct TimelineRecorder {
    pub timeline: Arc<Timeline>,
    pub invariants: Arc<Invariants>,
    pub process: Process,
    /// The operator's name.
    pub operator: String,
    /// Running and scheduled calls of this run.
    pub pending_calls: Arc<Mutex<PendingCalls>>,
    /// Running timers and daemons of this run.
    pub running_tasks: Arc<Mutex<RunningTasks>>,
}

impl EventSink for TimelineRecorder {
    fn accept(&self, event: &EngineEvent<'_>) {
        match *event {
            EngineEvent::ObjectSeen { body, event_kind, .. } => {
                let subject = Subject::of(body);
                self.invariants.object_seen(self.process, body);
                if event_kind == EventKind::Deleted {
                    self.invariants.object_deleted(self.process, body);
                    self.pending_calls.lock().object_deleted(&subject);
                }
                let version = body.resource_version().unwrap_or("unknown").to_owned();
                self.timeline.add(Event::ObjectSeen { subject, arrival: arrival(event_kind), version });
            }
            EngineEvent::HandlerCalled { body, handler, reason, retry } => {
                let subject = Subject::of(body);
                if handler.on.is_spawning() {
                    self.invariants.task(self.process, body, handler, TaskEvent::Called { retry });
                } else {
                    self.invariants.called(self.process, body, handler, reason, retry);
                }
                // A daemon runs as long as its object exists: `settle` must not wait for its end.
                if handler.on != On::Daemon {
                    self.pending_calls.lock().called(&subject, &handler.id, retry, self.timeline.elapsed());
                }
                let reason = match handler.on {
                    On::Timer => "a timer",
                    On::Daemon => "a daemon",
                    _ => reason.map_or("a raw event", Reason::as_str),
                };
                self.timeline.add(Event::Called { subject, call: call(handler, retry), reason });
            }
            EngineEvent::HandlerReturned { body, handler, reason, retry, returned } => {
                let subject = Subject::of(body);
                if handler.on.is_spawning() {
                    self.invariants.task(self.process, body, handler, TaskEvent::Returned);
                } else {
                    self.invariants.returned(self.process, body, returned);
                }
                self.pending_calls.lock().ended(&subject, &handler.id);
                for attempt in &returned.attempts {
                    let call = Call { handler: attempt.id.clone(), retry: Some(attempt.retry), at: None };
                    self.timeline.add(Event::Called {
                        subject: subject.clone(),
                        call: call.clone(),
                        reason: "a sub-handler",
                    });
                    self.timeline.add(Event::Ended {
                        subject: subject.clone(),
                        call,
                        outcome: describe_outcome(Some(body), &attempt.outcome),
                    });
                }
                // Attempts are judged later, except those of handlers of raw events, whose verdict is final.
                let outcome = match (&returned.verdict, returned.is_cancelled) {
                    (_, true) => CANCELLED.to_owned(),
                    _ if reason.is_some() || handler.on.is_spawning() => return,
                    (verdict, false) => describe_verdict(body, verdict),
                };
                self.timeline.add(Event::Ended { subject, call: call(handler, retry), outcome });
            }
            EngineEvent::AttemptJudged { body, handler, retry, outcome } => {
                let subject = Subject::of(body);
                if handler.on.is_spawning() {
                    let retry_in = (!outcome.is_final).then(|| outcome.delay.unwrap_or_default());
                    self.invariants.task(self.process, body, handler, TaskEvent::Judged { retry_in });
                } else {
                    self.invariants.attempt_judged(self.process, body, handler, retry, outcome);
                }
                if !outcome.is_final && handler.on != On::Daemon {
                    let at = self.timeline.elapsed().saturating_add(outcome.delay.unwrap_or_default());
                    self.pending_calls.lock().scheduled(&subject, &handler.id, at, outcome.error.clone());
                }
                self.timeline.add(Event::Ended {
                    subject,
                    call: call(handler, retry),
                    outcome: describe_outcome(Some(body), outcome),
                });
            }
            EngineEvent::TaskStarted { body, handler, schedule, initial_delay } => {
                self.task(body, handler, TaskEvent::Started { schedule, initial_delay }, "starts");
            }
            EngineEvent::InitialDelayComputed { body, handler, delay } => {
                self.invariants.task(self.process, body, handler, TaskEvent::Delayed(delay));
            }
            EngineEvent::AttemptConcluded { body, handler } => {
                self.invariants.task(self.process, body, handler, TaskEvent::Concluded);
            }
            EngineEvent::BackgroundObserved { body } => self.invariants.background_observed(self.process, body),
            EngineEvent::BackgroundDecided { body, answers } => {
                self.invariants.background_decided(self.process, body, answers);
            }
            EngineEvent::ObjectForgotten { uid } => self.invariants.object_forgotten(self.process, uid),
            EngineEvent::TaskStopping { body, handler, stage } => {
                let what = match stage {
                    Stage::Asked => "is asked to stop",
                    Stage::Signalled => "has its back-off to stop",
                    Stage::Cancelled => "is cancelled",
                    Stage::Abandoned => "is abandoned",
                };
                self.task(body, handler, TaskEvent::Stopping(stage), what);
            }
            EngineEvent::TaskEnded { body, handler, is_requested } => {
                let what = if is_requested { "has ended on request" } else { "has ended on its own" };
                self.task(body, handler, TaskEvent::Ended { is_requested }, what);
            }
            EngineEvent::ActivityCalled { activity, handler, retry } => {
                self.called_for_operator(handler, retry, describe_activity(activity));
            }
            EngineEvent::ActivityJudged { activity, handler, retry, outcome } => {
                // The results of logins are secrets.
                let is_secret = activity == Moment::Login && outcome.is_final && outcome.error.is_none();
                let described = if is_secret { "succeeded".to_owned() } else { describe_outcome(None, outcome) };
                self.judged_for_operator(handler, retry, outcome, described);
            }
            EngineEvent::ScheduleStarted { handler, .. } => self.invariants.schedule_started(self.process, handler),
            EngineEvent::ScheduleCalled { handler, scheduled_at, retry } => {
                self.invariants.schedule_called(self.process, handler, scheduled_at, retry);
                self.called_for_operator(handler, retry, "a schedule");
            }
            EngineEvent::ScheduleJudged { handler, retry, outcome, .. } => {
                self.invariants.schedule_ended(self.process, handler);
                match outcome {
                    Some(outcome) => self.judged_for_operator(handler, retry, outcome, describe_outcome(None, outcome)),
                    None => self.timeline.add(Event::Ended {
                        subject: self.operator_subject(),
                        call: call(handler, retry),
                        outcome: CANCELLED.to_owned(),
                    }),
                }
            }
            // Conversions are no expected calls: how often an API server needs them is its own affair.
            EngineEvent::Converted { handler, failure: Some(failure), .. } => {
                self.timeline.add(Event::Operator(format!("'{}' does not convert: {failure}", handler.id)));
            }
            EngineEvent::WebhookCalled { handler, .. } | EngineEvent::WebhookJudged { handler, .. }
                if handler.on == On::Conversion => {}
            EngineEvent::WebhookCalled { body, handler } => {
                self.timeline.add(Event::Called {
                    subject: Subject::of(body),
                    call: call(handler, 0),
                    reason: "a review",
                });
            }
            EngineEvent::WebhookJudged { body, handler, verdict, .. } => {
                let outcome = describe_verdict(body, verdict);
                self.timeline.add(Event::Ended { subject: Subject::of(body), call: call(handler, 0), outcome });
            }
            EngineEvent::OperatorPaused { causes } => {
                self.invariants.paused(self.process, true);
                self.timeline.add(Event::Operator(format!(
                    "operator '{}' is paused ({})",
                    self.operator,
                    causes.join(", ")
                )));
            }
            EngineEvent::OperatorResumed => {
                self.invariants.paused(self.process, false);
                self.timeline.add(Event::Operator(format!("operator '{}' is not paused any more", self.operator)));
            }
            EngineEvent::CycleEnded { body, error, .. } => self.invariants.cycle_ended(self.process, body, error),
            _ => {}
        }
    }

    fn wants_states(&self) -> bool {
        true
    }
}

impl TimelineRecorder {
    /// Records a call of an activity or schedule.
    fn called_for_operator(&self, handler: &Handler, retry: u64, reason: &'static str) {
        let subject = self.operator_subject();
        self.pending_calls.lock().called(&subject, &handler.id, retry, self.timeline.elapsed());
        self.timeline.add(Event::Called { subject, call: call(handler, retry), reason });
    }

    /// Records the outcome of a call of an activity or schedule.
    fn judged_for_operator(&self, handler: &Handler, retry: u64, outcome: &Outcome, described: String) {
        let subject = self.operator_subject();
        match outcome.delay.filter(|_| !outcome.is_final) {
            None => self.pending_calls.lock().ended(&subject, &handler.id),
            Some(delay) => {
                let at = self.timeline.elapsed().saturating_add(delay);
                self.pending_calls.lock().scheduled(&subject, &handler.id, at, outcome.error.clone());
            }
        }
        self.timeline.add(Event::Ended { subject, call: call(handler, retry), outcome: described });
    }

    /// Returns the subject of activities and schedules.
    fn operator_subject(&self) -> Subject {
        let text = str::to_owned;
        Subject {
            group: text("kopfd.dev"),
            kind: text("Operator"),
            namespace: String::new(),
            name: self.operator.clone(),
        }
    }

    /// Records a start, a stage of a stop, or an end of a timer or daemon.
    fn task(&self, body: &Body, handler: &Handler, event: TaskEvent<'_>, what: &'static str) {
        let subject = Subject::of(body);
        self.invariants.task(self.process, body, handler, event);
        let key = (subject.clone(), handler.id.clone());
        match event {
            TaskEvent::Started { .. } => drop(self.running_tasks.lock().insert(key)),
            TaskEvent::Ended { .. } => {
                self.running_tasks.lock().remove(&key);
                self.pending_calls.lock().ended(&subject, &handler.id);
            }
            _ => {}
        }
        self.timeline.add(Event::Task { subject, handler: handler.id.clone(), what });
    }
}

fn describe_activity(activity: Moment) -> &'static str {
    match activity {
        Moment::Startup => "a startup activity",
        Moment::Cleanup => "a cleanup activity",
        Moment::Login => "a login",
        Moment::Probe => "a probe",
    }
}

fn call(handler: &Handler, retry: u64) -> Call {
    Call { handler: handler.id.clone(), retry: Some(retry), at: None }
}

fn arrival(event_kind: EventKind) -> &'static str {
    match event_kind {
        EventKind::Listed => "listed",
        EventKind::Added => "added",
        EventKind::Modified => "modified",
        EventKind::Deleted => "deleted",
        EventKind::Revisited => "revisited",
        EventKind::Touched => "touched",
    }
}

/// Returns a result, without the values of the object if that is a Secret.
fn shown_result(body: Option<&Body>, result: &Value) -> String {
    let values = body.and_then(|body| Values::of(body));
    values.map_or_else(|| shown(result), |values| shown(&values.shown_at(&[], result)))
}

fn describe_outcome(body: Option<&Body>, outcome: &Outcome) -> String {
    match (&outcome.error, outcome.is_final, outcome.delay) {
        (Some(error), true, _) => format!("failed permanently: {error}"),
        (Some(error), false, Some(delay)) => format!("failed, retried in {}s: {error}", seconds(delay)),
        (Some(error), false, None) => format!("failed, retried at once: {error}"),
        (None, true, _) => match &outcome.result {
            Some(result) if !result.is_null() => format!("succeeded with {}", shown_result(body, result)),
            _ => "succeeded".to_owned(),
        },
        (None, false, _) => "unfinished".to_owned(),
    }
}

fn describe_verdict(body: &Body, verdict: &Verdict) -> String {
    match verdict {
        Verdict::Returned(Some(result)) if !result.is_null() => {
            format!("succeeded with {}", shown_result(Some(body), result))
        }
        Verdict::Returned(_) => "succeeded".to_owned(),
        Verdict::Temporary { text, .. } => format!("failed: {}", text.as_deref().unwrap_or("a temporary error")),
        Verdict::Permanent { text } | Verdict::Rejected { text, .. } | Verdict::Failed { text, .. } => {
            format!("failed: {text}")
        }
        Verdict::Unfinished { .. } => "unfinished".to_owned(),
    }
}
