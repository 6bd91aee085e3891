//! `kubectl create`, `run`, `expose`, `autoscale`.

use serde_json::json;

use crate::cases::{Case, cases};
use crate::context::CaseContext;

pub(crate) const CASES: &[Case] = cases![Both:
    objects_are_created_from_arguments,
    workloads_are_created_from_arguments,
    objects_are_created_from_files,
    mistakes_are_refused_with_their_reasons,
    kinds_are_defined_and_removed,
];

fn objects_are_created_from_arguments(context: &CaseContext<'_>) {
    context.file("page.txt", "a page\n");
    context
        .kubectl("create configmap settings --from-literal=a=1 --from-file=page.txt")
        .expect_output("configmap/settings created");
    assert_eq!(context.object("configmaps/settings")["data"], json!({"a": "1", "page.txt": "a page\n"}));
    context.kubectl_fails("create configmap settings").expect_stderr("configmaps \"settings\" already exists");
    context.kubectl("create secret generic key --from-literal=password=secret").expect_output("secret/key created");
    assert_eq!(context.object("secrets/key")["data"]["password"], "c2VjcmV0");
    context
        .kubectl(
            "create secret docker-registry pull --docker-server=example.com --docker-username=me --docker-password=pw",
        )
        .expect_output("secret/pull created");
    assert_eq!(context.object("secrets/pull")["type"], "kubernetes.io/dockerconfigjson");
    let other = format!("{}-other", context.namespace);
    context.kubectl(&format!("create namespace {other}")).expect_output("created");
    context.kubectl(&format!("get namespace {other} -o jsonpath={{.status.phase}}")).expect_output("Active");
    context.kubectl("create serviceaccount robot").expect_output("serviceaccount/robot created");
    context.object("serviceaccounts/robot");
    context.kubectl("create token robot --duration=1h").expect_output(".");
    context
        .kubectl("create role reader --verb=get,list --resource=configmaps,gauges.clients.kopfd.dev")
        .expect_output("created");
    let role = context.object("rbac.authorization.k8s.io/v1/roles/reader");
    assert_eq!(role["rules"].as_array().map(Vec::len), Some(2));
    let robot = format!("--serviceaccount={}:robot", context.namespace);
    context.kubectl(&format!("create rolebinding reading --role=reader {robot}")).expect_output("created");
    context.object("rbac.authorization.k8s.io/v1/rolebindings/reading");
    let name = format!("{}-all", context.namespace);
    context.kubectl(&format!("create clusterrole {name} --verb=* --resource=pods")).expect_output("created");
    context
        .kubectl(&format!("create clusterrolebinding {name} --clusterrole={name} --user=bob"))
        .expect_output("created");
    context.kubectl(&format!("delete clusterrole,clusterrolebinding {name}")).expect_output("deleted");
    context.kubectl("create configmap dry --from-literal=a=1 --dry-run=client -o yaml").expect_output("  a: \"1\"");
    context
        .kubectl("create configmap dry --from-literal=a=1 --dry-run=server -o name")
        .expect_lines(&["configmap/dry"]);
    assert!(context.object("configmaps/dry").is_null());
    context.kubectl("create service clusterip inner --tcp=80:8080").expect_output("service/inner created");
    context.object("services/inner");
}

