//! The report as text.

use std::fmt::Write as _;

use clap::builder::styling::{AnsiColor, Style};

use crate::kit::{counted, surplus, visible};
use crate::manifest::tree::SourceSpan;
use crate::manifest::{Diagnostic, Severity};
use crate::scenario::{Difference, Outcome, Problem, Scenario};

use super::report::{FailedSeeds, Report, rerun_command};
use crate::cli::diagnostics;

/// Styles of results, which the stream strips where there are no colours.
const PASSED: Style = AnsiColor::Green.on_default().bold();
const FAILED: Style = AnsiColor::Red.on_default().bold();
const SKIPPED: Style = AnsiColor::Yellow.on_default().bold();

/// Disturbed runs whose failures are shown; of further ones, only the seeds are listed.
const MAX_SHOWN: usize = 5;

/// Returns the report.
pub(super) fn render(report: &Report<'_>) -> String {
    let mut text = String::new();
    // Passed seeds are only counted.
    let mut passed_seeds = 0;
    let mut shown = 0;
    for outcome in report.outcomes {
        if outcome.job.seed.is_some() && !outcome.failures.is_empty() {
            shown += 1;
            if shown > MAX_SHOWN {
                continue;
            }
        }
        let scenario = &outcome.job.scenario;
        let title = title_of(scenario);
        // Writing into a string cannot fail.
        let _ = match (&outcome.skipped, outcome.failures.is_empty(), outcome.job.seed) {
            (Some(why), ..) => writeln!(text, "{SKIPPED}skip{SKIPPED:#}  {title} ({why})"),
            (None, true, None) => {
                writeln!(text, "{PASSED}ok{PASSED:#}    {title} ({:.1}s)", outcome.duration.as_secs_f64())
            }
            (None, true, Some(_)) => {
                passed_seeds += 1;
                Ok(())
            }
            (None, false, seed) => {
                let seed = seed.map(|seed| format!(", seed {seed}")).unwrap_or_default();
                writeln!(text, "{FAILED}FAIL{FAILED:#}  {title}{seed}")
            }
        };
        failures(outcome, report, &mut text);
    }
    if let Some(more) = surplus(shown, MAX_SHOWN) {
        let noun = if more == 1 { "failed run is" } else { "failed runs are" };
        let _ = writeln!(text, "{more} more {noun} not shown: `--filter NAME --seeds 1 --seed N` shows one of them.\n");
    }
    failed_seeds(report, &mut text);
    let count =
        |is_meant: &dyn Fn(&Outcome) -> bool| report.outcomes.iter().filter(|outcome| is_meant(outcome)).count();
    let failed = count(&|outcome| !outcome.failures.is_empty());
    let skipped = count(&|outcome| outcome.skipped.is_some());
    let passed = report.outcomes.len() - failed - skipped;
    let noun = if passed_seeds > 0 { "run" } else { "scenario" };
    let mut parts = vec![format!("{} passed", counted(passed, noun))];
    parts.extend((failed > 0).then(|| format!("{failed} failed")));
    parts.extend((skipped > 0).then(|| format!("{} skipped", counted(skipped, "scenario"))));
    let _ = writeln!(text, "{}", parts.join(", "));
    text
}

fn title_of(scenario: &Scenario) -> String {
    visible::one_line(&format!("{}: {}", scenario.file().display(), scenario.name)).into_owned()
}

/// Lists the failed seeds of each scenario.
fn failed_seeds(report: &Report<'_>, text: &mut String) {
    for FailedSeeds { scenario, seeds, not_run } in report.failed_seeds() {
        let listed: Vec<String> = seeds.iter().map(u64::to_string).collect();
        let rest = if not_run > 0 {
            format!("; the other {} were not run", counted(not_run as usize, "seed"))
        } else {
            String::new()
        };
        let title = title_of(scenario);
        let noun = if seeds.len() == 1 { "seed" } else { "seeds" };
        let _ = writeln!(text, "{FAILED}FAIL{FAILED:#}  {title}: {noun} {}{rest}", listed.join(", "));
    }
}

fn failures(outcome: &Outcome, report: &Report<'_>, text: &mut String) {
    if outcome.failures.is_empty() {
        if let Some(timeline) = outcome.timeline.as_ref().filter(|_| report.is_verbose) {
            let _ = writeln!(text, "\n{}", timeline.print(&outcome.lines()));
        }
        return;
    }
    let scenario = &outcome.job.scenario;
    text.push('\n');
    for failure in &outcome.failures {
        if let Some(problem) = &failure.problem {
            text.push_str(&render_problem(scenario, problem, failure.spot));
        }
        failure.differences.iter().for_each(|one| difference(scenario, one, text));
    }
    let timeline = outcome.timeline.as_ref().map(|timeline| timeline.print(&outcome.lines())).unwrap_or_default();
    if !timeline.is_empty() {
        let _ = writeln!(text, "Timeline:\n\n{timeline}");
    }
    let _ = writeln!(text, "Run it again: {}\n", visible::one_line(&rerun_command(outcome, report)));
}

fn render_problem(scenario: &Scenario, problem: &Problem, spot: Option<SourceSpan>) -> String {
    let Some(spot) = spot else {
        let hint = problem.hint.as_ref().map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
        return format!("{}\n\n", visible::lines(&format!("error: {problem}{hint}"), ""));
    };
    diagnostics::render(&[diagnostic(scenario, spot, problem.text.clone(), problem.hint.clone())])
}

fn diagnostic(scenario: &Scenario, spot: SourceSpan, message: String, hint: Option<String>) -> Diagnostic {
    scenario.source.diagnostic(Severity::Error, spot, message, hint)
}

fn difference(scenario: &Scenario, difference: &Difference, text: &mut String) {
    let mut lines = difference.text.lines();
    let diagnostic = diagnostic(scenario, difference.spot, lines.next().unwrap_or_default().to_owned(), None);
    text.push_str(&diagnostics::render(&[diagnostic]));
    let mut has_more = false;
    for line in lines {
        has_more = true;
        let _ = writeln!(text, "{}", visible::one_line(line));
    }
    if has_more {
        text.push('\n');
    }
}
