//! Executes the steps of a scenario in its environment.

use std::time::Duration;

use tokio::time::Instant;

use crate::apiserver::{admin_client, bootstrap};
use crate::manifest::tree::SourceSpan;

use super::answer;
use super::conversion;
use super::environment::{Environment, UnknownResource};
use super::hook;
use super::model::{CheckedRequest, Downtime, HookStep, Step, StepAction};
use super::problem::Problem;
use super::steps::format_duration;
use super::timeline::Event;
use super::verify::{Difference, verify};

/// Time limit for settling in a disturbed run: longer than all back-offs together.
const DISTURBED_TIMEOUT: Duration = Duration::from_hours(24);

/// A part of the API server's message about a webhook that cannot be called.
const NO_WEBHOOK: &str = "failed calling webhook";

/// Parts of the API server's message about a failed conversion, and of the operator's own message in it.
const NO_CONVERSION: &str = "conversion webhook for";
const NOT_CONVERTED: &str = " cannot be converted to ";

/// How long a request is repeated whose webhooks cannot be called, and how often.
const WEBHOOK_TIMEOUT: Duration = Duration::from_hours(1);
const WEBHOOK_PAUSE: Duration = Duration::from_secs(1);

/// Treatment of expectations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// The first failed step ends the scenario.
    Check,
    /// All steps are executed and checked.
    CheckAll,
    /// Expectations are skipped because of the disturbances: only the invariants count.
    Disturb,
}

/// A failed step, or a failure of the whole run.
#[derive(Debug, Clone)]
pub struct Failure {
    /// Position of the step; `None` if the failure concerns no single step.
    pub spot: Option<SourceSpan>,
    /// Problem of the step, if no expectation has failed.
    pub problem: Option<Problem>,
    /// Differences from the expectation.
    pub differences: Vec<Difference>,
}

impl Failure {
    /// Creates a failure that concerns neither an expectation nor a step.
    pub fn of(problem: impl Into<Problem>) -> Self {
        Self { spot: None, problem: Some(problem.into()), differences: Vec::new() }
    }

    /// Creates a failure at a position.
    pub fn at(spot: SourceSpan, problem: impl Into<Problem>) -> Self {
        Self { spot: Some(spot), ..Self::of(problem) }
    }
}

/// Executes all steps. Returns the failures.
pub(super) async fn execute(environment: &Environment, steps: &[Step], mode: Mode) -> Vec<Failure> {
    let mut failures = Vec::new();
    if let Err((spot, problem)) = environment.apply_given().await {
        return vec![Failure::at(spot, problem)];
    }
    if let Err(problem) = environment.start_first().await {
        return vec![Failure::of(problem)];
    }
    for step in steps {
        if mode == Mode::Disturb && matches!(step.action, StepAction::Expect(_)) {
            continue;
        }
        environment.timeline.add(Event::Step { spot: step.spot, title: step.title.clone() });
        // Boxed, since a step may start operators, whose futures are large.
        if let Err(failure) = Box::pin(execute_step(environment, step, mode)).await {
            let is_fatal = failure.problem.is_some();
            failures.push(failure);
            if is_fatal || mode == Mode::Check {
                // A fault that cannot fire may be the cause.
                failures.extend(
                    unfired_faults(environment).filter(|(_, is_possible)| !is_possible).map(|(failure, _)| failure),
                );
                return failures;
            }
        }
    }
    if mode != Mode::Disturb {
        failures.extend(unfired_faults(environment).map(|(failure, _)| failure));
    }
    if let Some(chaos) = &environment.chaos {
        chaos.end();
        if let Err(pending) = environment.settle_all(DISTURBED_TIMEOUT).await {
            failures.push(Failure::of(format!(
                "not settled at the end, within {}: {pending}",
                format_duration(DISTURBED_TIMEOUT)
            )));
        }
    }
    failures
}

/// Returns the deterministic faults that never fired, and whether they could have.
fn unfired_faults(environment: &Environment) -> impl Iterator<Item = (Failure, bool)> + use<> {
    let idle = environment.faults.unfired().into_iter().map(|(spot, resource)| match resource {
        None => {
            let hint = "fix what it matches, or remove it: it has no effect on the scenario";
            (
                Failure::at(
                    spot,
                    Problem::from("this fault never fired: no request matched".to_owned()).with_hint(hint),
                ),
                true,
            )
        }
        Some(UnknownResource { resource, suggestion }) => {
            let problem = Problem::from(format!("this fault cannot fire: the server has no resource `{resource}`"));
            let hint = suggestion.map_or_else(
                || "write the plural name, such as `jobs` or `jobs.batch`".to_owned(),
                |suggestion| format!("did you mean `{suggestion}`?"),
            );
            (Failure::at(spot, problem.with_hint(hint)), false)
        }
    });
    idle.collect::<Vec<_>>().into_iter()
}

