//! The way out of a cluster, and definitions that take something away.

use std::process::{Command, Output};

use serde_json::json;

use super::cases;
use crate::harness::child::output;
use crate::harness::{Case, Engine, Handler, TestContext, has_finalizer};

pub(crate) const CASES: &[Case] =
    cases![an_operator_that_is_taken_out_leaves_no_finalizer, a_definition_that_takes_something_away_is_not_applied,];

const FINALIZER: &str = "kopf.zalando.org/KopfFinalizerMarker";

fn kopfd(context: &TestContext<'_>, arguments: &[&str]) -> Output {
    let mut command = Command::new(&context.cluster().tools().kopfd);
    output(command.args(arguments).env("KUBECONFIG", context.cluster().api_server().kubeconfig()))
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

fn a_definition_that_takes_something_away_is_not_applied(context: &TestContext<'_>) {
    let kind = context.thing();
    let launch = context.launch(Engine::Kopfd, std::slice::from_ref(&kind), &[Handler::on("create", "hello")]);
    let (_, mut definition) = kind.definition();
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = json!({"type": "object"});
    std::fs::write(launch.source.join("crd.json"), definition.to_string()).expect("the directory of an operator can be written");
    let manifest = launch.source.join("operator.yaml");
    let text = std::fs::read_to_string(&manifest).expect("an operator has a manifest");
    let text = text.replacen("\nspec:\n", "\nspec:\n  crds: [crd.json]\n", 1);
    assert!(text.contains("crds: [crd.json]"), "{text}");
    std::fs::write(&manifest, text).expect("our own manifest can be written");
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
