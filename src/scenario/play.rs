//! Playing the steps of a scenario on its stage.

use std::time::Duration;

use tokio::time::Instant;

use crate::apiserver::{admin_client, bootstrap};
use crate::manifest::tree::Spot;

use super::judge::{Difference, judge};
use super::problem::Problem;
use super::stage::{Stage, Unknown};
use super::steps::words;
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
    /// Where the step stands, if it is about one.
    pub spot: Option<Spot>,
    /// What went wrong, if it was not an expectation.
    pub problem: Option<Problem>,
    /// What is not as expected.
    pub differences: Vec<Difference>,
}

impl Failure {
    /// Returns a failure that is not about an expectation, nor about a step.
    pub fn of(problem: impl Into<Problem>) -> Self {
        Self { spot: None, problem: Some(problem.into()), differences: Vec::new() }
    }

    /// Returns a failure of something that stands at a place.
    pub fn at(spot: Spot, problem: impl Into<Problem>) -> Self {
        Self { spot: Some(spot), ..Self::of(problem) }
    }
}

/// Plays all steps. Returns what has failed.
pub async fn play(stage: &Stage, steps: &[Step], mode: Mode) -> Vec<Failure> {
    let mut failures = Vec::new();
    if let Err((spot, problem)) = stage.furnish().await {
        return vec![Failure::at(spot, problem)];
    }
    if let Err(problem) = stage.begin().await {
        return vec![Failure::of(problem)];
    }
    for step in steps {
        if mode == Mode::Disturb && matches!(step.act, Act::Expect(_)) {
            continue;
        }
        stage.timeline.add(Event::Step { spot: step.spot, title: step.title.clone() });
        if let Err(failure) = perform(stage, step, mode).await {
            let is_fatal = failure.problem.is_some();
            failures.push(failure);
            if is_fatal || mode == Mode::Check {
                // A fault that nothing can be like may be the reason.
                failures.extend(idle_faults(stage).filter(|(_, is_possible)| !is_possible).map(|(failure, _)| failure));
                return failures;
            }
        }
    }
    if mode != Mode::Disturb {
        failures.extend(idle_faults(stage).map(|(failure, _)| failure));
    }
    if let Some(chaos) = &stage.chaos {
        chaos.end();
        if let Err(pending) = stage.settle_all(PATIENCE).await {
            failures.push(Failure::of(format!("it does not settle in the end, within {}: {pending}", words(PATIENCE))));
        }
    }
    failures
}

/// Returns the faults that have never fired though nothing was left to chance, and whether the server has something that they can be about.
fn idle_faults(stage: &Stage) -> impl Iterator<Item = (Failure, bool)> + use<> {
    let idle = stage.idle_faults().into_iter().map(|(spot, resource)| match resource {
        None => {
            let hint = "mend what it says of requests, or leave it out: a scenario with it is as one without it";
            (Failure::at(spot, Problem::from("this fault has never fired: no request was like that".to_owned()).with_hint(hint)), true)
        }
        Some(Unknown { resource, meant }) => {
            let problem = Problem::from(format!("this fault cannot fire: the server has no resource `{resource}`"));
            let hint = meant.map_or_else(
                || "write the plural name, such as `jobs` or `jobs.batch`".to_owned(),
                |meant| format!("did you mean `{meant}`?"),
            );
            (Failure::at(spot, problem.with_hint(hint)), false)
        }
    });
    idle.collect::<Vec<_>>().into_iter()
}

async fn perform(stage: &Stage, step: &Step, mode: Mode) -> Result<(), Failure> {
    let fail = |problem: Problem| Failure::at(step.spot, problem);
    match &step.act {
        Act::Restart(absence) => away(stage, absence, false).await.map_err(fail),
        Act::Kill(absence) => away(stage, absence, true).await.map_err(fail),
        Act::Settle { within, despite_errors } => settle(stage, *within, *despite_errors, mode).await.map_err(fail),
        Act::Expect(expectation) => match judge(stage, step.spot, expectation).await {
            differences if differences.is_empty() => Ok(()),
            differences => Err(Failure { spot: Some(step.spot), problem: None, differences }),
        },
        _ => simple(stage, step).await.map_err(fail),
    }
}

/// Waits until nothing is due. With disturbances the scenario's own bound does not hold, and errors are in the nature of things.
async fn settle(stage: &Stage, within: Duration, despite_errors: bool, mode: Mode) -> Result<(), Problem> {
    let unsettled = |within| move |pending| format!("nothing has settled within {}: {pending}", words(within));
    if mode == Mode::Disturb {
        return Ok(stage.settle_all(PATIENCE).await.map_err(unsettled(PATIENCE))?);
    }
    stage.settle(within).await.map_err(unsettled(within))?;
    if despite_errors {
        return Ok(());
    }
    let Some(broken) = stage.broken().await.into_iter().next() else { return Ok(()) };
    let problem = Problem::from(format!("nothing is due, but not all is well: {broken}"));
    Err(problem.with_hint("only the object's next change is processed again; where that is meant, write `settle: {despiteErrors: true}`"))
}

/// Performs what can be done while the operators are away, too.
async fn simple(stage: &Stage, step: &Step) -> Result<(), Problem> {
    match &step.act {
        Act::Apply(objects) => {
            bootstrap::apply(&stage.api, objects.clone())
                .await
                .map_err(|refused| Problem::of_refusal(&refused, "", &stage.api.registry()))?;
        }
        Act::Patch(change) => {
            let meant = stage.find(&change.target)?;
            let sent = admin_client::patch(&stage.api, &meant, change.subresource.as_deref(), change.media, &change.patch).await;
            sent.map_err(|refused| format!("{}: {refused}", change.target))?;
        }
        Act::Delete(target, propagation) => {
            let meant = stage.find(target)?;
            admin_client::delete(&stage.api, &meant, propagation.as_deref()).await.map_err(|refused| format!("{target}: {refused}"))?;
        }
        Act::Fault(fault) => stage.add_fault(step.spot, fault.rule.clone()),
        Act::EndFaults => stage.api.injection().faults().clear(),
        Act::Advance(duration) => tokio::time::sleep(*duration).await,
        _ => {}
    }
    Ok(())
}

async fn away(stage: &Stage, absence: &Absence, is_killed: bool) -> Result<(), Problem> {
    let _turn = stage.transition().await;
    if is_killed {
        stage.kill().await;
    } else {
        stage.stop().await;
    }
    let back_at = Instant::now() + absence.downtime;
    for step in &absence.meanwhile {
        stage.timeline.add(Event::Step { spot: step.spot, title: format!("meanwhile, {}", step.title) });
        simple(stage, step).await?;
    }
    tokio::time::sleep_until(back_at).await;
    Ok(stage.start().await?)
}
