//! Change-overs between kopfd and Python kopf in the middle of the retries of two hundred objects, also if the engine
//! that took over is killed.
//!
//! Calls and objects are in one store, whose revisions order them. An attempt is repeated if an engine has begun it,
//! and has not stored it before the other one reads the object.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::cases;
use super::peering::{Peers, name, other};
use crate::harness::{
    Call, Case, Engine, Operator, TestContext, Version, heavy_turn, is_handled, last_handled, progress,
};

pub(crate) const CASES: &[Case] = cases![
    kopf_takes_over_from_a_busy_kopfd_and_gives_back,
    kopf_takes_over_from_a_busy_kopfd_and_is_killed,
    kopfd_takes_over_from_a_busy_kopf_and_gives_back,
    kopfd_takes_over_from_a_busy_kopf_and_is_killed,
];

const OBJECTS: usize = 200;

/// The attempts of each object, every six seconds, so that neither change-over meets the first or the last one, which
/// succeeds.
const ATTEMPTS: u64 = 6;

/// How long kopfd takes to end its running handlers and queued events in a pause. kopf does not wait for that.
const DRAINED: SignedDuration = SignedDuration::from_secs(5);

/// How long a kopf that is not starved takes to notice the record of another operator, and to begin nothing more. Its
/// last handlers end in the rest of the five seconds that kopfd leaves it.
const NOTICED: SignedDuration = SignedDuration::from_secs(3);

/// How the engine that has taken over ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Stopped,
    Killed,
}

impl End {
    /// Returns the lifetime in seconds of the record of the engine. Two hundred retries at once may delay a renewal by
    /// seconds.
    fn lifetime(self) -> u64 {
        match self {
            Self::Stopped => 60,
            Self::Killed => 20,
        }
    }
}

fn kopf_takes_over_from_a_busy_kopfd_and_gives_back(context: &TestContext<'_>) {
    change_over(context, Engine::Kopf, End::Stopped);
}

fn kopf_takes_over_from_a_busy_kopfd_and_is_killed(context: &TestContext<'_>) {
    change_over(context, Engine::Kopf, End::Killed);
}

fn kopfd_takes_over_from_a_busy_kopf_and_gives_back(context: &TestContext<'_>) {
    change_over(context, Engine::Kopfd, End::Stopped);
}

fn kopfd_takes_over_from_a_busy_kopf_and_is_killed(context: &TestContext<'_>) {
    change_over(context, Engine::Kopfd, End::Killed);
}

/// An engine with a higher priority takes over in the middle of retries, and ends in the middle of its own ones.
fn change_over(context: &TestContext<'_>, higher: Engine, end: End) {
    let _turn = heavy_turn();
    let peers = Peers::new(context, false);
    let record = context.record(&peers.kind);
    let lower = peers.start(other(higher), 5, 60);
    for number in 0..OBJECTS {
        let steps: Vec<_> = (1..ATTEMPTS).map(|_| json!({"temporary": 6})).collect();
        context.create(&peers.kind, &format!("object-{number}"), json!({"steps": {"on_create": steps}}));
    }
    context.eventually("the retries have begun", || (context.calls().len() >= OBJECTS + OBJECTS / 4).then_some(()));
    let operator = peers.start(higher, 10, end.lifetime());
    let recorded_at = kopfd::kit::Clock::system().now();
    peers.log_says(&lower, "Pausing operations in favour of [<Peer ");
    let paused_at = kopfd::kit::Clock::system().now();
    context.eventually("the other engine has taken over", || {
        let taken = context.calls().iter().filter(|call| call.engine == name(higher)).count();
        (taken >= OBJECTS / 2).then_some(())
    });
    let ended_at = kopfd::kit::Clock::system().now();
    end_operator(context, &operator, end);
    context.eventually_within(Duration::from_mins(2), "all objects are handled", || {
        let objects = context.client().list(&peers.kind.collection(&context.namespace));
        objects.iter().all(is_handled).then_some(())
    });
    let calls = context.calls();
    let late = |call: &&Call| call.engine == "kopfd" && call.at > paused_at + DRAINED && call.at < ended_at;
    if higher == Engine::Kopf {
        assert_eq!(
            calls.iter().filter(late).map(Call::short).collect::<Vec<_>>(),
            [""; 0],
            "a paused kopfd begins nothing"
        );
    }
    let repeated = repeated(&calls, &record.all_versions(), ended_at);
    println!("       {higher:?} took over and was {end:?}: {repeated:?} of {} calls", calls.len());
    if higher == Engine::Kopfd {
        let has_paused_late =
            calls.iter().any(|call| call.engine == "kopf" && call.at > recorded_at + NOTICED && call.at < ended_at);
        assert!(
            repeated.at_takeover == 0 || has_paused_late,
            "kopfd begins when the handlers of the paused kopf have ended"
        );
    }
    if (higher, end) == (Engine::Kopfd, End::Stopped) {
        assert_eq!(repeated.at_return, 0, "kopfd removes its record after its last handlers have ended");
    }
    if (higher, end) == (Engine::Kopf, End::Stopped) {
        let has_ended_late = calls.iter().any(|call| call.engine == "kopf" && call.at > ended_at + NOTICED);
        assert!(
            repeated.at_return == 0 || has_ended_late,
            "kopfd resumes when the last handlers of the stopped kopf have ended"
        );
    }
    if end == End::Killed {
        assert_eq!(repeated.outdated_at_return, 0, "only attempts that the killed engine had not stored are repeated");
    }
}

