//! `kopfd test` and its scenarios: all examples pass, the same seed gives the same timeline, and failures are reported
//! clearly.

#![expect(clippy::unwrap_used, reason = "a test that fails may panic")]

use std::collections::BTreeSet;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

use kopfd::manifest::Diagnostic;
use kopfd::scenario::{self, Mode, Scenario};

use super::child::output;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn kopfd(folder: &Path, arguments: &[&str]) -> Output {
    output(Command::new(env!("CARGO_BIN_EXE_kopfd")).arg("test").args(arguments).current_dir(folder))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn printed(output: &Output) -> String {
    let code = output.status.code().expect("the command ends by itself");
    format!("{}{}exit code: {code}\n", text(&output.stderr), text(&output.stdout))
}

fn scenarios(path: &Path) -> Vec<Arc<Scenario>> {
    let found = scenario::find(&[path.to_owned()]);
    assert!(!found.diagnostics.iter().any(Diagnostic::is_error), "{:#?}", found.diagnostics);
    found.scenarios.into_iter().map(Arc::new).collect()
}

#[test]
fn the_scenarios_of_all_examples_hold() {
    for entry in std::fs::read_dir(root().join("examples")).unwrap() {
        let example = entry.unwrap().path();
        let files = std::fs::read_dir(example.join("scenarios")).map(Iterator::count).unwrap_or_default();
        assert!(files > 0, "{} has no scenarios", example.display());
    }
    let output = kopfd(&root(), &["examples"]);
    assert_eq!(output.status.code(), Some(0), "{}", printed(&output));
}

#[test]
fn every_example_has_a_scenario_that_runs_with_disturbances() {
    for entry in std::fs::read_dir(root().join("examples")).unwrap() {
        let example = entry.unwrap().path();
        let is_disturbed = scenarios(&example).iter().any(|one| one.seeds.skip.is_none());
        assert!(is_disturbed, "{} has no scenario for `--seeds`", example.display());
    }
}

#[test]
fn every_word_of_scenarios_is_understood() {
    let output = kopfd(&root().join("tests/scenarios"), &["holding"]);
    assert_eq!(output.status.code(), Some(0), "{}", printed(&output));
}

#[test]
fn the_modules_of_the_library_hold() {
    let output = kopfd(&root(), &["tests/library"]);
    assert_eq!(output.status.code(), Some(0), "{}", printed(&output));
}

#[test]
fn whatever_is_disturbed_no_handler_is_lost_or_called_again() {
    let output = kopfd(&root(), &["examples", "tests/scenarios/holding", "--seeds", "4"]);
    assert_eq!(output.status.code(), Some(0), "{}", printed(&output));
}

#[test]
fn the_same_seed_gives_the_same_timeline() {
    let all = scenarios(&root().join("examples"));
    let chosen: Vec<_> = all
        .iter()
        .filter(|one| {
            ["a full life cycle", "every event", "a database is deleted"].iter().any(|name| one.name.starts_with(name))
        })
        .collect();
    assert_eq!(chosen.len(), 3);
    for one in chosen {
        let print = |seed, mode| scenario::run(one, seed, mode).unwrap().timeline.print(&BTreeSet::new());
        assert_eq!(print(1, Mode::Check), print(1, Mode::Check), "{}", one.name);
        for seed in [3, 4, 5] {
            assert_eq!(print(seed, Mode::Disturb), print(seed, Mode::Disturb), "{}", one.name);
        }
    }
}

/// Compares the outputs for all files of a folder with their snapshots.
fn outputs(folder: &str) {
    let place = root().join("tests/scenarios");
    let mut names: Vec<String> = std::fs::read_dir(place.join(folder))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let failed: Vec<&String> = names
        .iter()
        .filter(|name| {
            let output = printed(&kopfd(&place, &[&format!("{folder}/{name}")]));
            catch_unwind(|| {
                insta::with_settings!({omit_expression => true, prepend_module_to_snapshot => false, snapshot_path => format!("snapshots/scenarios/{folder}")}, {
                    insta::assert_snapshot!(name.trim_end_matches(".yaml"), output);
                });
            })
            .is_err()
        })
        .collect();
    assert!(failed.is_empty(), "other outputs than expected: {failed:?}");
}

#[test]
fn failed_expectations_are_reported_with_the_timeline() {
    outputs("failing");
}

#[test]
fn all_errors_of_a_file_are_reported_at_once() {
    outputs("mistakes");
}

#[test]
fn reports_for_programs_are_documents() {
    let place = root().join("tests/scenarios");
    for output in ["json", "junit"] {
        let printed = printed(&kopfd(&place, &["failing/refused.yaml", "--output", output]));
        insta::with_settings!({omit_expression => true, prepend_module_to_snapshot => false, snapshot_path => "snapshots/scenarios"}, {
            insta::assert_snapshot!(format!("refused-{output}"), printed);
        });
    }
    let mistakes = kopfd(&place, &["mistakes/04-top.yaml", "--output", "json"]);
    assert!(text(&mistakes.stdout).contains("\"errors\": "), "{}", printed(&mistakes));
}

#[test]
fn expectations_are_updated_and_the_rest_of_the_file_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("life.yaml");
    let operator = root().join("examples/05-handlers/operator.yaml");
    let before = format!(
        "# A comment.\napiVersion: kopfd.dev/v1\nkind: Scenario\nmetadata: {{name: life}}\nspec:\n  operator: {}\n  given: [obj.yaml]\n  steps:\n    \
         - settle: {{within: 1m}}\n    - expect: {{object: kex/lifetime, matches: {{spec: {{colour: blue}}, status: {{on_create: {{size: 7}}}}}}}} # kept\n    \
         - expect:\n        calls:\n          handlers: [on_create, on_size/spec.size]\n          exactly:\n            - on_update#0\n    \
         - expect: {{requests: {{object: kex/lifetime, patch: {{exactly: 1}}}}}}\n",
        operator.display()
    );
    std::fs::write(&file, &before).unwrap();
    let output = kopfd(folder.path(), &["life.yaml", "--update"]);
    assert_eq!(output.status.code(), Some(0), "{}", printed(&output));
    assert!(text(&output.stderr).contains("4 expectations updated"), "{}", printed(&output));
    let expected = before
        .replace("blue", "red")
        .replace("size: 7", "size: 1")
        .replace("            - on_update#0", "            - on_create#0\n            - on_size/spec.size#0")
        .replace("exactly: 1", "exactly: 4");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), expected);
    assert_eq!(kopfd(folder.path(), &["life.yaml"]).status.code(), Some(0));
}

