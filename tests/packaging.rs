//! `kopfd package`: the generated documents, and what is refused.
#![expect(clippy::unwrap_used, reason = "these are tests")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use kopfd::object::yaml;

use super::child::output;

const GUARD: &str = "tests/packaging/guard/operator.yaml";

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn package(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kopfd"));
    output(
        command
            .arg("package")
            .args(arguments)
            .current_dir(root())
            .env_remove("KOPFD_NAMESPACES")
            .env_remove("KOPFD_CONFIG"),
    )
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Returns what the command prints, which must succeed.
fn printed(arguments: &[&str]) -> String {
    let done = package(arguments);
    assert!(done.status.success(), "{}", text(&done.stderr));
    text(&done.stdout)
}

fn documents(arguments: &[&str]) -> Vec<Value> {
    yaml::parse(&printed(arguments)).unwrap()
}

fn find<'d>(documents: &'d [Value], kind: &str) -> &'d Value {
    documents.iter().find(|document| document["kind"] == kind).unwrap_or_else(|| panic!("there is no {kind}"))
}

/// Returns the error of a command that must fail.
fn refused(arguments: &[&str]) -> String {
    let done = package(arguments);
    assert_eq!((done.status.code(), text(&done.stdout)), (Some(1), String::new()));
    text(&done.stderr)
}

/// Returns the files below a directory.
fn files(directory: &Path) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    let mut folders = vec![directory.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(directory).unwrap().display().to_string();
                files.insert(name, std::fs::read_to_string(path).unwrap());
            }
        }
    }
    files
}

/// Returns a package in a directory as one text.
fn written(arguments: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("deploy");
    let told = printed(&[arguments, &["-o", directory.to_str().unwrap()]].concat());
    let files: Vec<String> = files(&directory).into_iter().map(|(name, text)| format!("=== {name}\n{text}")).collect();
    let files = files.concat();
    (files + "=== told\n" + &told)
        .replace(directory.to_str().unwrap(), "DIR")
        .replace(env!("CARGO_PKG_VERSION"), "VERSION")
}

fn snapshot(name: &str, text: &str) {
    insta::with_settings!({omit_expression => true, prepend_module_to_snapshot => false, snapshot_path => "snapshots/packaging"}, {
        insta::assert_snapshot!(name, text);
    });
}

#[test]
fn the_documents_of_an_operator_with_webhooks_and_daemons() {
    snapshot("plain", &written(&[GUARD]));
}

#[test]
fn a_base_for_kustomize_has_the_files_themselves() {
    snapshot(
        "kustomize",
        &written(&[GUARD, "--kustomize", "--operator-namespace", "ops", "--image", "registry.example.com/kopfd:1"]),
    );
}

#[test]
fn a_chart_has_values_and_is_installed_in_any_namespace() {
    snapshot("helm", &written(&[GUARD, "--helm", "--service-monitor", "--peering", "default"]));
}

#[test]
fn without_a_directory_the_documents_are_printed_in_the_order_in_which_they_are_needed() {
    let documents = documents(&["examples/database/operator.yaml", "--operator-namespace", "operators"]);
    let kinds: Vec<&str> = documents.iter().map(|document| document["kind"].as_str().unwrap()).collect();
    assert_eq!(
        kinds,
        [
            "CustomResourceDefinition",
            "Namespace",
            "ServiceAccount",
            "ClusterRole",
            "ClusterRoleBinding",
            "Role",
            "RoleBinding",
            "ConfigMap",
            "Deployment",
            "PodDisruptionBudget"
        ]
    );
    let folder = root().join("examples/database");
    for (key, text) in find(&documents, "ConfigMap")["data"].as_object().unwrap() {
        assert_eq!(
            text.as_str().unwrap(),
            std::fs::read_to_string(folder.join(key.replace("__", "/"))).unwrap(),
            "{key}"
        );
    }
}

