//! `kopfd dev`, as its users run it: the binary alone, without any cluster.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn example(name: &str, file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(name).join(file)
}

fn kopfd(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kopfd"));
    command.arg("dev").arg("--kubeconfig-out").arg(folder.join("kubeconfig")).current_dir(folder);
    command
}

#[test]
fn an_example_is_tried_once_and_ends_well() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let run = kopfd(folder.path())
        .arg("--config")
        .arg(example("01-minimal", "operator.yaml"))
        .arg("--apply")
        .arg(example("01-minimal", "obj.yaml"))
        .arg("--once")
        .output()
        .expect("the binary runs");
    let account = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{account}");
    for line in [
        "[default/first-steps] first-steps wants to take 1m.",
        "[default/first-steps] Handler 'on_create' succeeded.",
        "[default/first-steps] │ + status.on_create.message: \"will take 1m\"",
    ] {
        assert!(account.contains(line), "{line} is missing in:\n{account}");
    }
    assert!(String::from_utf8_lossy(&run.stdout).starts_with("export KUBECONFIG="));
}

#[test]
fn a_handler_that_fails_for_good_is_the_exit_code() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    write(folder.path(), "operator.yaml", &manifest("refuse"));
    write(folder.path(), "code.rhai", "fn refuse(name) { throw permanent(`no ${name}`); }");
    write(folder.path(), "obj.yaml", OBJECT);
    let run = kopfd(folder.path()).args(["--config", "operator.yaml", "--apply", "obj.yaml", "--once"]).output().expect("the binary runs");
    let account = String::from_utf8_lossy(&run.stderr);
    assert_eq!(run.status.code(), Some(1), "{account}");
    assert!(account.contains("Handler 'refuse' failed permanently: no one"), "{account}");
}

#[test]
fn an_object_whose_last_cycle_has_failed_is_not_settled_well() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    write(folder.path(), "operator.yaml", &manifest("greet, when: 'body.data.size > 3'"));
    write(folder.path(), "code.rhai", "fn greet(logger) { logger.info(\"first\"); }");
    write(folder.path(), "obj.yaml", OBJECT);
    let run = kopfd(folder.path()).args(["--config", "operator.yaml", "--apply", "obj.yaml", "--once"]).output().expect("the binary runs");
    let account = String::from_utf8_lossy(&run.stderr);
    assert_eq!(run.status.code(), Some(1), "{account}");
    assert!(account.contains("the last cycle of ConfigMap default/one has failed: a filter failed: "), "{account}");
}

#[test]
fn changed_files_are_loaded_and_broken_ones_are_not() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    write(folder.path(), "operator.yaml", &manifest("greet"));
    write(folder.path(), "code.rhai", "fn greet(logger) { logger.info(\"first\"); }");
    write(folder.path(), "obj.yaml", OBJECT);
    let mut dev = kopfd(folder.path())
        .args(["--config", "operator.yaml", "--apply", "obj.yaml"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut lines = BufReader::new(dev.stderr.take().expect("its error stream is piped")).lines();
    let mut wait_for = |part: &str| lines.any(|line| line.expect("its lines are texts").contains(part));
    assert!(wait_for("first"));
    write(folder.path(), "code.rhai", "fn greet(logger) { logger.inof(\"second\"); }");
    assert!(wait_for("no method `inof`"));
    assert!(wait_for("The revision before them stays in service."));
    write(folder.path(), "code.rhai", "fn greet(logger) { logger.info(\"third\"); }");
    assert!(wait_for("The operator starts anew."));
    assert!(wait_for("Operator 'tried' watches"));
    dev.kill().expect("it can be killed");
    dev.wait().expect("it ends");
}

const OBJECT: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one, namespace: default}\n";

fn manifest(function: &str) -> String {
    format!(
        "apiVersion: kopfd.dev/v1\nkind: Operator\nmetadata: {{name: tried}}\nspec:\n  resources:\n    - resource: v1/configmaps\n      \
         script: code.rhai\n      handlers:\n        - {{on: create, fn: {function}}}\n"
    )
}

fn write(folder: &Path, name: &str, text: &str) {
    std::fs::write(folder.join(name), text).expect("the file can be written");
}
