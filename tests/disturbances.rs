//! The disturbances of `kopfd test --seeds`: each kind of them happens, and has its effect.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kopfd::scenario::{self, Event, Mode, Scenario};

/// Seeds within which each kind must have happened: as many as the gate runs for each scenario of the examples.
const SEEDS: u64 = 200;

/// `settings.persistence.consistencyTimeout`: for so long the engine waits for the event of its own patch.
const CONSISTENCY_TIMEOUT: Duration = Duration::from_secs(5);

/// Attempts of a request: one more than `settings.networking.errorBackoffs` has pauses.
const ATTEMPTS: usize = 9;

/// The path that the operator of the scenario watches.
const PATH: &str = "/apis/kopfd.dev/v1/kopfdexamples";

type Entries = [(Duration, Event)];

/// A kind of disturbances, and whether a run has one.
type DisturbanceKind = (&'static str, fn(&Entries) -> bool);

const KINDS: [DisturbanceKind; 20] = [
    ("a reopened watch that repeats events", |run| {
        any(run, &format!("the watch of {PATH} begins at version "), repeats_events)
    }),
    ("a watch that is silent for less than the consistency timeout", |run| {
        is_silent(run, |silence| silence < CONSISTENCY_TIMEOUT)
    }),
    ("a watch that is silent for longer than the consistency timeout", |run| {
        is_silent(run, |silence| silence > CONSISTENCY_TIMEOUT)
    }),
    ("a watch that ends", |run| has(run, &format!("the watch of {PATH} ends"))),
    ("a watch that breaks in the middle of a line", |run| has(run, &format!("the watch of {PATH} breaks"))),
    ("a watch that expires while it is open", |run| has(run, &format!("the watch of {PATH} expires"))),
    ("a watch that has expired when it is opened", |run| {
        has(run, &format!("the watch of {PATH} is answered with 410"))
    }),
    ("a list that is answered late", |run| has(run, &format!("the answer to the request list {PATH} is delayed"))),
    ("a list that is lost", |run| has(run, &format!("the request list {PATH} is lost"))),
    ("a list that is refused", |run| has(run, &format!("the request list {PATH} is answered with "))),
    ("a write that is answered late", |run| has(run, "the answer to the request patch kopfdexamples")),
    ("a write that is lost", |run| {
        any(run, "the request patch kopfdexamples", |_, what, _| what.ends_with(" is lost"))
    }),
    ("a write that is refused", |run| {
        any(run, "the request patch kopfdexamples", |_, what, _| what.contains(" is answered with "))
    }),
    ("a write whose answer is lost", |run| has(run, "the answer is lost")),
    ("a write that meets a conflict", |run| has(run, "another client writes kopfdexamples")),
    ("a crash before a write", |run| {
        any(run, "the operators crash before the request patch", |_, _, later| is_killed_before_writing(later))
    }),
    ("a crash between a write and its answer", |run| {
        any(run, "the operators crash after the request", |earlier, _, later| {
            matches!(earlier.last(), Some((_, Event::Request(_)))) && is_killed_before_writing(later)
        })
    }),
    ("an outage in which all attempts of a write fail", |run| any(run, OUTAGE, all_attempts_of_a_write_fail)),
    ("an outage in which watches fail", |run| {
        any(run, OUTAGE, |_, what, later| has(during(what, later), &format!("the watch of {PATH} does not open")))
    }),
    ("an outage in which lists fail", |run| {
        any(run, OUTAGE, |_, what, later| has(during(what, later), &format!("the request list {PATH} is not answered")))
    }),
];

const OUTAGE: &str = "the server does not answer the engine for ";

#[test]
fn every_kind_of_disturbance_happens() {
    let scenario = life();
    let mut missing = KINDS.to_vec();
    for seed in 0..SEEDS {
        let run = scenario::run(&scenario, seed, Mode::Disturb).unwrap();
        run.timeline.with(|entries| missing.retain(|(_, happens)| !happens(entries)));
        if missing.is_empty() {
            return;
        }
    }
    panic!("no seed below {SEEDS} has {:#?}", missing.iter().map(|(kind, _)| kind).collect::<Vec<_>>());
}

#[test]
fn events_are_late_even_if_nothing_else_is_disturbed() {
    let scenario = life();
    let undisturbed = scenario::run(&scenario, 0, Mode::Check).unwrap();
    assert!(undisturbed.timeline.with(is_without_faults));
    let mut disturbed = (0..SEEDS).map(|seed| scenario::run(&scenario, seed, Mode::Disturb).unwrap());
    let delayed = disturbed.find(|run| run.timeline.with(is_without_faults)).expect("some seeds only delay messages");
    assert_ne!(delayed.timeline.with(arrivals), undisturbed.timeline.with(arrivals));
}

fn is_without_faults(run: &Entries) -> bool {
    !run.iter().any(|(_, event)| matches!(event, Event::Fault(_)))
}

/// Returns the times at which events have reached the operator.
fn arrivals(run: &Entries) -> Vec<Duration> {
    run.iter().filter(|(_, event)| matches!(event, Event::ObjectSeen { .. })).map(|(at, _)| *at).collect()
}

/// Returns the scenario of an object that is made, changed and deleted.
fn life() -> Arc<Scenario> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/05-handlers/scenarios/life.yaml");
    let found = scenario::find(&[file]);
    Arc::new(
        found.scenarios.into_iter().find(|one| one.name == "a full life cycle").expect("the example has this scenario"),
    )
}

