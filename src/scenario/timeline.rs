//! The timeline of a scenario: everything that happened, in order, with the virtual time. It spans all operator runs.

mod event;
mod livelock;
mod print;

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::kit::Clock;
use crate::manifest::tree::SourceSpan;

use super::problem::Problem;
use livelock::{Livelock, RateCounter};

pub(super) use event::{DEBUG, SentRequest};
pub use event::{Event, Subject};

/// More entries than any scenario needs: virtual time alone does not end a livelock.
const MAX_ENTRIES: usize = 100_000;

/// The timeline of one scenario.
pub struct Timeline {
    clock: Clock,
    start: Timestamp,
    state: Mutex<State>,
    livelock_detected: Notify,
}

#[derive(Default)]
struct State {
    entries: Vec<(Duration, Event)>,
    /// Number of entries without debug lines, so that a verbose run stops where a normal one does.
    count: usize,
    counts: RateCounter,
    /// The livelock, once one is found. Nothing is recorded after it.
    livelock: Option<Livelock>,
}

impl Timeline {
    /// Creates an empty timeline that starts now.
    pub fn new(clock: Clock) -> Self {
        let start = clock.now();
        Self { clock, start, state: Mutex::default(), livelock_detected: Notify::new() }
    }

    /// Adds an event at the current time, without the credentials in its texts.
    pub fn add(&self, event: Event) {
        let event = event.without_credentials();
        let at = self.elapsed();
        let mut state = self.state.lock();
        if state.livelock.is_some() {
            return;
        }
        state.livelock = state.counts.count(at, &event);
        state.count += usize::from(!matches!(event, Event::Log { level: DEBUG, .. }));
        state.entries.push((at, event));
        if state.count >= MAX_ENTRIES {
            state.livelock.get_or_insert(Livelock::Everything);
        }
        if state.livelock.is_some() {
            self.livelock_detected.notify_one();
        }
    }

    /// Waits until a livelock is found, and describes it.
    pub async fn livelocked(&self) -> Problem {
        self.livelock_detected.notified().await;
        let state = self.state.lock();
        livelock::describe(state.livelock.as_ref().unwrap_or(&Livelock::Everything), &state.entries)
    }

    /// Returns the position of the current step.
    pub fn step(&self) -> Option<SourceSpan> {
        self.with(|entries| {
            entries.iter().rev().find_map(|(_, event)| match event {
                Event::Step { spot, .. } => Some(*spot),
                _ => None,
            })
        })
    }

    /// Returns the virtual time since the start.
    pub fn elapsed(&self) -> Duration {
        self.clock.now().duration_since(self.start).unsigned_abs()
    }

    /// Gives access to all entries so far.
    pub fn with<T>(&self, read: impl FnOnce(&[(Duration, Event)]) -> T) -> T {
        read(&self.state.lock().entries)
    }

    /// Returns the timeline as text of bounded length. Log lines with one of the `kept` messages are always shown.
    pub fn print(&self, kept: &BTreeSet<String>) -> String {
        self.with(|entries| print::print(entries, kept))
    }

    /// Returns the timeline as JSON.
    pub fn to_json(&self) -> Value {
        self.with(|entries| entries.iter().filter_map(|(at, event)| to_json(*at, event)).collect())
    }
}

fn to_json(at: Duration, event: &Event) -> Option<Value> {
    let subject = |subject: &Subject| json!({"kind": subject.kind, "group": subject.group, "namespace": subject.namespace, "name": subject.name});
    let mut entry = match event {
        Event::Step { spot, title } => json!({"type": "step", "line": spot.line, "step": title}),
        Event::Operator(what) => json!({"type": "operator", "what": what}),
        Event::ObjectSeen { subject: of, arrival, version } => {
            json!({"type": "event", "object": subject(of), "how": arrival, "version": version})
        }
        Event::Called { subject: of, call, reason } => {
            json!({"type": "call", "object": subject(of), "call": call.to_string(), "reason": reason})
        }
        Event::Ended { subject: of, call, outcome } => {
            json!({"type": "end", "object": subject(of), "call": call.to_string(), "outcome": outcome})
        }
        Event::Task { subject: of, handler, what } => {
            json!({"type": "task", "object": subject(of), "handler": handler, "what": what})
        }
        Event::Request(request) if request.is_quiet => return None,
        Event::Request(request) => json!({
            "type": "request", "request": request.to_string(), "verb": request.verb, "answer": request.answer, "diff": request.lines,
        }),
        Event::Fault(what) => json!({"type": "fault", "what": what}),
        Event::Log { level, message, .. } => json!({"type": "log", "level": level, "message": message}),
    };
    entry["at"] = json!(at.as_secs_f64());
    Some(entry)
}
