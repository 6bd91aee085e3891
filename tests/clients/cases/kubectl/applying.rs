//! `kubectl apply`, client-side and server-side, and `kubectl diff`.

use serde_json::json;

use crate::cases::{Case, cases};
use crate::stage::Stage;

pub(crate) const CASES: &[Case] = cases![Both:
    what_is_applied_again_is_merged,
    managers_of_fields_are_kept_apart,
    what_is_not_applied_any_more_is_pruned,
    built_in_lists_are_merged_by_their_keys,
    differences_are_shown_before_they_are_applied,
];

fn gauge(spec: &str) -> String {
    format!("apiVersion: clients.kopfd.dev/v1\nkind: Gauge\nmetadata: {{name: dial, labels: {{a: b}}}}\nspec: {spec}\n")
}

fn what_is_applied_again_is_merged(stage: &Stage<'_>) {
    stage.file("gauge.yaml", &gauge("{size: 5, mode: plain, notes: {a: first, b: second}}"));
    stage.kubectl("apply -f gauge.yaml --dry-run=client").prints("gauge.clients.kopfd.dev/dial created (dry run)");
    stage.kubectl("apply -f gauge.yaml --dry-run=server").prints("gauge.clients.kopfd.dev/dial created (server dry run)");
    assert!(stage.object("clients.kopfd.dev/v1/gauges/dial").is_null());
    stage.kubectl("apply -f gauge.yaml").prints("gauge.clients.kopfd.dev/dial created");
    let first = stage.object("clients.kopfd.dev/v1/gauges/dial");
    stage.kubectl("apply -f gauge.yaml").prints("gauge.clients.kopfd.dev/dial unchanged");
    assert_eq!(stage.object("clients.kopfd.dev/v1/gauges/dial")["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
    stage.kubectl("patch gauge dial --type=merge -p '{\"spec\":{\"replicas\":2,\"notes\":{\"c\":\"third\"}}}'").prints("patched");
    stage.file("gauge.yaml", &gauge("{size: 6, notes: {a: first}}"));
    stage.kubectl("apply -f gauge.yaml --dry-run=server -o yaml").prints("  size: 6\n");
    stage.kubectl("apply -f gauge.yaml").prints("gauge.clients.kopfd.dev/dial configured");
    let merged = stage.object("clients.kopfd.dev/v1/gauges/dial");
    assert_eq!(merged["spec"], json!({"size": 6, "replicas": 2, "notes": {"a": "first", "c": "third"}}));
    stage.kubectl("apply view-last-applied gauge dial").prints("size: 6");
    stage.kubectl("apply set-last-applied -f gauge.yaml").prints("gauge.clients.kopfd.dev/dial configured");
    stage.kubectl_with("apply -f - -o name", &gauge("{size: 7}")).prints_lines(&["gauge.clients.kopfd.dev/dial"]);
    stage.kubectl("create configmap plain --from-literal=a=1 --dry-run=client -o yaml");
    stage.file("plain.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: plain}\ndata: {a: '1'}\n");
    stage.kubectl("create -f plain.yaml");
    stage.kubectl("apply -f plain.yaml").complains("missing the kubectl.kubernetes.io/last-applied-configuration annotation");
    stage.object("configmaps/plain");
}

fn managers_of_fields_are_kept_apart(stage: &Stage<'_>) {
    stage.file("gauge.yaml", &gauge("{size: 5, marks: [{name: low, value: 1}], tags: [low]}"));
    stage.file("other.yaml", &gauge("{size: 9, marks: [{name: top, value: 8}], tags: [top]}"));
    stage.kubectl("apply --server-side -f gauge.yaml").prints("gauge.clients.kopfd.dev/dial serverside-applied");
    stage.kubectl("apply --server-side -f gauge.yaml --dry-run=server").prints("serverside-applied (server dry run)");
    stage.object("clients.kopfd.dev/v1/gauges/dial");
    stage
        .kubectl_fails("apply --server-side --field-manager=other -f other.yaml")
        .complains("Apply failed with 1 conflict: conflict with \"kubectl\": .spec.size")
        .complains("--force-conflicts");
    stage.kubectl("apply --server-side --field-manager=other --force-conflicts -f other.yaml").prints("serverside-applied");
    let shared = stage.object("clients.kopfd.dev/v1/gauges/dial");
    assert_eq!(shared["spec"]["size"], 9);
    assert_eq!(shared["spec"]["marks"].as_array().map(Vec::len), Some(2), "{shared}");
    stage.file("gauge.yaml", &gauge("{tags: [low]}"));
    stage.kubectl("apply --server-side -f gauge.yaml").prints("serverside-applied");
    assert_eq!(stage.object("clients.kopfd.dev/v1/gauges/dial")["spec"]["marks"], json!([{"name": "top", "value": 8}]));
    stage.kubectl("get gauge dial -o jsonpath='{.metadata.managedFields[?(@.manager==\"other\")].operation}'").prints("Apply");
    stage.file("undeclared.yaml", &gauge("{nothing: 1}"));
    stage.kubectl_fails("apply --server-side -f undeclared.yaml").complains("field not declared in schema");

    // Client-side applied fields are migrated to server-side apply.
    stage.file("moved.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: moved}\ndata: {a: '1', b: '2'}\n");
    stage.kubectl("apply -f moved.yaml").prints("created");
    stage.file("moved.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: moved}\ndata: {a: '1'}\n");
    stage.kubectl("apply --server-side -f moved.yaml").prints("configmap/moved serverside-applied");
    assert_eq!(stage.object("configmaps/moved")["data"], json!({"a": "1"}));
    stage.kubectl_fails("apply --server-side --dry-run=client -f moved.yaml").complains("");
}

fn what_is_not_applied_any_more_is_pruned(stage: &Stage<'_>) {
    let map = |name: &str| format!("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, labels: {{set: pruned}}}}\n");
    stage.file("set/all.yaml", &format!("{}{}", map("kept"), map("dropped")));
    let allow = "--prune-allowlist=core/v1/ConfigMap";
    stage.kubectl(&format!("apply -f set --prune -l set=pruned {allow}")).prints("configmap/dropped created");
    stage.kubectl("create configmap foreign --from-literal=a=1");
    stage.kubectl("label cm foreign set=pruned");
    stage.file("set/all.yaml", &map("kept"));
    stage.kubectl(&format!("apply -f set --prune -l set=pruned {allow} --dry-run=client")).prints("configmap/dropped pruned (dry run)");
    stage.kubectl(&format!("apply -f set --prune -l set=pruned {allow}")).prints("configmap/dropped pruned");
    // Objects that were not applied are not pruned.
    assert!(stage.object("configmaps/dropped").is_null() && stage.object("configmaps/foreign").is_object());

    stage.file(
        "kust/kustomization.yaml",
        "namePrefix: k-\nresources: [../set/all.yaml]\nconfigMapGenerator: [{name: gen, literals: [a=1]}]\n",
    );
    stage.file("kust/base.yaml", "");
    stage.file(
        "kust2/kustomization.yaml",
        "resources: [map.yaml]\nnamePrefix: k-\ncommonAnnotations: {made: here}\nconfigMapGenerator: [{name: gen, literals: [a=1]}]\n",
    );
    stage.file("kust2/map.yaml", &map("mapped"));
    stage.kubectl("kustomize kust2").prints("name: k-mapped");
    stage.kubectl("apply -k kust2").prints("configmap/k-mapped created").prints("configmap/k-gen-");
    assert_eq!(stage.object("configmaps/k-mapped")["metadata"]["annotations"]["made"], "here");
    stage.kubectl("get -k kust2 -o name").prints("configmap/k-mapped");
    stage.kubectl("delete -k kust2").prints("deleted");
}

fn deployment(containers: &str) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: web}}\nspec:\n  selector: {{matchLabels: {{app: web}}}}\n  template:\n    \
         metadata: {{labels: {{app: web}}}}\n    spec:\n      containers: {containers}\n"
    )
}

