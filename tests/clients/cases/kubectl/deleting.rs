//! `kubectl delete`.

use serde_json::json;

use crate::cases::{Case, cases};
use crate::context::CaseContext;

pub(crate) const CASES: &[Case] =
    cases![Both: objects_are_deleted, finalizers_hold_objects_back, dependents_follow_their_owners, namespaces_end];

fn maps(names: &[&str]) -> String {
    let map =
        |name: &&str| format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, labels: {{set: {name}}}}}\n");
    names.iter().map(map).collect::<Vec<_>>().join("---\n")
}

fn objects_are_deleted(context: &CaseContext<'_>) {
    context.file("maps.yaml", &maps(&["a", "b", "c", "d", "e", "f"]));
    context.file("b.yaml", &maps(&["b"]));
    context.kubectl("create -f maps.yaml");
    context.kubectl("delete cm a --dry-run=server").expect_output("configmap \"a\" deleted");
    assert!(context.object("configmaps/a").is_object());
    context.kubectl("delete cm a").expect_output("configmap \"a\" deleted");
    assert!(context.object("configmaps/a").is_null());
    context.kubectl("delete -f b.yaml --wait=true").expect_output("configmap \"b\" deleted");
    context.kubectl_fails("delete cm b").expect_stderr("configmaps \"b\" not found");
    context.kubectl("delete cm b --ignore-not-found").expect_lines(&[]);
    context
        .kubectl("delete cm -l 'set in (c,d)'")
        .expect_output("configmap \"c\" deleted")
        .expect_output("configmap \"d\" deleted");
    context.kubectl("delete cm/e -o name").expect_lines(&["configmap/e"]);
    context.kubectl("delete cm --field-selector metadata.name=f").expect_output("configmap \"f\" deleted");
    context.kubectl("run pod --image=a");
    context.kubectl("delete pod pod --now").expect_output("pod \"pod\" deleted");
    context.kubectl("run pod --image=a");
    context.kubectl("delete pod pod --grace-period=0 --force").expect_stderr("Immediate deletion does not wait");
    assert!(context.object("pods/pod").is_null());
    context.kubectl("create -f maps.yaml");
    context.kubectl("delete cm --all").expect_output("configmap \"f\" deleted");
    context.kubectl("get cm").expect_stderr("No resources found");
    context.kubectl_fails("delete cm").expect_stderr("resource(s) were provided, but no name was specified");
}

fn finalizers_hold_objects_back(context: &CaseContext<'_>) {
    context.file(
        "held.yaml",
        "apiVersion: clients.kopfd.dev/v1\nkind: Gauge\nmetadata: {name: held, finalizers: [example.com/hold]}\nspec: {}\n",
    );
    context.kubectl("create -f held.yaml");
    context.kubectl("delete gauge held --wait=false").expect_output("gauge.clients.kopfd.dev \"held\" deleted");
    let held = context.object("clients.kopfd.dev/v1/gauges/held");
    assert!(held["metadata"]["deletionTimestamp"].is_string(), "{held}");
    let waiting = context.start_kubectl("delete gauge held");
    waiting.until("deleted");
    context.kubectl_fails("delete gauge held --timeout=1s").expect_stderr("timed out waiting for the condition");
    context
        .kubectl("patch gauge held --type=json -p '[{\"op\":\"remove\",\"path\":\"/metadata/finalizers\"}]'")
        .expect_output("patched");
    waiting.finish();
    assert!(context.object("clients.kopfd.dev/v1/gauges/held").is_null());
}

/// Creates a config map and dependents of it, on both servers.
fn family(context: &CaseContext<'_>, owner: &str) {
    for server in context.servers().servers() {
        let map = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        let head = server.client.create(&context.path("configmaps"), &map(owner));
        for child in ["x", "y"] {
            let mut child = map(&format!("{owner}-{child}"));
            child["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": owner,
                "uid": head["metadata"]["uid"], "blockOwnerDeletion": true, "controller": true}]);
            server.client.create(&context.path("configmaps"), &child);
        }
    }
    // The real garbage collector uses a cache of the cluster, which is slightly behind.
    std::thread::sleep(std::time::Duration::from_secs(1));
}

fn dependents_follow_their_owners(context: &CaseContext<'_>) {
    for owner in ["back", "front", "orphaning"] {
        family(context, owner);
    }
    context.kubectl("delete cm back").expect_output("deleted");
    context.kubectl("wait --for=delete cm/back-x cm/back-y --timeout=30s");
    context.kubectl("delete cm front --cascade=foreground").expect_output("deleted");
    context.kubectl("get cm front-x front-y --ignore-not-found").expect_lines(&[]);
    context.kubectl("delete cm orphaning --cascade=orphan").expect_output("deleted");
    let orphan = context.object("configmaps/orphaning-x");
    assert!(orphan["metadata"]["ownerReferences"].is_null(), "{orphan}");
}

fn namespaces_end(context: &CaseContext<'_>) {
    let other = format!("{}-ending", context.namespace);
    context.kubectl(&format!("create namespace {other}"));
    context.file("maps.yaml", &maps(&["a", "b"]));
    context.file("gauge.yaml", "apiVersion: clients.kopfd.dev/v1\nkind: Gauge\nmetadata: {name: g}\nspec: {}\n");
    context
        .kubectl(&format!("create -f maps.yaml -f gauge.yaml --namespace={other}"))
        .expect_output("configmap/a created");
    context.kubectl(&format!("delete namespace {other} --timeout=60s")).expect_output("deleted");
    context.kubectl_fails(&format!("get namespace {other}")).expect_stderr("not found");
    context.kubectl(&format!("get cm,gauges --namespace={other}")).expect_stderr("No resources found");
}