#[test]
fn one_replica_has_neither_an_election_nor_a_budget() {
    let documents =
        documents(&["examples/database", "--replicas", "1", "-n", "prod", "--namespace", "stage", "--name", "db"]);
    assert!(documents.iter().all(|document| document["kind"] != "PodDisruptionBudget"));
    let deployment = find(&documents, "Deployment");
    assert_eq!(deployment["spec"]["strategy"]["type"], "Recreate");
    let environment: BTreeMap<&str, &str> = deployment["spec"]["template"]["spec"]["containers"][0]["env"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|variable| Some((variable["name"].as_str()?, variable["value"].as_str()?)))
        .collect();
    assert_eq!(environment["KOPFD_NAMESPACES"], "prod stage");
    assert_eq!(environment["KOPFD_CONFIG"], "/operator", "a folder of manifests stays one");
    assert!(!environment.contains_key("KOPFD_LEADER_ELECT"));
    let roles: Vec<&Value> = documents.iter().filter(|document| document["kind"] == "Role").collect();
    assert_eq!(
        roles.iter().map(|role| role["metadata"]["namespace"].as_str().unwrap()).collect::<Vec<_>>(),
        ["prod", "stage"]
    );
}

#[test]
fn files_in_the_image_need_no_config_map() {
    let documents = documents(&["examples/database/operator.yaml", "--files-in-image", "/app/"]);
    assert!(documents.iter().all(|document| document["kind"] != "ConfigMap"));
    let pod = &find(&documents, "Deployment")["spec"]["template"]["spec"];
    assert_eq!(
        (&pod["volumes"], &pod["containers"][0]["env"][0]["value"]),
        (&Value::Null, &Value::from("/app/operator.yaml"))
    );
}

#[test]
fn programs_have_a_directory_for_their_files() {
    let documents = documents(&["examples/certificates"]);
    let pod = &find(&documents, "Deployment")["spec"]["template"]["spec"];
    assert!(pod["volumes"].as_array().unwrap().contains(&serde_json::json!({"name": "tmp", "emptyDir": {}})));
    let mounts = pod["containers"][0]["volumeMounts"].as_array().unwrap();
    assert!(mounts.contains(&serde_json::json!({"name": "tmp", "mountPath": "/tmp"})));
}

#[test]
fn a_namespace_of_the_cluster_itself_is_left_alone() {
    let documents = documents(&["examples/01-minimal", "--operator-namespace", "default"]);
    assert!(documents.iter().all(|document| document["kind"] != "Namespace"));
}

#[test]
fn what_would_not_run_is_refused_with_the_way_out() {
    let webhooks = refused(&["examples/17-admission"]);
    assert!(webhooks.contains("would not reach the webhooks of operator 'admission' through a Service"), "{webhooks}");
    assert!(webhooks.contains("service: {name: admission}"), "{webhooks}");
    let several = refused(&["examples/01-minimal", "examples/database"]);
    assert!(several.contains("`--name NAME`"), "{several}");
    let rights = refused(&["tests/mistakes/270-rights-that-cannot-be-known"]);
    assert!(rights.contains("its rights cannot be known"), "{rights}");
    assert_eq!(package(&[]).status.code(), Some(2));
    assert_eq!(package(&["examples/01-minimal", "--helm"]).status.code(), Some(2), "a chart needs a directory");
}

#[test]
fn the_size_of_a_config_map_is_told_with_the_largest_files() {
    let folder = tempfile::tempdir().unwrap();
    let manifest = "{apiVersion: kopfd.dev/v1, kind: Operator, metadata: {name: x}, spec: {resources: \
        [{resource: v1/configmaps, script: a.rhai, handlers: [{on: create, fn: greet}]}]}}";
    std::fs::write(folder.path().join("operator.yaml"), manifest).unwrap();
    std::fs::write(folder.path().join("a.rhai"), format!("fn greet() {{}}\n{}", "// filled\n".repeat(120_000)))
        .unwrap();
    let path = folder.path().join("operator.yaml");
    let problem = refused(&[path.to_str().unwrap()]);
    assert!(problem.contains("a ConfigMap has at most 1048576 (1 MiB); the largest are a.rhai (12000"), "{problem}");
    assert!(problem.contains("--files-in-image DIR"), "{problem}");
    assert!(package(&[path.to_str().unwrap(), "--files-in-image", "/app"]).status.success());
}