fn end_operator(context: &TestContext<'_>, operator: &Rc<Operator>, end: End) {
    match end {
        End::Stopped => context.stop(operator),
        End::Killed => context.kill(operator),
    }
}

/// How many attempts were made twice.
#[derive(Debug, Default)]
struct Repeated {
    /// When the engine with the higher priority took over.
    at_takeover: usize,
    /// Of these, those whose first call was stored when the second began: the other engine had read the object before.
    outdated_at_takeover: usize,
    /// When the other engine resumed.
    at_return: usize,
    /// Of these, those whose first call was stored.
    outdated_at_return: usize,
}

/// Checks that no attempt is lost, that none is made after the success was stored, and that each change-over repeats at
/// most one attempt of an object, by the other engine. Returns how many were.
fn repeated(calls: &[Call], versions: &BTreeMap<String, Vec<Version>>, ended_at: Timestamp) -> Repeated {
    let mut by_object: BTreeMap<&str, BTreeMap<u64, Vec<&Call>>> = BTreeMap::new();
    for call in calls {
        by_object.entry(&call.object).or_default().entry(call.retry).or_default().push(call);
    }
    assert_eq!(by_object.len(), OBJECTS, "each object was handled");
    let mut repeated = Repeated::default();
    for (object, attempts) in &by_object {
        let calls: Vec<&&Call> = attempts.values().flatten().collect();
        let report = || {
            format!(
                "{object}: {:#?}",
                calls.iter().map(|call| (call.revision, &call.engine, call.short())).collect::<Vec<_>>()
            )
        };
        assert!(attempts.keys().copied().eq(0..ATTEMPTS), "an attempt is lost of {}", report());
        let before = repeated.counts();
        for attempt in attempts.values() {
            let stored: Vec<u64> =
                attempt.iter().map(|call| stored_attempts(call, &versions[*object], &report)).collect();
            match attempt.as_slice() {
                [call] => assert_eq!(call.retry, stored[0], "{} has another count than {}", call.short(), report()),
                [first, second] => {
                    assert_ne!(first.engine, second.engine, "each engine makes an attempt once: {}", report());
                    assert_eq!(first.retry, stored[0], "{} has another count than {}", first.short(), report());
                    let is_outdated = stored[1] == second.retry + 1;
                    assert!(
                        is_outdated || stored[1] == second.retry,
                        "{} has another count than {}",
                        second.short(),
                        report()
                    );
                    repeated.count(second.at < ended_at, is_outdated);
                }
                _ => panic!("an attempt was made more than twice: {}", report()),
            }
        }
        let after = repeated.counts();
        assert!(
            after[0] <= before[0] + 1 && after[1] <= before[1] + 1,
            "a change-over repeats more than one attempt of {}",
            report()
        );
    }
    repeated
}

/// Returns the number of attempts that are stored on the object when a call begins.
fn stored_attempts(call: &Call, versions: &[Version], report: &dyn Fn() -> String) -> u64 {
    let before = versions
        .iter()
        .rev()
        .find(|version| version.revision < call.revision)
        .and_then(|version| version.object.as_ref());
    let object = before.expect("an object is created before it is handled");
    assert!(last_handled(object).is_none(), "{} was made after its success was stored: {}", call.short(), report());
    progress(object, "on_create").and_then(|record| record["retries"].as_u64()).unwrap_or(0)
}

impl Repeated {
    fn counts(&self) -> [usize; 2] {
        [self.at_takeover, self.at_return]
    }

    fn count(&mut self, is_at_takeover: bool, is_outdated: bool) {
        let (count, outdated) = if is_at_takeover {
            (&mut self.at_takeover, &mut self.outdated_at_takeover)
        } else {
            (&mut self.at_return, &mut self.outdated_at_return)
        };
        *count += 1;
        *outdated += usize::from(is_outdated);
    }
}