async fn execute_step(environment: &Environment, step: &Step, mode: Mode) -> Result<(), Failure> {
    let fail = |problem: Problem| Failure::at(step.spot, problem);
    match &step.action {
        StepAction::Restart(downtime) => stop_and_restart(environment, step, (downtime, false), mode).await,
        StepAction::Kill(downtime) => stop_and_restart(environment, step, (downtime, true), mode).await,
        StepAction::Reload { files, is_refused } => {
            // Boxed, since a step has no place for the state of a reload.
            Box::pin(environment.reload(files, *is_refused)).await.map_err(|text| fail(text.into()))
        }
        StepAction::Settle { within, despite_errors } => {
            settle(environment, *within, *despite_errors, mode).await.map_err(fail)
        }
        StepAction::Expect(expectation) => match verify(environment, step.spot, expectation).await {
            differences if differences.is_empty() => Ok(()),
            differences => Err(Failure { spot: Some(step.spot), problem: None, differences }),
        },
        StepAction::Request(checked) => send_request(environment, step, checked, mode, Operators::Started).await,
        StepAction::Hook(request) => call_hook(environment, step, request, mode).await,
        StepAction::Convert(conversion) => {
            let patience = Patience::new(environment, Operators::Started);
            let is_repeated = async |refusal: &str| patience.waits_after(refusal).await;
            // Conversions depend on nothing that is disturbed, so that they are checked in disturbed runs, too.
            match conversion::check::perform(environment, step.spot, conversion, &is_repeated).await.map_err(fail)? {
                differences if differences.is_empty() => Ok(()),
                differences => Err(Failure { spot: Some(step.spot), problem: None, differences }),
            }
        }
        _ => execute_simple_step(environment, step, Operators::Started).await.map_err(fail),
    }
}

/// Whether the operators run, except for disturbances.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operators {
    Started,
    Stopped,
}

/// Decides about repetitions of requests whose webhooks cannot be called. In a disturbed run, the operator may be
/// killed at any moment, and a user would repeat the request.
struct Patience {
    until: Option<Instant>,
}

impl Patience {
    fn new(environment: &Environment, operators: Operators) -> Self {
        let is_patient = environment.chaos.is_some() && operators == Operators::Started;
        Self { until: is_patient.then(|| Instant::now() + WEBHOOK_TIMEOUT) }
    }

    /// Waits before a repetition; returns whether there is one.
    async fn waits_after(&self, refusal: &str) -> bool {
        let is_uncalled =
            refusal.contains(NO_WEBHOOK) || (refusal.contains(NO_CONVERSION) && !refusal.contains(NOT_CONVERTED));
        let is_repeated = is_uncalled && self.until.is_some_and(|until| Instant::now() < until);
        if is_repeated {
            tokio::time::sleep(WEBHOOK_PAUSE).await;
        }
        is_repeated
    }
}

async fn send_request(
    environment: &Environment,
    step: &Step,
    checked: &CheckedRequest,
    mode: Mode,
    operators: Operators,
) -> Result<(), Failure> {
    let patience = Patience::new(environment, operators);
    let answered = loop {
        let answered = answer::send(environment, checked).await.map_err(|problem| Failure::at(step.spot, problem))?;
        let refusal = answered.body["message"].as_str().filter(|_| !answered.is_success()).unwrap_or_default();
        if !patience.waits_after(refusal).await {
            break answered;
        }
    };
    if mode == Mode::Disturb {
        return Ok(());
    }
    match answer::verify(environment, step, &checked.answer, &answered).await {
        differences if differences.is_empty() => Ok(()),
        differences => Err(Failure { spot: Some(step.spot), problem: None, differences }),
    }
}

