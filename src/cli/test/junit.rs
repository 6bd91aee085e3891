//! The report of scenarios for build servers, in the form of JUnit.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use crate::scenario::Outcome;

use super::{Report, repetition};

/// Writes the report: a suite for each file.
pub fn render(report: &Report<'_>) -> String {
    let mut suites: BTreeMap<&PathBuf, Vec<&Outcome>> = BTreeMap::new();
    for outcome in report.outcomes {
        suites.entry(outcome.job.scenario.file()).or_default().push(outcome);
    }
    let mut text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n".to_owned();
    let failed = |outcomes: &[&Outcome]| outcomes.iter().filter(|outcome| !outcome.failures.is_empty()).count();
    let all: Vec<&Outcome> = report.outcomes.iter().collect();
    // Writing into a text cannot fail.
    let _ = writeln!(text, "<testsuites name=\"kopfd test\" tests=\"{}\" failures=\"{}\">", all.len(), failed(&all));
    for (file, outcomes) in suites {
        let skipped = outcomes.iter().filter(|outcome| outcome.skipped.is_some()).count();
        let name = escaped(&file.display().to_string());
        let (tests, failures) = (outcomes.len(), failed(&outcomes));
        let _ = writeln!(text, "  <testsuite name=\"{name}\" tests=\"{tests}\" failures=\"{failures}\" skipped=\"{skipped}\">");
        for outcome in outcomes {
            case(outcome, report, &mut text);
        }
        text.push_str("  </testsuite>\n");
    }
    text.push_str("</testsuites>\n");
    text
}

fn case(outcome: &Outcome, report: &Report<'_>, text: &mut String) {
    let scenario = &outcome.job.scenario;
    let seed = outcome.job.seed.map(|seed| format!(" (seed {seed})")).unwrap_or_default();
    let (name, file) = (escaped(&format!("{}{seed}", scenario.name)), escaped(&scenario.file().display().to_string()));
    let _ = write!(text, "    <testcase name=\"{name}\" classname=\"{file}\" time=\"{:.3}\"", outcome.seconds);
    if let Some(why) = &outcome.skipped {
        let _ = writeln!(text, ">\n      <skipped message=\"{}\"/>\n    </testcase>", escaped(why));
        return;
    }
    if outcome.failures.is_empty() {
        text.push_str("/>\n");
        return;
    }
    text.push_str(">\n");
    // A case has one failure, whatever has failed in it.
    let told = outcome
        .failures
        .iter()
        .flat_map(|failure| failure.problem.iter().map(|problem| &problem.text).chain(failure.differences.iter().map(|one| &one.text)));
    let told: Vec<&str> = told.map(String::as_str).collect();
    let first = told.first().and_then(|message| message.lines().next()).unwrap_or_default();
    let _ = writeln!(text, "      <failure message=\"{}\">{}</failure>", escaped(first), escaped(&told.join("\n")));
    let timeline = outcome.timeline.as_ref().map(|timeline| timeline.print(&outcome.lines())).unwrap_or_default();
    let _ = writeln!(text, "      <system-out>{}\n{}</system-out>", escaped(&repetition(outcome, report)), escaped(&timeline));
    text.push_str("    </testcase>\n");
}

/// Control characters have no place in XML at all.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' | '\t' => escaped.push(c),
            _ if c.is_control() => escaped.push('\u{fffd}'),
            _ => escaped.push(c),
        }
    }
    escaped
}
