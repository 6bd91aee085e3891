//! Python kopf 1.44.6 with small operators. Their handlers are in `operators/`.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::cases::{Case, cases};
use crate::context::{CaseContext, Server};
use crate::harness::{Process, TIMEOUT, eventually, has_finalizer, is_handled};

pub(crate) const CASES: &[Case] = cases![Each:
    failures_are_retried_ignored_or_final,
    every_cause_reaches_its_handlers,
    a_result_is_stored_in_the_status,
    handlers_are_selected_by_filters,
];

/// One running operator, with the collection of its objects.
struct KopfRun<'s> {
    server: &'s Server,
    process: Process,
    collection: String,
    namespace: &'s str,
}

impl<'s> KopfRun<'s> {
    fn start(context: &'s CaseContext<'_>, server: &'s Server, operator: &str) -> Self {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/operators").join(operator);
        let mut command = Command::new(&context.servers().tools().kopf);
        command.args(["run", "--standalone", "--log-format=full", "-n", &context.namespace]).arg(file);
        command.env("KUBECONFIG", &server.kubeconfig).env("HOME", &server.home).env("PYTHONDONTWRITEBYTECODE", "1");
        let process = Process::start("kopf", &mut command, &context.directory.join("kopf.log"));
        let kopf_run = Self {
            server,
            process,
            collection: context.path("clients.kopfd.dev/v1/gauges"),
            namespace: &context.namespace,
        };
        kopf_run.logs("Initial authentication has finished.");
        kopf_run
    }

    fn create(&self, name: &str, object: Value) {
        let mut gauge =
            json!({"apiVersion": "clients.kopfd.dev/v1", "kind": "Gauge", "metadata": {"name": name}, "spec": {}});
        json_patch::merge(&mut gauge, &object);
        self.server.client.create(&self.collection, &gauge);
    }

    fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.collection)
    }

    /// Waits until all handlers of an object have finished and its status fulfils a condition.
    fn handled(&self, name: &str, what: &str, condition: impl Fn(&Value) -> bool) -> Value {
        self.server.object(&self.path(name), what, |object| {
            self.process.expect_running();
            is_handled(object) && condition(object)
        })
    }

    /// Waits for an Event about an object.
    fn event(&self, name: &str, reason: &str, text: &str) {
        eventually(&format!("an event {reason} about {name} says {text:?}"), TIMEOUT / 2, || {
            let events = self.server.client.list(&format!("/api/v1/namespaces/{}/events", self.namespace));
            let is_it = |event: &&Value| {
                event["involvedObject"]["name"] == name
                    && event["reason"] == reason
                    && event["message"].as_str().is_some_and(|message| message.contains(text))
            };
            events.iter().find(is_it).map(|_| ())
        });
    }

    fn logs(&self, text: &str) {
        eventually(&format!("kopf logs {text:?}"), TIMEOUT / 2, || self.process.log().contains(text).then_some(()));
    }

    fn end(self) {
        let status = self.process.stop(TIMEOUT / 2);
        assert!(status.success(), "kopf ends with {status}:\n{}", self.process.output_tail());
        let log = self.process.log();
        assert!(!log.contains("Traceback") || log.contains("Broken"), "{log}");
    }
}

fn a_result_is_stored_in_the_status(context: &CaseContext<'_>, server: &Server) {
    let kopf_run = KopfRun::start(context, server, "minimal.py");
    kopf_run.create("first", json!({"spec": {"size": 3}}));
    let first = kopf_run.handled("first", "is installed", |object| object["status"]["install"].is_object());
    assert_eq!(first["status"]["install"], json!({"size": 3, "installed": true}));
    assert!(!has_finalizer(&first), "nothing holds an object without handlers of its deletion");
    kopf_run.logs("Handler 'install' succeeded.");
    kopf_run.event("first", "Logging", "The gauge first gets the size 3.");
    kopf_run.event("first", "Logging", "Creation is processed: 1 succeeded; 0 failed.");
    server.client.delete(&kopf_run.path("first"));
    server.gone(&kopf_run.path("first"));
    kopf_run.end();
}