/// Sends a request to a hook. In a disturbed run, the operator may be killed at any moment, and a sender would repeat
/// the request.
async fn call_hook(environment: &Environment, step: &Step, request: &HookStep, mode: Mode) -> Result<(), Failure> {
    let patience = Patience::new(environment, Operators::Started);
    let answer = loop {
        let answer = hook::send(environment, request).await.map_err(|problem| Failure::at(step.spot, problem))?;
        let is_expected = request.expected.status.is_some_and(|(_, status)| status == i64::from(answer.status));
        let is_unserved = !is_expected && matches!(answer.status, 404 | 503);
        if !(is_unserved && patience.waits_after(NO_WEBHOOK).await) {
            break answer;
        }
    };
    if mode == Mode::Disturb {
        return Ok(());
    }
    match hook::verify(environment, step, &request.expected, &answer).await {
        differences if differences.is_empty() => Ok(()),
        differences => Err(Failure { spot: Some(step.spot), problem: None, differences }),
    }
}

/// Waits until nothing is pending. In a disturbed run the scenario's time limit does not apply, and failed cycles are
/// expected.
async fn settle(environment: &Environment, within: Duration, despite_errors: bool, mode: Mode) -> Result<(), Problem> {
    let unsettled = |within| move |pending| format!("not settled within {}: {pending}", format_duration(within));
    if mode == Mode::Disturb {
        return Ok(environment.settle_all(DISTURBED_TIMEOUT).await.map_err(unsettled(DISTURBED_TIMEOUT))?);
    }
    environment.settle(within).await.map_err(unsettled(within))?;
    if despite_errors {
        return Ok(());
    }
    let Some(broken) = environment.broken().await.into_iter().next() else { return Ok(()) };
    let problem = Problem::from(format!("settled, but {broken}"));
    Err(problem.with_hint("the object is processed again only when it changes; if this is intended, write `settle: {despiteErrors: true}`"))
}

/// Executes a step that is allowed while the operators are stopped, too.
async fn execute_simple_step(environment: &Environment, step: &Step, operators: Operators) -> Result<(), Problem> {
    let patience = Patience::new(environment, operators);
    loop {
        match try_simple_step(environment, step).await {
            Err(problem) if patience.waits_after(&problem.text).await => {}
            done => return done,
        }
    }
}

async fn try_simple_step(environment: &Environment, step: &Step) -> Result<(), Problem> {
    match &step.action {
        StepAction::Apply(objects) => {
            bootstrap::apply(&environment.api, objects.clone())
                .await
                .map_err(|refused| Problem::of_refusal(&refused, "", &environment.api.registry()))?;
        }
        StepAction::Patch(change) => {
            let object = environment.find(&change.target)?;
            let sent = admin_client::patch(
                &environment.api,
                &object,
                change.subresource.as_deref(),
                change.media,
                &change.patch,
            )
            .await;
            sent.map_err(|refused| format!("{}: {refused}", change.target))?;
        }
        StepAction::Delete(target, propagation) => {
            let object = environment.find(target)?;
            admin_client::delete(&environment.api, &object, propagation.as_deref())
                .await
                .map_err(|refused| format!("{target}: {refused}"))?;
        }
        StepAction::Peer(change) => environment.change_peer(change).await?,
        StepAction::Fault(fault) => environment.faults.add(step.spot, fault.rule.clone()),
        StepAction::ClearFaults => environment.faults.clear(),
        StepAction::Advance(duration) => tokio::time::sleep(*duration).await,
        _ => {}
    }
    Ok(())
}

async fn stop_and_restart(
    environment: &Environment,
    step: &Step,
    (downtime, is_killed): (&Downtime, bool),
    mode: Mode,
) -> Result<(), Failure> {
    let _guard = environment.lock_transition().await;
    let fail = |text: String| Failure::at(step.spot, text);
    if is_killed {
        environment.kill().await;
    } else {
        environment.stop().await.map_err(fail)?;
    }
    let back_at = Instant::now() + downtime.duration;
    for step in &downtime.meanwhile {
        environment.timeline.add(Event::Step { spot: step.spot, title: format!("meanwhile, {}", step.title) });
        match &step.action {
            StepAction::Request(checked) => send_request(environment, step, checked, mode, Operators::Stopped).await?,
            _ => {
                execute_simple_step(environment, step, Operators::Stopped)
                    .await
                    .map_err(|problem| Failure::at(step.spot, problem))?;
            }
        }
    }
    tokio::time::sleep_until(back_at).await;
    environment.start().await.map_err(fail)
}
