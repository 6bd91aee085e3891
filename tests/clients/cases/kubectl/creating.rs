//! `kubectl create`, `run`, `expose`, `autoscale`.

use serde_json::json;

use crate::cases::{Case, cases};
use crate::stage::Stage;

pub(crate) const CASES: &[Case] = cases![Both:
    objects_are_created_from_arguments,
    workloads_are_created_from_arguments,
    objects_are_created_from_files,
    mistakes_are_refused_with_their_reasons,
    kinds_are_defined_and_removed,
];

fn objects_are_created_from_arguments(stage: &Stage<'_>) {
    stage.file("page.txt", "a page\n");
    stage.kubectl("create configmap settings --from-literal=a=1 --from-file=page.txt").prints("configmap/settings created");
    assert_eq!(stage.object("configmaps/settings")["data"], json!({"a": "1", "page.txt": "a page\n"}));
    stage.kubectl_fails("create configmap settings").complains("configmaps \"settings\" already exists");
    stage.kubectl("create secret generic key --from-literal=password=secret").prints("secret/key created");
    assert_eq!(stage.object("secrets/key")["data"]["password"], "c2VjcmV0");
    stage
        .kubectl("create secret docker-registry pull --docker-server=example.com --docker-username=me --docker-password=pw")
        .prints("secret/pull created");
    assert_eq!(stage.object("secrets/pull")["type"], "kubernetes.io/dockerconfigjson");
    let other = format!("{}-other", stage.namespace);
    stage.kubectl(&format!("create namespace {other}")).prints("created");
    stage.kubectl(&format!("get namespace {other} -o jsonpath={{.status.phase}}")).prints("Active");
    stage.kubectl("create serviceaccount robot").prints("serviceaccount/robot created");
    stage.object("serviceaccounts/robot");
    stage.kubectl("create token robot --duration=1h").prints(".");
    stage.kubectl("create role reader --verb=get,list --resource=configmaps,gauges.clients.kopfd.dev").prints("created");
    let role = stage.object("rbac.authorization.k8s.io/v1/roles/reader");
    assert_eq!(role["rules"].as_array().map(Vec::len), Some(2));
    let robot = format!("--serviceaccount={}:robot", stage.namespace);
    stage.kubectl(&format!("create rolebinding reading --role=reader {robot}")).prints("created");
    stage.object("rbac.authorization.k8s.io/v1/rolebindings/reading");
    let name = format!("{}-all", stage.namespace);
    stage.kubectl(&format!("create clusterrole {name} --verb=* --resource=pods")).prints("created");
    stage.kubectl(&format!("create clusterrolebinding {name} --clusterrole={name} --user=bob")).prints("created");
    stage.kubectl(&format!("delete clusterrole,clusterrolebinding {name}")).prints("deleted");
    stage.kubectl("create configmap dry --from-literal=a=1 --dry-run=client -o yaml").prints("  a: \"1\"");
    stage.kubectl("create configmap dry --from-literal=a=1 --dry-run=server -o name").prints_lines(&["configmap/dry"]);
    assert!(stage.object("configmaps/dry").is_null());
    stage.kubectl("create service clusterip inner --tcp=80:8080").prints("service/inner created");
    stage.object("services/inner");
}

fn workloads_are_created_from_arguments(stage: &Stage<'_>) {
    stage.kubectl("create deployment web --image=example.com/web:1 --replicas=2 --port=80").prints("deployment.apps/web created");
    let web = stage.object("apps/v1/deployments/web");
    assert_eq!((&web["spec"]["replicas"], &web["spec"]["template"]["spec"]["containers"][0]["name"]), (&json!(2), &json!("web")));
    stage.kubectl("create job once --image=example.com/once:1 -- run --fast").prints("job.batch/once created");
    assert_eq!(stage.object("batch/v1/jobs/once")["spec"]["template"]["spec"]["containers"][0]["command"], json!(["run", "--fast"]));
    stage.kubectl("create cronjob nightly --image=example.com/once:1 --schedule='0 3 * * *'").prints("cronjob.batch/nightly created");
    stage.object("batch/v1/cronjobs/nightly");
    stage.kubectl("create job tonight --from=cronjob/nightly").prints("job.batch/tonight created");
    stage.kubectl("create quota little --hard=secrets=5,pods=3").prints("resourcequota/little created");
    stage.object("resourcequotas/little");
    stage.kubectl("create poddisruptionbudget budget --selector=app=web --min-available=1").prints("created");
    stage.object("policy/v1/poddisruptionbudgets/budget");
    stage.kubectl("create ingress door --rule=web.example.com/*=web:80").prints("ingress.networking.k8s.io/door created");
    stage.object("networking.k8s.io/v1/ingresses/door");
    stage.kubectl("run worker --image=example.com/worker:1 --labels=app=worker --env=A=1 --port=80").prints("pod/worker created");
    assert_eq!(stage.object("pods/worker")["spec"]["containers"][0]["env"], json!([{"name": "A", "value": "1"}]));
    stage.kubectl("run other --image=example.com/worker:1 --dry-run=client -o yaml").prints("image: example.com/worker:1");
    stage.kubectl("expose pod worker --port=80 --name=front").prints("service/front exposed");
    stage.kubectl("expose deployment web --port=8080 --target-port=80").prints("service/web exposed");
    assert_eq!(stage.object("services/web")["spec"]["selector"], json!({"app": "web"}));
    stage.kubectl("autoscale deployment web --min=1 --max=5 --cpu=80%").prints("autoscaled");
    assert_eq!(stage.object("autoscaling/v2/horizontalpodautoscalers/web")["spec"]["maxReplicas"], 5);
}

