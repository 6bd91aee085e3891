//! `kubectl patch`, `edit`, `replace`, `label`, `annotate`, `scale`.

use serde_json::json;

use crate::cases::{Case, cases};
use crate::context::CaseContext;

pub(crate) const CASES: &[Case] = cases![Both:
    objects_are_patched_in_every_way,
    objects_are_edited,
    objects_are_replaced,
    labels_and_annotations_are_set,
    objects_are_scaled,
];

const GAUGE: &str = "apiVersion: clients.kopfd.dev/v1\nkind: Gauge\nmetadata: {name: dial}\nspec: {size: 5, replicas: 1, notes: {a: x}}\n";
const MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: map, labels: {tier: a}}\ndata: {a: one, b: two}\n";

fn furnish(context: &CaseContext<'_>) {
    context.file("gauge.yaml", GAUGE);
    context.file("map.yaml", MAP);
    context.kubectl("create -f gauge.yaml -f map.yaml");
}

fn objects_are_patched_in_every_way(context: &CaseContext<'_>) {
    furnish(context);
    let gauge = "clients.kopfd.dev/v1/gauges/dial";
    context
        .kubectl("patch gauge dial --type=merge -p '{\"spec\":{\"size\":6,\"notes\":{\"a\":null,\"b\":\"y\"}}}'")
        .expect_output("gauge.clients.kopfd.dev/dial patched");
    assert_eq!(context.object(gauge)["spec"], json!({"size": 6, "replicas": 1, "notes": {"b": "y"}}));
    context
        .kubectl("patch gauge dial --type=merge -p '{\"spec\":{\"size\":6}}'")
        .expect_output("gauge.clients.kopfd.dev/dial patched (no change)");
    context.kubectl("patch gauge dial --type=json -p '[{\"op\":\"test\",\"path\":\"/spec/size\",\"value\":6},{\"op\":\"replace\",\"path\":\"/spec/size\",\"value\":7}]'").expect_output("patched");
    context
        .kubectl_fails("patch gauge dial --type=json -p '[{\"op\":\"test\",\"path\":\"/spec/size\",\"value\":1}]'")
        .expect_stderr("the server rejected our request");
    context
        .kubectl("patch gauge dial --subresource=status --type=merge -p '{\"status\":{\"phase\":\"Done\"},\"spec\":{\"size\":99}}'")
        .expect_output("patched");
    let patched = context.object(gauge);
    assert_eq!((&patched["status"]["phase"], &patched["spec"]["size"]), (&json!("Done"), &json!(7)));
    context
        .kubectl("patch gauge dial --subresource=scale --type=merge -p '{\"spec\":{\"replicas\":3}}'")
        .expect_output("patched");
    assert_eq!(context.object(gauge)["spec"]["replicas"], 3);
    context
        .kubectl_fails("patch gauge dial --type=strategic -p '{\"spec\":{\"size\":8}}'")
        .expect_stderr("application/strategic-merge-patch+json is not supported");
    context.kubectl_fails("patch gauge dial --type=merge -p '{\"spec\":{\"size\":-1}}'").expect_stderr("spec.size");
    context.kubectl_fails("patch gauge dial --type=merge -p 'nonsense'").expect_stderr("cannot unmarshal string");
    context.kubectl_fails("patch gauge absent --type=merge -p '{}'").expect_stderr("NotFound");
    context
        .kubectl("patch gauge dial --type=merge --dry-run=server -p '{\"spec\":{\"size\":8}}' -o jsonpath={.spec.size}")
        .expect_output("8");
    context
        .kubectl("patch gauge dial --type=merge --dry-run=client -p '{\"spec\":{\"size\":8}}' -o jsonpath={.spec.size}")
        .expect_output("8");
    assert_eq!(context.object(gauge)["spec"]["size"], 7);
    context.file("patch.yaml", "data: {c: three}\n");
    context.kubectl("patch configmap map --patch-file=patch.yaml").expect_output("configmap/map patched");
    context.kubectl("patch -f map.yaml -p '{\"data\":{\"a\":null}}'").expect_output("configmap/map patched");
    assert_eq!(context.object("configmaps/map")["data"], json!({"b": "two", "c": "three"}));
}

fn objects_are_edited(context: &CaseContext<'_>) {
    furnish(context);
    context.file("editor.sed", "s/size: 5/size: 15/\n");
    context.kubectl("edit gauge dial").expect_output("gauge.clients.kopfd.dev/dial edited");
    assert_eq!(context.object("clients.kopfd.dev/v1/gauges/dial")["spec"]["size"], 15);
    context.kubectl("edit gauge dial").expect_stderr("Edit cancelled, no changes made.");
    context.file("editor.sed", "s/a: one/a: other/\n");
    context.kubectl("edit -f map.yaml").expect_output("configmap/map edited");
    context.file("editor.sed", "s/\"b\": \"two\"/\"b\": \"json\"/\n");
    context.kubectl("edit configmap map -o json").expect_output("\"b\": \"json\"");
    assert_eq!(context.object("configmaps/map")["data"], json!({"a": "other", "b": "json"}));
    context.kubectl("patch gauge dial --subresource=status --type=merge -p '{\"status\":{\"phase\":\"Going\"}}'");
    context.file("editor.sed", "s/phase: Going/phase: Gone/\n");
    context.kubectl("edit gauge dial --subresource=status").expect_output("edited");
    assert_eq!(context.object("clients.kopfd.dev/v1/gauges/dial")["status"]["phase"], "Gone");
    context.file("editor.sed", "s/size: 15$/size: 1500/\n");
    context
        .kubectl_fails("edit gauge dial")
        .expect_stderr("\"dial\" is invalid")
        .expect_stderr("no valid changes were saved");
    context.file("editor.sed", "s/name: created/name: created/\ns/a: one/a: fresh/\n");
    context.file("fresh.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: created}\ndata:\n  a: one\n");
    context.kubectl("apply -f fresh.yaml");
    context.kubectl("apply edit-last-applied configmap created").expect_output("configmap/created edited");
    context.object("configmaps/created");
}

