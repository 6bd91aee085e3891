//! Every setting has a test that shows its effect, and every environment variable one that sets it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory as _};
use kopfd::cli::Cli;
use kopfd::manifest::settings_table::TABLE;

const PEERS: &str = "tests/scenarios/holding/peering.yaml";
const SCENARIOS: &str = "tests/scenarios/holding/settings.yaml";
const CONNECTIONS: &str = "tests/connection.rs";
const PROCESSES: &str = "tests/run.rs";
const KINDS: &str = "tests/closed_loop/kinds.rs";
const EVENTS: &str = "tests/conformance/vectors/events.json";
const WATCHES: &str = "src/cluster/watch/tests.rs";
const LIMITS: &str = "tests/limits.rs";
const REQUESTS: &str = "src/cluster/client/tests.rs";
const LOOPS: &str = "tests/scenarios/holding/loops.yaml";
const WEBHOOKS: &str = "tests/scenarios/holding/managed-webhooks.yaml";
const BACKGROUND: &str = "src/engines/background/options.rs";

/// The test of each setting: its file, and its name or the name of its scenario.
const EFFECTS: [(&str, &str, &str); 48] = [
    ("process.ultimateExitingTimeout", PROCESSES, "an_operator_that_does_not_stop_in_time_is_ended"),
    ("posting.enabled", EVENTS, "\"enabled\": false"),
    ("posting.loggers", SCENARIOS, "log lines from a level on are posted"),
    ("posting.level", SCENARIOS, "log lines from a level on are posted"),
    ("posting.reportingComponent", EVENTS, "\"reporting_component\": \""),
    ("posting.reportingInstance", EVENTS, "\"reporting_instance\": \"pod-1\""),
    ("posting.eventNamePrefix", EVENTS, "\"event_name_prefix\": \""),
    ("posting.aggregated", "tests/posting.rs", "repetitions_are_counted_on_one_event_if_the_settings_say_so"),
    ("peering.name", PEERS, "an operator with a mandatory peering waits for its definition and its object"),
    ("peering.stealth", "tests/conformance/vectors/peering.json", "touch: stealth"),
    ("peering.priority", PEERS, "an operator pauses for a peer with a higher priority until that is gone"),
    ("peering.lifetime", PEERS, "a peer that does not renew its record expires"),
    ("peering.mandatory", PEERS, "an operator with a mandatory peering waits for its definition and its object"),
    ("peering.standalone", PEERS, "a standalone operator ignores its peers"),
    ("peering.clusterwide", PEERS, "an operator of namespaces may use the cluster-wide peering"),
    ("watching.serverTimeout", WATCHES, "the_settings_limit_a_watch"),
    ("watching.clientTimeout", WATCHES, "the_settings_limit_a_watch"),
    ("watching.connectTimeout", CONNECTIONS, "the_time_for_opening_a_watch_is_a_setting"),
    ("watching.reconnectBackoff", WATCHES, "a_setting_is_the_pause_before_a_lost_watch_lists_again"),
    ("watching.inactivityTimeout", SCENARIOS, "a silent watch is opened again after the inactivity timeout"),
    ("queueing.workerLimit", SCENARIOS, "no more objects of a kind are processed at once than workers are allowed"),
    ("queueing.idleTimeout", KINDS, "a_worker_waits_for_the_event_of_its_own_patch_for_the_idle_timeout"),
    ("queueing.exitTimeout", SCENARIOS, "a slow handler is cancelled after the exit timeout"),
    ("queueing.errorDelays", SCENARIOS, "an object is throttled by the error delays"),
    ("queueing.breaker", LOOPS, "a handler that changes what it is called for is slowed down"),
    ("scripts.memory", LIMITS, "new_calls_wait_while_the_running_ones_hold_more_than_the_process_may"),
    ("scanning.disabled", SCENARIOS, "new kinds are not noticed if scanning is disabled"),
    ("hooks.server", "tests/run/hooks.rs", "a_listener_of_their_own_asks_for_client_certificates"),
    ("admission.server", "tests/run/admission.rs", "the_api_server_has_requests_reviewed"),
    ("admission.managed", WEBHOOKS, "conditions of filters can be switched off"),
    ("admission.derivedConditions", WEBHOOKS, "conditions of filters can be switched off"),
    ("execution.defaultBackoff", SCENARIOS, "the pause after an error and the order of handlers"),
    ("execution.lifecycle", SCENARIOS, "the pause after an error and the order of handlers"),
    (
        "background.cancellationPolling",
        "tests/scenarios/holding/daemons.yaml",
        "a daemon that leaves nothing behind is checked at the polling interval",
    ),
    ("background.instantExitTimeout", BACKGROUND, "settings_limit_the_wait_for_a_task_that_ends_at_once"),
    ("background.instantExitZeroTimeCycles", BACKGROUND, "settings_limit_the_wait_for_a_task_that_ends_at_once"),
    (
        "networking.requestTimeout",
        SCENARIOS,
        "a request without an answer is repeated after the request timeout and the back-off",
    ),
    ("networking.connectTimeout", CONNECTIONS, "the_time_for_opening_a_connection_is_a_setting"),
    (
        "networking.errorBackoffs",
        SCENARIOS,
        "a request without an answer is repeated after the request timeout and the back-off",
    ),
    ("networking.enforceRetryAfter", REQUESTS, "the_server_may_ask_for_a_longer_pause"),
    ("networking.requests", "tests/scenarios/holding/requests.yaml", "requests beyond the budget wait"),
    ("networking.trustEnv", PROCESSES, "the_proxy_of_the_environment_is_used_only_if_a_setting_allows_it"),
    ("persistence.finalizer", SCENARIOS, "the finalizer and the annotations"),
    ("persistence.progressStorage", SCENARIOS, "the finalizer and the annotations"),
    ("persistence.diffbaseStorage", SCENARIOS, "the finalizer and the annotations"),
    ("persistence.secrets", "tests/scenarios/holding/secrets.yaml", "digests stand for the values of a Secret"),
    ("reload.canary", "tests/scenarios/holding/canary.yaml", "a failing revision is rolled back"),
    (
        "persistence.consistencyTimeout",
        "tests/conformance/vectors/scenarios.json",
        "\"persistence.consistency_timeout\": ",
    ),
];

