//! `kopfd init`: the created files are accepted unchanged by the other commands.

use std::path::Path;
use std::process::{Command, Output};

use super::child::output;

fn kopfd(folder: &Path, arguments: &[&str]) -> Output {
    output(Command::new(env!("CARGO_BIN_EXE_kopfd")).args(arguments).current_dir(folder))
}

fn printed(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn a_new_operator_can_be_checked_tried_and_tested() {
    let folder = tempfile::tempdir().unwrap();
    let made = kopfd(folder.path(), &["init", "my-operator"]);
    assert!(made.status.success(), "{}", printed(&made));
    let inside = folder.path().join("my-operator");
    let commands: [&[&str]; 3] =
        [&["check"], &["dev", "operator.yaml", "--apply", "greeting.yaml", "--once"], &["test", "--seeds", "10"]];
    for command in commands {
        let output = kopfd(&inside, command);
        assert!(output.status.success(), "{command:?}: {}", printed(&output));
    }
    let checked = kopfd(&inside, &["check"]);
    assert_eq!(String::from_utf8_lossy(&checked.stdout), "no errors in greeter\n");
    let tested = kopfd(&inside, &["test"]);
    assert!(printed(&tested).ends_with("3 scenarios passed\n"), "{}", printed(&tested));
}

#[test]
fn the_readme_shows_the_test_output_of_a_new_operator() {
    let folder = tempfile::tempdir().unwrap();
    assert!(kopfd(folder.path(), &["init"]).status.success());
    let readme = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap();
    let (_, shown) = readme.split_once("$ kopfd test\n").unwrap();
    let (shown, _) = shown.split_once("$ ").unwrap();
    assert_eq!(printed(&kopfd(folder.path(), &["test"])), shown);
}

#[test]
fn several_existing_files_are_listed() {
    let folder = tempfile::tempdir().unwrap();
    assert!(kopfd(folder.path(), &["init"]).status.success());
    let listed = "./operator.yaml, ./greeter.rhai, ./crd.yaml, ./greeting.yaml and ./scenarios/greeting.yaml";
    let refused = printed(&kopfd(folder.path(), &["init"]));
    assert_eq!(refused, format!("error: existing files are not overwritten: {listed}\n"));
}

#[test]
fn nothing_is_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("crd.yaml"), "mine").unwrap();
    let output = kopfd(folder.path(), &["init"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(printed(&output), "error: existing files are not overwritten: ./crd.yaml\n");
    assert_eq!(std::fs::read_to_string(folder.path().join("crd.yaml")).unwrap(), "mine");
    assert!(!folder.path().join("operator.yaml").exists());
}
