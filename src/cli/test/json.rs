//! The report as JSON.

use serde_json::{Value, json};

use crate::kit::visible;
use crate::scenario::{Failure, Outcome};

use super::report::{Report, rerun_command};

/// Returns the report.
pub(super) fn render(report: &Report<'_>) -> String {
    let count =
        |is_meant: &dyn Fn(&Outcome) -> bool| report.outcomes.iter().filter(|outcome| is_meant(outcome)).count();
    let failed = count(&|outcome| !outcome.failures.is_empty());
    let skipped = count(&|outcome| outcome.skipped.is_some());
    let document = json!({
        "scenarios": report.outcomes.iter().map(|outcome| one(outcome, report)).collect::<Vec<_>>(),
        "passed": report.outcomes.len() - failed - skipped,
        "failed": failed,
        "skipped": skipped,
        "notRun": report.failed_seeds().iter().map(|failed| failed.not_run).sum::<u64>(),
    });
    visible::json(&format!("{document:#}\n")).into_owned()
}

fn one(outcome: &Outcome, report: &Report<'_>) -> Value {
    let scenario = &outcome.job.scenario;
    let result = match (&outcome.skipped, outcome.failures.is_empty()) {
        (Some(_), _) => "skipped",
        (None, true) => "passed",
        (None, false) => "failed",
    };
    let mut document = json!({
        "name": scenario.name,
        "file": scenario.file().display().to_string(),
        "line": scenario.line,
        "result": result,
        "seconds": outcome.duration.as_secs_f64(),
    });
    if let Some(seed) = outcome.job.seed {
        document["seed"] = json!(seed);
    }
    if let Some(why) = &outcome.skipped {
        document["why"] = json!(why);
    }
    if !outcome.failures.is_empty() {
        document["failures"] = outcome.failures.iter().flat_map(failure).collect();
        document["again"] = json!(rerun_command(outcome, report));
    }
    if let Some(timeline) = &outcome.timeline {
        document["timeline"] = timeline.to_json();
    }
    document
}

fn failure(failure: &Failure) -> Vec<Value> {
    let spot = failure.spot.unwrap_or_default();
    let problem = failure.problem.iter().map(|problem| {
        let mut message = json!({"line": spot.line, "column": spot.column, "message": problem.text});
        if let Some(hint) = &problem.hint {
            message["hint"] = json!(hint);
        }
        message
    });
    let differences = failure.differences.iter().map(|difference| {
        let spot = difference.spot;
        json!({"line": spot.line, "column": spot.column, "message": difference.text, "canBeUpdated": difference.fix.is_some()})
    });
    problem.chain(differences).collect()
}
