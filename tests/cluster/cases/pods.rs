//! Containers of pods, and other clusters: logs and commands through a real API server and the kubelet's own protocol,
//! and an operator that works in a second cluster, which has nothing in common with its own.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::cases;
use crate::harness::{
    Case, Cluster, Controllers, GUEST_TOKEN, Launch, Process, TestContext, admin_token, eventually, free_port,
    kubeconfig,
};

pub(crate) const CASES: &[Case] = cases![
    logs_and_commands_reach_containers_through_the_api_server,
    an_operator_works_in_another_cluster_whose_credentials_rotate
];

/// Writes a manifest with one script, and returns how it is started, with the rights that are derived from it.
fn launch(context: &TestContext<'_>, allow: &str, script: &str) -> Launch {
    let manifest = format!(
        "apiVersion: kopfd.dev/v1\nkind: Operator\nmetadata: {{name: pods}}\nspec:\n  allow: {allow}\n  settings: {{networking: {{errorBackoffs: [100ms]}}}}\n  \
         resources:\n    - resource: v1/configmaps\n      script: code.rhai\n      labels: {{app: {}}}\n      handlers:\n        \
         - {{on: create, fn: ask, backoff: 1s}}\n        - {{on: update, fn: ask, backoff: 1s}}\n",
        context.namespace
    );
    let write = |name: &str, text: &str| -> PathBuf {
        let path = context.directory().join(name);
        std::fs::write(&path, text).expect("the directory of the case can be written");
        path
    };
    write("code.rhai", script);
    context.with_derived_rights(context.launch_source(&write("operator.yaml", &manifest)))
}

fn maps(context: &TestContext<'_>) -> String {
    format!("/api/v1/namespaces/{}/configmaps", context.namespace)
}

fn ask(context: &TestContext<'_>, name: &str, data: &Value) {
    let metadata = json!({"name": name, "labels": {"app": context.namespace}});
    context
        .client()
        .create(&maps(context), &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}));
}

/// Waits for the annotation in which a handler tells what it has found.
fn told(context: &TestContext<'_>, name: &str, key: &str) -> String {
    context.eventually(&format!("{name} has {key}"), || {
        let map = context.client().get(&format!("{}/{name}", maps(context)))?;
        map["metadata"]["annotations"][key].as_str().map(str::to_owned)
    })
}

const COMMANDS: &str = r#"
fn ask(body, patch, name) {
    patch.meta.annotations = #{ told: try_it(body.data) };
}

fn try_it(data) {
    try {
        if data.verb == "log" { return k8s::logs(data.pod, #{ container: "main", tail: 5, timestamps: true }); }
        let options = #{ container: data.container ?? "main", timeout: "20s", limit: 100000 };
        if data.stdin != () { options.stdin = data.stdin; }
        let ended = k8s::exec(data.pod, ["sh", "-c", data.command], options);
        return `${ended.code} [${ended.stdout}] [${ended.stderr}]`;
    } catch (error) {
        return `${error.kind} ${error.reason} ${error.status} ${error.message}`;
    }
}
"#;

fn logs_and_commands_reach_containers_through_the_api_server(context: &TestContext<'_>) {
    let port = free_port();
    let mut command = Command::new(&context.cluster().tools().kubernetes);
    let log = context.directory().join("kubelet.log");
    let _kubelet = Process::start("the kubelet", command.args(["kubelet", &format!("127.0.0.1:{port}")]), &log);
    context.eventually("the kubelet listens", || {
        std::fs::read_to_string(&log).ok().filter(|text| text.contains("listens"))
    });
    let node = format!("node-{}", context.namespace);
    let status = json!({"addresses": [{"type": "InternalIP", "address": "127.0.0.1"}], "daemonEndpoints": {"kubeletEndpoint": {"Port": port}}});
    context.client().create("/api/v1/nodes", &json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}}));
    let answer = context.client().request(
        "PATCH",
        &format!("/api/v1/nodes/{node}/status"),
        "application/merge-patch+json",
        Some(&json!({"status": status})),
    );
    assert!(answer.is_ok(), "{answer:?}");
    let containers = json!([{"name": "main", "image": "i"}, {"name": "stopped", "image": "i"}]);
    let pods = format!("/api/v1/namespaces/{}/pods", context.namespace);
    for (name, node) in [("web", Some(&node)), ("pending", None)] {
        let spec = json!({"containers": containers, "nodeName": node, "serviceAccountName": "default"});
        context
            .client()
            .create(&pods, &json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}));
    }
    context.start(&launch(context, "{}", COMMANDS));
    let wide = "x".repeat(50_000);
    let cases = [
        ("log", json!({"verb": "log", "pod": "web"}), format!("container {}/web/main\nasked for ", context.namespace)),
        ("both", json!({"pod": "web", "command": "echo out; echo err >&2; exit 3"}), "3 [out\n] [err\n]".to_owned()),
        ("input", json!({"pod": "web", "command": "wc -c", "stdin": wide}), "0 [50000\n] []".to_owned()),
        ("empty-input", json!({"pod": "web", "command": "cat", "stdin": ""}), "0 [] []".to_owned()),
        (
            "wide",
            json!({"pod": "web", "command": "yes | head -c 300000"}),
            "exec TooMuchOutput  k8s::exec pods.v1 ".to_owned(),
        ),
        (
            "stopped",
            json!({"pod": "web", "command": "true", "container": "stopped"}),
            "api InternalError 500 k8s::exec pods.v1 ".to_owned(),
        ),
        (
            "other",
            json!({"pod": "web", "command": "true", "container": "other"}),
            "api BadRequest 400 k8s::exec pods.v1 ".to_owned(),
        ),
        ("missing", json!({"pod": "nothing", "command": "true"}), "api NotFound 404 k8s::exec pods.v1 ".to_owned()),
        ("pending", json!({"pod": "pending", "command": "true"}), "api BadRequest 400 k8s::exec pods.v1 ".to_owned()),
    ];
    for (name, data, _) in &cases {
        let mut data = data.clone();
        data.as_object_mut().expect("data is a map").entry("verb").or_insert(json!("exec"));
        ask(context, name, &data);
    }
    for (name, _, expected) in &cases {
        let found = told(context, name, "told");
        assert!(found.starts_with(expected), "{name}: {found:?} does not begin with {expected:?}");
    }
    assert!(told(context, "log", "told").contains("tailLines=5&timestamps=true"));
}