#[test]
fn differences_that_cannot_be_updated_are_kept_and_reported() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("life.yaml");
    let operator = root().join("examples/05-handlers/operator.yaml");
    let file_with = |calls: &str| {
        format!(
            "apiVersion: kopfd.dev/v1\nkind: Scenario\nmetadata: {{name: life}}\nspec:\n  operator: {}\n  given: [obj.yaml]\n  steps:\n    \
             - settle: {{within: 1m}}\n    - expect: {{calls: {{includes: [on_delete]}}}}\n    \
             - expect:\n        calls:\n          handlers: [on_create, on_update]\n          exactly:\n{calls}",
            operator.display()
        )
    };
    let before =
        file_with("            - on_update#0 # the first\n            # the second\n            - on_update#1\n");
    std::fs::write(&file, &before).unwrap();
    let output = kopfd(folder.path(), &["life.yaml", "--update"]);
    assert_eq!(output.status.code(), Some(1), "{}", printed(&output));
    let stderr = text(&output.stderr);
    assert_eq!(stderr, "life.yaml: 1 expectation updated\nlife.yaml: 1 difference that cannot be updated\n");
    let after = file_with("            - on_create#0 # the first\n            # the second\n");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), after);
}

#[test]
fn debug_lines_are_shown_on_request_and_ignored_by_expectations() {
    let folder = tempfile::tempdir().unwrap();
    let operator = root().join("tests/scenarios/operators/loopy/operator.yaml");
    let scenario = format!(
        "apiVersion: kopfd.dev/v1\nkind: Scenario\nmetadata: {{name: quiet}}\nspec:\n  operator: {}\n  given:\n    \
         - {{apiVersion: ops.acme.io/v1, kind: Backup, metadata: {{name: x}}, spec: {{target: db}}}}\n  steps:\n    \
         - settle\n    - expect: {{logs: {{excludes: [The target is checked.]}}}}\n",
        operator.display()
    );
    std::fs::write(folder.path().join("quiet.yaml"), scenario).unwrap();
    let plain = kopfd(folder.path(), &[]);
    assert_eq!(plain.status.code(), Some(0), "{}", printed(&plain));
    assert!(!text(&plain.stdout).contains("is checked"), "{}", printed(&plain));
    let verbose = kopfd(folder.path(), &["-v"]);
    assert_eq!(verbose.status.code(), Some(0), "{}", printed(&verbose));
    assert!(text(&verbose.stdout).contains("DEBUG   [default/x] The target is checked."), "{}", printed(&verbose));
}