fn failures_are_retried_ignored_or_final(context: &CaseContext<'_>, server: &Server) {
    let kopf_run = KopfRun::start(context, server, "exceptions.py");
    kopf_run.create("failing", json!({}));
    let failing = kopf_run.handled("failing", "is done with", |object| object["status"]["comes_round"].is_string());
    assert_eq!(failing["status"]["comes_round"], "after 2 retries");
    let log = kopf_run.process.log();
    for attempt in 0..3 {
        assert!(log.contains(&format!("Broken: attempt {attempt}")), "attempt {attempt} is in the log:\n{log}");
    }
    assert!(!log.contains("attempt 3"), "{log}");
    kopf_run.logs("Handler 'gives_up' failed permanently: there is no use");
    kopf_run.event("failing", "Logging", "not yet");
    kopf_run.event("failing", "Logging", "Creation is processed: 2 succeeded; 2 failed.");
    kopf_run.end();
}

fn every_cause_reaches_its_handlers(context: &CaseContext<'_>, server: &Server) {
    let kopf_run = KopfRun::start(context, server, "handlers.py");
    // After its first object the operator watches, and receives later ones as added.
    kopf_run.create("beacon", json!({}));
    kopf_run.handled("beacon", "is created", |object| object["status"]["phase"] == "Created");
    kopf_run.create("dial", json!({"spec": {"size": 5}}));
    let created = kopf_run.handled("dial", "is created", |object| {
        object["status"]["phase"] == "Created" && object["status"]["sizes"].is_array()
    });
    assert_eq!((&created["status"]["created"], &created["status"]["sizes"]), (&json!({"size": 5}), &json!([null, 5])));
    assert!(has_finalizer(&created), "an object with a handler of its deletion is held");
    kopf_run.event("dial", "Filling", "being filled");

    server.client.merge(&kopf_run.path("dial"), &json!({"spec": {"size": 6, "mode": "plain"}}));
    let updated = kopf_run.handled("dial", "is updated", |object| {
        object["status"]["sizes"] == json!([5, 6]) && object["status"]["phase"] == "Updated"
    });
    let mut changes: Vec<String> =
        updated["status"]["changes"].as_array().into_iter().flatten().map(Value::to_string).collect();
    changes.sort();
    assert_eq!(changes, [r#"["add","spec.mode"]"#, r#"["change","spec.size"]"#]);
    kopf_run.event("dial", "Changed", "was changed");
    kopf_run.logs("SEEN ADDED dial");
    kopf_run.logs("SEEN MODIFIED dial");

    let map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "near", "labels": {"beside": "dial"}}});
    server.client.create(&context.path("configmaps"), &map);
    kopf_run.logs("BESIDE ADDED near");
    server.client.delete(&context.path("configmaps/near"));
    kopf_run.logs("BESIDE DELETED near");

    server.client.delete(&kopf_run.path("dial"));
    let going = server.client.get(&kopf_run.path("dial"));
    assert!(going.is_none_or(|object| object["metadata"]["deletionTimestamp"].is_string()));
    server.gone(&kopf_run.path("dial"));
    kopf_run.logs("Handler 'deleted' failed temporarily: not at once");
    kopf_run.logs("Handler 'deleted' succeeded.");
    kopf_run.logs("SEEN DELETED dial");

    // Objects that exist when the operator restarts are resumed.
    kopf_run.create("stays", json!({}));
    kopf_run.handled("stays", "is created", |object| object["status"]["phase"] == "Created");
    kopf_run.end();
    let kopf_run = KopfRun::start(context, server, "handlers.py");
    kopf_run.handled("stays", "is resumed", |object| object["status"]["resumed"] == true);
    kopf_run.end();
}

fn handlers_are_selected_by_filters(context: &CaseContext<'_>, server: &Server) {
    let kopf_run = KopfRun::start(context, server, "filtering.py");
    kopf_run.create("red", json!({"metadata": {"labels": {"colour": "red"}}, "spec": {"size": 60, "mode": "plain"}}));
    kopf_run.create(
        "xplain",
        json!({"metadata": {"annotations": {"example.com/watched": "yes"}}, "spec": {"size": 60, "mode": "precise"}}),
    );
    let red = kopf_run.handled("red", "is handled", |object| object["status"]["large"] == true);
    assert_eq!(red["status"], json!({"red": true, "large": true}));
    let plain = kopf_run.handled("xplain", "is handled", |object| object["status"]["precise"] == true);
    assert_eq!(plain["status"], json!({"colourless": true, "watched": true, "precise": true}));
    server.client.merge(&kopf_run.path("red"), &json!({"spec": {"mode": "precise"}}));
    let red = kopf_run.handled("red", "became precise", |object| object["status"]["became"] == "precise");
    assert!(red["status"]["green"].is_null() && red["status"]["precise"].is_null(), "{red}");
    kopf_run.end();
}