const OTHER_CLUSTER: &str = r#"
fn ask(body, name, patch) {
    let cluster = k8s::cluster("access");
    let made = cluster.apply(#{ apiVersion: "v1", kind: "ConfigMap", metadata: #{ name: name, namespace: "default" }, data: body.data });
    let read = cluster.wait("v1/configmaps", "default", name, "$.data.seen=yes", "1m");
    let here = k8s::exists("v1/configmaps", "default", name);
    patch.meta.annotations = #{ told: `${read.data.word} ${read.metadata.uid != body.metadata.uid} ${here}`, round: body.data.word };
}
"#;

fn an_operator_works_in_another_cluster_whose_credentials_rotate(context: &TestContext<'_>) {
    let other = Cluster::start(&context.directory().join("other"), context.cluster().tools(), Controllers::Absent);
    let url = other.api_server().url();
    let host = url.trim_start_matches("https://").to_owned();
    let secrets = format!("/api/v1/namespaces/{}/secrets", context.namespace);
    let data = |token: &str| json!({"kubeconfig": STANDARD.encode(kubeconfig(&url, token))});
    // These credentials are known to the server, and may do nothing.
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "access"}, "data": data("unknown")});
    context.client().create(&secrets, &secret);
    let operator = context.start(&launch(context, &format!("{{clusters: [\"{host}\"]}}"), OTHER_CLUSTER));
    ask(context, "one", &json!({"word": "first"}));
    context.eventually("unknown credentials are refused", || {
        operator.log().contains("the API server refuses the credentials").then_some(())
    });
    // The guest is known, and may do nothing.
    context.client().merge(&format!("{secrets}/access"), &json!({"data": data(GUEST_TOKEN)}));
    context.eventually("the guest is refused", || operator.log().contains("HTTP 403 (Forbidden)").then_some(()));
    context.client().merge(&format!("{secrets}/access"), &json!({"data": data(admin_token())}));
    let there = "/api/v1/namespaces/default/configmaps";
    let created = eventually("the object is in the other cluster", Duration::from_mins(3), || {
        other.client().get(&format!("{there}/one"))
    });
    assert_eq!(created["data"], json!({"word": "first"}));
    other.client().merge(&format!("{there}/one"), &json!({"data": {"seen": "yes"}}));
    assert_eq!(told(context, "one", "told"), "first true false");
    // The same client serves the next change.
    context.client().merge(&format!("{}/one", maps(context)), &json!({"data": {"word": "second"}}));
    context.eventually("the change is in the other cluster", || {
        let map = context.client().get(&format!("{}/one", maps(context)))?;
        (map["metadata"]["annotations"]["round"] == "second").then_some(())
    });
    assert!(context.client().get(&format!("{there}/one")).is_none(), "the own cluster has nothing of it");
}
