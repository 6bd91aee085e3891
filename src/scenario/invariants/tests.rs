//! Injected defects of the engine are found, and an engine without defects passes.

mod rules;

use std::path::Path;
use std::sync::Arc;

use tracing::Level;

use super::super::execute::Mode;
use super::super::find;
use super::super::model::Scenario;
use super::super::run::run_at;
use crate::manifest::Diagnostic;
use crate::reactor::defects::{self, Defect, FiringDefect};

/// Seeds within which a defect must be found. The gate runs ten times as many.
static SEEDS: std::ops::Range<u64> = 0..20;

fn scenario(file: &str) -> Arc<Scenario> {
    let found = find(&[Path::new(env!("CARGO_MANIFEST_DIR")).join(file)]);
    assert!(!found.diagnostics.iter().any(Diagnostic::is_error), "{:#?}", found.diagnostics);
    Arc::new(found.scenarios.into_iter().next().unwrap())
}

fn violations(scenario: &Arc<Scenario>, seed: u64, mode: Mode) -> Vec<String> {
    run_at(Level::INFO, scenario, seed, mode).unwrap().violations
}

/// Returns the first violation caused by a defect, with its seed. Without the defect there must be none.
fn found(file: &str, defect: Defect) -> String {
    let scenario = scenario(file);
    for seed in SEEDS.clone() {
        assert_eq!(violations(&scenario, seed, Mode::Disturb), [""; 0], "seed {seed} of an engine without defects");
    }
    let first = |seed| defects::with(defect, || violations(&scenario, seed, Mode::Disturb)).into_iter().next();
    let (seed, violation) =
        SEEDS.clone().find_map(|seed| Some((seed, first(seed)?))).unwrap_or_else(|| panic!("{defect:?} is not found"));
    format!("seed {seed}: {violation}")
}

const LIFE: &str = "examples/05-handlers/scenarios/life.yaml";
const RESUMING: &str = "tests/scenarios/holding/resuming.yaml";
const DAEMONS: &str = "examples/14-daemons/scenarios/daemons.yaml";
const TIMERS: &str = "examples/15-timers/scenarios/timers.yaml";

const IDLE: &str = "tests/scenarios/holding/idle.yaml";

const CONDITIONS: &str = "tests/scenarios/holding/conditions.yaml";

const SCHEDULES: &str = "tests/scenarios/holding/schedules.yaml";

const PEERS: &str = "tests/scenarios/holding/peering.yaml";

const INDEXES: &str = "tests/scenarios/holding/indexes.yaml";

#[test]
fn a_tick_that_a_restart_loses_is_found() {
    let violation = found(SCHEDULES, Defect::SkipsMissedTicks);
    assert!(violation.contains("`hourly` has stored nothing"), "{violation}");
}

#[test]
fn an_event_that_is_handled_in_a_pause_is_found() {
    let violation = found(PEERS, Defect::IgnoresPauses);
    assert!(violation.contains(" was taken up although the operator was paused"), "{violation}");
}

#[test]
fn an_outdated_index_is_found() {
    insta::assert_snapshot!(found(INDEXES, Defect::KeepsEntries), @r#"seed 0: the index `by_team` is outdated: it has {"web":["d"]}, and a new one {}"#);
}

#[test]
fn a_success_that_is_forgotten_is_found() {
    insta::assert_snapshot!(found(LIFE, Defect::ForgetsSuccesses), @"seed 0: the end of `on_create#0` for KopfdExample default/lifetime was not stored");
}

#[test]
fn a_cause_that_is_begun_twice_is_found() {
    insta::assert_snapshot!(found(LIFE, Defect::ForgetsEssences), @"seed 0: the end of `on_size/spec.size#0` for KopfdExample default/lifetime was not stored");
}

#[test]
fn a_handler_that_is_called_twice_is_found() {
    insta::assert_snapshot!(found(LIFE, Defect::CallsTwice), @"seed 0: `on_event` was called twice for KopfdExample default/lifetime in one cycle");
}

#[test]
fn a_handler_that_resumes_again_is_found() {
    insta::assert_snapshot!(found(RESUMING, Defect::ForgetsHandling), @"seed 0: `on_resume#0` was called for KopfdExample default/lifetime, though it was already resumed in this run");
}

#[test]
fn a_call_about_a_state_before_the_own_patch_is_found() {
    let violation = found(LIFE, Defect::WaitsForNothing);
    assert!(
        violation.contains(" was called for KopfdExample default/lifetime, though it is about version "),
        "{violation}"
    );
}

#[test]
fn a_timer_that_is_not_started_is_found() {
    let violation = found(TIMERS, Defect::StartsNoTasks);
    assert!(violation.contains(" is not running for KopfdExample default/timed, though it matches"), "{violation}");
}

#[test]
fn a_daemon_that_outlives_its_object_is_found() {
    let violation = found(DAEMONS, Defect::KeepsTasks);
    assert!(
        violation.contains("KopfdExample default/watched lost its finalizer, though `watch_size` was still running"),
        "{violation}"
    );
}

#[test]
fn a_timer_that_runs_and_is_never_called_is_found() {
    let violation = found(TIMERS, Defect::Fires(FiringDefect::Never));
    assert!(violation.contains(" was not called, though it was due at "), "{violation}");
}

#[test]
fn a_timer_that_is_called_twice_at_a_time_is_found() {
    let violation = found(TIMERS, Defect::Fires(FiringDefect::Twice));
    assert!(violation.contains(" was called for KopfdExample default/timed at "), "{violation}");
    assert!(violation.contains(", though it was due at "), "{violation}");
}

#[test]
fn a_timer_that_does_not_wait_for_a_quiet_object_is_found() {
    let violation = found(IDLE, Defect::Fires(FiringDefect::Restlessly));
    assert!(violation.contains("`idle` was called for Backup default/x at "), "{violation}");
}

#[test]
fn a_timer_with_an_expression_that_is_not_started_is_found() {
    let violation = found(CONDITIONS, Defect::StartsNoTasks);
    assert!(violation.contains(" is not running for ConfigMap default/one, though it matches"), "{violation}");
}
