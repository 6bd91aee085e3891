//! `kubectl patch`, `edit`, `replace`, `label`, `annotate`, `scale`.

use serde_json::json;

use crate::cases::{Case, cases};
use crate::stage::Stage;

pub(crate) const CASES: &[Case] = cases![Both:
    objects_are_patched_in_every_way,
    objects_are_edited,
    objects_are_replaced,
    labels_and_annotations_are_set,
    objects_are_scaled,
];

const GAUGE: &str = "apiVersion: clients.kopfd.dev/v1\nkind: Gauge\nmetadata: {name: dial}\nspec: {size: 5, replicas: 1, notes: {a: x}}\n";
const MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: map, labels: {tier: a}}\ndata: {a: one, b: two}\n";

fn furnish(stage: &Stage<'_>) {
    stage.file("gauge.yaml", GAUGE);
    stage.file("map.yaml", MAP);
    stage.kubectl("create -f gauge.yaml -f map.yaml");
}

fn objects_are_patched_in_every_way(stage: &Stage<'_>) {
    furnish(stage);
    let gauge = "clients.kopfd.dev/v1/gauges/dial";
    stage
        .kubectl("patch gauge dial --type=merge -p '{\"spec\":{\"size\":6,\"notes\":{\"a\":null,\"b\":\"y\"}}}'")
        .prints("gauge.clients.kopfd.dev/dial patched");
    assert_eq!(stage.object(gauge)["spec"], json!({"size": 6, "replicas": 1, "notes": {"b": "y"}}));
    stage.kubectl("patch gauge dial --type=merge -p '{\"spec\":{\"size\":6}}'").prints("gauge.clients.kopfd.dev/dial patched (no change)");
    stage.kubectl("patch gauge dial --type=json -p '[{\"op\":\"test\",\"path\":\"/spec/size\",\"value\":6},{\"op\":\"replace\",\"path\":\"/spec/size\",\"value\":7}]'").prints("patched");
    stage
        .kubectl_fails("patch gauge dial --type=json -p '[{\"op\":\"test\",\"path\":\"/spec/size\",\"value\":1}]'")
        .complains("the server rejected our request");
    stage
        .kubectl("patch gauge dial --subresource=status --type=merge -p '{\"status\":{\"phase\":\"Done\"},\"spec\":{\"size\":99}}'")
        .prints("patched");
    let patched = stage.object(gauge);
    assert_eq!((&patched["status"]["phase"], &patched["spec"]["size"]), (&json!("Done"), &json!(7)));
    stage.kubectl("patch gauge dial --subresource=scale --type=merge -p '{\"spec\":{\"replicas\":3}}'").prints("patched");
    assert_eq!(stage.object(gauge)["spec"]["replicas"], 3);
    stage
        .kubectl_fails("patch gauge dial --type=strategic -p '{\"spec\":{\"size\":8}}'")
        .complains("application/strategic-merge-patch+json is not supported");
    stage.kubectl_fails("patch gauge dial --type=merge -p '{\"spec\":{\"size\":-1}}'").complains("spec.size");
    stage.kubectl_fails("patch gauge dial --type=merge -p 'nonsense'").complains("cannot unmarshal string");
    stage.kubectl_fails("patch gauge absent --type=merge -p '{}'").complains("NotFound");
    stage.kubectl("patch gauge dial --type=merge --dry-run=server -p '{\"spec\":{\"size\":8}}' -o jsonpath={.spec.size}").prints("8");
    stage.kubectl("patch gauge dial --type=merge --dry-run=client -p '{\"spec\":{\"size\":8}}' -o jsonpath={.spec.size}").prints("8");
    assert_eq!(stage.object(gauge)["spec"]["size"], 7);
    stage.file("patch.yaml", "data: {c: three}\n");
    stage.kubectl("patch configmap map --patch-file=patch.yaml").prints("configmap/map patched");
    stage.kubectl("patch -f map.yaml -p '{\"data\":{\"a\":null}}'").prints("configmap/map patched");
    assert_eq!(stage.object("configmaps/map")["data"], json!({"b": "two", "c": "three"}));
}

fn objects_are_edited(stage: &Stage<'_>) {
    furnish(stage);
    stage.file("editor.sed", "s/size: 5/size: 15/\n");
    stage.kubectl("edit gauge dial").prints("gauge.clients.kopfd.dev/dial edited");
    assert_eq!(stage.object("clients.kopfd.dev/v1/gauges/dial")["spec"]["size"], 15);
    stage.kubectl("edit gauge dial").complains("Edit cancelled, no changes made.");
    stage.file("editor.sed", "s/a: one/a: other/\n");
    stage.kubectl("edit -f map.yaml").prints("configmap/map edited");
    stage.file("editor.sed", "s/\"b\": \"two\"/\"b\": \"json\"/\n");
    stage.kubectl("edit configmap map -o json").prints("\"b\": \"json\"");
    assert_eq!(stage.object("configmaps/map")["data"], json!({"a": "other", "b": "json"}));
    stage.kubectl("patch gauge dial --subresource=status --type=merge -p '{\"status\":{\"phase\":\"Going\"}}'");
    stage.file("editor.sed", "s/phase: Going/phase: Gone/\n");
    stage.kubectl("edit gauge dial --subresource=status").prints("edited");
    assert_eq!(stage.object("clients.kopfd.dev/v1/gauges/dial")["status"]["phase"], "Gone");
    stage.file("editor.sed", "s/size: 15$/size: 1500/\n");
    stage.kubectl_fails("edit gauge dial").complains("\"dial\" is invalid").complains("no valid changes were saved");
    stage.file("editor.sed", "s/name: created/name: created/\ns/a: one/a: fresh/\n");
    stage.file("fresh.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: created}\ndata:\n  a: one\n");
    stage.kubectl("apply -f fresh.yaml");
    stage.kubectl("apply edit-last-applied configmap created").prints("configmap/created edited");
    stage.object("configmaps/created");
}

