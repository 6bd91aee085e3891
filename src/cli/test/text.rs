//! The report of scenarios for people.

use std::fmt::Write as _;

use crate::manifest::{Diagnostic, Severity};
use crate::scenario::{Difference, Outcome, Scenario};

use super::{Report, repetition};
use crate::cli::{counted, diagnostics};

/// Writes the report.
pub fn render(report: &Report<'_>) -> String {
    let mut text = String::new();
    // Of many seeds, only those that have failed are worth a line.
    let mut passed_seeds = 0;
    for outcome in report.outcomes {
        let scenario = &outcome.job.scenario;
        let title = format!("{}: {}", scenario.file().display(), scenario.name);
        // Writing into a text cannot fail.
        let _ = match (&outcome.skipped, outcome.failures.is_empty(), outcome.job.seed) {
            (Some(why), ..) => writeln!(text, "skip  {title} ({why})"),
            (None, true, None) => writeln!(text, "ok    {title} ({:.1}s)", outcome.seconds),
            (None, true, Some(_)) => {
                passed_seeds += 1;
                Ok(())
            }
            (None, false, seed) => {
                let seed = seed.map(|seed| format!(", seed {seed}")).unwrap_or_default();
                writeln!(text, "FAIL  {title}{seed}")
            }
        };
        failures(outcome, report, &mut text);
    }
    let count = |is_meant: &dyn Fn(&Outcome) -> bool| report.outcomes.iter().filter(|outcome| is_meant(outcome)).count();
    let failed = count(&|outcome| !outcome.failures.is_empty());
    let skipped = count(&|outcome| outcome.skipped.is_some());
    let passed = report.outcomes.len() - failed - skipped;
    let noun = if passed_seeds > 0 { "run" } else { "scenario" };
    let mut parts = vec![format!("{} passed", counted(passed, noun))];
    parts.extend((failed > 0).then(|| format!("{failed} failed")));
    parts.extend((skipped > 0).then(|| format!("{} left out", counted(skipped, "scenario"))));
    let _ = writeln!(text, "{}", parts.join(", "));
    text
}

fn failures(outcome: &Outcome, report: &Report<'_>, text: &mut String) {
    if outcome.failures.is_empty() {
        return;
    }
    let scenario = &outcome.job.scenario;
    text.push('\n');
    for failure in &outcome.failures {
        if let Some(problem) = &failure.problem {
            let _ = match failure.line {
                0 => writeln!(text, "error: {problem}\n"),
                line => writeln!(text, "error: {problem}\n --> {}:{line}\n", scenario.file().display()),
            };
        }
        failure.differences.iter().for_each(|one| difference(scenario, one, text));
    }
    if let Some(timeline) = &outcome.timeline {
        let _ = writeln!(text, "The timeline up to there:\n\n{}", timeline.print());
    }
    let _ = writeln!(text, "Run it again: {}\n", repetition(outcome, report));
}

fn difference(scenario: &Scenario, difference: &Difference, text: &mut String) {
    let mut lines = difference.text.lines();
    let spot = difference.spot;
    let diagnostic = Diagnostic {
        severity: Severity::Error,
        message: lines.next().unwrap_or_default().to_owned(),
        file: scenario.file().clone(),
        line: spot.line,
        column: spot.column,
        length: spot.length,
        path: None,
        hint: None,
        snippet: scenario.source.snippet(spot.line, spot.column),
    };
    text.push_str(&diagnostics::render(&[diagnostic]));
    let mut has_more = false;
    for line in lines {
        has_more = true;
        let _ = writeln!(text, "{line}");
    }
    if has_more {
        text.push('\n');
    }
}