const NAMELESS: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: made-}\ndata: {a: b}\n";

fn objects_are_created_from_files(stage: &Stage<'_>) {
    stage.kubectl_with("create -f -", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: piped}\n").prints("configmap/piped created");
    stage.object("configmaps/piped");
    stage.file(
        "list.json",
        r#"{"apiVersion":"v1","kind":"List","items":[
        {"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"l1"}},{"apiVersion":"v1","kind":"Secret","metadata":{"name":"l2"}}]}"#,
    );
    stage.kubectl("create -f list.json").prints_lines(&["configmap/l1 created", "secret/l2 created"]);
    stage.file("directory/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: da}\n");
    stage.file("directory/b.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: db}\n");
    stage.kubectl("create -f directory").prints_lines(&["configmap/da created", "configmap/db created"]);
    stage.kubectl("create -f directory/a.yaml --dry-run=client").prints("configmap/da created (dry run)");
    stage.file("nameless.yaml", NAMELESS);
    let made = stage.kubectl("create -f nameless.yaml -o jsonpath='{.metadata.generateName}'");
    made.prints("made-");
    stage
        .kubectl("create -f directory/a.yaml --save-config --dry-run=server -o name --validate=ignore --namespace=default")
        .prints("configmap/da");
}

fn mistakes_are_refused_with_their_reasons(stage: &Stage<'_>) {
    let gauge = |rest: &str| format!("apiVersion: clients.kopfd.dev/v1\nkind: Gauge\nmetadata: {{name: wrong}}\n{rest}\n");
    stage.file("unknown.yaml", &gauge("spec: {sise: 1}"));
    stage.kubectl_fails("create -f unknown.yaml").complains("unknown field \"spec.sise\"");
    stage.kubectl_fails("apply -f unknown.yaml --validate=strict").complains("strict decoding error");
    stage.kubectl("create -f unknown.yaml --validate=warn --dry-run=server").complains("Warning: unknown field \"spec.sise\"");
    stage.kubectl("create -f unknown.yaml --validate=ignore --dry-run=server").prints("created (server dry run)");
    stage.file("large.yaml", &gauge("spec: {size: 1000}"));
    stage.kubectl_fails("create -f large.yaml").complains("spec.size in body should be less than or equal to 100");
    stage.file("vague.yaml", &gauge("spec: {mode: vague}"));
    stage.kubectl_fails("create -f vague.yaml").complains("supported values: \"plain\", \"precise\"");
    stage.file("typed.yaml", &gauge("spec: {size: many}"));
    stage.kubectl_fails("create -f typed.yaml").complains("spec.size");
    stage.file("twice.yaml", &gauge("spec: {size: 1, size: 2}"));
    stage.kubectl("create -f twice.yaml --dry-run=server").prints("created");
    stage.file("empty.yaml", &gauge(""));
    stage.kubectl_fails("create -f empty.yaml").complains("spec: Required value");
    stage.file("kind.yaml", "apiVersion: clients.kopfd.dev/v1\nkind: Nonsense\nmetadata: {name: a}\n");
    stage.kubectl_fails("create -f kind.yaml").complains("no matches for kind \"Nonsense\"");
    stage.file("name.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: No_Good}\n");
    stage.kubectl_fails("create -f name.yaml").complains("metadata.name");
    stage.file("elsewhere.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: elsewhere}\n");
    stage.kubectl_fails("create -f elsewhere.yaml").complains("does not match the namespace");
    stage.file("selector.yaml", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: c}}, spec: {containers: [{name: a, image: b}]}}}\n");
    stage.kubectl_fails("create -f selector.yaml").complains("spec.template.metadata.labels");
    stage.kubectl_fails("create configmap a --from-literal=b=c --namespace=nowhere").complains("namespaces \"nowhere\" not found");
    stage.file("broken.yaml", "apiVersion: v1\nkind: [");
    stage.kubectl_fails("create -f broken.yaml").complains("error parsing broken.yaml");
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

fn kinds_are_defined_and_removed(stage: &Stage<'_>) {
    stage.file("bolts.yaml", BOLTS);
    stage.file("bolt.yaml", "apiVersion: defined.kopfd.dev/v1\nkind: Bolt\nmetadata: {name: long}\nspec: {length: 9}\n");
    stage.kubectl("apply -f bolts.yaml").prints("customresourcedefinition.apiextensions.k8s.io/bolts.defined.kopfd.dev created");
    stage.kubectl("wait --for=condition=established --timeout=30s crd/bolts.defined.kopfd.dev").prints("condition met");
    // The real server takes a moment from the condition to the first request that it answers.
    std::thread::sleep(std::time::Duration::from_secs(1));
    stage.kubectl("apply -f bolt.yaml").prints("bolt.defined.kopfd.dev/long created");
    stage.kubectl("get bolts").prints_lines(&["NAME AGE", "long AGE"]);
    stage.file("bolts.yaml", &BOLTS.replace("length: {type: integer}", "length: {type: integer}, head: {type: string}"));
    stage.kubectl("apply -f bolts.yaml").prints("configured");
    stage
        .kubectl(
            "get crd bolts.defined.kopfd.dev -o jsonpath='{.spec.versions[0].schema.openAPIV3Schema.properties.spec.properties.head.type}'",
        )
        .prints("string");
    stage.kubectl("delete crd bolts.defined.kopfd.dev").prints("deleted");
    stage.kubectl_fails("get crd bolts.defined.kopfd.dev").complains("(NotFound)");
    // kubectl itself remembers kinds for some time.
    for server in stage.world().servers() {
        server.gone("/apis/defined.kopfd.dev/v1/bolts/long");
    }
}
