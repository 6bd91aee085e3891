//! `kubectl delete`.

use serde_json::json;

use crate::cases::{Case, cases};
use crate::stage::Stage;

pub(crate) const CASES: &[Case] =
    cases![Both: objects_are_deleted, finalizers_hold_objects_back, dependents_follow_their_owners, namespaces_end];

fn maps(names: &[&str]) -> String {
    let map = |name: &&str| format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, labels: {{set: {name}}}}}\n");
    names.iter().map(map).collect::<Vec<_>>().join("---\n")
}

fn objects_are_deleted(stage: &Stage<'_>) {
    stage.file("maps.yaml", &maps(&["a", "b", "c", "d", "e", "f"]));
    stage.file("b.yaml", &maps(&["b"]));
    stage.kubectl("create -f maps.yaml");
    stage.kubectl("delete cm a --dry-run=server").prints("configmap \"a\" deleted");
    assert!(stage.object("configmaps/a").is_object());
    stage.kubectl("delete cm a").prints("configmap \"a\" deleted");
    assert!(stage.object("configmaps/a").is_null());
    stage.kubectl("delete -f b.yaml --wait=true").prints("configmap \"b\" deleted");
    stage.kubectl_fails("delete cm b").complains("configmaps \"b\" not found");
    stage.kubectl("delete cm b --ignore-not-found").prints_lines(&[]);
    stage.kubectl("delete cm -l 'set in (c,d)'").prints("configmap \"c\" deleted").prints("configmap \"d\" deleted");
    stage.kubectl("delete cm/e -o name").prints_lines(&["configmap/e"]);
    stage.kubectl("delete cm --field-selector metadata.name=f").prints("configmap \"f\" deleted");
    stage.kubectl("run pod --image=a");
    stage.kubectl("delete pod pod --now").prints("pod \"pod\" deleted");
    stage.kubectl("run pod --image=a");
    stage.kubectl("delete pod pod --grace-period=0 --force").complains("Immediate deletion does not wait");
    assert!(stage.object("pods/pod").is_null());
    stage.kubectl("create -f maps.yaml");
    stage.kubectl("delete cm --all").prints("configmap \"f\" deleted");
    stage.kubectl("get cm").complains("No resources found");
    stage.kubectl_fails("delete cm").complains("resource(s) were provided, but no name was specified");
}

fn finalizers_hold_objects_back(stage: &Stage<'_>) {
    stage.file(
        "held.yaml",
        "apiVersion: clients.kopfd.dev/v1\nkind: Gauge\nmetadata: {name: held, finalizers: [example.com/hold]}\nspec: {}\n",
    );
    stage.kubectl("create -f held.yaml");
    stage.kubectl("delete gauge held --wait=false").prints("gauge.clients.kopfd.dev \"held\" deleted");
    let held = stage.object("clients.kopfd.dev/v1/gauges/held");
    assert!(held["metadata"]["deletionTimestamp"].is_string(), "{held}");
    let waiting = stage.start_kubectl("delete gauge held");
    waiting.until("deleted");
    stage.kubectl_fails("delete gauge held --timeout=1s").complains("timed out waiting for the condition");
    stage.kubectl("patch gauge held --type=json -p '[{\"op\":\"remove\",\"path\":\"/metadata/finalizers\"}]'").prints("patched");
    waiting.finish();
    assert!(stage.object("clients.kopfd.dev/v1/gauges/held").is_null());
}

/// Creates a config map and dependents of it, on both servers.
fn family(stage: &Stage<'_>, owner: &str) {
    for server in stage.world().servers() {
        let map = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        let head = server.client.create(&stage.path("configmaps"), &map(owner));
        for child in ["x", "y"] {
            let mut child = map(&format!("{owner}-{child}"));
            child["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": owner,
                "uid": head["metadata"]["uid"], "blockOwnerDeletion": true, "controller": true}]);
            server.client.create(&stage.path("configmaps"), &child);
        }
    }
    // The real garbage collector uses a cache of the cluster, which is slightly behind.
    std::thread::sleep(std::time::Duration::from_secs(1));
}

fn dependents_follow_their_owners(stage: &Stage<'_>) {
    for owner in ["back", "front", "orphaning"] {
        family(stage, owner);
    }
    stage.kubectl("delete cm back").prints("deleted");
    stage.kubectl("wait --for=delete cm/back-x cm/back-y --timeout=30s");
    stage.kubectl("delete cm front --cascade=foreground").prints("deleted");
    stage.kubectl("get cm front-x front-y --ignore-not-found").prints_lines(&[]);
    stage.kubectl("delete cm orphaning --cascade=orphan").prints("deleted");
    let orphan = stage.object("configmaps/orphaning-x");
    assert!(orphan["metadata"]["ownerReferences"].is_null(), "{orphan}");
}

fn namespaces_end(stage: &Stage<'_>) {
    let other = format!("{}-ending", stage.namespace);
    stage.kubectl(&format!("create namespace {other}"));
    stage.file("maps.yaml", &maps(&["a", "b"]));
    stage.file("gauge.yaml", "apiVersion: clients.kopfd.dev/v1\nkind: Gauge\nmetadata: {name: g}\nspec: {}\n");
    stage.kubectl(&format!("create -f maps.yaml -f gauge.yaml --namespace={other}")).prints("configmap/a created");
    stage.kubectl(&format!("delete namespace {other} --timeout=60s")).prints("deleted");
    stage.kubectl_fails(&format!("get namespace {other}")).complains("not found");
    stage.kubectl(&format!("get cm,gauges --namespace={other}")).complains("No resources found");
}
