//! `kopfd test`: scenarios, run on the embedded API server in virtual time.
//!
//! | exit code | meaning |
//! |---|---|
//! | 0 | all scenarios are as expected, or were rewritten so that they are |
//! | 1 | a scenario is not as expected, or there are mistakes in the files, or there are no scenarios |
//! | 2 | the command was not understood |

mod json;
mod junit;
mod text;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueEnum};

use crate::manifest::Diagnostic;
use crate::manifest::source::Source;
use crate::scenario::{self, Outcome, Scenario};

use super::{DONE, FAILED, complain, diagnostics, quoted};

/// Runs scenarios.
#[derive(Debug, Args)]
pub struct Options {
    /// Files with scenarios, or directories with such files somewhere below.
    #[arg(value_name = "PATH", default_value = ".")]
    paths: Vec<PathBuf>,

    /// Run only scenarios with this text in their names or the names of their files.
    #[arg(long, short, value_name = "TEXT")]
    filter: Option<String>,

    /// The form of the output.
    #[arg(long, short, value_enum, default_value_t = Output::Text)]
    output: Output,

    /// Write what was found into the files, where expectations differ from it.
    #[arg(long, conflicts_with = "seeds")]
    update: bool,

    /// The seed of random numbers of scripts, and with `--seeds` of the disturbances.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,

    /// Disturb each scenario with so many seeds, and check what must be so whatever happens.
    #[arg(long, value_name = "N")]
    seeds: Option<u64>,

    /// Show what is logged for debugging, too, and the timelines of scenarios that hold.
    #[arg(long, short)]
    verbose: bool,

    /// How many scenarios run at once; by default as many as there are processors.
    #[arg(long, value_name = "N", default_value_t = 0)]
    threads: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For people.
    Text,
    /// For programs: one document, with the timelines of what has failed.
    Json,
    /// For build servers: JUnit's XML.
    Junit,
}

/// What a report is about.
struct Report<'a> {
    outcomes: &'a [Outcome],
    /// The seed of chance, for the command that repeats a run.
    seed: u64,
    /// How many seeds each scenario was to be disturbed with.
    seeds: Option<u64>,
    /// Whether the timelines of scenarios that hold are shown.
    is_verbose: bool,
}

/// The seeds with which a scenario has failed.
struct FailedSeeds<'a> {
    scenario: &'a Arc<Scenario>,
    seeds: Vec<u64>,
    /// The seeds that it was not run with, since enough had failed.
    not_run: u64,
}

impl Report<'_> {
    /// Returns the scenarios that have failed with some seeds.
    fn failed_seeds(&self) -> Vec<FailedSeeds<'_>> {
        let Some(wanted) = self.seeds else { return Vec::new() };
        let mut found: Vec<FailedSeeds<'_>> = Vec::new();
        for outcome in self.outcomes {
            let (scenario, Some(seed)) = (&outcome.job.scenario, outcome.job.seed) else { continue };
            if !found.last().is_some_and(|last| Arc::ptr_eq(last.scenario, scenario)) {
                found.push(FailedSeeds { scenario, seeds: Vec::new(), not_run: wanted });
            }
            let Some(last) = found.last_mut() else { continue };
            last.not_run -= 1;
            last.seeds.extend((!outcome.failures.is_empty()).then_some(seed));
        }
        found.retain(|failed| !failed.seeds.is_empty());
        found
    }
}