#[test]
fn results_have_colours_where_there_are_some() {
    let coloured = |variables: &[(&str, &str)]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kopfd"));
        command.args(["test", "examples", "--filter", "a full life cycle"]).current_dir(root());
        for variable in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"] {
            command.env_remove(variable);
        }
        let output = output(command.envs(variables.iter().copied()));
        text(&output.stdout).contains("\u{1b}[1m\u{1b}[32mok\u{1b}[0m    examples")
    };
    assert!(!coloured(&[]), "the output is no terminal");
    assert!(coloured(&[("CLICOLOR_FORCE", "1")]));
    assert!(coloured(&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "")]));
}

#[test]
fn a_livelock_is_found_soon() {
    let output = kopfd(&root().join("tests/scenarios"), &["failing/livelock.yaml", "--output", "json"]);
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let entries = document["scenarios"][0]["timeline"].as_array().unwrap().len();
    assert!((1_000..5_000).contains(&entries), "{entries} entries");
}

#[test]
fn a_disturbed_run_that_never_settles_is_reported_once_with_its_time_limit() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("operator.yaml"), OPERATOR.replace("fn: count", "fn: claim, backoff: 1h"))
        .unwrap();
    std::fs::write(folder.path().join("code.rhai"), CLAIM).unwrap();
    std::fs::write(folder.path().join("claiming.yaml"), CLAIMING).unwrap();
    let output = kopfd(folder.path(), &["--seeds", "60"]);
    let all = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{all}");
    let failed: Vec<&str> = all.split("FAIL  ").skip(1).collect();
    let unsettled: Vec<&&str> = failed.iter().filter(|one| one.contains("not settled ")).collect();
    assert!(!unsettled.is_empty(), "{all}");
    for one in unsettled {
        assert!(
            one.contains("error: not settled within 24h: `claim` is scheduled again for ConfigMap default/one at "),
            "{one}"
        );
        assert_eq!(one.lines().filter(|line| line.starts_with("error: ")).count(), 1, "{one}");
    }
}

#[test]
fn scenarios_are_found_and_chosen() {
    let folder = root().join("examples");
    let output = kopfd(&folder, &["--filter", "a full life cycle"]);
    assert_eq!(
        text(&output.stdout),
        "ok    05-handlers/scenarios/life.yaml: a full life cycle (3605.0s)\n1 scenario passed\n"
    );
    assert_eq!(kopfd(&folder, &["--filter", "nothing of the sort"]).status.code(), Some(1));
    assert_eq!(kopfd(&folder, &["--output", "xml"]).status.code(), Some(2));
    let empty = tempfile::tempdir().unwrap();
    let output = kopfd(empty.path(), &[]);
    assert!(text(&output.stderr).contains("no scenario found"), "{}", printed(&output));
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_violation_names_the_seed_and_the_command_that_repeats_it() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("operator.yaml"), OPERATOR).unwrap();
    std::fs::write(folder.path().join("code.rhai"), CODE).unwrap();
    std::fs::write(folder.path().join("counting.yaml"), COUNTING).unwrap();
    let output = kopfd(folder.path(), &["--seeds", "30"]);
    let all = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{all}");
    let command = all.lines().find_map(|line| line.strip_prefix("Run it again: kopfd test ")).expect("a command");
    let seed = command.rsplit(' ').next().unwrap();
    assert_eq!(command, format!("counting.yaml --filter 'it counts' --seeds 1 --seed {seed}"));
    let again = kopfd(folder.path(), &["counting.yaml", "--filter", "it counts", "--seeds", "1", "--seed", seed]);
    let again = text(&again.stdout);
    let report = again.split("Run it again").next().unwrap();
    assert!(report.contains("the final state differs from the undisturbed run"), "{report}");
    assert!(all.contains(report), "another report than at first:\n{report}");
}

