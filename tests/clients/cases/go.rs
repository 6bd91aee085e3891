//! Go's informers, as used by all controllers written in Go.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::cases::{Case, cases};
use crate::context::{CaseContext, Server};
use crate::embedded::Embedded;
use crate::harness::{Client, Process, TIMEOUT, child, eventually};

pub(crate) const CASES: &[Case] = cases![Each:
    a_typed_informer_follows_config_maps,
    a_dynamic_informer_follows_custom_resources,
    a_metadata_informer_follows_custom_resources,
    lists_come_in_pages,
];
pub(crate) const OWN: &[Case] = cases![Own: informers_continue_after_restarts, informers_continue_after_broken_watches];

const CONFIG_MAPS: &str = "configmaps.v1.";
const GAUGES: &str = "gauges.v1.clients.kopfd.dev";

/// An informer in its own process.
struct Informer(Process);

impl Informer {
    /// Starts an informer. It prints its requests, so that its way of listing can be checked.
    fn start(context: &CaseContext<'_>, kubeconfig: &Path, name: &str, arguments: &[&str]) -> Self {
        let mut command = Command::new(&context.servers().tools().kubernetes);
        command
            .args(["informer", "-v=8", "--namespace", &context.namespace, "--kubeconfig"])
            .arg(kubeconfig)
            .args(arguments);
        Self(Process::start("informer", &mut command, &context.directory.join(format!("{name}.log"))))
    }

    /// Returns the printed lines so far.
    fn received(&self) -> Vec<Value> {
        self.0
            .log()
            .lines()
            .filter(|line| line.starts_with('{'))
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect()
    }

    /// Waits for an event.
    fn expect_event(&self, event: &str, name: &str, label: Option<&str>) {
        eventually(&format!("the informer tells {event} of {name} with {label:?}"), TIMEOUT / 2, || {
            self.0.expect_running();
            let is_told = |line: &Value| {
                line["event"] == event && line["name"] == name && line["labels"]["value"].as_str() == label
            };
            self.received().iter().any(is_told).then_some(())
        });
    }

    fn count(&self, event: &str, name: &str) -> usize {
        self.received().iter().filter(|line| line["event"] == event && line["name"] == name).count()
    }

    fn is_synced(&self, count: usize) {
        let line = eventually("the informer is synced", TIMEOUT / 2, || {
            self.received().into_iter().find(|line| line["event"] == "synced")
        });
        assert_eq!(line["count"], count, "objects at the beginning");
    }
}

fn object(kind: &str, name: &str, value: &str) -> Value {
    let version = if kind == "Gauge" { "clients.kopfd.dev/v1" } else { "v1" };
    let mut object =
        json!({"apiVersion": version, "kind": kind, "metadata": {"name": name, "labels": {"value": value}}});
    if kind == "Gauge" {
        object["spec"] = json!({});
    }
    object
}

/// Follows existing objects with an informer, and then each change.
fn follow(context: &CaseContext<'_>, server: &Server, client: &str, resource: &str, kind: &str, place: &str) {
    let collection = context.path(place);
    server.client.create(&collection, &object(kind, "early", "a"));
    let informer = Informer::start(
        context,
        &server.kubeconfig,
        client,
        &[&format!("--client={client}"), &format!("--resource={resource}"), "--resync=2s"],
    );
    informer.is_synced(1);
    informer.expect_event("add", "early", Some("a"));
    server.client.create(&collection, &object(kind, "late", "a"));
    informer.expect_event("add", "late", Some("a"));
    server.client.merge(&format!("{collection}/late"), &json!({"metadata": {"labels": {"value": "b"}}}));
    informer.expect_event("update", "late", Some("b"));
    server.client.delete(&format!("{collection}/early"));
    informer.expect_event("delete", "early", Some("a"));
    // A resync repeats the existing objects.
    let before = informer.count("update", "late");
    eventually("the informer tells again what is there", TIMEOUT / 2, || {
        (informer.count("update", "late") > before).then_some(())
    });
    assert_eq!((informer.count("add", "late"), informer.count("delete", "late")), (1, 0));
    let log = informer.0.log();
    assert!(log.contains("sendInitialEvents=true"), "the informer asks for a streaming list:\n{log}");
    assert!(!log.contains("falling back") && !log.contains("limit=500"), "the informer is content with it:\n{log}");
}

fn a_typed_informer_follows_config_maps(context: &CaseContext<'_>, server: &Server) {
    follow(context, server, "typed", CONFIG_MAPS, "ConfigMap", "configmaps");
}

fn a_dynamic_informer_follows_custom_resources(context: &CaseContext<'_>, server: &Server) {
    follow(context, server, "dynamic", GAUGES, "Gauge", "clients.kopfd.dev/v1/gauges");
}

