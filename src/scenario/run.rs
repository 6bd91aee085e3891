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
use super::invariants::Ends;
use super::play::{Failure, Mode, play};
use super::stage::Stage;
use super::story::Scenario;
use super::timeline::{Event, Subject, Timeline};

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
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build()?;
    let set = LocalSet::new();
    Ok(set.block_on(&runtime, perform(scenario, seed, mode)))
}

async fn perform(scenario: &Arc<Scenario>, seed: u64, mode: Mode) -> Ended {
    let clock = Clock::starting_at(scenario.start);
    let timeline = Arc::new(Timeline::new(clock.clone()));
    let _listening = listen(&timeline, &clock);
    let chaos = (mode == Mode::Disturb).then(|| Arc::new(Chaos::new(seed, Arc::clone(&timeline))));
    let mut ended = Ended {
        failures: Vec::new(),
        seconds: 0.0,
        timeline: Arc::clone(&timeline),
        ending: Ending::new(),
        ends: Ends::new(),
        violations: Vec::new(),
        lost_statuses: BTreeSet::new(),
    };
    // Ids begin elsewhere for other seeds, but are the same for an undisturbed run and its repetition.
    let stage = match Stage::set(Arc::clone(scenario), seed, clock, Arc::clone(&timeline), chaos).await {
        Ok(stage) => stage,
        Err(problem) => {
            ended.failures.push(Failure::of(0, problem));
            return ended;
        }
    };
    ended.failures = tokio::select! {
        biased;
        () = timeline.overflowed() => vec![Failure::of(0, "the operator runs in circles, and time does not go on".to_owned())],
        Err(problem) = stage.revive() => vec![Failure::of(0, problem)],
        failures = play(&stage, &scenario.steps, mode) => failures,
    };
    ended.seconds = timeline.elapsed();
    ended.ending = stage.ending(&scenario.seeds.ignore);
    (ended.ends, ended.violations) = stage.invariants.result();
    ended.lost_statuses = stage.invariants.lost_statuses();
    ended
}

/// Lets everything that is logged on this thread be a part of the timeline.
fn listen(timeline: &Arc<Timeline>, clock: &Clock) -> telemetry::DefaultGuard {
    let timeline = Arc::clone(timeline);
    telemetry::listen(Level::INFO, clock.clone(), move |line| {
        let level = match line.level {
            Level::ERROR => "ERROR",
            Level::WARN => "WARNING",
            _ => "INFO",
        };
        let printed = line.print(Format::Plain, "object", true);
        timeline.add(Event::Log { level, message: line.message, printed });
    })
}