fn objects_are_replaced(stage: &Stage<'_>) {
    furnish(stage);
    stage.file("map.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: map}\ndata: {z: last}\n");
    stage.kubectl("replace -f map.yaml").prints("configmap/map replaced");
    let replaced = stage.object("configmaps/map");
    assert_eq!((&replaced["data"], &replaced["metadata"]["labels"]), (&json!({"z": "last"}), &json!(null)));
    stage.file("gauge.yaml", &GAUGE.replace("size: 5", "size: 50"));
    stage.kubectl("replace -f gauge.yaml").prints("gauge.clients.kopfd.dev/dial replaced");
    assert_eq!(stage.object("clients.kopfd.dev/v1/gauges/dial")["spec"]["size"], 50);
    let before = stage.object("configmaps/map")["metadata"]["uid"].clone();
    stage.kubectl("replace --force -f map.yaml").prints("configmap/map replaced");
    assert_ne!(stage.object("configmaps/map")["metadata"]["uid"], before);
    stage.file("stale.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: map, resourceVersion: '1'}\ndata: {z: stale}\n");
    stage.kubectl_fails("replace -f stale.yaml").complains("the object has been modified");
    stage.file("absent.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: absent}\n");
    stage.kubectl_fails("replace -f absent.yaml").complains("NotFound");
    stage.file("status.yaml", &format!("{GAUGE}status: {{phase: Replaced}}\n"));
    stage.kubectl("replace --subresource=status -f status.yaml").prints("replaced");
    assert_eq!(stage.object("clients.kopfd.dev/v1/gauges/dial")["status"]["phase"], "Replaced");
    stage.kubectl("replace -f map.yaml --dry-run=server").prints("replaced (server dry run)");
}

fn labels_and_annotations_are_set(stage: &Stage<'_>) {
    furnish(stage);
    stage.kubectl("label gauge dial colour=red").prints("gauge.clients.kopfd.dev/dial labeled");
    stage.kubectl_fails("label gauge dial colour=blue").complains("already has a value");
    stage.kubectl("label gauge dial colour=blue --overwrite").prints("labeled");
    stage.kubectl("label gauge dial colour=blue").prints("not labeled");
    assert_eq!(stage.object("clients.kopfd.dev/v1/gauges/dial")["metadata"]["labels"], json!({"colour": "blue"}));
    stage.kubectl("label gauge dial colour-").prints("unlabeled");
    // kubectl prints several labels in any order.
    stage.kubectl("label cm map --list").prints_lines(&["tier=a"]);
    stage.kubectl("label cm -l tier=a shelf=upper").prints("configmap/map labeled");
    stage.kubectl_fails("label cm map 'bad key=1'").complains("invalid");
    stage.kubectl("annotate gauge --all example.com/why=because").prints("gauge.clients.kopfd.dev/dial annotated");
    stage.kubectl("annotate gauge dial example.com/why- --dry-run=server").prints("annotated");
    assert_eq!(stage.object("clients.kopfd.dev/v1/gauges/dial")["metadata"]["annotations"], json!({"example.com/why": "because"}));
    stage.kubectl("annotate -f map.yaml a=b --resource-version=1 --overwrite --dry-run=client").prints("annotated (dry run)");
    stage.kubectl_fails("annotate cm map a=b --resource-version=1").complains("the object has been modified");
}

fn objects_are_scaled(stage: &Stage<'_>) {
    furnish(stage);
    stage.file("web.yaml", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  selector: {matchLabels: {app: web}}\n  template:\n    metadata: {labels: {app: web}}\n    spec: {containers: [{name: main, image: a}]}\n");
    stage.kubectl("create -f web.yaml");
    stage.kubectl("scale gauge dial --replicas=4").prints("gauge.clients.kopfd.dev/dial scaled");
    assert_eq!(stage.object("clients.kopfd.dev/v1/gauges/dial")["spec"]["replicas"], 4);
    stage.kubectl("scale deployment web --replicas=3").prints("deployment.apps/web scaled");
    stage.kubectl_fails("scale deployment web --current-replicas=9 --replicas=1").complains("Expected replicas to be 9, was 3");
    stage.kubectl("scale deployment web --current-replicas=3 --replicas=1").prints("scaled");
    assert_eq!(stage.object("apps/v1/deployments/web")["spec"]["replicas"], 1);
    stage.kubectl_fails("scale configmap map --replicas=1").complains("");
    stage.kubectl("scale -f web.yaml --replicas=0 --dry-run=server").prints("scaled (server dry run)");
    stage.kubectl("scale --all deployment --replicas=2").prints("deployment.apps/web scaled");
    stage.kubectl("get deployment web --subresource=scale -o jsonpath={.spec.replicas},{.status.selector}").prints("2,app=web");
}