fn workloads_are_created_from_arguments(context: &CaseContext<'_>) {
    context
        .kubectl("create deployment web --image=example.com/web:1 --replicas=2 --port=80")
        .expect_output("deployment.apps/web created");
    let web = context.object("apps/v1/deployments/web");
    assert_eq!(
        (&web["spec"]["replicas"], &web["spec"]["template"]["spec"]["containers"][0]["name"]),
        (&json!(2), &json!("web"))
    );
    context.kubectl("create job once --image=example.com/once:1 -- run --fast").expect_output("job.batch/once created");
    assert_eq!(
        context.object("batch/v1/jobs/once")["spec"]["template"]["spec"]["containers"][0]["command"],
        json!(["run", "--fast"])
    );
    context
        .kubectl("create cronjob nightly --image=example.com/once:1 --schedule='0 3 * * *'")
        .expect_output("cronjob.batch/nightly created");
    context.object("batch/v1/cronjobs/nightly");
    context.kubectl("create job tonight --from=cronjob/nightly").expect_output("job.batch/tonight created");
    context.kubectl("create quota little --hard=secrets=5,pods=3").expect_output("resourcequota/little created");
    context.object("resourcequotas/little");
    context.kubectl("create poddisruptionbudget budget --selector=app=web --min-available=1").expect_output("created");
    context.object("policy/v1/poddisruptionbudgets/budget");
    context
        .kubectl("create ingress door --rule=web.example.com/*=web:80")
        .expect_output("ingress.networking.k8s.io/door created");
    context.object("networking.k8s.io/v1/ingresses/door");
    context
        .kubectl("run worker --image=example.com/worker:1 --labels=app=worker --env=A=1 --port=80")
        .expect_output("pod/worker created");
    assert_eq!(context.object("pods/worker")["spec"]["containers"][0]["env"], json!([{"name": "A", "value": "1"}]));
    context
        .kubectl("run other --image=example.com/worker:1 --dry-run=client -o yaml")
        .expect_output("image: example.com/worker:1");
    context.kubectl("expose pod worker --port=80 --name=front").expect_output("service/front exposed");
    context.kubectl("expose deployment web --port=8080 --target-port=80").expect_output("service/web exposed");
    assert_eq!(context.object("services/web")["spec"]["selector"], json!({"app": "web"}));
    context.kubectl("autoscale deployment web --min=1 --max=5 --cpu=80%").expect_output("autoscaled");
    assert_eq!(context.object("autoscaling/v2/horizontalpodautoscalers/web")["spec"]["maxReplicas"], 5);
}

const NAMELESS: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: made-}\ndata: {a: b}\n";

fn objects_are_created_from_files(context: &CaseContext<'_>) {
    context
        .kubectl_with("create -f -", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: piped}\n")
        .expect_output("configmap/piped created");
    context.object("configmaps/piped");
    context.file(
        "list.json",
        r#"{"apiVersion":"v1","kind":"List","items":[
        {"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"l1"}},{"apiVersion":"v1","kind":"Secret","metadata":{"name":"l2"}}]}"#,
    );
    context.kubectl("create -f list.json").expect_lines(&["configmap/l1 created", "secret/l2 created"]);
    context.file("directory/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: da}\n");
    context.file("directory/b.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: db}\n");
    context.kubectl("create -f directory").expect_lines(&["configmap/da created", "configmap/db created"]);
    context.kubectl("create -f directory/a.yaml --dry-run=client").expect_output("configmap/da created (dry run)");
    context.file("nameless.yaml", NAMELESS);
    let made = context.kubectl("create -f nameless.yaml -o jsonpath='{.metadata.generateName}'");
    made.expect_output("made-");
    context
        .kubectl(
            "create -f directory/a.yaml --save-config --dry-run=server -o name --validate=ignore --namespace=default",
        )
        .expect_output("configmap/da");
}

fn mistakes_are_refused_with_their_reasons(context: &CaseContext<'_>) {
    let gauge =
        |rest: &str| format!("apiVersion: clients.kopfd.dev/v1\nkind: Gauge\nmetadata: {{name: wrong}}\n{rest}\n");
    context.file("unknown.yaml", &gauge("spec: {sise: 1}"));
    context.kubectl_fails("create -f unknown.yaml").expect_stderr("unknown field \"spec.sise\"");
    context.kubectl_fails("apply -f unknown.yaml --validate=strict").expect_stderr("strict decoding error");
    context
        .kubectl("create -f unknown.yaml --validate=warn --dry-run=server")
        .expect_stderr("Warning: unknown field \"spec.sise\"");
    context
        .kubectl("create -f unknown.yaml --validate=ignore --dry-run=server")
        .expect_output("created (server dry run)");
    context.file("large.yaml", &gauge("spec: {size: 1000}"));
    context
        .kubectl_fails("create -f large.yaml")
        .expect_stderr("spec.size in body should be less than or equal to 100");
    context.file("vague.yaml", &gauge("spec: {mode: vague}"));
    context.kubectl_fails("create -f vague.yaml").expect_stderr("supported values: \"plain\", \"precise\"");
    context.file("typed.yaml", &gauge("spec: {size: many}"));
    context.kubectl_fails("create -f typed.yaml").expect_stderr("spec.size");
    context.file("twice.yaml", &gauge("spec: {size: 1, size: 2}"));
    context.kubectl("create -f twice.yaml --dry-run=server").expect_output("created");
    context.file("empty.yaml", &gauge(""));
    context.kubectl_fails("create -f empty.yaml").expect_stderr("spec: Required value");
    context.file("kind.yaml", "apiVersion: clients.kopfd.dev/v1\nkind: Nonsense\nmetadata: {name: a}\n");
    context.kubectl_fails("create -f kind.yaml").expect_stderr("no matches for kind \"Nonsense\"");
    context.file("name.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: No_Good}\n");
    context.kubectl_fails("create -f name.yaml").expect_stderr("metadata.name");
    context.file("elsewhere.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: elsewhere}\n");
    context.kubectl_fails("create -f elsewhere.yaml").expect_stderr("does not match the namespace");
    context.file("selector.yaml", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: c}}, spec: {containers: [{name: a, image: b}]}}}\n");
    context.kubectl_fails("create -f selector.yaml").expect_stderr("spec.template.metadata.labels");
    context
        .kubectl_fails("create configmap a --from-literal=b=c --namespace=nowhere")
        .expect_stderr("namespaces \"nowhere\" not found");
    context.file("broken.yaml", "apiVersion: v1\nkind: [");
    context.kubectl_fails("create -f broken.yaml").expect_stderr("error parsing broken.yaml");
}