#[test]
fn seeds_stop_after_five_that_fail_and_end_with_a_list() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("operator.yaml"), OPERATOR).unwrap();
    std::fs::write(folder.path().join("code.rhai"), CODE).unwrap();
    std::fs::write(folder.path().join("counting.yaml"), COUNTING).unwrap();
    let all = text(&kopfd(folder.path(), &["--seeds", "1000"]).stdout);
    assert_eq!(all.matches("Run it again: ").count(), 5, "{all}");
    let end: Vec<&str> = all.lines().rev().take(2).collect();
    let (listed, rest) =
        end[1].strip_prefix("FAIL  counting.yaml: it counts: seeds ").unwrap().split_once("; ").unwrap();
    let seeds: Vec<u64> = listed.split(", ").map(|seed| seed.parse().unwrap()).collect();
    let run = seeds[4] + 1;
    assert_eq!(seeds.len(), 5, "{}", end[1]);
    assert_eq!(rest, format!("the other {} seeds were not run", 1000 - run));
    assert_eq!(end[0], format!("{} runs passed, 5 failed", run - 5));
}

#[test]
fn of_many_failed_seeds_of_several_scenarios_only_five_are_shown() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("operator.yaml"), OPERATOR).unwrap();
    std::fs::write(folder.path().join("code.rhai"), CODE).unwrap();
    std::fs::write(folder.path().join("counting.yaml"), COUNTING).unwrap();
    std::fs::write(folder.path().join("second.yaml"), COUNTING.replace("it counts", "it counts again")).unwrap();
    let all = text(&kopfd(folder.path(), &["--seeds", "1000"]).stdout);
    assert_eq!((all.matches("Run it again: ").count(), all.matches("Timeline:").count()), (5, 5), "{all}");
    let end: Vec<&str> = all.lines().rev().take(5).collect();
    assert!(end[0].ends_with(" runs passed, 10 failed"), "{}", end[0]);
    assert!(end[1].starts_with("FAIL  second.yaml: it counts again: seeds "), "{}", end[1]);
    assert!(end[2].starts_with("FAIL  counting.yaml: it counts: seeds "), "{}", end[2]);
    assert_eq!(end[4], "5 more failed runs are not shown: `--filter NAME --seeds 1 --seed N` shows one of them.");
}

const OPERATOR: &str = "apiVersion: kopfd.dev/v1
kind: Operator
metadata: {name: counting}
spec:
  resources:
    - resource: v1/configmaps
      script: code.rhai
      handlers: [{on: create, fn: count}]
";

/// A handler that must not be repeated, a requirement that handlers must not have.
const CODE: &str = r#"
fn count(name) {
    let tally = k8s::get("v1/configmaps", "tally");
    k8s::patch("v1/configmaps", "tally", #{ data: #{ count: `${tally.data.count.parse_int() + 1}` } });
    return;
}
"#;

const COUNTING: &str = "apiVersion: kopfd.dev/v1
kind: Scenario
metadata: {name: it counts}
spec:
  operator: operator.yaml
  given:
    - {apiVersion: v1, kind: ConfigMap, metadata: {name: tally}, data: {count: '0'}}
  steps:
    - settle: {within: 1m}
    - apply: {apiVersion: v1, kind: ConfigMap, metadata: {name: one}}
    - settle: {within: 1m}
    - expect: {object: configmaps/tally, matches: {data: {count: '2'}}}
";

/// A handler that fails when it is repeated after a success.
const CLAIM: &str = r#"
fn claim(name) {
    k8s::create(#{ apiVersion: "v1", kind: "Secret", metadata: #{ name: name, namespace: "default" } });
    return;
}
"#;

const CLAIMING: &str = "apiVersion: kopfd.dev/v1
kind: Scenario
metadata: {name: it claims}
spec:
  operator: operator.yaml
  steps:
    - apply: {apiVersion: v1, kind: ConfigMap, metadata: {name: one}}
    - settle: {within: 1m}
";
