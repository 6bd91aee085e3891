//! Hostile texts and Secrets in the account of `kopfd dev` and in the reports of `kopfd test`.

use std::process::Command;

use kopfd::kit::visible;

use super::{kopfd, write};
use crate::child;

/// The values of the Secrets below, as texts and in base64.
const VALUES: [&str; 4] = ["hunter2", "aHVudGVyM", "correct-horse", "Y29ycmVjdC1ob3JzZ"];

const MANIFEST: &str = "apiVersion: kopfd.dev/v1
kind: Operator
metadata: {name: tried}
spec:
  resources:
    - resource: v1/secrets
      script: code.rhai
      labels: {app: tested}
      handlers:
        - {on: create, fn: made}
        - {on: update, fn: changed}
    - resource: clusterroles
      script: code.rhai
      labels: {app: tested}
      handlers:
        - {on: create, fn: logs}
        - {on: create, fn: fails, errors: permanent}
";

const SCRIPT: &str = r#"
fn made(body, patch, name) {
    patch.metadata.labels.made = "yes";
    patch.data.password = base64::encode("correct" + "-horse");
    k8s::apply(#{apiVersion: "v1", kind: "Secret", metadata: #{name: name + "-copy", labels: #{copied: "yes"}}, data: body.data});
    return body.data;
}
fn changed(body) { return body.data; }
fn hostile() { "one\n12:34:56 [x] forged\r\x1b[2J\u009b1m\x07\u202e\u2028\t" }
fn logs(body, name, logger) {
    logger.info(name);
    logger.info(hostile());
    if name == "maker" {
        // Names of roles may have any character except `/` and `%`.
        let metadata = #{name: hostile(), labels: #{app: "tested"}, annotations: #{text: hostile()}};
        k8s::create(#{apiVersion: body.apiVersion, kind: body.kind, metadata: metadata, rules: []});
    }
}
fn fails() { throw hostile(); }
"#;

const ROLE: &str = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: maker, labels: {app: tested}}\nrules: []\n";

const SECRET: &str = "apiVersion: v1\nkind: Secret\nmetadata: {name: one, namespace: default, labels: {app: tested}}\nstringData: {password: hunter2-hunter2}\n";

#[test]
fn no_text_of_an_object_or_a_script_forges_lines_of_the_account() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    write(folder.path(), "operator.yaml", MANIFEST);
    write(folder.path(), "code.rhai", SCRIPT);
    write(folder.path(), "obj.yaml", ROLE);
    let run = child::output(kopfd(folder.path()).args(["operator.yaml", "--apply", "obj.yaml", "--once", "--verbose"]));
    let account = String::from_utf8_lossy(&run.stderr);
    assert_eq!(run.status.code(), Some(1), "{account}");
    assert!(account.contains("forged") && account.contains(r"\x1b[2J\x9b1m\x07\u202e\u2028\t"), "{account}");
    let begins_with_a_time = |line: &str| line.len() > 8 && line[..8].bytes().filter(u8::is_ascii_digit).count() == 6;
    for line in account.lines() {
        let text = line.strip_prefix('\t').unwrap_or(line);
        assert!(!text.contains(visible::is_hidden), "{line:?}");
        let is_of_the_command = line.starts_with("error: ") || line.starts_with("  ");
        assert!(
            text != line || is_of_the_command || begins_with_a_time(line) && !line.starts_with("12:34:56 [x]"),
            "{line:?}"
        );
    }
}

#[test]
fn values_of_secrets_are_not_in_the_account() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    write(folder.path(), "operator.yaml", MANIFEST);
    write(folder.path(), "code.rhai", SCRIPT);
    write(folder.path(), "obj.yaml", SECRET);
    let run = child::output(kopfd(folder.path()).args(["operator.yaml", "--apply", "obj.yaml", "--once", "--verbose"]));
    let account = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{account}");
    for told in ["│ ~ data.password: \"***\" -> \"***\"", "│ + Secret default/one-copy created", "is in progress: "]
    {
        assert!(account.contains(told), "{told:?} is missing in\n{account}");
    }
    assert!(!VALUES.iter().any(|value| account.contains(value)), "{account}");
}

const SCENARIO: &str = "apiVersion: kopfd.dev/v1
kind: Scenario
metadata: {name: both}
spec:
  operator: operator.yaml
  given: [obj.yaml, role.yaml]
  steps:
    - settle
    - expect:
        object: secrets/one
        matches: {data: {password: b3RoZXI=}}
    - expect:
        object: secrets/one-copy
        matches: {data: {password: b3RoZXI=}}
    - expect: {logs: [nothing of the sort]}
";

#[test]
fn reports_of_scenarios_have_neither_hostile_texts_nor_values_of_secrets() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    write(folder.path(), "operator.yaml", MANIFEST);
    write(folder.path(), "code.rhai", SCRIPT);
    write(folder.path(), "obj.yaml", SECRET);
    write(folder.path(), "role.yaml", ROLE);
    write(folder.path(), "scenario.yaml", SCENARIO);
    for form in ["text", "json", "junit"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kopfd"));
        let run = child::output(
            command.args(["test", "scenario.yaml", "--verbose", "--output", form]).current_dir(folder.path()),
        );
        let report = String::from_utf8_lossy(&run.stdout).into_owned() + &String::from_utf8_lossy(&run.stderr);
        assert_eq!(run.status.code(), Some(1), "{report}");
        assert!(report.contains("***") && report.contains("forged"), "{form}: {report}");
        assert!(!VALUES.iter().any(|value| report.contains(value)), "{form}: {report}");
        for line in report.lines() {
            assert!(!line.contains(visible::is_hidden), "{form}: {line:?}");
            assert!(!line.starts_with("12:34:56") && !line.starts_with("forged"), "{form}: {line:?}");
        }
    }
}
