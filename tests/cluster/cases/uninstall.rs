//! The way out of a cluster, and definitions that take something away.

use std::process::{Command, Output};

use serde_json::{Value, json};

use super::cases;
use super::packaging::Restricted;
use super::peering::Peers;
use crate::harness::child::output as output_of;
use crate::harness::{Case, Engine, Handler, Launch, TestContext, has_finalizer};

pub(crate) const CASES: &[Case] = cases![
    an_operator_that_is_taken_out_leaves_no_finalizer,
    what_an_operator_has_made_for_itself_is_taken_away,
    the_job_frees_objects_with_its_own_rights,
    a_definition_that_takes_something_away_is_not_applied,
];

const FINALIZER: &str = "kopf.zalando.org/KopfFinalizerMarker";

fn kopfd(context: &TestContext<'_>, arguments: &[&str]) -> Output {
    let mut command = Command::new(&context.cluster().tools().kopfd);
    output_of(command.args(arguments).env("KUBECONFIG", context.cluster().api_server().kubeconfig()))
}

fn texts(done: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr))
}

fn an_operator_that_is_taken_out_leaves_no_finalizer(context: &TestContext<'_>) {
    let kind = context.thing();
    let launch =
        context.launch(Engine::Kopfd, std::slice::from_ref(&kind), &[Handler::on("create", "hello"), Handler::on("delete", "bye")]);
    let operator = context.start(&launch);
    for name in ["deleted", "kept"] {
        context.create(&kind, name, json!({}));
        assert!(has_finalizer(&context.handled(&kind, name)));
    }
    context.delete(&kind, "deleted");
    context.gone(&kind, "deleted");
    context.stop(&operator);

    let source = launch.source.to_str().expect("our own paths are UTF-8");
    let options = ["uninstall", source, "-n", &context.namespace, "--operator-namespace", &context.namespace, "--timeout", "2s"];
    let done = kopfd(context, &options);
    assert!(done.status.success(), "{}", texts(&done));
    assert!(!has_finalizer(&context.get(&kind, "kept").expect("objects stay")), "{}", texts(&done));

    // An object whose deletion nobody handles any more.
    context.merge(&kind, "kept", json!({"metadata": {"finalizers": [FINALIZER]}}));
    context.delete(&kind, "kept");
    let done = kopfd(context, &options);
    assert_eq!(done.status.code(), Some(1));
    assert!(texts(&done).contains("its deletion was not handled in time"), "{}", texts(&done));
    let selector = kind.selector();
    let done = kopfd(context, &["uninstall", "--janitor", "--finalizer", FINALIZER, "--kind", &selector, "-n", &context.namespace]);
    assert!(done.status.success(), "{}", texts(&done));
    context.gone(&kind, "kept");
}

/// Adds a definition to an operator, and lines to the end of its manifest.
fn extend(launch: &Launch, definition: &Value, lines: &str) {
    let manifest = launch.source.join("operator.yaml");
    let text = std::fs::read_to_string(&manifest).expect("an operator has a manifest");
    let text = text.replacen("\nspec:\n", "\nspec:\n  crds: [crd.json]\n", 1) + lines;
    assert!(text.contains("crds: [crd.json]"), "{text}");
    std::fs::write(&manifest, text).expect("our own manifest can be written");
    std::fs::write(launch.source.join("crd.json"), definition.to_string()).expect("the directory of an operator can be written");
}

/// Returns a Deployment whose pods no node runs.
fn deployment(name: &str) -> Value {
    let labels = json!({"app": name});
    let pod = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "operator", "image": "none"}]}});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": pod},
    })
}

fn what_an_operator_has_made_for_itself_is_taken_away(context: &TestContext<'_>) {
    let (client, namespace) = (context.client(), &context.namespace);
    let peers = Peers::new(context, false);
    let (kind, peering, peer) = (&peers.kind, peers.name(), peers.paths().1);
    let launch = context.launch(Engine::Kopfd, std::slice::from_ref(kind), &[Handler::on("create", "hello"), Handler::on("delete", "bye")]);
    extend(&launch, &kind.definition().1, &format!("  settings: {{peering: {{name: {peering}, mandatory: true}}}}\n"));
    let launch = Launch { options: vec![format!("--peering={peering}")], ..launch };
    context.start(&launch);
    for name in ["first", "second"] {
        context.create(kind, name, json!({}));
        assert!(has_finalizer(&context.handled(kind, name)));
    }
    // What replicas leave that are killed: the record of a peer, and a Lease. Another operator's record stays.
    let record = context.eventually("the operator is a peer", || {
        client.get(&peer)?["status"].as_object().and_then(|records| records.values().next()).cloned()
    });
    let record = json!({"priority": -10, "lifetime": 3_600, "lastseen": record["lastseen"]});
    client.merge(&peer, &json!({"status": {format!("{namespace}-0"): record, "other-0": record}}));
    let leases = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases");
    let lease =
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": namespace}, "spec": {"holderIdentity": ""}});
    client.create(&leases, &lease);
    let deployments = format!("/apis/apps/v1/namespaces/{namespace}/deployments");
    client.create(&deployments, &deployment(namespace));
    let pods = format!("/api/v1/namespaces/{namespace}/pods?labelSelector=app%3D{namespace}");
    context.eventually("the Deployment has its pods", || (client.list(&pods).len() == 2).then_some(()));

    let source = launch.source.to_str().expect("our own paths are UTF-8");
    let places = ["-n", namespace, "--operator-namespace", namespace, "--peering", &peering];
    let options = [&["uninstall", source][..], &places, &["--delete-objects", "--timeout", "60s"]].concat();
    let done = kopfd(context, &options);
    let account = texts(&done);
    assert!(done.status.success(), "{account}");
    for line in [
        "requested the deletion of 2 ".to_owned(),
        format!("scaled Deployment {namespace}/{namespace} to zero"),
        format!("deleted Lease {namespace}/{namespace}"),
        format!("removed the peer {namespace}-0"),
        format!("kept the definition of {}", kind.selector()),
    ] {
        assert!(account.contains(&line), "{line}: {account}");
    }
    for name in ["first", "second"] {
        context.gone(kind, name);
        context.expect_calls(name, &["hello#0", "bye#0"]);
    }
    assert_eq!(client.get(&format!("{deployments}/{namespace}")).expect("it stays")["spec"]["replicas"], 0);
    assert!(client.list(&pods).is_empty() && client.get(&format!("{leases}/{namespace}")).is_none());
    let left = client.get(&peer).expect("the peering stays");
    assert!(left["status"].get(format!("{namespace}-0")).is_none() && left["status"].get("other-0").is_some(), "{left}");
}

