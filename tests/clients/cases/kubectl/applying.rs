//! `kubectl apply`, client-side and server-side, and `kubectl diff`.

use serde_json::json;

use crate::cases::{Case, cases};
use crate::context::CaseContext;

pub(crate) const CASES: &[Case] = cases![Both:
    repeated_applies_are_merged,
    managers_of_fields_are_kept_apart,
    fields_that_are_not_applied_again_are_pruned,
    built_in_lists_are_merged_by_their_keys,
    differences_are_shown_before_they_are_applied,
];

fn gauge(spec: &str) -> String {
    format!("apiVersion: clients.kopfd.dev/v1\nkind: Gauge\nmetadata: {{name: dial, labels: {{a: b}}}}\nspec: {spec}\n")
}

fn repeated_applies_are_merged(context: &CaseContext<'_>) {
    context.file("gauge.yaml", &gauge("{size: 5, mode: plain, notes: {a: first, b: second}}"));
    context
        .kubectl("apply -f gauge.yaml --dry-run=client")
        .expect_output("gauge.clients.kopfd.dev/dial created (dry run)");
    context
        .kubectl("apply -f gauge.yaml --dry-run=server")
        .expect_output("gauge.clients.kopfd.dev/dial created (server dry run)");
    assert!(context.object("clients.kopfd.dev/v1/gauges/dial").is_null());
    context.kubectl("apply -f gauge.yaml").expect_output("gauge.clients.kopfd.dev/dial created");
    let first = context.object("clients.kopfd.dev/v1/gauges/dial");
    context.kubectl("apply -f gauge.yaml").expect_output("gauge.clients.kopfd.dev/dial unchanged");
    assert_eq!(
        context.object("clients.kopfd.dev/v1/gauges/dial")["metadata"]["resourceVersion"],
        first["metadata"]["resourceVersion"]
    );
    context
        .kubectl("patch gauge dial --type=merge -p '{\"spec\":{\"replicas\":2,\"notes\":{\"c\":\"third\"}}}'")
        .expect_output("patched");
    context.file("gauge.yaml", &gauge("{size: 6, notes: {a: first}}"));
    context.kubectl("apply -f gauge.yaml --dry-run=server -o yaml").expect_output("  size: 6\n");
    context.kubectl("apply -f gauge.yaml").expect_output("gauge.clients.kopfd.dev/dial configured");
    let merged = context.object("clients.kopfd.dev/v1/gauges/dial");
    assert_eq!(merged["spec"], json!({"size": 6, "replicas": 2, "notes": {"a": "first", "c": "third"}}));
    context.kubectl("apply view-last-applied gauge dial").expect_output("size: 6");
    context.kubectl("apply set-last-applied -f gauge.yaml").expect_output("gauge.clients.kopfd.dev/dial configured");
    context.kubectl_with("apply -f - -o name", &gauge("{size: 7}")).expect_lines(&["gauge.clients.kopfd.dev/dial"]);
    context.kubectl("create configmap plain --from-literal=a=1 --dry-run=client -o yaml");
    context.file("plain.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: plain}\ndata: {a: '1'}\n");
    context.kubectl("create -f plain.yaml");
    context
        .kubectl("apply -f plain.yaml")
        .expect_stderr("missing the kubectl.kubernetes.io/last-applied-configuration annotation");
    context.object("configmaps/plain");
}

fn managers_of_fields_are_kept_apart(context: &CaseContext<'_>) {
    context.file("gauge.yaml", &gauge("{size: 5, marks: [{name: low, value: 1}], tags: [low]}"));
    context.file("other.yaml", &gauge("{size: 9, marks: [{name: top, value: 8}], tags: [top]}"));
    context
        .kubectl("apply --server-side -f gauge.yaml")
        .expect_output("gauge.clients.kopfd.dev/dial serverside-applied");
    context
        .kubectl("apply --server-side -f gauge.yaml --dry-run=server")
        .expect_output("serverside-applied (server dry run)");
    context.object("clients.kopfd.dev/v1/gauges/dial");
    context
        .kubectl_fails("apply --server-side --field-manager=other -f other.yaml")
        .expect_stderr("Apply failed with 1 conflict: conflict with \"kubectl\": .spec.size")
        .expect_stderr("--force-conflicts");
    context
        .kubectl("apply --server-side --field-manager=other --force-conflicts -f other.yaml")
        .expect_output("serverside-applied");
    let shared = context.object("clients.kopfd.dev/v1/gauges/dial");
    assert_eq!(shared["spec"]["size"], 9);
    assert_eq!(shared["spec"]["marks"].as_array().map(Vec::len), Some(2), "{shared}");
    context.file("gauge.yaml", &gauge("{tags: [low]}"));
    context.kubectl("apply --server-side -f gauge.yaml").expect_output("serverside-applied");
    assert_eq!(
        context.object("clients.kopfd.dev/v1/gauges/dial")["spec"]["marks"],
        json!([{"name": "top", "value": 8}])
    );
    context
        .kubectl("get gauge dial -o jsonpath='{.metadata.managedFields[?(@.manager==\"other\")].operation}'")
        .expect_output("Apply");
    context.file("undeclared.yaml", &gauge("{nothing: 1}"));
    context.kubectl_fails("apply --server-side -f undeclared.yaml").expect_stderr("field not declared in schema");

    // Client-side applied fields are migrated to server-side apply.
    context.file("moved.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: moved}\ndata: {a: '1', b: '2'}\n");
    context.kubectl("apply -f moved.yaml").expect_output("created");
    context.file("moved.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: moved}\ndata: {a: '1'}\n");
    context.kubectl("apply --server-side -f moved.yaml").expect_output("configmap/moved serverside-applied");
    assert_eq!(context.object("configmaps/moved")["data"], json!({"a": "1"}));
    context.kubectl_fails("apply --server-side --dry-run=client -f moved.yaml").expect_stderr("");
}

