//! The conformance test: kopf's golden vectors, run through the code of kopfd.
//!
//! For programs that list tests, it is one test called `golden_cases`.
//!
//! `KOPFD_VECTORS=<directory>` runs the files of that directory that have a runner here, instead of the files in `vectors`.

#![expect(clippy::print_stdout, reason = "this test is its own harness, and says what it found")]

#[allow(dead_code, reason = "the other test with scenes uses other parts of this module")]
#[path = "../world/mod.rs"]
mod world;

mod admission_reviews;
mod annotation_keys;
mod causes;
mod compare;
mod diff_reduce;
mod diffs;
mod essence;
mod events;
mod filters;
mod hierarchies;
mod namespaces;
mod patching;
mod peering;
mod progress;
mod resource_selectors;
mod scenarios;
mod selecting;
mod selectors;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::Value;

/// Cases that differ from kopf because its behaviour is a defect: the file, the case, and the reason.
const ALLOWED: &[(&str, &str, &str)] = &[
    (
        "admission-reviews",
        "validate: an unknown id calls nothing and is allowed",
        "an unknown webhook is an error, so the failure policy decides",
    ),
    (
        "admission-reviews",
        "validate: the root path calls nothing and is allowed",
        "an unknown webhook is an error, so the failure policy decides",
    ),
    ("admission-reviews", "same ids: only the outcome of the last handler counts", "a rejection by any webhook counts"),
    ("admission-reviews", "no hint: only validating by the reason", "the API server asks for webhooks by their ids only"),
    ("events", "warn(): NOT stopped by disabling", "disabled Events are not posted, whatever their level"),
    ("events", "exception(): current error, message, reason", "scripts give the text of the error themselves"),
    ("events", "exception(): no reason", "scripts give the reason and the text of the error themselves"),
    ("events", "exception(): only the error", "scripts give the reason and the text of the error themselves"),
    ("events", "exception(): no error at all", "scripts give the reason themselves"),
    ("events", "log: critical", "scripts have no critical level"),
    ("peering", "process: broken record fails", "a malformed record is ignored, and does not end the observation of peers"),
];

/// Files that are read by other runners.
const INPUTS: &[&str] = &["selectors-cluster"];

/// Runs one case of a file. The error contains the expected and the actual value.
type Runner = Box<dyn Fn(&Value) -> Result<(), String>>;

fn runner(name: &str, directory: &Path) -> Option<Runner> {
    let run: fn(&Value) -> Result<(), String> = match name {
        "admission-reviews" => admission_reviews::run,
        "annotation-keys" => annotation_keys::run,
        "causes" => causes::run,
        "diff-reduce" => diff_reduce::run,
        "diffs" => diffs::run,
        "essence" => essence::run,
        "events" => events::run,
        "filters" => filters::run,
        "hierarchies" => hierarchies::run,
        "namespaces" => namespaces::run,
        "patching" => patching::run,
        "peering" => peering::run,
        "progress" => progress::run,
        "resource-selectors" => resource_selectors::run,
        "scenarios" => scenarios::run,
        "selectors" => {
            let cluster = read(&directory.join("selectors-cluster.json"));
            return Some(Box::new(move |case| selectors::run(case, &cluster)));
        }
        _ => return None,
    };
    Some(Box::new(run))
}

#[derive(Default)]
struct Totals {
    passed: usize,
    failed: usize,
    allowed: usize,
}

fn main() -> ExitCode {
    // `cargo nextest` lists the tests of a program, and separately the ignored ones.
    let has = |option: &str| std::env::args().any(|argument| argument == option);
    if has("--list") {
        if !has("--ignored") {
            println!("golden_cases: test");
        }
        return ExitCode::SUCCESS;
    }
    run_all()
}

fn run_all() -> ExitCode {
    let beside = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/conformance/vectors");
    let directory = std::env::var_os("KOPFD_VECTORS").map_or_else(beside, PathBuf::from);
    let files = files(&directory);
    // A panic is a failure of the case: its message is shown with the case.
    std::panic::set_hook(Box::new(|_| {}));
    let mut totals = Totals::default();
    for file in files {
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        match runner(&name, &directory) {
            Some(runner) => run_file(&name, &file, &runner, &mut totals),
            None if INPUTS.contains(&name.as_str()) => {}
            None => println!("{name}.json: no runner"),
        }
    }
    let mut embedded = Totals::default();
    let scenarios = directory.join("scenarios.json");
    if scenarios.exists() {
        let runner: Runner = Box::new(scenarios::run_embedded);
        run_file("scenarios on the embedded server, scenarios", &scenarios, &runner, &mut embedded);
    }
    let Totals { passed, failed, allowed } = totals;
    let is_empty = passed + failed + allowed == 0;
    if is_empty {
        println!("there are no cases in {}: KOPFD_VECTORS must name a directory with files of cases", directory.display());
    }
    let verdict = if failed == 0 && !is_empty { "ok" } else { "FAILED" };
    println!("\ntest result: {verdict}. {passed} passed; {failed} failed; {allowed} ignored; 0 measured; 0 filtered out");
    println!("conformance: {passed} of {} cases pass", passed + failed + allowed);
    if failed + embedded.failed == 0 && !is_empty { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let entries =
        std::fs::read_dir(directory).unwrap_or_else(|error| panic!("cannot read the directory \"{}\": {error}", directory.display()));
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut files: Vec<PathBuf> = paths.filter(|path| path.extension().is_some_and(|extension| extension == "json")).collect();
    files.sort();
    files
}

fn read(file: &Path) -> Value {
    let text = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("cannot read {}: {error}", file.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{} is no JSON: {error}", file.display()))
}

fn run_file(name: &str, file: &Path, runner: &Runner, totals: &mut Totals) {
    let cases = read(file);
    let cases = cases.as_array().map_or(&[][..], Vec::as_slice);
    let mut passed = 0;
    let mut failures = Vec::new();
    for case in cases {
        let title = case["name"].as_str().map_or_else(|| case["input"].to_string(), str::to_owned);
        let allowed = ALLOWED.iter().find(|(file, case, _)| *file == name && *case == title);
        match (run_case(case, runner), allowed) {
            (Ok(()), _) => passed += 1,
            (Err(_), Some((_, _, reason))) => {
                totals.allowed += 1;
                failures.push(format!("  differs: {title}\n    because {reason}"));
            }
            (Err(reason), None) => {
                totals.failed += 1;
                failures.push(format!("  FAILED: {title}\n    {}", reason.replace('\n', "\n    ")));
            }
        }
    }
    totals.passed += passed;
    println!("{name}.json: {passed} of {} pass", cases.len());
    for failure in failures {
        println!("{failure}");
    }
}

fn run_case(case: &Value, runner: &Runner) -> Result<(), String> {
    let run = std::panic::AssertUnwindSafe(|| runner(case));
    std::panic::catch_unwind(run).unwrap_or_else(|panic| Err(format!("panicked: {}", kopfd::kit::tasks::panic_text(&*panic))))
}