fn the_job_frees_objects_with_its_own_rights(context: &TestContext<'_>) {
    let (kind, namespace) = (context.thing(), &context.namespace);
    let launch = context.launch(Engine::Kopfd, std::slice::from_ref(&kind), &[Handler::on("delete", "bye")]);
    let operator = context.start(&launch);
    context.create(&kind, "held", json!({}));
    context.object(&kind, "held", "has the finalizer", has_finalizer);
    context.kill(&operator);
    context.delete(&kind, "held");
    assert!(context.get(&kind, "held").is_some(), "nobody handles its deletion");

    let directory = context.directory().join("package");
    let [source, output] = [&launch.source, &directory].map(|path| path.to_str().expect("our own paths are UTF-8"));
    let done = kopfd(context, &["package", source, "--plain", "--operator-namespace", namespace, "--output", output]);
    assert!(done.status.success(), "{}", texts(&done));
    let file = directory.join("janitor/janitor.yaml");
    let applied = context.cluster().kubectl_ok(&["apply", "-f", &file.display().to_string(), "-o", "json"]);
    let applied: Value = serde_json::from_str(&applied).expect("kubectl prints JSON");
    let of_kind = |kind: &str| applied["items"].as_array().and_then(|items| items.iter().find(|item| item["kind"] == kind));
    let job = of_kind("Job").expect("the janitor is a Job");
    let account = of_kind("ServiceAccount").and_then(|account| account["metadata"]["name"].as_str()).expect("the Job has an account");
    // The account is in another namespace than the pod of this test. There are no nodes, so the program runs here.
    let mut elsewhere = job.clone();
    elsewhere["spec"]["template"]["spec"].as_object_mut().expect("a pod has a spec").remove("serviceAccountName");
    Restricted::new(context).create_pod(&elsewhere).expect("the pod has no privileges");
    let token = context.cluster().kubectl_ok(&["create", "token", account, "--namespace=default"]);
    let kubeconfig = context.cluster().api_server().kubeconfig_of(context.directory(), token.trim());
    let arguments = job.pointer("/spec/template/spec/containers/0/args").and_then(Value::as_array).expect("the container has arguments");
    let arguments: Vec<&str> = arguments.iter().filter_map(Value::as_str).collect();
    // The API server reads roles from a watch.
    context.eventually("the Job frees the object", || {
        let mut command = Command::new(&context.cluster().tools().kopfd);
        let done = output_of(command.args(&arguments).env("KUBECONFIG", &kubeconfig));
        (done.status.success() && texts(&done).contains("freed")).then_some(())
    });
    context.gone(&kind, "held");
    assert_eq!(context.calls_of("held"), [""; 0], "no handler is called");
    let others = ["clusterrole", "clusterrolebinding"].map(|kind| format!("{kind}/{account}"));
    context.cluster().kubectl_ok(&["delete", &others[0], &others[1]]);
    context.cluster().kubectl_ok(&["delete", "-n", "default", &format!("job/{account}"), &format!("serviceaccount/{account}")]);
}

fn a_definition_that_takes_something_away_is_not_applied(context: &TestContext<'_>) {
    let kind = context.thing();
    let launch = context.launch(Engine::Kopfd, std::slice::from_ref(&kind), &[Handler::on("create", "hello")]);
    let (_, mut definition) = kind.definition();
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = json!({"type": "object"});
    extend(&launch, &definition, "");
    let source = launch.source.to_str().expect("our own paths are UTF-8");
    let done = kopfd(context, &["run", source, "--standalone", "-n", &context.namespace, "--apply-crds"]);
    assert_eq!(done.status.code(), Some(1), "{}", texts(&done));
    assert!(texts(&done).contains("v1.spec: unknown fields are dropped"), "{}", texts(&done));
    let kept = context.client().get(&kind.definition_path()).expect("the definition stays");
    assert_eq!(
        kept.pointer("/spec/versions/0/schema/openAPIV3Schema/properties/spec/x-kubernetes-preserve-unknown-fields"),
        Some(&json!(true))
    );
}