/// Runs the command.
pub fn run(options: &Options) -> u8 {
    let found = scenario::find(&options.paths);
    if found.diagnostics.iter().any(Diagnostic::is_error) {
        return refuse(&found.diagnostics, options.output);
    }
    diagnostics::print(&found.diagnostics);
    let scenarios: Vec<Arc<Scenario>> = found.scenarios.into_iter().filter(|one| is_wanted(one, options)).map(Arc::new).collect();
    if scenarios.is_empty() {
        complain("no scenario has this text in its name");
        return FAILED;
    }
    let seeds = options.seeds.map(|count| options.seed..options.seed.saturating_add(count));
    let wanted =
        scenario::Options { seed: options.seed, seeds, gathers: options.update, is_verbose: options.verbose, threads: options.threads };
    let mut outcomes = scenario::run_all(&scenarios, &wanted);
    if options.update
        && let Err(problem) = rewrite(&mut outcomes)
    {
        complain(&problem);
        return FAILED;
    }
    let report = Report { outcomes: &outcomes, seed: options.seed, seeds: options.seeds, is_verbose: options.verbose };
    print(&match options.output {
        Output::Text => text::render(&report),
        Output::Json => json::render(&report),
        Output::Junit => junit::render(&report),
    });
    if outcomes.iter().all(|outcome| outcome.failures.is_empty()) { DONE } else { FAILED }
}

fn refuse(found: &[Diagnostic], output: Output) -> u8 {
    if output == Output::Json {
        print(&format!("{:#}\n", diagnostics::to_json(found)));
    } else {
        diagnostics::print(found);
    }
    FAILED
}

fn is_wanted(scenario: &Scenario, options: &Options) -> bool {
    let has = |text: &str| scenario.name.contains(text) || scenario.file().display().to_string().contains(text);
    options.filter.as_deref().is_none_or(has)
}

fn print(text: &str) {
    let mut stdout = anstream::stdout().lock();
    // A reader that has gone away, such as `head`, is no failure of a scenario.
    drop(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()));
}

/// Writes what was found into the files, and takes the differences out of the outcomes that are none any more.
fn rewrite(outcomes: &mut [Outcome]) -> Result<(), String> {
    let sources: BTreeMap<PathBuf, Source> = outcomes
        .iter()
        .filter(|outcome| !outcome.failures.is_empty())
        .map(|outcome| (outcome.job.scenario.file().clone(), outcome.job.scenario.source.clone()))
        .collect();
    for (path, source) in sources {
        let is_here = |outcome: &Outcome| *outcome.job.scenario.file() == path;
        let differences = outcomes.iter().filter(|outcome| is_here(outcome)).flat_map(|outcome| &outcome.failures);
        let fixes = differences.flat_map(|failure| &failure.differences).filter_map(|difference| difference.fix.as_ref());
        let updated = scenario::update(&source, fixes);
        let count = updated.made.iter().filter(|is_made| **is_made).count();
        if count > 0 {
            std::fs::write(&path, updated.text).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
            complain_not(&format!("{}: {} rewritten", path.display(), super::counted(count, "expectation")));
        }
        let mut made = updated.made.into_iter();
        let mut left = 0;
        for failure in outcomes.iter_mut().filter(|outcome| is_here(outcome)).flat_map(|outcome| &mut outcome.failures) {
            failure.differences.retain(|difference| difference.fix.is_none() || !made.next().unwrap_or_default());
            left += failure.differences.len();
        }
        if left > 0 {
            complain_not(&format!("{}: {} that cannot be rewritten", path.display(), super::counted(left, "difference")));
        }
    }
    for outcome in outcomes {
        outcome.failures.retain(|failure| failure.problem.is_some() || !failure.differences.is_empty());
    }
    Ok(())
}

/// Tells something that is no problem, beside the report.
fn complain_not(text: &str) {
    let mut stderr = anstream::stderr().lock();
    // There is nobody left to tell that the stream for telling is broken.
    drop(writeln!(stderr, "{text}"));
}

/// Returns the command that repeats a run.
fn repetition(outcome: &Outcome, report: &Report<'_>) -> String {
    let scenario = &outcome.job.scenario;
    let path = quoted(&scenario.file().display().to_string());
    let name = quoted(&scenario.name);
    match outcome.job.seed {
        Some(seed) => format!("kopfd test {path} --filter {name} --seeds 1 --seed {seed}"),
        None if report.seed != 0 => format!("kopfd test {path} --filter {name} --seed {}", report.seed),
        None => format!("kopfd test {path} --filter {name}"),
    }
}
