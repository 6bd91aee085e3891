//! Playing the steps of a scenario on its stage.

use std::time::Duration;

use tokio::time::Instant;

use crate::devserver::{given, hand};

use super::judge::{Difference, judge};
use super::stage::Stage;
use super::story::{Absence, Act, Step};
use super::timeline::Event;

/// How long anything may take that is disturbed: longer than all back-offs together.
const PATIENCE: Duration = Duration::from_hours(24);

/// What is done with expectations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// The first step that is not as expected ends the scenario.
    Check,
    /// All steps are judged, whatever comes out.
    Gather,
    /// Expectations do not count, since there are disturbances: only the invariants do.
    Disturb,
}

/// Why a scenario has failed.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The line of the step; zero if it is none.
    pub line: usize,
    /// What went wrong, if it was not an expectation.
    pub problem: Option<String>,
    /// What is not as expected.
    pub differences: Vec<Difference>,
}

impl Failure {
    /// Returns a failure that is not about an expectation.
    pub fn of(line: usize, problem: String) -> Self {
        Self { line, problem: Some(problem), differences: Vec::new() }
    }
}

/// Plays all steps. Returns what has failed.
pub async fn play(stage: &Stage, steps: &[Step], mode: Mode) -> Vec<Failure> {
    let mut failures = Vec::new();
    if let Err(problem) = stage.begin().await {
        return vec![Failure::of(0, problem)];
    }
    for step in steps {
        if mode == Mode::Disturb && matches!(step.act, Act::Expect(_)) {
            continue;
        }
        stage.timeline.add(Event::Step { line: step.spot.line, title: step.title.clone() });
        if let Err(failure) = perform(stage, step, mode).await {
            let is_fatal = failure.problem.is_some();
            failures.push(failure);
            if is_fatal || mode == Mode::Check {
                return failures;
            }
        }
    }
    if let Some(chaos) = &stage.chaos {
        chaos.end();
        if let Err(pending) = stage.settle(PATIENCE).await {
            failures.push(Failure::of(0, format!("it does not settle in the end: {pending}")));
        }
    }
    failures
}

async fn perform(stage: &Stage, step: &Step, mode: Mode) -> Result<(), Failure> {
    let line = step.spot.line;
    let fail = |problem: String| Failure::of(line, problem);
    match &step.act {
        Act::Restart(absence) => away(stage, absence, false).await.map_err(fail),
        Act::Kill(absence) => away(stage, absence, true).await.map_err(fail),
        Act::Settle { within } => {
            let patience = if mode == Mode::Disturb { PATIENCE } else { *within };
            stage.settle(patience).await.map_err(|pending| fail(format!("nothing has settled within {}s: {pending}", within.as_secs_f64())))
        }
        Act::Expect(expectation) => match judge(stage, step.spot, expectation).await {
            differences if differences.is_empty() => Ok(()),
            differences => Err(Failure { line, problem: None, differences }),
        },
        _ => simple(stage, step).await.map_err(fail),
    }
}

/// Performs what can be done while the operators are away, too.
async fn simple(stage: &Stage, step: &Step) -> Result<(), String> {
    match &step.act {
        Act::Apply(objects) => {
            given::apply(&stage.api, objects.clone()).await.map_err(|refused| refused.to_string())?;
        }
        Act::Patch(change) => {
            let meant = stage.find(&change.target)?;
            let sent = hand::patch(&stage.api, &meant, change.subresource.as_deref(), change.media, &change.patch).await;
            sent.map_err(|refused| format!("{}: {refused}", change.target))?;
        }
        Act::Delete(target, propagation) => {
            let meant = stage.find(target)?;
            hand::delete(&stage.api, &meant, propagation.as_deref()).await.map_err(|refused| format!("{target}: {refused}"))?;
        }
        Act::Fault(rule) => {
            stage.api.add_fault((**rule).clone());
        }
        Act::EndFaults => stage.api.injection().faults().clear(),
        Act::Advance(duration) => tokio::time::sleep(*duration).await,
        _ => {}
    }
    Ok(())
}

async fn away(stage: &Stage, absence: &Absence, is_killed: bool) -> Result<(), String> {
    let _turn = stage.transition().await;
    if is_killed {
        stage.kill().await;
    } else {
        stage.stop().await;
    }
    let back_at = Instant::now() + absence.downtime;
    for step in &absence.meanwhile {
        stage.timeline.add(Event::Step { line: step.spot.line, title: format!("meanwhile, {}", step.title) });
        simple(stage, step).await?;
    }
    tokio::time::sleep_until(back_at).await;
    stage.start().await
}