#[test]
fn every_setting_has_a_test_of_its_effect() {
    let known: BTreeSet<String> = TABLE.iter().map(|one| format!("{}.{}", one.section, one.key)).collect();
    let tested: BTreeSet<String> = EFFECTS.iter().map(|(setting, _, _)| (*setting).to_owned()).collect();
    assert_eq!(tested, known);
    for (setting, file, test) in EFFECTS {
        let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap_or_default();
        assert!(text.contains(test), "{setting}: {file} has no test {test:?}");
    }
}

#[test]
fn every_environment_variable_has_a_test_that_sets_it() {
    let mut variables = BTreeSet::new();
    add_variables(&Cli::command(), &mut variables);
    let of_options = variables.len();
    // Variables that belong to no single option.
    let read = regex::Regex::new(r#""(KOPFD_[A-Z_]+)""#).expect("the pattern is valid");
    for text in sources("src/cli") {
        let (product, _) = text.split_once("#[cfg(test)]").unwrap_or((&text, ""));
        variables.extend(read.captures_iter(product).map(|found| found[1].to_owned()));
    }
    assert!(of_options > 30 && variables.len() > of_options, "{variables:?}");
    let tests = sources("tests");
    let is_set = |name: &String| tests.iter().any(|text| text.contains(&format!("(\"{name}\",")));
    let untested: Vec<&String> = variables.iter().filter(|name| !is_set(name)).collect();
    assert!(untested.is_empty(), "no test sets these variables, such as by `.env(\"NAME\", \"value\")`: {untested:?}");
}

fn add_variables(command: &Command, variables: &mut BTreeSet<String>) {
    variables.extend(command.get_arguments().filter_map(|argument| argument.get_env()?.to_str().map(str::to_owned)));
    command.get_subcommands().for_each(|command| add_variables(command, variables));
}

/// Returns the texts of all Rust files of a directory.
fn sources(directory: &str) -> Vec<String> {
    let mut directories = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join(directory)];
    let mut files: Vec<PathBuf> = Vec::new();
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display())) {
            let path = entry.expect("the directory can be read").path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    files.iter().map(|file| std::fs::read_to_string(file).expect("a source can be read")).collect()
}
