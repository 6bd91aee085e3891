//! Runs one scenario once, in a runtime of its own with paused time: virtual time advances only when every task is
//! idle.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::task::LocalSet;
use tracing::Level;

use crate::kit::Clock;
use crate::telemetry::{self, Format};

use super::chaos::Chaos;
use super::compare::FinalState;
use super::environment::Environment;
use super::execute::{Failure, Mode, execute};
use super::invariants::{Completions, HandledCauses, InvariantReport};
use super::model::Scenario;
use super::timeline::{DEBUG, Event, Subject, Timeline};

/// Result of one run.
pub struct RunResult {
    /// Failed steps; empty if the run passed.
    pub failures: Vec<Failure>,
    /// Virtual time that the run took.
    pub duration: Duration,
    /// Everything that happened.
    pub timeline: Arc<Timeline>,
    /// All objects at the end.
    pub final_state: FinalState,
    /// Completed handlers whose end was stored.
    pub completions: Completions,
    /// How many changes of each object were handled completely.
    pub causes: HandledCauses,
    /// Violated invariants.
    pub violations: Vec<String>,
    /// Objects whose status may have been lost when the operators crashed.
    pub lost_statuses: BTreeSet<Subject>,
}

/// Runs a scenario once. The same scenario with the same seed gives the same timeline.
///
/// # Errors
/// If the operating system cannot create the runtime.
pub fn run(scenario: &Arc<Scenario>, seed: u64, mode: Mode) -> std::io::Result<RunResult> {
    run_at(Level::INFO, scenario, seed, mode)
}

/// Runs a scenario once and records log lines of the given level and above.
///
/// # Errors
/// If the operating system cannot create the runtime.
pub(super) fn run_at(level: Level, scenario: &Arc<Scenario>, seed: u64, mode: Mode) -> std::io::Result<RunResult> {
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build()?;
    let set = LocalSet::new();
    Ok(set.block_on(&runtime, run_in_runtime(level, scenario, seed, mode)))
}

async fn run_in_runtime(level: Level, scenario: &Arc<Scenario>, seed: u64, mode: Mode) -> RunResult {
    let clock = Clock::starting_at(scenario.start);
    let timeline = Arc::new(Timeline::new(clock.clone()));
    let _listening = listen(level, &timeline, &clock);
    let chaos = (mode == Mode::Disturb).then(|| Arc::new(Chaos::new(seed, Arc::clone(&timeline))));
    let mut ended = RunResult {
        failures: Vec::new(),
        duration: Duration::ZERO,
        timeline: Arc::clone(&timeline),
        final_state: FinalState::new(),
        completions: Completions::new(),
        causes: HandledCauses::new(),
        violations: Vec::new(),
        lost_statuses: BTreeSet::new(),
    };
    let environment = Environment::new(Arc::clone(scenario), seed, clock, Arc::clone(&timeline), chaos);
    ended.failures = tokio::select! {
        biased;
        () = environment.invariants.limit_reached(), if mode == Mode::Disturb => Vec::new(),
        problem = timeline.livelocked() => vec![Failure { spot: timeline.step(), ..Failure::of(problem) }],
        problem = environment.outside.unexpected.found() => vec![Failure { spot: timeline.step(), ..Failure::of(problem) }],
        Err(problem) = environment.restart_after_crashes() => vec![Failure::of(problem)],
        failures = execute(&environment, &scenario.steps, mode) => failures,
    };
    if let Err(problem) = environment.outside.http.save() {
        ended.failures.push(Failure::of(problem));
    }
    ended.duration = timeline.elapsed();
    ended.final_state = environment.final_state();
    if mode == Mode::Disturb && ended.failures.is_empty() {
        ended.violations = environment.stale_indexes().await;
    }
    let InvariantReport { completions, causes, violations, lost_statuses } = environment.invariants.verdict();
    ended.violations.extend(violations);
    (ended.completions, ended.causes, ended.lost_statuses) = (completions, causes, lost_statuses);
    ended
}

/// Records everything that is logged on this thread in the timeline.
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