fn fields_that_are_not_applied_again_are_pruned(context: &CaseContext<'_>) {
    let map = |name: &str| {
        format!("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, labels: {{set: pruned}}}}\n")
    };
    context.file("set/all.yaml", &format!("{}{}", map("kept"), map("dropped")));
    let allow = "--prune-allowlist=core/v1/ConfigMap";
    context.kubectl(&format!("apply -f set --prune -l set=pruned {allow}")).expect_output("configmap/dropped created");
    context.kubectl("create configmap foreign --from-literal=a=1");
    context.kubectl("label cm foreign set=pruned");
    context.file("set/all.yaml", &map("kept"));
    context
        .kubectl(&format!("apply -f set --prune -l set=pruned {allow} --dry-run=client"))
        .expect_output("configmap/dropped pruned (dry run)");
    context.kubectl(&format!("apply -f set --prune -l set=pruned {allow}")).expect_output("configmap/dropped pruned");
    // Objects that were not applied are not pruned.
    assert!(context.object("configmaps/dropped").is_null() && context.object("configmaps/foreign").is_object());

    context.file(
        "kust/kustomization.yaml",
        "namePrefix: k-\nresources: [../set/all.yaml]\nconfigMapGenerator: [{name: gen, literals: [a=1]}]\n",
    );
    context.file("kust/base.yaml", "");
    context.file(
        "kust2/kustomization.yaml",
        "resources: [map.yaml]\nnamePrefix: k-\ncommonAnnotations: {made: here}\nconfigMapGenerator: [{name: gen, literals: [a=1]}]\n",
    );
    context.file("kust2/map.yaml", &map("mapped"));
    context.kubectl("kustomize kust2").expect_output("name: k-mapped");
    context.kubectl("apply -k kust2").expect_output("configmap/k-mapped created").expect_output("configmap/k-gen-");
    assert_eq!(context.object("configmaps/k-mapped")["metadata"]["annotations"]["made"], "here");
    context.kubectl("get -k kust2 -o name").expect_output("configmap/k-mapped");
    context.kubectl("delete -k kust2").expect_output("deleted");
}

fn deployment(containers: &str) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: web}}\nspec:\n  selector: {{matchLabels: {{app: web}}}}\n  template:\n    \
         metadata: {{labels: {{app: web}}}}\n    spec:\n      containers: {containers}\n"
    )
}

fn built_in_lists_are_merged_by_their_keys(context: &CaseContext<'_>) {
    let names = |object: &serde_json::Value| -> Vec<String> {
        let containers = object["spec"]["template"]["spec"]["containers"].as_array().cloned().unwrap_or_default();
        containers.iter().filter_map(|one| one["name"].as_str().map(str::to_owned)).collect()
    };
    let main = "{name: main, image: 'example.com/web:1', env: [{name: A, value: '1'}, {name: B, value: '2'}], ports: [{containerPort: 80}]}";
    context.file("web.yaml", &deployment(&format!("[{main}, {{name: aside, image: 'example.com/aside:1'}}]")));
    context.kubectl("apply -f web.yaml").expect_output("deployment.apps/web created");
    context
        .kubectl("patch deployment web -p '{\"spec\":{\"template\":{\"spec\":{\"containers\":[{\"name\":\"third\",\"image\":\"c\"}]}}}}'")
        .expect_output("patched");
    assert_eq!(names(&context.object("apps/v1/deployments/web")), ["third", "main", "aside"]);
    let changed =
        "{name: main, image: 'example.com/web:2', env: [{name: B, value: '3'}], ports: [{containerPort: 80}]}";
    context.file("web.yaml", &deployment(&format!("[{changed}]")));
    context.kubectl("apply -f web.yaml").expect_output("deployment.apps/web configured");
    let web = context.object("apps/v1/deployments/web");
    let mut left = names(&web);
    left.sort();
    assert_eq!(left, ["main", "third"]);
    context.file("service.yaml", "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {selector: {app: web}, ports: [{name: a, port: 80}, {name: b, port: 81}]}\n");
    context.kubectl("apply -f service.yaml").expect_output("service/web created");
    context.file(
        "service.yaml",
        "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {selector: {app: web}, ports: [{name: b, port: 81}]}\n",
    );
    context.kubectl("apply -f service.yaml").expect_output("service/web configured");
    assert_eq!(context.object("services/web")["spec"]["ports"].as_array().map(Vec::len), Some(1));
    context.kubectl("apply --server-side --force-conflicts -f web.yaml").expect_output("serverside-applied");
    context.object("apps/v1/deployments/web");
}

fn differences_are_shown_before_they_are_applied(context: &CaseContext<'_>) {
    context.file("gauge.yaml", &gauge("{size: 5}"));
    context.kubectl_fails("diff -f gauge.yaml").expect_output("+  size: 5");
    context.kubectl("apply -f gauge.yaml");
    context.kubectl("diff -f gauge.yaml").expect_lines(&[]);
    context.file("gauge.yaml", &gauge("{size: 8}"));
    context.kubectl_fails("diff -f gauge.yaml").expect_output("-  size: 5").expect_output("+  size: 8");
    context.kubectl_fails("diff --server-side --force-conflicts -f gauge.yaml").expect_output("+  size: 8");
    assert_eq!(context.object("clients.kopfd.dev/v1/gauges/dial")["spec"]["size"], 5);
}
