//! Verifies the state of the operators: their timers and daemons, metrics, probes, pauses and ends.

use serde_json::Value;

use crate::manifest::tree::SourceSpan;
use crate::reactor::activity::shown;

use super::super::expressions::Answers;
use super::super::metrics::MetricExpectation;
use super::super::model::{BackgroundExpectation, ExpectedExit, ExpectedProbes};
use super::super::pattern::{Mismatch, Pattern};
use super::super::update::Fix;
use super::difference::{Difference, describe};
use super::observations::{Exited, Observations, ProbeAnswer};
use super::targets::check_target;

pub(super) fn verify_background(
    observations: &impl Observations,
    background: &BackgroundExpectation,
) -> Option<Difference> {
    let BackgroundExpectation { target, spot, running } = background;
    let wrong_target = check_target(observations, target, *spot, running.is_empty());
    if wrong_target.is_some() {
        return wrong_target;
    }
    let found = observations.object(target).and_then(|observed| observations.tasks(&observed.subject));
    let list = |ids: &[String]| if ids.is_empty() { "none".to_owned() } else { ids.join(", ") };
    match found {
        Err(error) => Some(Difference::new(*spot, error)),
        Ok(found) => {
            let mut wanted = running.clone();
            wanted.sort();
            let text = || format!("background: {target}: expected to run: {}, found: {}", list(&wanted), list(&found));
            (wanted != found).then(|| Difference::new(*spot, text()))
        }
    }
}

pub(super) fn verify_metrics(observations: &impl Observations, metrics: &[MetricExpectation]) -> Vec<Difference> {
    let samples = match observations.metrics() {
        Ok(samples) => samples,
        Err(error) => {
            return metrics.iter().map(|metric| Difference::new(metric.spot, format!("metrics: {error}"))).collect();
        }
    };
    let differences = metrics.iter().filter(|metric| !metric.value.allows(metric.sum(&samples))).map(|metric| {
        let (sum, exact) = (metric.sum(&samples), metric.value.exact);
        let lines: Vec<String> = metric.named(&samples).map(|sample| format!("    {sample}")).collect();
        let there = if lines.is_empty() {
            "there are no samples".to_owned()
        } else {
            format!("the samples are\n{}", lines.join("\n"))
        };
        let fix = exact.map(|spot| Fix::Scalar { spot, value: number(sum) });
        let text = format!("metrics: {metric}: expected {}, found {sum}; {there}", metric.value);
        Difference::new(exact.unwrap_or(metric.spot), text).with_fix(fix)
    });
    differences.collect()
}

/// Returns a number without a fraction if it has none.
fn number(number: f64) -> Value {
    if number.fract() == 0.0 && number.abs() < 1e15 { Value::from(number as i64) } else { Value::from(number) }
}

pub(super) fn verify_exit(exit: Option<Exited>, expected: &ExpectedExit, answers: &mut Answers) -> Option<Difference> {
    let ExpectedExit { spot, code, message } = expected;
    let Some(exit) = exit else {
        return Some(Difference::new(*spot, format!("exit: expected code {code}, but the operator has not exited")));
    };
    let is_like = |like: &Pattern, answers: &mut Answers| {
        like.passes(&Value::from(exit.message.as_str()), &mut |asked, value| answers.ask(asked, value))
    };
    if i64::from(exit.code) != *code {
        return Some(Difference::new(
            *spot,
            format!("exit: expected code {code}, found {}: {}", exit.code, exit.message),
        ));
    }
    let message = message.as_ref().filter(|like| !is_like(like, answers))?;
    Some(Difference::new(*spot, format!("exit: expected {}, found {:?}", describe(message), exit.message)))
}

pub(super) fn verify_pause(
    observations: &impl Observations,
    (spot, is_expected): (SourceSpan, bool),
) -> Option<Difference> {
    let causes = observations.pauses();
    let state =
        if causes.is_empty() { "running".to_owned() } else { format!("paused because of {}", causes.join(", ")) };
    let wanted = if is_expected { "paused" } else { "running" };
    (is_expected == causes.is_empty())
        .then(|| Difference::new(spot, format!("paused: expected {wanted}, found {state}")))
}

pub(super) fn verify_probes(
    probed: Option<&ProbeAnswer>,
    expected: &ExpectedProbes,
    answers: &mut Answers,
) -> Vec<Difference> {
    let ExpectedProbes { spot, status, results, message } = expected;
    let Some(ProbeAnswer { status: found, body }) = probed else {
        return vec![Difference::new(*spot, "probes: the operator does not run")];
    };
    if i64::from(*found) != *status {
        return vec![Difference::new(*spot, format!("probes: expected status {status}, found {found}: {body}"))];
    }
    let mut differences = Vec::new();
    if let Some(results) = results {
        let value: Value = serde_json::from_str(body).unwrap_or_default();
        let mut mismatches = Vec::new();
        results.compare(Some(&value), "", &mut mismatches, &mut |predicate, value| answers.ask(predicate, value));
        differences.extend(mismatches.into_iter().map(|Mismatch { path, spot, wanted, found, .. }| {
            let found = found.as_ref().map_or_else(|| "nothing".to_owned(), shown);
            Difference::new(spot, format!("probes: {path}: expected {wanted}, found {found}"))
        }));
    }
    if let Some(like) = message
        && !like.passes(&Value::from(body.as_str()), &mut |asked, value| answers.ask(asked, value))
    {
        differences.push(Difference::new(*spot, format!("probes: expected {}, found {body:?}", describe(like))));
    }
    differences
}
