//! Real programs of operators, as `kopfd dev` runs them: the example with openssl, and what is left when kopfd is
//! killed.

#![expect(clippy::unwrap_used, reason = "a test that fails may panic")]

use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::child::{LIMIT, Process, output};

fn dev(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kopfd"));
    command
        .arg("dev")
        .arg("--kubeconfig-out")
        .arg(folder.join("kubeconfig"))
        .current_dir(folder)
        .env("TMPDIR", folder.join("tmp"));
    std::fs::create_dir_all(folder.join("tmp")).unwrap();
    command
}

#[test]
fn the_example_with_openssl_makes_a_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/certificates");
    let mut command = dev(folder.path());
    command.arg("--config").arg(example.join("operator.yaml")).arg("--apply").arg(example.join("obj.yaml"));
    let run = output(command.args(["--once", "--timeout", "30s"]));
    let account = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{account}");
    assert!(account.contains("+ status.issue: \"subject=CN=shop.example.com\""), "{account}");
    assert_eq!(std::fs::read_dir(folder.path().join("tmp")).unwrap().count(), 0, "the directories are removed");
}

/// Needs helm, and is run if the variable `KOPFD_TEST_HELM` has the path of its program.
#[test]
fn the_example_with_helm_installs_a_chart() {
    let Ok(helm) = std::env::var("KOPFD_TEST_HELM") else { return };
    let folder = tempfile::tempdir().unwrap();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/helm");
    let at = |name: &str| folder.path().join(name).display().to_string();
    let places = [
        ("/usr/bin/helm", helm),
        ("/charts/", format!("{}/charts/", example.display())),
        ("/etc/releases", at("etc")),
        ("KUBERNETES_SERVICE_HOST", "KUBECONFIG".to_owned()),
    ];
    for name in ["operator.yaml", "releases.rhai", "crd.yaml", "obj.yaml"] {
        let text = std::fs::read_to_string(example.join(name)).unwrap();
        let text = places.iter().fold(text, |text, (from, to)| text.replace(from, to));
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    std::fs::create_dir(at("etc")).unwrap();
    std::fs::write(at("etc/values.yaml"), "replicas: 2").unwrap();
    let mut command = dev(folder.path());
    command.args(["--config", "operator.yaml", "--apply", "obj.yaml", "--once", "--timeout", "40s"]);
    let run = output(command.env("KUBECONFIG", at("kubeconfig")));
    let account = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{account}");
    assert!(account.contains("+ status.deploy/spec.revision: 1"), "{account}");
    assert_eq!(std::fs::read_dir(folder.path().join("tmp")).unwrap().count(), 0, "the directories are removed");
}

const OBJECT: &str = "{apiVersion: v1, kind: ConfigMap, metadata: {name: one, namespace: default}}";

/// Starts an operator whose program ignores signals, starts a child, and never ends. Returns it when both run.
fn start(folder: &Path) -> (Process, String, String) {
    let manifest = "{apiVersion: kopfd.dev/v1, kind: Operator, metadata: {name: demo}, spec: {\
        allow: {exec: {sh: {path: /bin/sh, args: [-c, \"*\"], time: 1h}}}, \
        resources: [{resource: v1/configmaps, script: code.rhai, handlers: [{on: create, fn: hang}]}]}}";
    let script = format!(
        "trap '' TERM INT HUP; sh -c 'echo $$ >{0}/child.new; mv {0}/child.new {0}/child; exec sleep 600' & \
         while ! test -e {0}/child; do sleep 0.01; done; echo $$ >{0}/parent.new; mv {0}/parent.new {0}/parent; \
         while :; do sleep 1; done",
        folder.display()
    );
    std::fs::write(folder.join("operator.yaml"), manifest).unwrap();
    std::fs::write(folder.join("code.rhai"), format!("fn hang() {{ exec::run(\"sh\", [\"-c\", \"{script}\"]); }}"))
        .unwrap();
    std::fs::write(folder.join("obj.yaml"), OBJECT).unwrap();
    let mut command = dev(folder);
    command
        .args(["--config", "operator.yaml", "--apply", "obj.yaml"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let process = Process::start(&mut command);
    until("the program has begun", || folder.join("parent").exists());
    let id = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap().trim().to_owned();
    (process, id("parent"), id("child"))
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < LIMIT, "{what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Tells whether a process exists and is no zombie.
fn is_running(id: &str) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    status.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.trim_start().starts_with('Z'))
}

#[test]
fn programs_end_with_the_operator() {
    let folder = tempfile::tempdir().unwrap();
    let (process, parent, child) = start(folder.path());
    process.signal("TERM");
    // The handler is given time to end; a second signal ends the process at once.
    process.signal("TERM");
    process.wait(LIMIT);
    until("the program and its child are killed", || !is_running(&parent) && !is_running(&child));
    assert_eq!(std::fs::read_dir(folder.path().join("tmp")).unwrap().count(), 0, "the directories are removed");
}

#[test]
fn programs_die_with_a_process_that_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let (process, parent, child) = start(folder.path());
    process.signal("KILL");
    process.wait(LIMIT);
    until("the program is killed", || !is_running(&parent));
    // Outside of a container, the children of the program stay.
    let killed = Command::new("kill").args(["-KILL", &child]).stderr(Stdio::null()).status().unwrap();
    until("the child is killed", || killed.success() && !is_running(&child));
}
