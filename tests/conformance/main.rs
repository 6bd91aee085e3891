//! The conformance test: kopf's golden vectors, run through the code of kopfd.
//!
//! For programs that list tests, it is one test called `golden_cases`.
//!
//! `KOPFD_VECTORS=<directory>` runs the files of that directory instead of the files in `vectors`. Each must have a
//! runner here.

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
mod suite;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::Value;

use suite::{Allowed, Outcome, Runner, Suite};

/// Cases that differ from kopf because its behaviour is a defect: the file, the case, and the reason.
const ALLOWED: &[Allowed] = &[
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
    (
        "admission-reviews",
        "no hint: only validating by the reason",
        "the API server asks for webhooks by their ids only",
    ),
    ("events", "warn(): NOT stopped by disabling", "disabled Events are not posted, whatever their level"),
    ("events", "exception(): current error, message, reason", "scripts give the text of the error themselves"),
    ("events", "exception(): no reason", "scripts give the reason and the text of the error themselves"),
    ("events", "exception(): only the error", "scripts give the reason and the text of the error themselves"),
    ("events", "exception(): no error at all", "scripts give the reason themselves"),
    ("events", "log: critical", "scripts have no critical level"),
    (
        "peering",
        "process: broken record fails",
        "a malformed record is ignored, and does not end the observation of peers",
    ),
];

/// Files that are read by other runners.
const INPUTS: &[&str] = &["selectors-cluster"];

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
            let cluster = suite::read(&directory.join("selectors-cluster.json"));
            return Some(Box::new(move |case| selectors::run(case, cluster.as_ref().map_err(Clone::clone)?)));
        }
        _ => return None,
    };
    Some(Box::new(run))
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
    let given = std::env::var_os("KOPFD_VECTORS").map(PathBuf::from);
    let has_all_allowed = given.is_none();
    let directory =
        given.unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/conformance/vectors"));
    // A panic is a failure of the case: its message is shown with the case.
    std::panic::set_hook(Box::new(|_| {}));
    let print = &mut |line: String| println!("{line}");
    let suite = Suite { runner: &|name| runner(name, &directory), inputs: INPUTS, allowed: ALLOWED, has_all_allowed };
    let mut outcome = Outcome { files: suite.run(&directory, print), ..Outcome::default() };
    let scenarios = directory.join("scenarios.json");
    if scenarios.exists() {
        let runner: Runner = Box::new(scenarios::run_embedded);
        outcome.embedded = suite::run_again("scenarios on the embedded server, scenarios", &scenarios, &runner, print);
    }
    println!("{}", outcome.summary());
    if outcome.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
