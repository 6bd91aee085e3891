//! Detects livelocks: an object is received or requested again and again while virtual time hardly advances.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::problem::Problem;
use super::{Event, SentRequest, Subject};

/// Virtual time over which entries are counted. Counting each instant alone would miss livelocks with short
/// pauses.
const WINDOW: Duration = Duration::from_secs(1);

/// An operator that makes progress receives an object less often within the window.
const MAX_SEEN: usize = 300;

/// More requests than any object needs within the window.
const MAX_REQUESTS: usize = 1_000;

/// How many handlers and changes are described.
const MAX_LISTED: usize = 3;

/// The repeated events of a livelock.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Livelock {
    /// An object is received.
    ObjectSeen(Subject),
    /// Requests for an object, identified by resource and name.
    Requests(String),
    /// No single object.
    Everything,
}

/// Counts the entries of each object within the window.
#[derive(Debug, Default)]
pub(super) struct RateCounter {
    since: Duration,
    counts: BTreeMap<Livelock, usize>,
}

impl RateCounter {
    /// Counts an entry. Returns the livelock once a limit is exceeded.
    pub(super) fn count(&mut self, at: Duration, event: &Event) -> Option<Livelock> {
        if at.saturating_sub(self.since) >= WINDOW {
            self.since = at;
            self.counts.clear();
        }
        let (livelock, limit) = match event {
            Event::ObjectSeen { subject, .. } => (Livelock::ObjectSeen(subject.clone()), MAX_SEEN),
            Event::Request(request) => (Livelock::Requests(request.object()), MAX_REQUESTS),
            _ => return None,
        };
        let count = self.counts.entry(livelock.clone()).or_default();
        *count += 1;
        (*count >= limit).then_some(livelock)
    }
}

impl Livelock {
    /// Tells whether a call is part of the livelock.
    fn has_call(&self, subject: &Subject) -> bool {
        !matches!(self, Self::ObjectSeen(concerned) if concerned != subject)
    }

    /// Tells whether a request is part of the livelock.
    fn has_request(&self, request: &SentRequest) -> bool {
        match self {
            Self::ObjectSeen(subject) => request.is_about(subject),
            Self::Requests(place) => request.object() == *place,
            Self::Everything => false,
        }
    }
}

impl std::fmt::Display for Livelock {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::ObjectSeen(subject) => {
                write!(formatter, "{subject} was processed {MAX_SEEN} times within a second of virtual time")
            }
            Self::Requests(place) => {
                write!(formatter, "{MAX_REQUESTS} requests for {place} within a second of virtual time")
            }
            Self::Everything => {
                formatter.write_str("too many events and requests, without a single object as their cause")
            }
        }
    }
}

/// Describes a livelock: which handlers are called, and what changes each time.
pub(super) fn describe(livelock: &Livelock, entries: &[(Duration, Event)]) -> Problem {
    let last = entries.last().map_or(Duration::ZERO, |(at, _)| *at);
    let recent = entries.iter().rev().take_while(|(at, _)| last.saturating_sub(*at) < WINDOW).map(|(_, event)| event);
    let mut calls: BTreeMap<&str, usize> = BTreeMap::new();
    let mut changes: BTreeMap<&str, (usize, &str)> = BTreeMap::new();
    for event in recent {
        match event {
            Event::Called { subject, call, .. } if livelock.has_call(subject) => {
                *calls.entry(&call.handler).or_default() += 1;
            }
            Event::Request(request) if livelock.has_request(request) => {
                // Handlers do not react to the operator's own annotations.
                for line in request.lines.iter().filter(|line| !line.starts_with('=')) {
                    let field = line.split(": ").next().unwrap_or_default();
                    changes.entry(field).or_insert((0, line)).0 += 1;
                }
            }
            _ => {}
        }
    }
    let calls =
        most_frequent(calls.into_iter().map(|(handler, count)| (count, format!("`{handler}` called {count} times"))));
    let called = if calls.is_empty() { String::new() } else { format!("; {calls}") };
    let problem = Problem::from(format!("livelock: {livelock}{called}"));
    let changed = most_frequent(changes.into_values().map(|(count, line)| (count, format!("`{line}`"))));
    if changed.is_empty() {
        return problem;
    }
    problem.with_hint(format!("each time, this changes: {changed}; a handler that triggers itself never ends"))
}

/// Returns the repeated texts, the most frequent first.
fn most_frequent(counted: impl Iterator<Item = (usize, String)>) -> String {
    let mut counted: Vec<(usize, String)> = counted.filter(|(count, _)| *count > 1).collect();
    counted.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    let texts: Vec<String> = counted.into_iter().take(MAX_LISTED).map(|(_, text)| text).collect();
    texts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::super::super::model::Call;
    use super::*;

    fn subject() -> Subject {
        Subject {
            group: "acme.io".to_owned(),
            kind: "Backup".to_owned(),
            namespace: "default".to_owned(),
            name: "x".to_owned(),
        }
    }

    fn object_seen() -> Event {
        Event::ObjectSeen { subject: subject(), arrival: "modified", version: "1".to_owned() }
    }

    #[test]
    fn an_object_that_is_processed_again_and_again_is_a_livelock() {
        let mut counts = RateCounter::default();
        assert!((1..MAX_SEEN).all(|_| counts.count(Duration::from_millis(500), &object_seen()).is_none()));
        assert_eq!(counts.count(Duration::from_millis(500), &object_seen()), Some(Livelock::ObjectSeen(subject())));
    }

    #[test]
    fn repetitions_over_a_longer_time_are_no_livelock() {
        let mut counts = RateCounter::default();
        assert!(
            (0..10 * MAX_SEEN as u32)
                .all(|number| counts.count(Duration::from_millis(10) * number, &object_seen()).is_none())
        );
    }

    #[test]
    fn a_livelock_is_described_with_its_handlers_and_their_changes() {
        let request = SentRequest {
            verb: "patch",
            group: "acme.io".to_owned(),
            plural: "backups".to_owned(),
            kind: "Backup".to_owned(),
            namespace: "default".to_owned(),
            name: "x".to_owned(),
            lines: vec![r#"~ spec.a: "1" -> "2""#.to_owned(), "= annotations: kept f".to_owned()],
            ..SentRequest::default()
        };
        let call = Event::Called {
            subject: subject(),
            call: Call { handler: "b".to_owned(), retry: Some(0), at: None },
            reason: "update",
        };
        let entries: Vec<(Duration, Event)> = (0..4)
            .flat_map(|_| [object_seen(), call.clone(), Event::Request(request.clone())])
            .map(|event| (Duration::ZERO, event))
            .collect();
        let Problem { text, hint } = describe(&Livelock::ObjectSeen(subject()), &entries);
        assert_eq!(
            text,
            "livelock: Backup default/x was processed 300 times within a second of virtual time; `b` called 4 times"
        );
        assert_eq!(
            hint.as_deref(),
            Some(r#"each time, this changes: `~ spec.a: "1" -> "2"`; a handler that triggers itself never ends"#)
        );
    }
}
