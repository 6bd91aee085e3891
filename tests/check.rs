//! The command `kopfd check`: its output for programs and its exit codes.

#![expect(clippy::unwrap_used, reason = "a test that fails may panic")]

use std::path::Path;
use std::process::{Command, Output};

use clap::Parser as _;

use super::child::output;

fn kopfd(arguments: &[&str]) -> Output {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    output(Command::new(env!("CARGO_BIN_EXE_kopfd")).args(arguments).current_dir(folder))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn programs_get_one_document_with_all_diagnostics() {
    let output = kopfd(&["check", "--config", "mistakes/001-unknown-field.yaml", "--output", "json"]);
    insta::assert_snapshot!(text(&output.stdout));
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_valid_manifest_has_no_diagnostics() {
    let output = kopfd(&["check", "--config", "../examples/01-minimal"]);
    assert_eq!((text(&output.stdout).as_str(), output.status.code()), ("no errors in minimal\n", Some(0)));
    let output = kopfd(&["check", "--config", "../examples/01-minimal", "-o", "json"]);
    assert!(text(&output.stdout).contains("\"errors\": 0"));
}

#[test]
fn a_part_that_is_checked_and_not_run_is_a_warning() {
    let output = kopfd(&["check", "--config", "manifests/everything"]);
    let printed = text(&output.stdout);
    let wanted = "warning: reconciliations are checked, but this version does not run them: `run`, `dev` and `test` refuse them\n";
    assert!(printed.contains(wanted), "{printed}");
    assert!(printed.ends_with("1 warning, 2 hints in everything\n") && !printed.contains("error"), "{printed}");
    assert_eq!(output.status.code(), Some(0));
    let output = kopfd(&["check", "--config", "manifests/everything", "-o", "json"]);
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let is_reconciliation =
        |one: &serde_json::Value| one["severity"] == "warning" && one["path"] == "spec.resources[0].reconcile";
    assert!(found["diagnostics"].as_array().unwrap().iter().any(is_reconciliation), "{found:#}");
    assert_eq!((&found["errors"], output.status.code()), (&0.into(), Some(0)));
}

#[test]
fn handlers_of_secrets_are_a_hint_unless_their_values_are_digested() {
    let folder = tempfile::tempdir().unwrap();
    let printed = |settings: &str, resource: &str, on: &str| {
        let manifest = format!(
            "apiVersion: kopfd.dev/v1\nkind: Operator\nmetadata: {{name: demo}}\nspec:\n  settings: {settings}\n  resources:\n    - resource: {resource}\n      \
             handlers: [{{on: {on}, id: f, run: 'return 1;'}}]\n"
        );
        std::fs::write(folder.path().join("operator.yaml"), manifest).unwrap();
        let run = output(
            Command::new(env!("CARGO_BIN_EXE_kopfd")).args(["check", "operator.yaml"]).current_dir(folder.path()),
        );
        assert_eq!(run.status.code(), Some(0));
        text(&run.stdout)
    };
    let hint = "hint: the last handled state of Secrets, which `v1/secrets` includes, has their values in an annotation\n --> operator.yaml:7:17";
    let found = printed("{}", "v1/secrets", "create");
    assert!(found.contains(hint) && found.contains("settings.persistence.secrets: digests"), "{found}");
    assert!(printed("{}", "everything", "update").contains("which `everything` includes"));
    let none = "no errors in demo\n";
    assert_eq!(printed("{persistence: {secrets: digests}}", "v1/secrets", "create"), none);
    assert_eq!(printed("{}", "v1/secrets", "event"), none, "handlers of raw events store nothing");
    assert_eq!(printed("{}", "v1/configmaps", "create"), none);
}

#[test]
fn operators_of_one_name_are_named_once() {
    let output =
        kopfd(&["check", "--config", "manifests/everything", "--config", "manifests/everything/operator.yaml"]);
    assert!(text(&output.stdout).ends_with(" in everything\n"), "{}", text(&output.stdout));
}

#[test]
fn warnings_do_not_count() {
    let output = kopfd(&["check", "mistakes/164-block-that-does-nothing.yaml"]);
    assert!(text(&output.stdout).ends_with("1 warning, 1 hint in demo\n"), "{}", text(&output.stdout));
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn webhooks_need_a_configured_server() {
    let message = "error: the webhooks have no server";
    let look = "manifests/look/operator.yaml";
    assert!(text(&kopfd(&["check", look]).stdout).contains(message));
    assert!(text(&kopfd(&["run", look]).stderr).contains(message));
    // The embedded server is in the process of the webhooks.
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    let ended = kopfd(&["dev", look, "--once", "--kubeconfig-out", kubeconfig.to_str().unwrap()]);
    assert!(ended.status.success() && !text(&ended.stderr).contains(message), "{}", text(&ended.stderr));
}

#[test]
fn several_manifests_are_checked_together() {
    let output =
        kopfd(&["check", "--config", "manifests/everything", "--config", "manifests/everything/operator.yaml"]);
    assert!(
        text(&output.stdout).starts_with("error: the operator `everything` is declared twice"),
        "{}",
        text(&output.stdout)
    );
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_command_that_is_not_understood_has_an_exit_code_of_its_own() {
    assert_eq!(kopfd(&["check", "--confg", "x"]).status.code(), Some(2));
    assert_eq!(kopfd(&["check", "--output", "xml"]).status.code(), Some(2));
    assert_eq!(kopfd(&[]).status.code(), Some(2));
    assert_eq!(kopfd(&["--version"]).status.code(), Some(0));
}

#[test]
fn without_a_command_the_help_is_printed() {
    let printed = text(&kopfd(&[]).stderr);
    for wanted in ["--config", "  init ", "  dev ", "  test ", "  check ", "  apiserver "] {
        assert!(printed.contains(wanted), "{wanted} is missing in:\n{printed}");
    }
}

#[test]
fn the_help_shows_three_commands_that_are_understood() {
    let printed = text(&kopfd(&["--help"]).stdout);
    let (_, examples) = printed.split_once("Examples:\n").unwrap();
    let commands: Vec<&str> =
        examples.lines().filter_map(|line| line.trim().split("  ").next()).filter(|line| !line.is_empty()).collect();
    assert_eq!(commands.len(), 3, "{printed}");
    for command in commands {
        let words = command.split(' ').map(|word| word.trim_matches('\''));
        assert!(::kopfd::cli::Cli::try_parse_from(words).is_ok(), "{command}");
    }
}

#[test]
fn a_pattern_that_matches_no_namespace_is_refused() {
    let output = kopfd(&["--config", "../examples/01-minimal", "-n", "["]);
    assert_eq!(text(&output.stderr), "error: \"[\" is not a pattern of namespaces: the `[` in \"[\" is not closed\n");
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn there_are_no_colours_but_on_a_terminal() {
    let output = kopfd(&["check", "--config", "mistakes/001-unknown-field.yaml"]);
    assert!(!text(&output.stdout).contains('\u{1b}'));
}