fn objects_are_replaced(context: &CaseContext<'_>) {
    furnish(context);
    context.file("map.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: map}\ndata: {z: last}\n");
    context.kubectl("replace -f map.yaml").expect_output("configmap/map replaced");
    let replaced = context.object("configmaps/map");
    assert_eq!((&replaced["data"], &replaced["metadata"]["labels"]), (&json!({"z": "last"}), &json!(null)));
    context.file("gauge.yaml", &GAUGE.replace("size: 5", "size: 50"));
    context.kubectl("replace -f gauge.yaml").expect_output("gauge.clients.kopfd.dev/dial replaced");
    assert_eq!(context.object("clients.kopfd.dev/v1/gauges/dial")["spec"]["size"], 50);
    let before = context.object("configmaps/map")["metadata"]["uid"].clone();
    context.kubectl("replace --force -f map.yaml").expect_output("configmap/map replaced");
    assert_ne!(context.object("configmaps/map")["metadata"]["uid"], before);
    context.file(
        "stale.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: map, resourceVersion: '1'}\ndata: {z: stale}\n",
    );
    context.kubectl_fails("replace -f stale.yaml").expect_stderr("the object has been modified");
    context.file("absent.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: absent}\n");
    context.kubectl_fails("replace -f absent.yaml").expect_stderr("NotFound");
    context.file("status.yaml", &format!("{GAUGE}status: {{phase: Replaced}}\n"));
    context.kubectl("replace --subresource=status -f status.yaml").expect_output("replaced");
    assert_eq!(context.object("clients.kopfd.dev/v1/gauges/dial")["status"]["phase"], "Replaced");
    context.kubectl("replace -f map.yaml --dry-run=server").expect_output("replaced (server dry run)");
}

fn labels_and_annotations_are_set(context: &CaseContext<'_>) {
    furnish(context);
    context.kubectl("label gauge dial colour=red").expect_output("gauge.clients.kopfd.dev/dial labeled");
    context.kubectl_fails("label gauge dial colour=blue").expect_stderr("already has a value");
    context.kubectl("label gauge dial colour=blue --overwrite").expect_output("labeled");
    context.kubectl("label gauge dial colour=blue").expect_output("not labeled");
    assert_eq!(context.object("clients.kopfd.dev/v1/gauges/dial")["metadata"]["labels"], json!({"colour": "blue"}));
    context.kubectl("label gauge dial colour-").expect_output("unlabeled");
    // kubectl prints several labels in any order.
    context.kubectl("label cm map --list").expect_lines(&["tier=a"]);
    context.kubectl("label cm -l tier=a shelf=upper").expect_output("configmap/map labeled");
    context.kubectl_fails("label cm map 'bad key=1'").expect_stderr("invalid");
    context
        .kubectl("annotate gauge --all example.com/why=because")
        .expect_output("gauge.clients.kopfd.dev/dial annotated");
    context.kubectl("annotate gauge dial example.com/why- --dry-run=server").expect_output("annotated");
    assert_eq!(
        context.object("clients.kopfd.dev/v1/gauges/dial")["metadata"]["annotations"],
        json!({"example.com/why": "because"})
    );
    context
        .kubectl("annotate -f map.yaml a=b --resource-version=1 --overwrite --dry-run=client")
        .expect_output("annotated (dry run)");
    context.kubectl_fails("annotate cm map a=b --resource-version=1").expect_stderr("the object has been modified");
}

fn objects_are_scaled(context: &CaseContext<'_>) {
    furnish(context);
    context.file("web.yaml", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  selector: {matchLabels: {app: web}}\n  template:\n    metadata: {labels: {app: web}}\n    spec: {containers: [{name: main, image: a}]}\n");
    context.kubectl("create -f web.yaml");
    context.kubectl("scale gauge dial --replicas=4").expect_output("gauge.clients.kopfd.dev/dial scaled");
    assert_eq!(context.object("clients.kopfd.dev/v1/gauges/dial")["spec"]["replicas"], 4);
    context.kubectl("scale deployment web --replicas=3").expect_output("deployment.apps/web scaled");
    context
        .kubectl_fails("scale deployment web --current-replicas=9 --replicas=1")
        .expect_stderr("Expected replicas to be 9, was 3");
    context.kubectl("scale deployment web --current-replicas=3 --replicas=1").expect_output("scaled");
    assert_eq!(context.object("apps/v1/deployments/web")["spec"]["replicas"], 1);
    context.kubectl_fails("scale configmap map --replicas=1").expect_stderr("");
    context.kubectl("scale -f web.yaml --replicas=0 --dry-run=server").expect_output("scaled (server dry run)");
    context.kubectl("scale --all deployment --replicas=2").expect_output("deployment.apps/web scaled");
    context
        .kubectl("get deployment web --subresource=scale -o jsonpath={.spec.replicas},{.status.selector}")
        .expect_output("2,app=web");
}
