//! One run of one scenario, in a runtime of its own, whose time passes only when nobody has anything to do.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::runtime::Builder;
use tokio::task::LocalSet;
use tracing::Level;

use crate::kit::Clock;
use crate::telemetry::{self, Format};

use super::chaos::Chaos;
use super::compare::Ending;
use super::invariants::{Causes, Ends, Verdict};
use super::play::{Failure, Mode, play};
use super::stage::Stage;
use super::story::Scenario;
use super::timeline::{Event, Subject, Timeline};

/// The level of lines for debugging, which no expectation knows of.
pub const DEBUG: &str = "DEBUG";

/// How a run has ended.
pub struct Ended {
    /// What has failed; nothing if all is well.
    pub failures: Vec<Failure>,
    /// The virtual seconds that it took.
    pub seconds: f64,
    /// What has happened.
    pub timeline: Arc<Timeline>,
    /// The objects in the end.
    pub ending: Ending,
    /// The ends of handlers that were stored.
    pub ends: Ends,
    /// How often a change of an object was handled to its end.
    pub causes: Causes,
    /// The invariants that were violated.
    pub violations: Vec<String>,
    /// The objects whose status may have been lost with a life of the operators.
    pub lost_statuses: BTreeSet<Subject>,
}

/// Runs a scenario once. The same scenario with the same seed gives the same timeline.
///
/// # Errors
/// If the system gives no runtime.
pub fn run(scenario: &Arc<Scenario>, seed: u64, mode: Mode) -> std::io::Result<Ended> {
    run_at(Level::INFO, scenario, seed, mode)
}

/// Runs a scenario once, with what is logged from a level up.
///
/// # Errors
/// If the system gives no runtime.
pub fn run_at(level: Level, scenario: &Arc<Scenario>, seed: u64, mode: Mode) -> std::io::Result<Ended> {
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build()?;
    let set = LocalSet::new();
    Ok(set.block_on(&runtime, perform(level, scenario, seed, mode)))
}

async fn perform(level: Level, scenario: &Arc<Scenario>, seed: u64, mode: Mode) -> Ended {
    let clock = Clock::starting_at(scenario.start);
    let timeline = Arc::new(Timeline::new(clock.clone()));
    let _listening = listen(level, &timeline, &clock);
    let chaos = (mode == Mode::Disturb).then(|| Arc::new(Chaos::new(seed, Arc::clone(&timeline))));
    let mut ended = Ended {
        failures: Vec::new(),
        seconds: 0.0,
        timeline: Arc::clone(&timeline),
        ending: Ending::new(),
        ends: Ends::new(),
        causes: Causes::new(),
        violations: Vec::new(),
        lost_statuses: BTreeSet::new(),
    };
    let stage = Stage::set(Arc::clone(scenario), seed, clock, Arc::clone(&timeline), chaos);
    ended.failures = tokio::select! {
        biased;
        () = stage.invariants.exhausted(), if mode == Mode::Disturb => Vec::new(),
        problem = timeline.overflowed() => vec![Failure { spot: timeline.step(), ..Failure::of(problem) }],
        Err(problem) = stage.revive() => vec![Failure::of(problem)],
        failures = play(&stage, &scenario.steps, mode) => failures,
    };
    ended.seconds = timeline.elapsed();
    ended.ending = stage.ending(&scenario.seeds.ignore);
    let Verdict { ends, causes, violations, lost_statuses } = stage.invariants.verdict();
    (ended.ends, ended.causes, ended.violations, ended.lost_statuses) = (ends, causes, violations, lost_statuses);
    ended
}

/// Lets everything that is logged on this thread be a part of the timeline.
fn listen(level: Level, timeline: &Arc<Timeline>, clock: &Clock) -> telemetry::DefaultGuard {
    let timeline = Arc::clone(timeline);
    telemetry::listen(level, clock.clone(), move |line| {
        let level = match line.level {
            Level::ERROR => "ERROR",
            Level::WARN => "WARNING",
            Level::INFO => "INFO",
            _ => DEBUG,
        };
        let printed = line.print(Format::Plain, "object", true);
        timeline.add(Event::Log { level, message: line.message, printed });
    })
}
