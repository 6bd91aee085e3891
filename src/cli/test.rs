//! `kopfd test`: runs scenarios on the embedded API server in virtual time.
//!
//! | exit code | meaning |
//! |---|---|
//! | 0 | all scenarios pass, or were updated |
//! | 1 | a scenario fails, the files have errors, or there are no scenarios |
//! | 2 | invalid command line |

mod json;
mod junit;
mod report;
mod text;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueEnum};

use crate::manifest::Diagnostic;
use crate::manifest::source::Source;
use crate::scenario::{self, Outcome, Scenario};

use super::diagnostics;
use super::exit_code::{FAILURE, SUCCESS};
use super::output::print_error;
use crate::kit::counted;

use report::Report;

/// Options of the command.
#[derive(Debug, Args)]
pub(super) struct Options {
    /// Files with scenarios, or directories that are searched for them.
    #[arg(value_name = "PATH", default_value = ".")]
    paths: Vec<PathBuf>,

    /// Run only scenarios whose name or file name contains this text.
    #[arg(long, short, value_name = "TEXT")]
    filter: Option<String>,

    /// The output format.
    #[arg(long, short, value_enum, default_value_t = Output::Text)]
    output: Output,

    /// Replace failed expectations in the files by actual values.
    #[arg(long, conflicts_with = "seeds")]
    update: bool,

    /// The seed of random numbers in scripts, and with `--seeds` the first seed of disturbances.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,

    /// Run each scenario with this many seeds of random disturbances, and check invariants instead of expectations.
    #[arg(long, value_name = "N")]
    seeds: Option<u64>,

    /// Show debug lines, and the timelines of scenarios that pass.
    #[arg(long, short)]
    verbose: bool,

    /// Give the operators exactly the rights that `kopfd rbac` derives.
    #[arg(long)]
    derived_rights: bool,

    /// Send the requests of stubs with `record` to the real servers, and write the answers to the files that they name.
    #[arg(long, conflicts_with = "seeds")]
    record_http: bool,

    /// How many scenarios run in parallel; 0 means one per processor.
    #[arg(long, value_name = "N", default_value_t = 0)]
    threads: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For people.
    Text,
    /// For programs: one JSON document, with the timelines of failures.
    Json,
    /// For CI servers: JUnit XML.
    Junit,
}

/// Runs the command.
pub(super) fn run(options: &Options) -> u8 {
    let found = scenario::find(&options.paths);
    if found.diagnostics.iter().any(Diagnostic::is_error) {
        return report_errors(&found.diagnostics, options.output);
    }
    diagnostics::print(&found.diagnostics);
    let selected = found.scenarios.into_iter().filter(|one| is_selected(one, options));
    let scenarios: Vec<Arc<Scenario>> = selected
        .map(|one| {
            Arc::new(Scenario { has_derived_rights: options.derived_rights, records_http: options.record_http, ..one })
        })
        .collect();
    if scenarios.is_empty() {
        print_error("no scenario name contains the text of `--filter`");
        return FAILURE;
    }
    let seeds = options.seeds.map(|count| options.seed..options.seed.saturating_add(count));
    let wanted = scenario::Options {
        seed: options.seed,
        seeds,
        checks_all: options.update,
        is_verbose: options.verbose,
        threads: options.threads,
    };
    let mut outcomes = scenario::run_all(&scenarios, &wanted);
    if options.update
        && let Err(problem) = update_files(&mut outcomes)
    {
        print_error(&problem);
        return FAILURE;
    }
    let report = Report { outcomes: &outcomes, seed: options.seed, seeds: options.seeds, is_verbose: options.verbose };
    let text = match options.output {
        Output::Text => text::render(&report),
        Output::Json => json::render(&report),
        Output::Junit => match junit::render(&report) {
            Ok(text) => text,
            Err(problem) => {
                print_error(&problem);
                return FAILURE;
            }
        },
    };
    print(&text);
    if outcomes.iter().all(|outcome| outcome.failures.is_empty()) { SUCCESS } else { FAILURE }
}

fn report_errors(found: &[Diagnostic], output: Output) -> u8 {
    if output == Output::Json {
        print(&diagnostics::document(found));
    } else {
        diagnostics::print(found);
    }
    FAILURE
}

fn is_selected(scenario: &Scenario, options: &Options) -> bool {
    let has = |text: &str| scenario.name.contains(text) || scenario.file().display().to_string().contains(text);
    options.filter.as_deref().is_none_or(has)
}

fn print(text: &str) {
    let mut stdout = anstream::stdout().lock();
    // A closed standard output, as with `head`, is not an error.
    drop(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()));
}

/// Applies the fixes to the files, and removes the fixed differences from the outcomes.
fn update_files(outcomes: &mut [Outcome]) -> Result<(), String> {
    let sources: BTreeMap<PathBuf, Source> = outcomes
        .iter()
        .filter(|outcome| !outcome.failures.is_empty())
        .map(|outcome| (outcome.job.scenario.file().clone(), outcome.job.scenario.source.clone()))
        .collect();
    for (path, source) in sources {
        let is_here = |outcome: &Outcome| *outcome.job.scenario.file() == path;
        let differences = outcomes.iter().filter(|outcome| is_here(outcome)).flat_map(|outcome| &outcome.failures);
        let fixes =
            differences.flat_map(|failure| &failure.differences).filter_map(|difference| difference.fix.as_ref());
        let updated = scenario::update(&source, fixes);
        let count = updated.made.iter().filter(|is_made| **is_made).count();
        if count > 0 {
            std::fs::write(&path, updated.text).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
            print_note(&format!("{}: {} updated", path.display(), counted(count, "expectation")));
        }
        let mut made = updated.made.into_iter();
        let mut left = 0;
        for failure in outcomes.iter_mut().filter(|outcome| is_here(outcome)).flat_map(|outcome| &mut outcome.failures)
        {
            failure.differences.retain(|difference| difference.fix.is_none() || !made.next().unwrap_or_default());
            left += failure.differences.len();
        }
        if left > 0 {
            print_note(&format!("{}: {} that cannot be updated", path.display(), counted(left, "difference")));
        }
    }
    for outcome in outcomes {
        outcome.failures.retain(|failure| failure.problem.is_some() || !failure.differences.is_empty());
    }
    Ok(())
}

/// Prints a note that is not part of the report.
fn print_note(text: &str) {
    let mut stderr = anstream::stderr().lock();
    // An error of standard error cannot be reported anywhere.
    drop(writeln!(stderr, "{text}"));
}
