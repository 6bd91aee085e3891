//! Runs the scenarios of the examples with the binary on a real API server, as `kopfd test` runs them on the embedded
//! one.
//!
//! Both verify the same files by the same code. Here `settle` waits until the log is quiet, expectations are retried
//! for a while, and downtimes are shortened. Scenarios that need faults or virtual time are skipped, each with its
//! reason.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::Duration;

use kopfd::scenario::{Downtime, Expectation, Scenario, Step, StepAction, Stubs, find};

use super::cases;
use super::examples::{copy_admission, example};
use crate::harness::{Case, TestContext};

mod environment;
mod log;

use environment::RealEnvironment;

pub(crate) const CASES: &[Case] = cases![
    the_scenarios_of_the_handlers_example_hold,
    the_scenarios_of_the_database_example_hold,
    the_scenarios_of_the_events_example_hold,
    the_scenarios_of_the_exceptions_example_hold,
    the_scenarios_of_the_sub_handlers_example_hold,
    the_scenarios_of_the_filtering_example_hold,
    the_scenarios_of_the_minimal_example_hold,
    the_scenarios_of_the_children_example_hold,
    the_scenarios_of_the_kubernetes_events_example_hold,
    the_scenarios_of_the_testing_example_hold,
    the_scenarios_of_the_built_in_kinds_example_hold,
    the_scenarios_of_the_all_at_once_example_hold,
    the_scenarios_of_the_admission_example_hold,
    skipped_scenarios_have_a_reason,
];

/// The examples whose scenarios are run, each with a case above.
const RUN: [&str; 13] = [
    "01-minimal",
    "02-children",
    "03-exceptions",
    "04-events",
    "05-handlers",
    "07-subhandlers",
    "08-events",
    "09-testing",
    "10-builtins",
    "11-filtering",
    "17-admission",
    "99-all-at-once",
    "database",
];

/// `secrets-sync` writes into the namespaces of all cases: `outside` has its case.
const RUN_ELSEWHERE: &str = "secrets-sync";

/// All examples.
pub(crate) const EXAMPLES: [&str; 28] = [
    "01-minimal",
    "02-children",
    "03-exceptions",
    "04-events",
    "05-handlers",
    "06-peering",
    "07-subhandlers",
    "08-events",
    "09-testing",
    "10-builtins",
    "11-filtering",
    "13-hooks",
    "14-daemons",
    "15-timers",
    "16-indexing",
    "17-admission",
    "18-conversion",
    "99-all-at-once",
    "certificates",
    "database",
    "database-users",
    "dns-records",
    "helm",
    "hooks",
    "http",
    "monitoring",
    "schedules",
    "secrets-sync",
];

/// Limit of the real time of a step.
const SOON: Duration = Duration::from_secs(5);

/// Limit of the downtime of an operator.
const MAX_DOWNTIME: Duration = Duration::from_secs(1);

/// Why a scenario, or a part of it, cannot run on a real cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Obstacle {
    /// It has stubs, which the binary does not use.
    Stubs,
    /// It writes the records of other operators, whose definitions other cases must not notice: `peering` has cases of
    /// its own.
    Peers,
    /// It needs failing requests, and there is no proxy between the binary and the server.
    Faults,
    /// It checks answers to requests of users, which are sent to the embedded server only.
    Answers,
    /// It needs long times.
    Time,
    /// The operator must be killed at a certain moment of its work, which depends on the machine's speed.
    Moment,
    /// It expects something that only the operator's process knows: requests, running tasks, indexes, probes. The rest
    /// of it is run.
    Unobserved,
}

