//! The sink of the events of operators that the monitor reads.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{ActivityMonitor, Failure};
use crate::engines::{EngineEvent, EventSink};
use crate::handling::{Handler, On};
use crate::object::{EventKind, ObjectKey};
use crate::reactor::pending::{Called, SCHEDULES, Subject};

/// The events of one operator.
struct OperatorEvents {
    operator: String,
    monitor: Arc<ActivityMonitor>,
}

impl EventSink for OperatorEvents {
    fn accept(&self, event: &EngineEvent<'_>) {
        self.monitor.note(&self.operator, event);
    }
}

impl ActivityMonitor {
    /// Returns the sink of the events of an operator.
    pub fn sink_of(self: &Arc<Self>, operator: &str) -> Arc<dyn EventSink> {
        Arc::new(OperatorEvents { operator: operator.to_owned(), monitor: Arc::clone(self) })
    }

    /// Records an event of an operator.
    pub(super) fn note(&self, operator: &str, event: &EngineEvent<'_>) {
        match event {
            EngineEvent::ObjectSeen { body, event_kind: EventKind::Deleted, .. } => {
                self.pending.gone(operator, &ObjectKey::of(body).uid);
            }
            EngineEvent::ObjectForgotten { uid } => self.forget(operator, uid),
            EngineEvent::CycleEnded { uid, body, error } => self.cycled(uid, body, *error),
            EngineEvent::ScheduleStarted { handler, is_synced }
            | EngineEvent::ScheduleSynced { handler, is_synced } => {
                self.schedule_synced(operator, handler, *is_synced);
            }
            _ => {
                self.note_call(operator, event);
                self.note_own_call(operator, event);
            }
        }
    }

    /// Records a call for an object.
    fn note_call(&self, operator: &str, event: &EngineEvent<'_>) {
        let called = |handler, body| Called { operator, handler, subject: Subject::Object(body) };
        match *event {
            // A daemon runs as long as its object exists: nothing waits for its end.
            EngineEvent::HandlerCalled { handler: Handler { on: On::Daemon, .. }, .. }
            | EngineEvent::HandlerReturned { handler: Handler { on: On::Daemon, .. }, .. } => {}
            EngineEvent::HandlerCalled { body, handler, .. } => {
                self.timer_calls.fetch_add(usize::from(handler.on == On::Timer), Ordering::SeqCst);
                self.pending.called(called(handler, body));
            }
            EngineEvent::HandlerReturned { body, handler, .. } => {
                self.pending.returned(called(handler, body));
                if handler.on == On::Timer {
                    self.timer_returned();
                }
            }
            EngineEvent::TaskEnded { body, handler, .. } => self.pending.returned(called(handler, body)),
            EngineEvent::AttemptJudged { body, handler, outcome, .. } => {
                if outcome.is_final && outcome.error.is_some() {
                    self.failed(handler, body);
                }
                if handler.on != On::Daemon {
                    self.pending.concluded(called(handler, body), outcome);
                }
            }
            _ => {}
        }
    }

