//! The report as JUnit XML.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::PathBuf;

use quick_junit::{NonSuccessKind, Report as Document, TestCase, TestCaseStatus, TestSuite};

use crate::kit::visible;
use crate::scenario::Outcome;

use super::report::{Report, rerun_command};

/// Returns the report, with a suite for each file.
///
/// # Errors
/// If the report cannot be written as XML.
pub(super) fn render(report: &Report<'_>) -> Result<String, String> {
    let mut suites: BTreeMap<&PathBuf, TestSuite> = BTreeMap::new();
    for outcome in report.outcomes {
        let file = outcome.job.scenario.file();
        let suite = suites.entry(file).or_insert_with(|| TestSuite::new(file.display().to_string()));
        suite.add_test_case(test_case(outcome, report));
    }
    let mut document = Document::new("kopfd test");
    document.add_test_suites(suites.into_values());
    document.to_string().map_err(|error| format!("cannot write the report: {error}"))
}

fn test_case(outcome: &Outcome, report: &Report<'_>) -> TestCase {
    let scenario = &outcome.job.scenario;
    let seed = outcome.job.seed.map(|seed| format!(" (seed {seed})")).unwrap_or_default();
    let mut case = TestCase::new(format!("{}{seed}", scenario.name), status(outcome));
    case.set_classname(scenario.file().display().to_string());
    case.set_time(outcome.duration);
    if !outcome.failures.is_empty() {
        let timeline = outcome.timeline.as_ref().map(|timeline| timeline.print(&outcome.lines())).unwrap_or_default();
        case.set_system_out(format!("{}\n{timeline}", rerun_command(outcome, report)));
    }
    case
}

/// A test case has at most one failure, which contains all messages.
fn status(outcome: &Outcome) -> TestCaseStatus {
    if let Some(reason) = &outcome.skipped {
        let mut status = TestCaseStatus::skipped();
        status.set_message(reason.as_str());
        return status;
    }
    if outcome.failures.is_empty() {
        return TestCaseStatus::success();
    }
    let messages = outcome.failures.iter().flat_map(|failure| {
        failure.problem.iter().map(|problem| &problem.text).chain(failure.differences.iter().map(|one| &one.text))
    });
    let messages: Vec<Cow<'_, str>> = messages.map(|message| visible::lines(message, "")).collect();
    let first = messages.first().and_then(|message| message.lines().next()).unwrap_or_default();
    let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
    status.set_message(first);
    status.set_description(messages.join("\n"));
    status
}