/// All skipped scenarios and parts.
const LEFT_OUT: [(&str, &str, Obstacle); 75] = [
    ("01-minimal", "a request that fails is sent again", Obstacle::Faults),
    ("02-children", "a job that cannot be made is tried again", Obstacle::Faults),
    ("02-children", "an operator that crashes finds its own objects", Obstacle::Faults),
    ("03-exceptions", "retries continue after a crash", Obstacle::Moment),
    ("04-events", "a refused event is told and holds nothing up", Obstacle::Faults),
    ("06-peering", "a developer's operator takes over, and gives back", Obstacle::Peers),
    ("06-peering", "two operators with the same priority both pause until one of them is gone", Obstacle::Peers),
    ("07-subhandlers", "a crash repeats only unfinished handlers", Obstacle::Moment),
    ("08-events", "every event of a pod is seen", Obstacle::Unobserved),
    ("08-events", "only marked pods reach the second handler", Obstacle::Faults),
    ("09-testing", "a refused deletion is repeated", Obstacle::Faults),
    ("10-builtins", "a pod is deleted at the end of its lifetime", Obstacle::Time),
    ("10-builtins", "a pod without the annotation lives on", Obstacle::Time),
    ("11-filtering", "an object that no filter lets through is not handled", Obstacle::Unobserved),
    ("13-hooks", "expired credentials are replaced", Obstacle::Time),
    ("13-hooks", "the functions of an operator are called in their order", Obstacle::Time),
    ("13-hooks", "the probes tell which pods are served", Obstacle::Time),
    ("14-daemons", "daemons follow their object", Obstacle::Time),
    ("15-timers", "after changes and in the morning", Obstacle::Time),
    ("15-timers", "every minute with a retry", Obstacle::Time),
    ("16-indexing", "the indexes follow the pods", Obstacle::Time),
    ("16-indexing", "the probes read the indexes", Obstacle::Unobserved),
    ("17-admission", "requests are reviewed", Obstacle::Answers),
    ("18-conversion", "an object is converted through all versions", Obstacle::Answers),
    ("18-conversion", "an object is written and read in several versions", Obstacle::Answers),
    ("18-conversion", "conversions there and back lose nothing", Obstacle::Answers),
    ("18-conversion", "requests for other versions fail while the operator is away", Obstacle::Answers),
    ("certificates", "a certificate becomes a secret", Obstacle::Stubs),
    ("certificates", "openssl fails", Obstacle::Stubs),
    ("database", "a database becomes ready", Obstacle::Time),
    ("database", "a database is deleted with its children", Obstacle::Unobserved),
    ("database", "a database that was scaled behind its back is repaired", Obstacle::Time),
    ("database", "a failed provisioning is reported", Obstacle::Faults),
    ("database", "a missing StatefulSet is made again", Obstacle::Time),
    ("database", "a server in trouble delays the provisioning and does not fail it", Obstacle::Faults),
    ("database", "the life of a database", Obstacle::Time),
    ("database", "the probe counts the databases by their state", Obstacle::Time),
    ("database", "what happens during a downtime is repaired after it", Obstacle::Time),
    ("database-users", "a database and its user are made and dropped", Obstacle::Stubs),
    ("database-users", "a database of somebody else is left alone", Obstacle::Stubs),
    ("database-users", "a server that is away is tried again", Obstacle::Stubs),
    ("database-users", "a user of MariaDB gets more rights and is dropped", Obstacle::Stubs),
    ("database-users", "a timer that has waited for the lock does not undo a new password", Obstacle::Stubs),
    ("dns-records", "a crash while the server works on the request loses nothing", Obstacle::Stubs),
    ("dns-records", "a record is published, changed, renamed and removed", Obstacle::Stubs),
    ("dns-records", "a record of an object that is gone without a trace is taken over", Obstacle::Stubs),
    ("dns-records", "a record of somebody else is neither replaced nor removed", Obstacle::Stubs),
    ("dns-records", "a record that an earlier object of the same name has left goes with the new one", Obstacle::Stubs),
    ("dns-records", "a record that others have changed or deleted is repaired", Obstacle::Stubs),
    ("dns-records", "a record that the server refuses is not tried again until it is changed", Obstacle::Stubs),
    ("dns-records", "a server that is away, or is another one, is asked again", Obstacle::Stubs),
    ("dns-records", "a zone that is missing is waited for", Obstacle::Stubs),
    ("dns-records", "the second object with a record waits until the first is gone", Obstacle::Stubs),
    ("helm", "a release is installed and uninstalled", Obstacle::Stubs),
    ("helm", "helm hangs", Obstacle::Stubs),
    ("helm", "helm is busy at first", Obstacle::Stubs),
    ("hooks", "a pipeline refreshes one mirror", Obstacle::Answers),
    ("hooks", "a signed push refreshes the mirrors of its repository", Obstacle::Answers),
    ("hooks", "requests without valid credentials are refused", Obstacle::Answers),
    ("http", "a busy server gets the request again", Obstacle::Stubs),
    ("http", "a record is published, changed and withdrawn", Obstacle::Stubs),
    ("http", "an address that the server refuses is not tried again", Obstacle::Stubs),
    ("monitoring", "a CronJob with the annotation has a check", Obstacle::Stubs),
    ("monitoring", "a check is made, changed, observed and paused", Obstacle::Stubs),
    ("monitoring", "a check that the service refuses waits for a change", Obstacle::Stubs),
    ("monitoring", "a check that was deleted or changed at the service is made anew", Obstacle::Stubs),
    ("monitoring", "a crash after the request leaves one check and a deletion finds it", Obstacle::Stubs),
    ("monitoring", "a service that is away or is another one is asked again", Obstacle::Stubs),
    ("monitoring", "a webhook of the service brings the state at once", Obstacle::Stubs),
    ("schedules", "expired objects are deleted every quarter of an hour", Obstacle::Time),
    ("schedules", "the report of the morning is made up for", Obstacle::Time),
    ("secrets-sync", "a copy that cannot be written comes with the next call of the timer", Obstacle::Faults),
    ("secrets-sync", "a secret of somebody else is not replaced", Obstacle::Time),
    ("secrets-sync", "a secret of the vault is copied and refreshed", Obstacle::Stubs),
    ("secrets-sync", "a vault that is sealed or has nothing is asked again and the copies stay", Obstacle::Stubs),
];

