//! Circles: an object that is taken up or asked for again and again, while virtual time does not go on.

use std::collections::BTreeMap;

use super::super::problem::Problem;
use super::{Event, Request, Subject};

/// The seconds of virtual time that are looked at together. Each moment alone would miss circles with a little pause in them.
const WINDOW: f64 = 1.0;

/// More than any object is taken up in a second by an operator that gets anywhere.
const MOST_SIGHTINGS: usize = 300;

/// More requests than any object needs in a second.
const MOST_REQUESTS: usize = 1_000;

/// How many handlers and changes are told of.
const MOST_TOLD: usize = 3;

/// What goes round.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Circle {
    /// An object that is taken up.
    Sightings(Subject),
    /// An object that requests are sent about, in the words of the request without its verb.
    Requests(String),
    /// No single object.
    Everything,
}

/// Counts what happens to each object.
#[derive(Debug, Default)]
pub struct Counts {
    since: f64,
    counts: BTreeMap<Circle, usize>,
}

impl Counts {
    /// Counts an entry. Returns what goes round, once there is more of it than there can be.
    pub fn note(&mut self, at: f64, event: &Event) -> Option<Circle> {
        if at - self.since >= WINDOW {
            self.since = at;
            self.counts.clear();
        }
        let (circle, most) = match event {
            Event::Sighted { subject, .. } => (Circle::Sightings(subject.clone()), MOST_SIGHTINGS),
            Event::Request(request) => (Circle::Requests(request.place()), MOST_REQUESTS),
            _ => return None,
        };
        let count = self.counts.entry(circle.clone()).or_default();
        *count += 1;
        (*count >= most).then_some(circle)
    }
}

impl Circle {
    /// Tells whether a call belongs to it.
    fn has_call(&self, subject: &Subject) -> bool {
        !matches!(self, Self::Sightings(meant) if meant != subject)
    }

    /// Tells whether a request belongs to it.
    fn has_request(&self, request: &Request) -> bool {
        match self {
            Self::Sightings(subject) => request.is_about(subject),
            Self::Requests(place) => request.place() == *place,
            Self::Everything => false,
        }
    }
}

impl std::fmt::Display for Circle {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Sightings(subject) => write!(formatter, "{subject} was taken up {MOST_SIGHTINGS} times within a second of virtual time"),
            Self::Requests(place) => write!(formatter, "{MOST_REQUESTS} requests for {place} within a second of virtual time"),
            Self::Everything => formatter.write_str("more happens than in any scenario, and no single object is to blame"),
        }
    }
}

/// Tells of a circle: which handlers are called, and what is changed each time.
pub fn tell(circle: &Circle, entries: &[(f64, Event)]) -> Problem {
    let last = entries.last().map_or(0.0, |(at, _)| *at);
    let recent = entries.iter().rev().take_while(|(at, _)| last - at < WINDOW).map(|(_, event)| event);
    let mut calls: BTreeMap<&str, usize> = BTreeMap::new();
    let mut changes: BTreeMap<&str, (usize, &str)> = BTreeMap::new();
    for event in recent {
        match event {
            Event::Called { subject, call, .. } if circle.has_call(subject) => *calls.entry(&call.handler).or_default() += 1,
            Event::Request(request) if circle.has_request(request) => {
                // What the operator keeps for itself in annotations changes nothing for handlers.
                for line in request.lines.iter().filter(|line| !line.starts_with('=')) {
                    let field = line.split(": ").next().unwrap_or_default();
                    changes.entry(field).or_insert((0, line)).0 += 1;
                }
            }
            _ => {}
        }
    }
    let calls = most(calls.into_iter().map(|(handler, count)| (count, format!("`{handler}` called {count} times"))));
    let called = if calls.is_empty() { String::new() } else { format!("; {calls}") };
    let problem = Problem::from(format!("the operator runs in circles: {circle}{called}"));
    let changed = most(changes.into_values().map(|(count, line)| (count, format!("`{line}`"))));
    if changed.is_empty() {
        return problem;
    }
    problem.with_hint(format!("what changes each time is {changed}: a change that calls its handler again has no end"))
}

/// Returns the texts of what comes again and again, the most frequent first.
fn most(counted: impl Iterator<Item = (usize, String)>) -> String {
    let mut counted: Vec<(usize, String)> = counted.filter(|(count, _)| *count > 1).collect();
    counted.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    let texts: Vec<String> = counted.into_iter().take(MOST_TOLD).map(|(_, text)| text).collect();
    texts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::super::super::story::Call;
    use super::*;

    fn subject() -> Subject {
        Subject { group: "acme.io".to_owned(), kind: "Backup".to_owned(), namespace: "default".to_owned(), name: "x".to_owned() }
    }

    fn sighted() -> Event {
        Event::Sighted { subject: subject(), how: "has changed", version: "1".to_owned() }
    }

    #[test]
    fn an_object_that_is_taken_up_again_and_again_runs_in_circles() {
        let mut counts = Counts::default();
        assert!((1..MOST_SIGHTINGS).all(|_| counts.note(0.5, &sighted()).is_none()));
        assert_eq!(counts.note(0.5, &sighted()), Some(Circle::Sightings(subject())));
    }

    #[test]
    fn what_takes_its_time_is_no_circle() {
        let mut counts = Counts::default();
        assert!((0..10 * MOST_SIGHTINGS).all(|number| counts.note(number as f64 / 100.0, &sighted()).is_none()));
    }

    #[test]
    fn a_circle_is_told_with_its_handlers_and_what_they_change() {
        let request = Request {
            verb: "patch",
            group: "acme.io".to_owned(),
            plural: "backups".to_owned(),
            namespace: "default".to_owned(),
            name: "x".to_owned(),
            lines: vec![r#"~ spec.a: "1" -> "2""#.to_owned(), "= annotations: kept f".to_owned()],
            ..Request::default()
        };
        let call = Event::Called { subject: subject(), call: Call { handler: "b".to_owned(), retry: Some(0) }, reason: "update" };
        let entries: Vec<(f64, Event)> =
            (0..4).flat_map(|_| [sighted(), call.clone(), Event::Request(request.clone())]).map(|event| (0.0, event)).collect();
        let Problem { text, hint } = tell(&Circle::Sightings(subject()), &entries);
        assert_eq!(
            text,
            "the operator runs in circles: Backup default/x was taken up 300 times within a second of virtual time; `b` called 4 times"
        );
        assert_eq!(
            hint.as_deref(),
            Some(r#"what changes each time is `~ spec.a: "1" -> "2"`: a change that calls its handler again has no end"#)
        );
    }
}
