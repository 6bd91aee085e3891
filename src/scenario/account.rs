//! The account of what the operators do: from the reactor into the timeline, and to whoever checks the invariants.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::handling::telling::seconds;
use crate::handling::{Handler, Outcome, Reason, Verdict};
use crate::object::Sighting;
use crate::reactor::account::shown;
use crate::reactor::{EngineEvent, EventSink};

use super::dues::Dues;
use super::invariants::{Invariants, Process};
use super::story::Call;
use super::timeline::{Event, Subject, Timeline};

/// Keeps the account of one operator in one of its lives.
pub struct Accountant {
    /// Where it goes.
    pub timeline: Arc<Timeline>,
    /// Who checks the invariants.
    pub invariants: Arc<Invariants>,
    /// The operator, and the number of its life.
    pub process: Process,
    /// What is due in this life.
    pub dues: Arc<Mutex<Dues>>,
}

impl EventSink for Accountant {
    fn accept(&self, event: &EngineEvent<'_>) {
        match *event {
            EngineEvent::ObjectSeen { body, sighting, .. } => {
                let subject = Subject::of(body);
                self.invariants.taken_up(self.process, body);
                if sighting == Sighting::Deleted {
                    self.dues.lock().gone(&subject);
                }
                let version = body.resource_version().unwrap_or("unknown").to_owned();
                self.timeline.add(Event::Sighted { subject, how: how(sighting), version });
            }
            EngineEvent::HandlerCalled { body, handler, reason, retry } => {
                let subject = Subject::of(body);
                self.invariants.called(self.process, body, handler, reason, retry);
                self.dues.lock().called(&subject, &handler.id, retry, self.timeline.elapsed());
                let reason = reason.map_or("a raw event", Reason::as_str);
                self.timeline.add(Event::Called { subject, call: call(handler, retry), reason });
            }
            EngineEvent::HandlerReturned { body, handler, reason, retry, returned } => {
                let subject = Subject::of(body);
                self.invariants.returned(self.process, body, returned);
                self.dues.lock().ended(&subject, &handler.id);
                for attempt in &returned.attempts {
                    let call = Call { handler: attempt.id.clone(), retry: Some(attempt.retry) };
                    self.timeline.add(Event::Called { subject: subject.clone(), call: call.clone(), reason: "a sub-handler" });
                    self.timeline.add(Event::Ended { subject: subject.clone(), call, outcome: told(&attempt.outcome) });
                }
                // What it means is concluded for handlers of changes; what other calls bring is final.
                let outcome = match (&returned.verdict, returned.is_cancelled) {
                    (_, true) => "cancelled".to_owned(),
                    _ if reason.is_some() => return,
                    (verdict, false) => raw(verdict),
                };
                self.timeline.add(Event::Ended { subject, call: call(handler, retry), outcome });
            }
            EngineEvent::AttemptJudged { body, handler, retry, outcome } => {
                let subject = Subject::of(body);
                self.invariants.concluded(self.process, body, handler, retry, outcome);
                if !outcome.is_final {
                    let at = self.timeline.elapsed() + outcome.delay.unwrap_or_default().as_secs_f64();
                    self.dues.lock().waits(&subject, &handler.id, at, outcome.error.clone());
                }
                self.timeline.add(Event::Ended { subject, call: call(handler, retry), outcome: told(outcome) });
            }
            EngineEvent::CycleEnded { body, error, .. } => self.invariants.cycled(self.process, body, error),
            _ => {}
        }
    }

    fn wants_states(&self) -> bool {
        true
    }
}

fn call(handler: &Handler, retry: u64) -> Call {
    Call { handler: handler.id.clone(), retry: Some(retry) }
}

fn how(sighting: Sighting) -> &'static str {
    match sighting {
        Sighting::Listed => "was there",
        Sighting::Added => "was added",
        Sighting::Modified => "has changed",
        Sighting::Deleted => "is gone",
    }
}

fn told(outcome: &Outcome) -> String {
    match (&outcome.error, outcome.is_final, outcome.delay) {
        (Some(error), true, _) => format!("failed for good: {error}"),
        (Some(error), false, Some(delay)) => format!("failed, again in {}s: {error}", seconds(delay)),
        (Some(error), false, None) => format!("failed, again at once: {error}"),
        (None, true, _) => match &outcome.result {
            Some(result) if !result.is_null() => format!("succeeded with {}", shown(result)),
            _ => "succeeded".to_owned(),
        },
        (None, false, _) => "unfinished".to_owned(),
    }
}

fn raw(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Returned(Some(result)) if !result.is_null() => format!("succeeded with {}", shown(result)),
        Verdict::Returned(_) => "succeeded".to_owned(),
        Verdict::Temporary { text, .. } => format!("failed: {}", text.as_deref().unwrap_or("a temporary error")),
        Verdict::Permanent { text } | Verdict::Rejected { text, .. } | Verdict::Failed { text, .. } => format!("failed: {text}"),
        Verdict::Unfinished { .. } => "unfinished".to_owned(),
    }
}
