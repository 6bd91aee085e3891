//! `kopfd run` follows its files: broken and mended ones, a signal, and manifests that come and go.

use std::io::{BufRead as _, BufReader, Lines};
use std::process::ChildStderr;

use super::{Cluster, object};
use crate::child::{LIMIT, Process, ask};

/// A running operator of the folder `operators`, and its log.
pub(super) struct Run {
    process: Process,
    lines: Lines<BufReader<ChildStderr>>,
    endpoint: String,
}

fn manifest(name: &str, finalizer: &str) -> String {
    format!(
        "apiVersion: kopfd.dev/v1\nkind: Operator\nmetadata: {{name: {name}}}\nspec:\n  settings: {{persistence: {{finalizer: {finalizer}/x, \
         progressStorage: {{kind: annotations, prefix: {finalizer}}}, diffbaseStorage: {{kind: annotations, prefix: {finalizer}}}}}}}\n  \
         resources:\n    - {{resource: v1/configmaps, script: {name}.rhai, labels: {{app: tested}}, handlers: [{{on: create, fn: greet}}]}}\n  \
         activities:\n    startup: [{{id: start, run: 'logger.info(\"{name} starts up\");'}}]\n    \
         cleanup: [{{id: end, run: 'logger.info(\"{name} cleans up\");'}}]\n"
    )
}

fn script(text: &str) -> String {
    format!("fn greet(name, logger) {{ logger.info(`${{name}} {text}`); }}")
}

impl Run {
    pub(super) fn start(cluster: &Cluster) -> Self {
        std::fs::create_dir(cluster.path("operators")).unwrap();
        cluster.write("operators/a.yaml", &manifest("a", "a.dev"));
        cluster.write("operators/a.rhai", &script("first"));
        let mut command = cluster.kopfd();
        command.args([
            "run",
            "-c",
            "operators",
            "--kubeconfig",
            "kubeconfig",
            "--log-format",
            "plain",
            "-L",
            "http://127.0.0.1:0/healthz",
        ]);
        let mut process = Process::start(&mut command);
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let told = lines.by_ref().map(Result::unwrap).find(|line| line.contains("Probes are answered at")).unwrap();
        let endpoint = told.rsplit_once('(').unwrap().1.trim_end_matches(").").to_owned();
        Self { process, lines, endpoint }
    }

    /// Reads the log up to a line that contains a text. Returns the lines before.
    pub(super) fn wait_for(&mut self, text: &str) -> Vec<String> {
        let mut before = Vec::new();
        for line in self.lines.by_ref().map(Result::unwrap) {
            if line.contains(text) {
                return before;
            }
            before.push(line);
        }
        panic!("no line has {text:?}: {before:#?}");
    }

    /// Returns the address of the endpoints.
    pub(super) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    fn answer(&self, path: &str) -> String {
        ask(&self.endpoint, "GET", path).1
    }
}

#[test]
fn changed_files_take_effect_and_broken_ones_are_told_once() {
    let cluster = Cluster::start();
    let mut run = Run::start(&cluster);
    run.wait_for("[default/one] Handler 'greet' succeeded.");
    cluster.write("operators/a.rhai", &script("second"));
    run.wait_for("Operator 'a' is reloaded");
    let api = cluster.client();
    api.create(&object("default", "three"));
    run.wait_for("three second");
    cluster.write("operators/a.rhai", "fn greet( {");
    run.wait_for("The files have errors. The running revisions stay in service.");
    let ready = run.answer("/readyz");
    assert!(ready.contains("200 OK") && ready.contains("note: the files have errors"), "{ready}");
    assert!(ready.contains("operators/a.rhai:1:"), "{ready}");
    assert!(run.answer("/metrics").contains("kopfd_config_last_load_successful{operator=\"a\"} 0"));
    api.create(&object("default", "four"));
    run.wait_for("four second");
    run.process.signal("HUP");
    let told = run.wait_for("The files have errors. The running revisions stay in service.");
    assert_eq!(told.iter().filter(|line| line.contains("a.rhai:1:")).count(), 1, "they are told again: {told:?}");
    std::fs::remove_file(cluster.path("operators/a.rhai")).unwrap();
    run.wait_for("The files have errors. The running revisions stay in service.");
    cluster.write("operators/a.rhai", &script("third"));
    run.wait_for("Operator 'a' is reloaded");
    run.wait_for("The files have no errors any more.");
    assert!(!run.answer("/readyz").contains("note:"));
    api.create(&object("default", "five"));
    run.wait_for("five third");
    run.process.signal("HUP");
    run.wait_for("The files have not changed. Nothing is reloaded.");
    run.process.signal("TERM");
    let lines = run.wait_for("a cleans up");
    assert!(!lines.iter().any(|line| line.contains("starts up")), "the startup does not run again: {lines:?}");
}