fn the_scenarios_of_the_minimal_example_hold(context: &TestContext<'_>) {
    run_all(context, "01-minimal");
}

fn the_scenarios_of_the_children_example_hold(context: &TestContext<'_>) {
    run_all(context, "02-children");
}

fn the_scenarios_of_the_exceptions_example_hold(context: &TestContext<'_>) {
    run_all(context, "03-exceptions");
}

fn the_scenarios_of_the_handlers_example_hold(context: &TestContext<'_>) {
    run_all(context, "05-handlers");
}

fn the_scenarios_of_the_sub_handlers_example_hold(context: &TestContext<'_>) {
    run_all(context, "07-subhandlers");
}

fn the_scenarios_of_the_filtering_example_hold(context: &TestContext<'_>) {
    run_all(context, "11-filtering");
}

fn the_scenarios_of_the_database_example_hold(context: &TestContext<'_>) {
    run_all(context, "database");
}

fn the_scenarios_of_the_events_example_hold(context: &TestContext<'_>) {
    run_all(context, "08-events");
}

fn the_scenarios_of_the_kubernetes_events_example_hold(context: &TestContext<'_>) {
    run_all(context, "04-events");
}

fn the_scenarios_of_the_testing_example_hold(context: &TestContext<'_>) {
    run_all(context, "09-testing");
}

fn the_scenarios_of_the_built_in_kinds_example_hold(context: &TestContext<'_>) {
    run_all(context, "10-builtins");
}

fn the_scenarios_of_the_all_at_once_example_hold(context: &TestContext<'_>) {
    run_all(context, "99-all-at-once");
}

fn the_scenarios_of_the_admission_example_hold(context: &TestContext<'_>) {
    let folder = copy_admission(context);
    run_found(context, "17-admission", &found_in(&folder));
}

fn skipped_scenarios_have_a_reason(_: &TestContext<'_>) {
    let entries = fs::read_dir(example("")).expect("there are examples");
    let names: BTreeSet<String> =
        entries.map(|entry| entry.expect("it can be listed").file_name().to_string_lossy().into_owned()).collect();
    assert_eq!(names, EXAMPLES.map(String::from).into(), "each example is known here");
    let obstacles: Vec<(&str, String, Option<Obstacle>)> = EXAMPLES
        .into_iter()
        .flat_map(|name| {
            scenarios(name).into_iter().map(move |scenario| (name, scenario.name.clone(), obstacle(&scenario)))
        })
        .collect();
    let found: BTreeMap<(&str, String), Obstacle> =
        obstacles.iter().filter_map(|(name, title, obstacle)| Some(((*name, title.clone()), (*obstacle)?))).collect();
    let listed = LEFT_OUT.into_iter().map(|(name, title, obstacle)| ((name, title.to_owned()), obstacle)).collect();
    assert_eq!(found, listed, "all skipped scenarios are listed, and no listed one can run");
    let runnable: BTreeSet<&str> =
        obstacles.iter().filter(|(_, _, obstacle)| obstacle.is_none()).map(|(name, ..)| *name).collect();
    let without_case: Vec<&str> =
        runnable.into_iter().filter(|name| *name != RUN_ELSEWHERE && !RUN.contains(name)).collect();
    assert_eq!(
        (without_case, CASES.len()),
        (Vec::new(), RUN.len() + 1),
        "each example with a scenario that can run has a case"
    );
}

fn scenarios(name: &str) -> Vec<Scenario> {
    found_in(&example(name))
}

/// Returns the scenarios in the folder of an example.
fn found_in(folder: &Path) -> Vec<Scenario> {
    let found = find(&[folder.join("scenarios")]);
    assert!(
        found.diagnostics.is_empty() && !found.scenarios.is_empty(),
        "{}: {:#?}",
        folder.display(),
        found.diagnostics
    );
    found.scenarios
}

fn run_all(context: &TestContext<'_>, name: &str) {
    run_found(context, name, &scenarios(name));
}