const BOLTS: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: bolts.defined.kopfd.dev}
spec:
  group: defined.kopfd.dev
  scope: Cluster
  names: {plural: bolts, singular: bolt, kind: Bolt}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {length: {type: integer}}}}}}
";

fn kinds_are_defined_and_removed(context: &CaseContext<'_>) {
    context.file("bolts.yaml", BOLTS);
    context
        .file("bolt.yaml", "apiVersion: defined.kopfd.dev/v1\nkind: Bolt\nmetadata: {name: long}\nspec: {length: 9}\n");
    context
        .kubectl("apply -f bolts.yaml")
        .expect_output("customresourcedefinition.apiextensions.k8s.io/bolts.defined.kopfd.dev created");
    context
        .kubectl("wait --for=condition=established --timeout=30s crd/bolts.defined.kopfd.dev")
        .expect_output("condition met");
    // The real server takes a moment from the condition to the first request that it answers.
    std::thread::sleep(std::time::Duration::from_secs(1));
    context.kubectl("apply -f bolt.yaml").expect_output("bolt.defined.kopfd.dev/long created");
    context.kubectl("get bolts").expect_lines(&["NAME AGE", "long AGE"]);
    context
        .file("bolts.yaml", &BOLTS.replace("length: {type: integer}", "length: {type: integer}, head: {type: string}"));
    context.kubectl("apply -f bolts.yaml").expect_output("configured");
    context
        .kubectl(
            "get crd bolts.defined.kopfd.dev -o jsonpath='{.spec.versions[0].schema.openAPIV3Schema.properties.spec.properties.head.type}'",
        )
        .expect_output("string");
    context.kubectl("delete crd bolts.defined.kopfd.dev").expect_output("deleted");
    context.kubectl_fails("get crd bolts.defined.kopfd.dev").expect_stderr("(NotFound)");
    // kubectl itself remembers kinds for some time.
    for server in context.servers().servers() {
        server.gone("/apis/defined.kopfd.dev/v1/bolts/long");
    }
}
