//! Verifies expectations against objects, events and the timeline.

mod align;
mod calls;
mod contents;
mod difference;
mod logs;
mod observations;
mod operators;
mod targets;
mod traffic;

use crate::manifest::tree::SourceSpan;
pub(super) use crate::reactor::activity::shown;

use super::expressions::Answers;
use super::model::Expectation;

pub use difference::Difference;
pub(super) use difference::describe;
pub use observations::{Exited, Observations, ObservedObject, ProbeAnswer};

use calls::verify_calls;
use contents::{verify_index, verify_object};
use logs::verify_logs;
use operators::{verify_background, verify_exit, verify_metrics, verify_pause, verify_probes};
use traffic::{verify_events, verify_requests};

/// Returns all differences.
pub async fn verify(observations: &impl Observations, spot: SourceSpan, expectation: &Expectation) -> Vec<Difference> {
    let probed = if expectation.probes.is_some() { observations.probes().await } else { None };
    let compare = |answers: &mut Answers| {
        let mut found = compare(observations, expectation, answers);
        if let Some(expected) = &expectation.probes {
            found.extend(verify_probes(probed.as_ref(), expected, answers));
        }
        found
    };
    compared(observations, spot, compare).await
}

/// Compares with the answers known so far, and collects the unanswered expressions.
fn compare(observations: &impl Observations, expectation: &Expectation, answers: &mut Answers) -> Vec<Difference> {
    let mut found = Vec::new();
    let Expectation { object, calls, background, events, logs, requests, indexes, metrics, exit, probes: _, paused } =
        expectation;
    if let Some(object_expectation) = object {
        found.extend(verify_object(observations, object_expectation, answers));
    }
    if let Some(calls) = calls {
        found.extend(verify_calls(observations, calls));
    }
    for background in background {
        found.extend(verify_background(observations, background));
    }
    for events in events {
        found.extend(verify_events(observations, events, answers));
    }
    if let Some(logs) = logs {
        found.extend(verify_logs(observations, logs, answers));
    }
    for requests in requests {
        found.extend(verify_requests(observations, requests));
    }
    for index in indexes {
        found.extend(verify_index(observations, index, answers));
    }
    if !metrics.is_empty() {
        found.extend(verify_metrics(observations, metrics));
    }
    if let Some(expected) = exit {
        found.extend(verify_exit(observations.exit(), expected, answers));
    }
    if let Some(paused) = *paused {
        found.extend(verify_pause(observations, paused));
    }
    found
}

/// Compares the actual state with the expectations of a step, with the answers to the expressions among these. An
/// expression that fails is a difference.
pub(super) async fn compared(
    observations: &impl Observations,
    spot: SourceSpan,
    compare: impl Fn(&mut Answers) -> Vec<Difference>,
) -> Vec<Difference> {
    let mut answers = Answers::default();
    let mut failed = Vec::new();
    loop {
        let found = compare(&mut answers);
        let questions = answers.questions();
        if questions.is_empty() {
            return found.into_iter().chain(failed).collect();
        }
        for question in questions {
            let holds = observations.evaluate(&question).await;
            answers.keep(question, holds == Ok(true));
            failed.extend(holds.err().map(|text| Difference::new(spot, format!("an expression fails: {text}"))));
        }
    }
}
