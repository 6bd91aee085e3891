//! `kopfd rbac`, and `kopfd test --derived-rights`: the roles of the examples suffice for all that they do.
#![expect(clippy::unwrap_used, reason = "these are tests")]

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use super::child::output;

fn kopfd(arguments: &[&str]) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    output(Command::new(env!("CARGO_BIN_EXE_kopfd")).args(arguments).current_dir(root).env_remove("KOPFD_NAMESPACES"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn the_roles_of_the_database_are_those_of_its_deployment() {
    let printed = kopfd(&["rbac", "--config", "examples/database/operator.yaml", "--operator-namespace", "operators"]);
    assert!(printed.status.success(), "{}", text(&printed.stderr));
    let file =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/database/deploy/rbac.yaml"))
            .unwrap();
    assert_eq!(file.split_once("---\n").unwrap().1, text(&printed.stdout));
}

#[test]
fn the_roles_of_the_kustomize_example_are_the_derived_ones() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("manifests/kustomize/example");
    let manifest = folder.join("operator.yaml");
    let options =
        ["--service-account", "operator", "--operator-namespace", "greetings", "--leader-elect", "--standalone"];
    let printed = kopfd(&[&["rbac", manifest.to_str().unwrap()][..], &options].concat());
    assert_eq!(
        std::fs::read_to_string(folder.join("rights.yaml")).unwrap(),
        text(&printed.stdout),
        "{}",
        text(&printed.stderr)
    );
}

#[test]
fn a_namespaced_operator_gets_roles_and_the_names_that_are_asked_for() {
    let options = ["-n", "a", "-n", "b", "--service-account", "robot", "--leader-elect", "--output", "json"];
    let printed = kopfd(&[&["rbac", "examples/database/operator.yaml"][..], &options].concat());
    let list: Value = serde_json::from_slice(&printed.stdout).unwrap();
    let shown = |object: &Value| {
        let text = |pointer| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        format!("{} {}/{}", text("/kind"), text("/metadata/namespace"), text("/metadata/name"))
    };
    let objects: Vec<String> = list["items"].as_array().unwrap().iter().map(shown).collect();
    assert_eq!(
        objects,
        [
            "ServiceAccount default/robot",
            "ClusterRole /robot",
            "ClusterRoleBinding /robot",
            "Role a/robot",
            "RoleBinding a/robot",
            "Role b/robot",
            "RoleBinding b/robot",
            "Role default/robot",
            "RoleBinding default/robot",
        ]
    );
}

#[test]
fn what_cannot_be_derived_is_an_error_without_an_output() {
    let printed = kopfd(&["rbac", "tests/mistakes/270-rights-that-cannot-be-known"]);
    assert_eq!((printed.status.code(), text(&printed.stdout)), (Some(1), String::new()));
    assert!(text(&printed.stderr).contains("its rights cannot be known"), "{}", text(&printed.stderr));
    assert_eq!(kopfd(&["rbac"]).status.code(), Some(2));
}

#[test]
fn every_scenario_of_the_examples_passes_with_the_derived_rights() {
    let tested = kopfd(&["test", "--derived-rights", "examples"]);
    assert!(tested.status.success(), "{}", text(&tested.stdout));
}
