//! Running operators follow their files, and try new revisions on a share of the objects, with a real API server.

use std::fs;
use std::process::{Command, Stdio};
use std::rc::Rc;

use serde_json::{Value, json};

use super::cases;
use crate::harness::child::output;
use crate::harness::{Case, Kind, LIVENESS, Launch, Operator, TestContext};

pub(crate) const CASES: &[Case] = cases![
    a_running_operator_follows_its_files_and_keeps_its_watches,
    a_revision_that_fails_is_rolled_back_with_an_event_on_the_deployment,
];

/// The files of an operator, and the operator.
struct Reloaded<'c> {
    context: &'c TestContext<'c>,
    kind: Kind,
    operator: Rc<Operator>,
}

/// Returns a manifest for a kind.
fn manifest(kind: &Kind, settings: &str, others: &str) -> String {
    let resource = kind.selector();
    format!(
        "apiVersion: kopfd.dev/v1
kind: Operator
metadata: {{name: followed}}
spec:
  settings: {settings}
  resources:
    - resource: {resource}
      script: main.rhai
      handlers: [{{on: create, fn: made}}, {{on: update, fn: changed}}]
      daemons: [{{fn: stay}}]
      indexes: [{{fn: by_size}}]
{others}"
    )
}

/// Returns the script of a revision.
fn script(revision: &str) -> String {
    format!(
        "fn made(logger, name, patch, memo) {{ memo.made = \"{revision}\"; patch.status.made = \"{revision}\"; \
         if name == \"slow\" {{ sleep(5); logger.info(\"slept in {revision}\"); }} }}
         fn changed(patch, memo, by_size) {{ patch.status.changed = \"{revision}\"; patch.status.memo = memo.made; patch.status.sizes = by_size.keys().len(); }}
         fn stay(stopped) {{ while !stopped.is_set() {{ stopped.wait(60); }} }}
         fn by_size(spec) {{ return entry(`${{spec.size}}`, \"{revision}\"); }}
"
    )
}

impl<'c> Reloaded<'c> {
    fn start(context: &'c TestContext<'c>, settings: &str, variables: Vec<(String, String)>) -> Self {
        let kind = context.thing();
        let directory = context.directory().join("followed");
        fs::create_dir_all(&directory).expect("the directory of the case is writable");
        fs::write(directory.join("operator.yaml"), manifest(&kind, settings, "")).expect("the manifest is written");
        fs::write(directory.join("main.rhai"), script("first")).expect("the script is written");
        let launch = context.launch_source(&directory.join("operator.yaml"));
        let operator = context.start(&Launch { options: vec![LIVENESS.into()], variables, ..launch });
        Self { context, kind, operator }
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.context.directory().join("followed").join(name), text).expect("the file is written");
    }

    /// Waits until a text was logged so many times.
    fn logged(&self, text: &str, times: usize) {
        let is_there = || self.operator.log().matches(text).count() >= times;
        self.context.eventually(&format!("{text:?} is logged"), || is_there().then_some(()));
    }

    /// Waits until a field of the status has a value.
    fn has(&self, name: &str, field: &str, value: &Value) {
        self.context
            .object(&self.kind, name, &format!("has {field}: {value}"), |object| object["status"][field] == *value);
    }

    /// Tells whether a call of a handler is running.
    fn is_running(&self, handler: &str) -> bool {
        let status = self.status();
        status["handlers"].as_array().into_iter().flatten().any(|one| one["id"] == handler && one["running"] == 1)
    }

    /// Returns the operator in the output of `kopfd status`.
    fn status(&self) -> Value {
        let url = format!("http://{}", self.operator.endpoints());
        let mut command = Command::new(&self.context.cluster().tools().kopfd);
        let printed = output(command.args(["status", &url, "--output", "json"]).stdin(Stdio::null()));
        assert!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
        let document: Value = serde_json::from_slice(&printed.stdout).expect("the status is JSON");
        document["operators"][0].clone()
    }
}

fn a_running_operator_follows_its_files_and_keeps_its_watches(context: &TestContext<'_>) {
    let followed = Reloaded::start(context, "{}", Vec::new());
    context.create(&followed.kind, "one", json!({"size": 1}));
    followed.has("one", "made", &json!("first"));
    context.create(&followed.kind, "slow", json!({"size": 2}));
    context.eventually("the slow call runs", || followed.is_running("made").then_some(()));
    let before = followed.status();

    followed.write("main.rhai", &script("second"));
    followed.logged("Operator 'followed' is reloaded", 1);
    let after = followed.status();
    assert_ne!(before["revision"], after["revision"]);
    context.merge(&followed.kind, "one", json!({"spec": {"size": 3}}));
    followed.has("one", "changed", &json!("second"));
    followed.has("one", "memo", &json!("first"));
    followed.has("one", "sizes", &json!(2));
    followed.logged("slept in first", 1);
    followed.has("slow", "made", &json!("first"));

    followed.write("main.rhai", "fn made( {");
    followed.logged("The files have errors. The running revisions stay in service.", 1);
    context.create(&followed.kind, "two", json!({"size": 4}));
    followed.has("two", "made", &json!("second"));
    assert_eq!(
        (&followed.status()["revision"], &followed.status()["isLastLoadSuccessful"]),
        (&after["revision"], &json!(false))
    );
    followed.write("main.rhai", &script("third"));
    followed.logged("The files have no errors any more.", 1);
    context.create(&followed.kind, "three", json!({"size": 5}));
    followed.has("three", "made", &json!("third"));

    // Another kind is added, and left again.
    let maps = "    - {resource: v1/configmaps, script: main.rhai, labels: {followed: 'yes'}, handlers: [{on: create, fn: made}]}\n";
    followed.write("operator.yaml", &manifest(&followed.kind, "{}", maps));
    followed.logged("watches configmaps.v1 in namespace", 1);
    followed.write("operator.yaml", &manifest(&followed.kind, "{}", ""));
    followed.logged("Operator 'followed' is reloaded", 4);
    context.merge(&followed.kind, "three", json!({"spec": {"size": 6}}));
    followed.has("three", "changed", &json!("third"));
    assert_eq!(
        followed.operator.log().matches("Operator 'followed' watches ").count(),
        2,
        "each kind was watched once"
    );
    context.stop(&followed.operator);
}

fn a_revision_that_fails_is_rolled_back_with_an_event_on_the_deployment(context: &TestContext<'_>) {
    let name = format!("of-{}", context.namespace.to_lowercase());
    let labels = json!({"app": name});
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "demo"}]}});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template},
    });
    context.client().create("/apis/apps/v1/namespaces/default/deployments", &deployment);
    let pods = format!("/api/v1/namespaces/default/pods?labelSelector=app%3D{name}");
    let pod = context.eventually("the Deployment has a pod", || {
        context.client().list(&pods).first().and_then(|pod| pod["metadata"]["name"].as_str().map(str::to_owned))
    });
    let variables = [("KUBERNETES_SERVICE_HOST", "127.0.0.1"), ("KOPFD_POD", &pod)]
        .map(|(key, value)| (key.to_owned(), value.to_owned()));
    let canary = "{reload: {canary: {percent: 50, for: 10m}}}";
    let followed = Reloaded::start(context, canary, variables.to_vec());
    let names: Vec<String> = (0..20).map(|number| format!("object-{number}")).collect();
    for name in &names {
        context.create(&followed.kind, name, json!({"size": 1}));
    }
    for name in &names {
        followed.has(name, "made", &json!("first"));
    }

    followed.write("main.rhai", &script("second").replace("patch.status.changed = \"second\";", "throw \"broken\";"));
    followed.logged("is on trial for 50 % of the objects", 1);
    let trial = followed.status()["trial"]["revision"].as_str().map(str::to_owned).expect("the trial is shown");
    for name in &names {
        context.merge(&followed.kind, name, json!({"spec": {"size": 2}}));
    }
    followed.logged("is rolled back to", 1);
    let events = format!("/api/v1/namespaces/default/events?fieldSelector=involvedObject.name%3D{name}");
    let event = context.eventually("the Deployment has an Event", || {
        context.client().list(&events).into_iter().find(|event| event["reason"] == "RevisionRolledBack")
    });
    assert_eq!((&event["type"], &event["involvedObject"]["kind"]), (&json!("Warning"), &json!("Deployment")));
    let text = event["message"].as_str().unwrap_or_default();
    assert!(text.contains(&format!("Revision {trial} is rolled back to")), "{text}");
    assert_eq!(followed.status()["rolledBack"]["revision"], json!(trial));
    for name in &names {
        context.merge(&followed.kind, name, json!({"spec": {"size": 3}}));
        followed.has(name, "changed", &json!("first"));
    }
    context.client().delete(&format!("/apis/apps/v1/namespaces/default/deployments/{name}"));
}