fn built_in_lists_are_merged_by_their_keys(stage: &Stage<'_>) {
    let names = |object: &serde_json::Value| -> Vec<String> {
        let containers = object["spec"]["template"]["spec"]["containers"].as_array().cloned().unwrap_or_default();
        containers.iter().filter_map(|one| one["name"].as_str().map(str::to_owned)).collect()
    };
    let main =
        "{name: main, image: 'example.com/web:1', env: [{name: A, value: '1'}, {name: B, value: '2'}], ports: [{containerPort: 80}]}";
    stage.file("web.yaml", &deployment(&format!("[{main}, {{name: aside, image: 'example.com/aside:1'}}]")));
    stage.kubectl("apply -f web.yaml").prints("deployment.apps/web created");
    stage
        .kubectl("patch deployment web -p '{\"spec\":{\"template\":{\"spec\":{\"containers\":[{\"name\":\"third\",\"image\":\"c\"}]}}}}'")
        .prints("patched");
    assert_eq!(names(&stage.object("apps/v1/deployments/web")), ["third", "main", "aside"]);
    let changed = "{name: main, image: 'example.com/web:2', env: [{name: B, value: '3'}], ports: [{containerPort: 80}]}";
    stage.file("web.yaml", &deployment(&format!("[{changed}]")));
    stage.kubectl("apply -f web.yaml").prints("deployment.apps/web configured");
    let web = stage.object("apps/v1/deployments/web");
    let mut left = names(&web);
    left.sort();
    assert_eq!(left, ["main", "third"]);
    stage.file("service.yaml", "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {selector: {app: web}, ports: [{name: a, port: 80}, {name: b, port: 81}]}\n");
    stage.kubectl("apply -f service.yaml").prints("service/web created");
    stage.file(
        "service.yaml",
        "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {selector: {app: web}, ports: [{name: b, port: 81}]}\n",
    );
    stage.kubectl("apply -f service.yaml").prints("service/web configured");
    assert_eq!(stage.object("services/web")["spec"]["ports"].as_array().map(Vec::len), Some(1));
    stage.kubectl("apply --server-side --force-conflicts -f web.yaml").prints("serverside-applied");
    stage.object("apps/v1/deployments/web");
}

fn differences_are_shown_before_they_are_applied(stage: &Stage<'_>) {
    stage.file("gauge.yaml", &gauge("{size: 5}"));
    stage.kubectl_fails("diff -f gauge.yaml").prints("+  size: 5");
    stage.kubectl("apply -f gauge.yaml");
    stage.kubectl("diff -f gauge.yaml").prints_lines(&[]);
    stage.file("gauge.yaml", &gauge("{size: 8}"));
    stage.kubectl_fails("diff -f gauge.yaml").prints("-  size: 5").prints("+  size: 8");
    stage.kubectl_fails("diff --server-side --force-conflicts -f gauge.yaml").prints("+  size: 8");
    assert_eq!(stage.object("clients.kopfd.dev/v1/gauges/dial")["spec"]["size"], 5);
}