#[test]
fn operators_come_and_go_with_their_manifests() {
    let cluster = Cluster::start();
    let mut run = Run::start(&cluster);
    run.wait_for("[default/one] Handler 'greet' succeeded.");
    cluster.write("operators/b.rhai", &script("is seen by b"));
    cluster.write("operators/b.yaml", &manifest("b", "b.dev"));
    run.wait_for("b starts up");
    run.wait_for("one is seen by b");
    cluster.write("operators/b.yaml", &manifest("b", "b.dev").replace("name: b}", "name: c}"));
    let lines = run.wait_for("starts up");
    assert!(lines.iter().any(|line| line.contains("b cleans up")), "another name is another operator: {lines:?}");
    std::fs::remove_file(cluster.path("operators/b.yaml")).unwrap();
    run.wait_for("The manifest of operator 'c' is gone. The operator stops.");
    run.wait_for("Operator 'c' has stopped.");
    cluster.client().create(&object("default", "last"));
    run.wait_for("last first");
    run.process.signal("TERM");
    run.wait_for("a cleans up");
}

/// Returns the manifest of an operator with another startup function.
fn starting_by(name: &str, startup: &str) -> String {
    manifest(name, &format!("{name}.dev")).replace(&format!("logger.info(\"{name} starts up\");"), startup)
}

#[test]
fn an_added_operator_that_cannot_run_leaves_the_others_in_service_until_it_is_mended() {
    let cluster = Cluster::start();
    let mut run = Run::start(&cluster);
    run.wait_for("[default/one] Handler 'greet' succeeded.");
    cluster.write("operators/b.rhai", &script("is seen by b"));
    cluster.write("operators/b.yaml", &starting_by("b", "throw permanent(\"no disk\");"));
    run.wait_for("Operator 'b' cannot continue: ");
    cluster.client().create(&object("default", "three"));
    run.wait_for("three first");
    let ready = run.answer("/readyz");
    assert!(
        ready.contains("200 OK") && ready.contains("note: operator 'b' cannot run: ") && ready.contains("no disk"),
        "{ready}"
    );
    run.process.signal("HUP");
    run.wait_for("Operator 'b' cannot continue: ");
    cluster.write("operators/b.yaml", &manifest("b", "b.dev"));
    run.wait_for("b starts up");
    run.wait_for("one is seen by b");
    assert!(!run.answer("/readyz").contains("note:"));
    // Another name is another operator.
    cluster
        .write("operators/b.yaml", &starting_by("b", "throw permanent(\"no disk\");").replace("name: b}", "name: c}"));
    run.wait_for("Operator 'c' cannot continue: ");
    cluster.client().create(&object("default", "four"));
    run.wait_for("four first");
    run.process.signal("TERM");
    run.wait_for("a cleans up");
    assert!(run.process.wait(LIMIT).success(), "the operator of the start has served to the end");
}

#[test]
fn a_process_without_an_operator_that_can_run_waits_for_its_files() {
    let cluster = Cluster::start();
    let mut run = Run::start(&cluster);
    run.wait_for("[default/one] Handler 'greet' succeeded.");
    cluster
        .write("operators/a.yaml", &starting_by("a", "throw permanent(\"no disk\");").replace("name: a}", "name: c}"));
    run.wait_for("Operator 'c' cannot continue: ");
    let ready = run.answer("/readyz");
    assert!(ready.contains("503") && ready.contains("no operator can run"), "{ready}");
    cluster.write("operators/a.yaml", &manifest("a", "a.dev"));
    run.wait_for("a starts up");
    cluster.client().create(&object("default", "three"));
    run.wait_for("three first");
    assert!(run.answer("/readyz").contains("200 OK"));
    run.process.signal("TERM");
    run.wait_for("a cleans up");
}

#[test]
fn an_operator_that_does_not_start_holds_up_no_other_one_and_starts_anew_with_changed_files() {
    let cluster = Cluster::start();
    let mut run = Run::start(&cluster);
    run.wait_for("[default/one] Handler 'greet' succeeded.");
    cluster.write("operators/b.rhai", &script("is seen by b"));
    cluster.write("operators/b.yaml", &starting_by("b", "throw temporary(\"not yet\", 1);"));
    run.wait_for("not yet");
    cluster.write("operators/a.rhai", &script("second"));
    run.wait_for("Operator 'a' is reloaded");
    run.wait_for("not yet");
    cluster.write("operators/b.yaml", &manifest("b", "b.dev"));
    run.wait_for("Operator 'b' has not started yet. It starts anew with the changed files.");
    run.wait_for("b starts up");
    run.wait_for("one is seen by b");
    run.process.signal("TERM");
    run.wait_for("a cleans up");
}