    /// Records a call for the operator itself: of an activity, or of a schedule.
    fn note_own_call(&self, operator: &str, event: &EngineEvent<'_>) {
        let in_activity = |handler, activity| Called { operator, handler, subject: Subject::Activity(activity) };
        let scheduled = |handler| Called { operator, handler, subject: Subject::Ticks };
        match *event {
            EngineEvent::ActivityCalled { activity, handler, .. } => {
                self.pending.called(in_activity(handler, activity));
            }
            EngineEvent::ActivityJudged { activity, handler, outcome, .. } => {
                self.pending.concluded(in_activity(handler, activity), outcome);
            }
            EngineEvent::ActivityEnded { activity } => self.pending.ended(operator, activity),
            EngineEvent::ScheduleCalled { handler, .. } => {
                self.timer_calls.fetch_add(1, Ordering::SeqCst);
                self.pending.called(scheduled(handler));
            }
            EngineEvent::ScheduleJudged { handler, outcome, .. } => {
                self.timer_returned();
                match outcome {
                    Some(outcome) => self.pending.concluded(scheduled(handler), outcome),
                    None => self.pending.returned(scheduled(handler)),
                }
                if outcome.is_some_and(|outcome| outcome.is_final && outcome.error.is_some()) {
                    self.failures.lock().push(Failure { handler: handler.id.clone(), object: SCHEDULES.to_owned() });
                }
            }
            EngineEvent::ScheduleGivenUp { handler, .. } => self.pending.returned(scheduled(handler)),
            EngineEvent::ScheduleEnded { handler } => {
                self.pending.returned(scheduled(handler));
                self.schedule_synced(operator, handler, true);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handling::{Outcome, Verdict};
    use crate::manifest::operator::Moment;
    use crate::object::{Body, Patch};
    use crate::script::Returned;
    use serde_json::json;

    fn backup() -> Body {
        Body::from(json!({"kind": "Backup", "metadata": {"uid": "1", "namespace": "default", "name": "x"}}))
    }

    fn handler() -> Handler {
        Handler::simple("make", On::Create)
    }

    #[test]
    fn handlers_are_pending_from_their_call_to_their_end_or_to_that_of_the_object() {
        let (monitor, body, handler) = (ActivityMonitor::default(), backup(), handler());
        let count = || monitor.pending.all().len();
        let (body, handler) = (&body, &handler);
        let call = || monitor.note("tested", &EngineEvent::HandlerCalled { body, handler, reason: None, retry: 0 });
        let judge = |outcome: &Outcome| {
            monitor.note("tested", &EngineEvent::AttemptJudged { body, handler, retry: 0, outcome });
        };
        let returned = Returned::new(Verdict::Returned(None), Patch::default());
        call();
        assert_eq!(count(), 1);
        monitor.note(
            "tested",
            &EngineEvent::HandlerReturned { body, handler, reason: None, retry: 0, returned: &returned },
        );
        assert_eq!(count(), 0, "whether it is called again is not known yet");
        judge(&Outcome { error: Some("not yet".to_owned()), ..Outcome::default() });
        assert_eq!((count(), monitor.failures().len()), (1, 0));
        monitor
            .note("tested", &EngineEvent::ObjectSeen { body, event_kind: EventKind::Modified, consistency_in: None });
        assert_eq!(count(), 1);
        monitor.note("tested", &EngineEvent::ObjectSeen { body, event_kind: EventKind::Deleted, consistency_in: None });
        assert_eq!(count(), 0);
        call();
        monitor.note("tested", &EngineEvent::ObjectForgotten { uid: "other" });
        assert_eq!(count(), 1);
        monitor.note("tested", &EngineEvent::ObjectForgotten { uid: "1" });
        assert_eq!(count(), 0);
        call();
        judge(&Outcome { is_final: true, ..Outcome::default() });
        assert_eq!((count(), monitor.failures().len()), (0, 0));
        judge(&Outcome { is_final: true, error: Some("never".to_owned()), ..Outcome::default() });
        assert_eq!(monitor.failures(), [Failure { handler: "make".to_owned(), object: "Backup default/x".to_owned() }]);
    }

    #[test]
    fn an_activity_is_pending_until_its_handlers_have_finished_or_its_run_ends() {
        let (monitor, handler) = (ActivityMonitor::default(), Handler::simple("begin", On::Activity));
        let (handler, activity) = (&handler, Moment::Startup);
        let count = || monitor.pending.all().len();
        let call = || monitor.note("tested", &EngineEvent::ActivityCalled { activity, handler, retry: 0 });
        let judge = |outcome: &Outcome| {
            monitor.note("tested", &EngineEvent::ActivityJudged { activity, handler, retry: 0, outcome });
        };
        call();
        judge(&Outcome::default());
        assert_eq!(count(), 1, "it is called again");
        monitor.note("another", &EngineEvent::ActivityEnded { activity });
        assert_eq!(count(), 1);
        monitor.note("tested", &EngineEvent::ActivityEnded { activity });
        assert_eq!(count(), 0);
        call();
        judge(&Outcome { is_final: true, ..Outcome::default() });
        assert_eq!(count(), 0);
    }

    #[test]
    fn a_schedule_is_pending_until_its_tick_is_done_or_given_up() {
        let (monitor, handler) = (ActivityMonitor::default(), Handler::simple("tick", On::Schedule));
        let (handler, scheduled_at) = (&handler, jiff::Timestamp::UNIX_EPOCH);
        let (retried, done) = (Outcome::default(), Outcome { is_final: true, ..Outcome::default() });
        let count = || monitor.pending.all().len();
        let call = || monitor.note("tested", &EngineEvent::ScheduleCalled { handler, scheduled_at, retry: 0 });
        let judge =
            |outcome| monitor.note("tested", &EngineEvent::ScheduleJudged { handler, scheduled_at, retry: 0, outcome });
        call();
        assert!(count() == 1 && !monitor.is_quiet());
        judge(Some(&retried));
        assert!(count() == 1 && monitor.is_quiet(), "nothing waits for its next attempt");
        monitor.note("tested", &EngineEvent::ScheduleGivenUp { handler, scheduled_at });
        assert_eq!(count(), 0);
        for outcome in [None, Some(&done)] {
            call();
            judge(outcome);
            assert_eq!(count(), 0);
        }
        monitor.note("tested", &EngineEvent::ScheduleStarted { handler, is_synced: false });
        monitor.note("another", &EngineEvent::ScheduleSynced { handler, is_synced: true });
        call();
        judge(Some(&retried));
        assert!(count() == 1 && !monitor.is_quiet(), "it has something to store");
        monitor.note("tested", &EngineEvent::ScheduleEnded { handler });
        assert!(count() == 0 && monitor.is_quiet());
    }
}