fn run_found(context: &TestContext<'_>, name: &str, scenarios: &[Scenario]) {
    let playable: Vec<&Scenario> = scenarios.iter().filter(|scenario| is_runnable(scenario)).collect();
    assert!(!playable.is_empty(), "something of {name} is played");
    for (number, scenario) in playable.into_iter().enumerate() {
        execute(&RealEnvironment::new(context, scenario, number));
    }
}

fn is_runnable(scenario: &Scenario) -> bool {
    matches!(obstacle(scenario), None | Some(Obstacle::Unobserved))
}

/// Returns the first reason why a scenario cannot run completely.
fn obstacle(scenario: &Scenario) -> Option<Obstacle> {
    let mut found = BTreeSet::new();
    let Stubs { http, programs, pods, files, sql } = &scenario.stubs;
    if !http.is_empty() || !programs.is_empty() || !pods.is_empty() || !files.is_empty() || !sql.is_empty() {
        found.insert(Obstacle::Stubs);
    }
    let mut is_at_rest = true;
    for step in &scenario.steps {
        found.extend(obstacle_of(step));
        if matches!(step.action, StepAction::Kill(_)) && !is_at_rest {
            found.insert(Obstacle::Moment);
        }
        if let StepAction::Restart(downtime) | StepAction::Kill(downtime) = &step.action {
            found.extend(downtime.meanwhile.iter().filter_map(obstacle_of));
        }
        is_at_rest = matches!(step.action, StepAction::Settle { .. } | StepAction::Expect(_));
    }
    found.pop_first()
}

fn obstacle_of(step: &Step) -> Option<Obstacle> {
    match &step.action {
        StepAction::Fault(_) | StepAction::ClearFaults => Some(Obstacle::Faults),
        StepAction::Request(_) | StepAction::Hook(_) | StepAction::Convert(_) => Some(Obstacle::Answers),
        StepAction::Peer(_) => Some(Obstacle::Peers),
        StepAction::Advance(time) if *time > SOON => Some(Obstacle::Time),
        StepAction::Expect(expectation) if has_late_calls(expectation) => Some(Obstacle::Time),
        StepAction::Expect(expectation) if !is_observed(expectation) => Some(Obstacle::Unobserved),
        _ => None,
    }
}

fn has_late_calls(expectation: &Expectation) -> bool {
    expectation.calls.iter().flat_map(|calls| &calls.wanted).any(|call| call.at > Some(SOON))
}

fn is_observed(expectation: &Expectation) -> bool {
    let Expectation { background, requests, indexes, metrics, exit, probes, paused, .. } = expectation;
    let is_empty = background.is_empty() && requests.is_empty() && indexes.is_empty() && metrics.is_empty();
    is_empty && exit.is_none() && probes.is_none() && paused.is_none()
}

/// Returns what can be observed on a real cluster.
fn observed(expectation: &Expectation) -> Expectation {
    Expectation {
        background: Vec::new(),
        requests: Vec::new(),
        indexes: Vec::new(),
        metrics: Vec::new(),
        exit: None,
        probes: None,
        paused: None,
        ..expectation.clone()
    }
}

fn execute(environment: &RealEnvironment<'_, '_>) {
    let scenario = environment.scenario;
    environment.give();
    environment.start();
    for step in &scenario.steps {
        match &step.action {
            StepAction::Settle { .. } => environment.settle(step),
            StepAction::Expect(expectation) => {
                environment.expect(step, &observed(expectation));
            }
            StepAction::Restart(downtime) => {
                environment.stop();
                away(environment, downtime);
            }
            StepAction::Kill(downtime) => {
                environment.kill();
                away(environment, downtime);
            }
            _ => simple(environment, step),
        }
    }
    environment.stop();
}

fn away(environment: &RealEnvironment<'_, '_>, downtime: &Downtime) {
    downtime.meanwhile.iter().for_each(|step| simple(environment, step));
    std::thread::sleep(downtime.duration.min(MAX_DOWNTIME));
    environment.start();
}

/// Performs a step that is allowed while the operator is stopped, too.
fn simple(environment: &RealEnvironment<'_, '_>, step: &Step) {
    match &step.action {
        StepAction::Apply(objects) => objects.iter().for_each(|object| environment.apply(object)),
        StepAction::Patch(change) => environment.patch(change),
        StepAction::Delete(target, propagation) => environment.delete(target, propagation.as_deref()),
        StepAction::Advance(time) => std::thread::sleep(*time),
        _ => panic!("line {}: this cannot be done on a real cluster: {}", step.spot.line, step.title),
    }
}
