//! The timeline of a scenario: everything that has happened, in order, with the virtual time. It goes on over all lives of the operators.

mod circles;
mod print;

use std::collections::BTreeSet;

use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::kit::Clock;
use crate::manifest::tree::Spot;

use super::problem::Problem;
use super::run::DEBUG;
use super::story::Call;
use circles::{Circle, Counts};

/// More than any scenario needs: virtual time does not end what runs in circles.
const MOST_ENTRIES: usize = 100_000;

/// The object that something is about, by its kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Subject {
    /// The API group.
    pub group: String,
    /// The kind.
    pub kind: String,
    /// The namespace; empty for none.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl Subject {
    /// Returns the subject of an object.
    pub fn of(object: &Value) -> Self {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let version = text("/apiVersion");
        let group = version.split_once('/').map(|(group, _)| group.to_owned()).unwrap_or_default();
        Self { group, kind: text("/kind"), namespace: text("/metadata/namespace"), name: text("/metadata/name") }
    }
}

impl std::fmt::Display for Subject {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let separator = if self.namespace.is_empty() { "" } else { "/" };
        write!(formatter, "{} {}{separator}{}", self.kind, self.namespace, self.name)
    }
}

/// Something that has happened.
#[derive(Debug, Clone)]
pub enum Event {
    /// A step has begun.
    Step {
        /// Where it stands.
        spot: Spot,
        /// The step in a few words.
        title: String,
    },
    /// Something about the operators as such.
    Operator(String),
    /// An object was taken up.
    Sighted {
        /// Which.
        subject: Subject,
        /// How it came.
        how: &'static str,
        /// Its version.
        version: String,
    },
    /// A handler was called.
    Called {
        /// About which object.
        subject: Subject,
        /// Which call.
        call: Call,
        /// Why.
        reason: &'static str,
    },
    /// It became clear what an attempt means.
    Ended {
        /// About which object.
        subject: Subject,
        /// Which call.
        call: Call,
        /// What it means.
        outcome: String,
    },
    /// An operator has sent a request.
    Request(Request),
    /// A fault has fired, or a disturbance.
    Fault(String),
    /// A line was logged.
    Log {
        /// How much it matters.
        level: &'static str,
        /// The sentence alone.
        message: String,
        /// The line as it is printed.
        printed: String,
    },
}

/// A request of an operator.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// The verb.
    pub verb: &'static str,
    /// The API group.
    pub group: String,
    /// The plural name.
    pub plural: String,
    /// The kind; empty if it is not served.
    pub kind: String,
    /// The namespace; empty for none.
    pub namespace: String,
    /// The object's name.
    pub name: String,
    /// The subresource; empty for none.
    pub subresource: String,
    /// How it ended: a status, or words.
    pub answer: String,
    /// What it has changed.
    pub lines: Vec<String>,
    /// Whether it is of interest only to those who count.
    pub is_quiet: bool,
}

/// The timeline of one scenario.
pub struct Timeline {
    clock: Clock,
    start: Timestamp,
    state: Mutex<State>,
    overflow: Notify,
}

#[derive(Default)]
struct State {
    entries: Vec<(f64, Event)>,
    /// How many of them everybody sees, whether lines for debugging are listened to or not.
    count: usize,
    counts: Counts,
    /// What goes round, if something does.
    circle: Option<Circle>,
}

impl Timeline {
    /// Returns an empty timeline that begins now.
    pub fn new(clock: Clock) -> Self {
        let start = clock.now();
        Self { clock, start, state: Mutex::default(), overflow: Notify::new() }
    }

    /// Adds what happens at this moment.
    pub fn add(&self, event: Event) {
        let at = self.clock.now().duration_since(self.start).as_secs_f64();
        let mut state = self.state.lock();
        if state.circle.is_some() {
            return;
        }
        state.circle = state.counts.note(at, &event);
        state.count += usize::from(!matches!(event, Event::Log { level: DEBUG, .. }));
        state.entries.push((at, event));
        if state.count >= MOST_ENTRIES {
            state.circle.get_or_insert(Circle::Everything);
        }
        if state.circle.is_some() {
            self.overflow.notify_one();
        }
    }

