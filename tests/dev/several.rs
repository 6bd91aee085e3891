//! Several operators in one process.

use std::path::Path;
use std::process::{Command, Stdio};

use super::{Trial, kopfd, write};
use crate::child::{self, LIMIT};

/// An operator of one kind, with these settings.
fn manifest(name: &str, resource: &str, settings: &str) -> String {
    format!(
        "apiVersion: kopfd.dev/v1\nkind: Operator\nmetadata: {{name: {name}}}\nspec:\n  settings: {settings}\n  resources:\n    - resource: {resource}\n      \
         handlers:\n        - {{on: create, id: '{name}-greets', labels: {{greet: 'yes'}}, run: 'return 1;'}}\n"
    )
}

fn object(kind: &str) -> String {
    format!("apiVersion: v1\nkind: {kind}\nmetadata: {{name: one, namespace: default, labels: {{greet: 'yes'}}}}\n")
}

#[test]
fn several_operators_are_served_side_by_side() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    write(folder.path(), "a.yaml", &manifest("a", "v1/configmaps", "{}"));
    write(folder.path(), "b.yaml", &manifest("b", "v1/secrets", "{}"));
    write(folder.path(), "objects.yaml", &format!("{}---\n{}", object("ConfigMap"), object("Secret")));
    let arguments = ["--config", "a.yaml", "--config", "b.yaml", "--apply", "objects.yaml", "--once"];
    let run = child::output(kopfd(folder.path()).args(arguments));
    let account = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{account}");
    for id in ["a-greets", "b-greets"] {
        assert!(account.contains(&format!("[default/one] Handler '{id}' succeeded.")), "{account}");
    }
}

/// Runs operators on the server of a kubeconfig, behind a proxy that does not answer. Returns the exit code and the
/// log.
fn run_behind_a_dead_proxy(folder: &Path, kubeconfig: &Path) -> (Option<i32>, String) {
    let log = std::fs::File::create(folder.join("log")).expect("a log");
    let mut command = Command::new(env!("CARGO_BIN_EXE_kopfd"));
    command
        .args(["run", "--config", "a.yaml", "--config", "b.yaml", "--kubeconfig"])
        .arg(kubeconfig)
        .current_dir(folder);
    command
        .env("HTTPS_PROXY", "http://127.0.0.1:1")
        .env("https_proxy", "http://127.0.0.1:1")
        .env_remove("NO_PROXY")
        .env_remove("no_proxy");
    let process = child::Process::start(command.stdout(Stdio::null()).stderr(log));
    let code = process.wait(LIMIT).code();
    (code, std::fs::read_to_string(folder.join("log")).expect("a log"))
}

#[test]
fn an_operator_that_cannot_start_ends_the_process_and_the_others_stop() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    write(folder.path(), "a.yaml", &manifest("a", "v1/configmaps", "{}"));
    // Only this one uses the proxy.
    let settings = "{networking: {trustEnv: true, errorBackoffs: []}}";
    write(folder.path(), "b.yaml", &manifest("b", "v1/secrets", settings));
    let mut server = Trial::start(kopfd(folder.path()).args(["--config", "a.yaml"]));
    server.wait_for("Operator 'a' watches");
    let (code, log) = run_behind_a_dead_proxy(folder.path(), &folder.path().join("kubeconfig"));
    assert_eq!(server.interrupt(), Some(0));
    assert_eq!(code, Some(1), "{log}");
    assert!(log.contains("Operator 'b' cannot continue: failed to discover the kinds of the cluster"), "{log}");
    assert!(log.contains("Operator 'a' has stopped."), "{log}");
}
