//! kopfd beside Python kopf 1.44.6: both run the same operator at the same time, each in its own namespace, and must do
//! the same.
//!
//! `tests/cluster/beside/` has a directory for each group of cases: the operator twice (`main.py`, and `operator.yaml`
//! with `main.rhai`), and `cases.yaml` with the steps and the expected calls of each case. All cases of a group share
//! one process of each engine, since Python needs a second to start. Handlers log their calls as `CALL <name> <JSON>`;
//! proxies record the requests of both operators. Calls, requests, final objects, log messages, Kubernetes Events,
//! answers of probes and exit codes must be equal. `differences.yaml` has the allowed differences. `KOPFD_BESIDE=text`
//! selects cases by name.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::thread;

use super::cases;
use crate::harness::{Case, TestContext, caught, heavy_turn};

mod compare;
mod differences;
mod document;
mod log;
mod record;
mod side;
mod steps;

use differences::Differences;
use document::Group;
use side::{Side, other_kind, thing_kind};

pub(crate) const CASES: &[Case] = cases![
    timers_behave_as_in_kopf,
    daemons_behave_as_in_kopf,
    restarts_behave_as_in_kopf,
    indexes_behave_as_in_kopf,
    events_behave_as_in_kopf,
    events_with_a_level_behave_as_in_kopf,
    disabled_events_behave_as_in_kopf,
    startup_and_cleanup_behave_as_in_kopf,
    a_startup_that_fails_ends_as_in_kopf,
    a_startup_that_exhausts_its_retries_ends_as_in_kopf,
    a_cleanup_that_fails_ends_as_in_kopf,
    a_login_without_credentials_ends_as_in_kopf,
    several_logins_behave_as_in_kopf,
    probes_behave_as_in_kopf,
    running_daemons_are_taken_over_from_each_other_after_a_stop,
    running_daemons_are_taken_over_from_each_other_after_a_crash,
    each_directory_is_a_group_of_cases,
];

/// The directories of the groups.
const GROUPS: [&str; 16] = [
    "timers",
    "daemons",
    "restarts",
    "indexes",
    "events",
    "events-level",
    "events-disabled",
    "startup",
    "startup-fails",
    "startup-retries",
    "cleanup-fails",
    "login-empty",
    "logins",
    "probes",
    "takeover-stop",
    "takeover-crash",
];

/// The smallest number of cases.
const LEAST_CASES: usize = 40;

fn timers_behave_as_in_kopf(context: &TestContext<'_>) {
    compare_engines(context, "timers");
}

fn daemons_behave_as_in_kopf(context: &TestContext<'_>) {
    compare_engines(context, "daemons");
}

fn restarts_behave_as_in_kopf(context: &TestContext<'_>) {
    compare_engines(context, "restarts");
}

fn indexes_behave_as_in_kopf(context: &TestContext<'_>) {
    compare_engines(context, "indexes");
}

fn events_behave_as_in_kopf(context: &TestContext<'_>) {
    compare_engines(context, "events");
}

fn events_with_a_level_behave_as_in_kopf(context: &TestContext<'_>) {
    compare_engines(context, "events-level");
}

fn disabled_events_behave_as_in_kopf(context: &TestContext<'_>) {
    compare_engines(context, "events-disabled");
}

fn startup_and_cleanup_behave_as_in_kopf(context: &TestContext<'_>) {
    compare_engines(context, "startup");
}

fn a_startup_that_fails_ends_as_in_kopf(context: &TestContext<'_>) {
    compare_engines(context, "startup-fails");
}

fn a_startup_that_exhausts_its_retries_ends_as_in_kopf(context: &TestContext<'_>) {
    compare_engines(context, "startup-retries");
}

fn a_cleanup_that_fails_ends_as_in_kopf(context: &TestContext<'_>) {
    compare_engines(context, "cleanup-fails");
}

fn a_login_without_credentials_ends_as_in_kopf(context: &TestContext<'_>) {
    compare_engines(context, "login-empty");
}

fn several_logins_behave_as_in_kopf(context: &TestContext<'_>) {
    compare_engines(context, "logins");
}

fn probes_behave_as_in_kopf(context: &TestContext<'_>) {
    compare_engines(context, "probes");
}

fn running_daemons_are_taken_over_from_each_other_after_a_stop(context: &TestContext<'_>) {
    compare_engines(context, "takeover-stop");
}

fn running_daemons_are_taken_over_from_each_other_after_a_crash(context: &TestContext<'_>) {
    compare_engines(context, "takeover-crash");
}

fn each_directory_is_a_group_of_cases(_: &TestContext<'_>) {
    let entries =
        fs::read_dir(directory()).expect("the groups can be listed").map(|entry| entry.expect("an entry can be read"));
    let found: BTreeSet<String> = entries
        .filter(|entry| entry.path().join("cases.yaml").exists())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    assert_eq!(found, GROUPS.map(String::from).into(), "each directory with cases is run");
    let cases: BTreeSet<String> = GROUPS.iter().flat_map(|name| Group::read(&directory(), name).titles()).collect();
    assert!(cases.len() >= LEAST_CASES, "there are only {} cases", cases.len());
    Differences::read(&directory()).check(&cases);
}

fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/cluster/beside")
}

/// How often a group is run while the machine may be too busy for it.
const ATTEMPTS: usize = 3;

/// Runs the operators of a group on all sides at the same time, and compares the sides.
///
/// On a busy machine kopf sometimes misses a change for a minute, and then nothing can be compared; and each side can
/// be late. Such a run is repeated when no other case needs all of the machine. Whatever the other sides do against the
/// expectations, other than late, fails at once.
fn compare_engines(context: &TestContext<'_>, name: &str) {
    let mut group = Group::read(&directory(), name);
    if let Ok(chosen) = std::env::var("KOPFD_BESIDE") {
        group.cases.retain(|case| case.name.contains(&chosen));
        if group.cases.is_empty() {
            return;
        }
    }
    context.install(&thing_kind());
    context.install(&other_kind());
    for attempt in 1..=ATTEMPTS {
        let _turn = (attempt > 1).then(heavy_turn);
        let sides = run_sides(context, &group, attempt);
        let report = compare::report(&group, &sides, &Differences::read(&directory()));
        if attempt == ATTEMPTS || !report.is_excusable() {
            let problems = report.problems();
            assert!(problems.is_empty(), "{}", problems.join("\n"));
            return;
        }
        println!(
            "{name}: attempt {attempt} is repeated, since the machine may have been too busy:\n{}",
            report.problems().join("\n")
        );
    }
}

fn run_sides(context: &TestContext<'_>, group: &Group, attempt: usize) -> Vec<Side> {
    let sides: Vec<Side> =
        (0..group.sides.len()).map(|number| Side::new(context, &directory(), group, number, attempt)).collect();
    let outcomes: Vec<Result<(), String>> = thread::scope(|scope| {
        let running: Vec<_> = sides.iter().map(|side| scope.spawn(|| caught(|| side.run(group)))).collect();
        running.into_iter().map(|side| side.join().expect("panics are caught")).collect()
    });
    for (side, outcome) in sides.iter().zip(outcomes) {
        outcome.unwrap_or_else(|message| panic!("{}, {}: {message}", group.name, side.title()));
    }
    sides
}