    /// Waits until more has happened than gets anywhere. Returns what goes round.
    pub async fn overflowed(&self) -> Problem {
        self.overflow.notified().await;
        let state = self.state.lock();
        circles::tell(state.circle.as_ref().unwrap_or(&Circle::Everything), &state.entries)
    }

    /// Returns where the step stands that is performed.
    pub fn step(&self) -> Option<Spot> {
        self.with(|entries| {
            entries.iter().rev().find_map(|(_, event)| match event {
                Event::Step { spot, .. } => Some(*spot),
                _ => None,
            })
        })
    }

    /// Returns the seconds since the beginning.
    pub fn elapsed(&self) -> f64 {
        self.clock.now().duration_since(self.start).as_secs_f64()
    }

    /// Looks at everything so far.
    pub fn with<T>(&self, look: impl FnOnce(&[(f64, Event)]) -> T) -> T {
        look(&self.state.lock().entries)
    }

    /// Returns the timeline as a text of a bounded length, in which lines that were logged with one of these messages are not left out.
    pub fn print(&self, kept: &BTreeSet<String>) -> String {
        self.with(|entries| print::print(entries, kept))
    }

    /// Returns the timeline for programs.
    pub fn to_json(&self) -> Value {
        self.with(|entries| entries.iter().filter_map(|(at, event)| to_json(*at, event)).collect())
    }
}

impl Request {
    /// Returns the object in the words of requests.
    fn place(&self) -> String {
        let Self { plural, group, namespace, name, .. } = self;
        let dot = if group.is_empty() { "" } else { "." };
        let place = if namespace.is_empty() { String::new() } else { format!(" in {namespace}") };
        format!("{plural}{dot}{group}/{name}{place}")
    }

    /// Tells whether it is about an object.
    pub fn is_about(&self, subject: &Subject) -> bool {
        let Subject { group, kind, namespace, name } = subject;
        self.group == *group && self.kind == *kind && self.namespace == *namespace && self.name == *name
    }
}

impl std::fmt::Display for Request {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { verb, plural, group, namespace, name, subresource, .. } = self;
        let dot = if group.is_empty() { "" } else { "." };
        write!(formatter, "{verb} {plural}{dot}{group}/{name}")?;
        if !subresource.is_empty() {
            write!(formatter, "/{subresource}")?;
        }
        if namespace.is_empty() { Ok(()) } else { write!(formatter, " in {namespace}") }
    }
}

fn to_json(at: f64, event: &Event) -> Option<Value> {
    let subject =
        |subject: &Subject| json!({"kind": subject.kind, "group": subject.group, "namespace": subject.namespace, "name": subject.name});
    let mut entry = match event {
        Event::Step { spot, title } => json!({"type": "step", "line": spot.line, "step": title}),
        Event::Operator(what) => json!({"type": "operator", "what": what}),
        Event::Sighted { subject: of, how, version } => json!({"type": "event", "object": subject(of), "how": how, "version": version}),
        Event::Called { subject: of, call, reason } => {
            json!({"type": "call", "object": subject(of), "call": call.to_string(), "reason": reason})
        }
        Event::Ended { subject: of, call, outcome } => {
            json!({"type": "end", "object": subject(of), "call": call.to_string(), "outcome": outcome})
        }
        Event::Request(request) if request.is_quiet => return None,
        Event::Request(request) => json!({
            "type": "request", "request": request.to_string(), "verb": request.verb, "answer": request.answer, "diff": request.lines,
        }),
        Event::Fault(what) => json!({"type": "fault", "what": what}),
        Event::Log { level, message, .. } => json!({"type": "log", "level": level, "message": message}),
    };
    entry["at"] = json!(at);
    Some(entry)
}
