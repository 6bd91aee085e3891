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

    /// Where chance begins: unique ids, random numbers of scripts, and with `--seeds` the disturbances.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,

    /// Disturb each scenario with so many seeds, and check what must be so whatever happens.
    #[arg(long, value_name = "N")]
    seeds: Option<u64>,

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
    let wanted = scenario::Options { seed: options.seed, seeds, gathers: options.update, threads: options.threads };
    let mut outcomes = scenario::run_all(&scenarios, &wanted);
    if options.update {
        outcomes = match rewrite(outcomes) {
            Ok(left) => left,
            Err(problem) => {
                complain(&problem);
                return FAILED;
            }
        };
    }
    let report = Report { outcomes: &outcomes, seed: options.seed };
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

/// Writes what was found into the files. Returns the outcomes without the differences that are none any more.
fn rewrite(mut outcomes: Vec<Outcome>) -> Result<Vec<Outcome>, String> {
    let mut files: BTreeMap<PathBuf, (Source, Vec<scenario::Fix>)> = BTreeMap::new();
    for outcome in &mut outcomes {
        let source = outcome.job.scenario.source.clone();
        let (_, fixes) = files.entry(source.name.clone()).or_insert_with(|| (source, Vec::new()));
        for failure in &mut outcome.failures {
            failure.differences.retain_mut(|difference| match difference.fix.take() {
                Some(fix) => {
                    fixes.push(fix);
                    false
                }
                None => true,
            });
        }
        outcome.failures.retain(|failure| failure.problem.is_some() || !failure.differences.is_empty());
    }
    for (path, (source, fixes)) in files.into_iter().filter(|(_, (_, fixes))| !fixes.is_empty()) {
        let updated = scenario::update(&source, &fixes);
        std::fs::write(&path, updated.text).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        complain_not(&format!("{}: {} rewritten", path.display(), super::counted(updated.count, "expectation")));
    }
    Ok(outcomes)
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