/// Tells whether a disturbance whose text begins so has happened.
fn has(run: &Entries, text: &str) -> bool {
    any(run, text, |_, _, _| true)
}

/// Tells whether a disturbance whose text begins so fulfils a condition on what came before it, its text, and what
/// comes from it on.
fn any(run: &Entries, text: &str, is_meant: impl Fn(&Entries, &str, &Entries) -> bool) -> bool {
    run.iter().enumerate().any(|(index, (_, event))| match event {
        Event::Fault(what) if what.starts_with(text) => is_meant(&run[..index], what, &run[index..]),
        _ => false,
    })
}

/// Tells whether a version that was seen before arrives again by a watch, before the operator is restarted.
fn repeats_events(earlier: &Entries, _: &str, later: &Entries) -> bool {
    let seen = |entries: &Entries, wanted: &str| {
        entries.iter().any(|(_, event)| matches!(event, Event::ObjectSeen { version, .. } if version == wanted))
    };
    until_restart(later).iter().any(|(_, event)| match event {
        Event::ObjectSeen { arrival, version, .. } => *arrival != "listed" && seen(earlier, version),
        _ => false,
    })
}

/// Tells whether a watch is silent for a time, and no event arrives until then.
fn is_silent(run: &Entries, is_meant: impl Fn(Duration) -> bool) -> bool {
    let text = format!("the watch of {PATH} is silent for ");
    any(run, &text, |_, what, later| {
        let milliseconds = what[text.len()..].trim_end_matches(" ms").parse().expect("the time is a number");
        let silence = Duration::from_millis(milliseconds);
        let (began_at, _) = later[0];
        let next = later.iter().find(|(_, event)| matches!(event, Event::ObjectSeen { .. }));
        is_meant(silence) && next.is_some_and(|(at, _)| *at >= began_at + silence)
    })
}

/// Tells whether an outage lasts longer than all attempts of a write, which nothing interrupts.
fn all_attempts_of_a_write_fail(_: &Entries, _: &str, later: &Entries) -> bool {
    let failed: Vec<&String> = until_restart(later)
        .iter()
        .map_while(|(_, event)| match event {
            Event::Request(request) if request.verb == "patch" => None,
            other => Some(other),
        })
        .filter_map(|event| match event {
            Event::Fault(what) if what.starts_with("the request patch ") && what.ends_with(" is not answered") => {
                Some(what)
            }
            _ => None,
        })
        .collect();
    failed.chunk_by(|one, other| one == other).any(|of_one_request| of_one_request.len() >= ATTEMPTS)
}

/// Returns the entries of an outage.
fn during<'a>(what: &str, later: &'a Entries) -> &'a Entries {
    let seconds = what[OUTAGE.len()..].trim_end_matches(" seconds").parse().expect("the time is a number");
    let ends_at = later[0].0 + Duration::from_secs(seconds);
    &later[..later.partition_point(|(at, _)| *at < ends_at)]
}

/// Tells whether the operator is killed before it writes anything else.
fn is_killed_before_writing(later: &Entries) -> bool {
    let next = later.iter().find(|(_, event)| matches!(event, Event::Request(_) | Event::Operator(_)));
    matches!(next, Some((_, Event::Operator(what))) if what == "the operator is killed")
}

/// Returns the entries until the operator is stopped or killed.
fn until_restart(entries: &Entries) -> &Entries {
    let end = entries.iter().position(|(_, event)| matches!(event, Event::Operator(_)));
    &entries[..end.unwrap_or(entries.len())]
}