fn a_metadata_informer_follows_custom_resources(context: &CaseContext<'_>, server: &Server) {
    follow(context, server, "metadata", GAUGES, "Gauge", "clients.kopfd.dev/v1/gauges");
}

fn lists_come_in_pages(context: &CaseContext<'_>, server: &Server) {
    for number in 0..5 {
        server.client.create(&context.path("configmaps"), &object("ConfigMap", &format!("m{number}"), "a"));
    }
    let mut command = Command::new(&context.servers().tools().kubernetes);
    command.args(["pages", "--limit=2", "--namespace", &context.namespace, "--kubeconfig"]).arg(&server.kubeconfig);
    let output = child::output(&mut command);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let received: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("each line is JSON")).collect();
    let pages: Vec<&Value> =
        received.iter().filter(|line| line["event"] == "page").map(|line| &line["count"]).collect();
    let names: Vec<&str> =
        received.iter().filter(|line| line["event"] == "item").filter_map(|line| line["name"].as_str()).collect();
    assert_eq!(pages, [&json!(2), &json!(2), &json!(1)]);
    assert_eq!(names, ["m0", "m1", "m2", "m3", "m4"]);
}

/// A server with durable objects stops or crashes, and restarts: the informers miss nothing.
fn informers_continue_after_restarts(context: &CaseContext<'_>) {
    let servers = context.servers();
    let mut server =
        Embedded::start_with_data(&servers.tools().kopfd, &context.directory.join("server"), servers.runtime());
    let client = server.client();
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": context.namespace}});
    client.create("/api/v1/namespaces", &namespace);
    let maps = context.path("configmaps");
    for name in ["kept", "doomed"] {
        client.create(&maps, &object("ConfigMap", name, "a"));
    }
    let streaming = Informer::start(context, &server.kubeconfig(), "streaming", &["--client=typed"]);
    let dynamic = Informer::start(context, &server.kubeconfig(), "dynamic", &["--client=dynamic"]);
    for informer in [&streaming, &dynamic] {
        informer.is_synced(2);
    }
    for (round, is_crash) in [false, true].into_iter().enumerate() {
        let label = format!("round-{round}");
        // This is acknowledged, so it survives even a crash.
        client.merge(&format!("{maps}/kept"), &json!({"metadata": {"labels": {"value": label}}}));
        server.restart(is_crash);
        server.expect_running();
        let client: Client = server.client();
        assert_eq!(
            client.get(&format!("{maps}/kept")).map(|kept| kept["metadata"]["labels"]["value"].clone()),
            Some(json!(label))
        );
        let name = format!("after-{round}");
        client.create(&maps, &object("ConfigMap", &name, &label));
        if round == 1 {
            client.delete(&format!("{maps}/doomed"));
        }
        for informer in [&streaming, &dynamic] {
            informer.expect_event("update", "kept", Some(&label));
            informer.expect_event("add", &name, Some(&label));
            assert_eq!(informer.count("add", "kept"), 1, "what was there is not new");
        }
    }
    for informer in [&streaming, &dynamic] {
        eventually("the informer tells of the deletion", Duration::from_secs(30), || {
            (informer.count("delete", "doomed") + informer.count("delete-unseen", "doomed") == 1).then_some(())
        });
    }
}

/// Watches end in all possible ways: the informers still report each object once.
fn informers_continue_after_broken_watches(context: &CaseContext<'_>) {
    let servers = context.servers();
    let directory = context.directory.join("server");
    let server =
        Embedded::start_with_broken_watches(&servers.tools().kopfd, &directory, servers.runtime(), "configmaps");
    let client = server.client();
    client.create(
        "/api/v1/namespaces",
        &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": context.namespace}}),
    );
    let informers = ["typed", "dynamic"]
        .map(|name| Informer::start(context, &server.kubeconfig(), name, &[&format!("--client={name}")]));
    let names: Vec<String> = (0..30).map(|number| format!("m{number}")).collect();
    for name in &names {
        client.create(&context.path("configmaps"), &object("ConfigMap", name, "a"));
        std::thread::sleep(Duration::from_millis(100));
    }
    eventually("every fault has struck", TIMEOUT, || (server.strikes() == 6).then_some(()));
    client.delete(&context.path("configmaps/m0"));
    for informer in &informers {
        eventually("the informer tells of the deletion", TIMEOUT, || {
            (informer.count("delete", "m0") + informer.count("delete-unseen", "m0") == 1).then_some(())
        });
        for name in &names {
            assert_eq!(informer.count("add", name), 1, "{name} is reported once");
        }
        assert_eq!(
            informer
                .received()
                .iter()
                .filter(|line| line["event"].as_str().is_some_and(|event| event.starts_with("delete")))
                .count(),
            1
        );
    }
}
