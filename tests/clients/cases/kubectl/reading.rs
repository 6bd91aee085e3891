//! `kubectl get` in all its outputs.

use serde_json::json;

use crate::cases::{Case, cases};
use crate::context::CaseContext;

pub(crate) const CASES: &[Case] = cases![Both:
    objects_are_shown_in_every_output,
    objects_are_selected_by_labels_and_fields,
    workloads_are_shown_in_their_tables,
    changes_are_watched,
    the_paths_of_the_server_are_read_raw,
];

/// Three config maps, two gauges.
pub(crate) const SHELF: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: one, labels: {tier: front, colour: red}}
data: {rank: "3", text: first}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: two, labels: {tier: back}}
data: {rank: "1"}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: three, labels: {tier: back, colour: blue}}
data: {rank: "2"}
---
apiVersion: clients.kopfd.dev/v1
kind: Gauge
metadata: {name: high, labels: {shelf: reading}}
spec: {size: 70, mode: precise, replicas: 2, marks: [{name: low, value: 1}, {name: top, value: 9}]}
---
apiVersion: clients.kopfd.dev/v1
kind: Gauge
metadata: {name: low, labels: {shelf: reading}, annotations: {example.com/note: short}}
spec: {mode: plain}
"#;

fn furnish(context: &CaseContext<'_>) {
    context.file("shelf.yaml", SHELF);
    context.kubectl("create -f shelf.yaml").expect_lines(&[
        "configmap/one created",
        "configmap/two created",
        "configmap/three created",
        "gauge.clients.kopfd.dev/high created",
        "gauge.clients.kopfd.dev/low created",
    ]);
}

fn objects_are_shown_in_every_output(context: &CaseContext<'_>) {
    furnish(context);
    let phase = r#"{"status":{"phase":"Steady"}}"#;
    context
        .kubectl(&format!("patch gauge high --subresource=status --type=merge -p '{phase}'"))
        .expect_output("gauge.clients.kopfd.dev/high patched");

    context.kubectl("get gauges").expect_lines(&["NAME SIZE PHASE AGE", "high 70 Steady AGE", "low 1 AGE"]);
    context.kubectl("get gauges -o wide").expect_lines(&[
        "NAME SIZE PHASE MODE AGE",
        "high 70 Steady precise AGE",
        "low 1 plain AGE",
    ]);
    context.kubectl("get gg --no-headers").expect_lines(&["high 70 Steady AGE", "low 1 AGE"]);
    context.kubectl("get gauges.v1.clients.kopfd.dev low").expect_lines(&["NAME SIZE PHASE AGE", "low 1 AGE"]);
    context
        .kubectl("get meters -o name")
        .expect_lines(&["gauge.clients.kopfd.dev/high", "gauge.clients.kopfd.dev/low"]);
    let shown: serde_json::Value =
        serde_json::from_str(&context.kubectl("get gauge high -o json").stdout).expect("the output is JSON");
    assert_eq!((&shown["spec"]["size"], &shown["status"]["phase"]), (&json!(70), &json!("Steady")));
    context.kubectl("get gauges -o json").expect_output(r#""kind": "List""#);
    context.kubectl("get gauge low -o yaml").expect_output("  size: 1\n").expect_absent("managedFields");
    context.kubectl("get gauge low -o yaml --show-managed-fields").expect_output("manager: kubectl-create");
    context
        .kubectl("get gauges -o jsonpath='{range .items[*]}{.metadata.name}={.spec.size};{end}'")
        .expect_output("high=70;low=1;");
    context.kubectl("get gauge high -o jsonpath='{.spec.marks[?(@.name==\"top\")].value}'").expect_output("9");
    context
        .kubectl("get cm one two -o go-template='{{range .items}}{{.metadata.name}} {{.data.rank}},{{end}}'")
        .expect_output("one 3,two 1,");
    context
        .kubectl("get gauges -o custom-columns=NAME:.metadata.name,MODE:.spec.mode,NONE:.spec.none")
        .expect_lines(&["NAME MODE NONE", "high precise <none>", "low plain <none>"]);
    context
        .kubectl("get cm --sort-by=.data.rank -o name")
        .expect_output("configmap/two\nconfigmap/three\nconfigmap/one\n");
    context
        .kubectl("get cm one two three --sort-by='{.metadata.name}' --no-headers -o custom-columns=:.metadata.name")
        .expect_output("one\nthree\ntwo\n");
    context.kubectl("get cm one --show-labels").expect_output("colour=red,tier=front");
    context.kubectl("get cm -L tier,colour").expect_output("back");
    // Other cases have gauges, too, and delete them at the same time.
    let own = format!("-A --field-selector metadata.namespace={}", context.namespace);
    context
        .kubectl(&format!(
            "get gg {own} -l 'shelf=reading,shelf notin (other)' --no-headers -o custom-columns=:.metadata.name"
        ))
        .expect_output("high\nlow\n");
    context
        .kubectl("get cm,gauges --chunk-size=1")
        .expect_output("configmap/three")
        .expect_output("gauge.clients.kopfd.dev/low");
    context.kubectl("get -f shelf.yaml").expect_output("configmap/two").expect_output("gauge.clients.kopfd.dev/high");
    context.kubectl("get gauge high --subresource=scale").expect_output("NAME");
    context.kubectl("get gauge high --subresource=status -o name").expect_lines(&["gauge.clients.kopfd.dev/high"]);
    context.kubectl("get gauge absent --ignore-not-found").expect_lines(&[]);
    context
        .kubectl_fails("get gauge absent")
        .expect_stderr("(NotFound): gauges.clients.kopfd.dev \"absent\" not found");
    context.kubectl_fails("get nonsense").expect_stderr("the server doesn't have a resource type \"nonsense\"");
    context.kubectl("get gauges --output-watch-events=false --server-print=false").expect_output("high");
    context
        .kubectl("get namespaces default kube-system -o name")
        .expect_lines(&["namespace/default", "namespace/kube-system"]);
    context.kubectl("get crd gauges.clients.kopfd.dev").expect_output("gauges.clients.kopfd.dev");
    context.kubectl("get nodes").expect_stderr("No resources found");
    context.kubectl("get pods").expect_stderr("No resources found in");
    context.object("clients.kopfd.dev/v1/gauges/high");
    context.object("configmaps/one");
}

fn objects_are_selected_by_labels_and_fields(context: &CaseContext<'_>) {
    furnish(context);
    context.kubectl("get cm -l tier=back -o name").expect_lines(&["configmap/three", "configmap/two"]);
    context.kubectl("get cm -l 'tier in (front,back),!colour' -o name").expect_lines(&["configmap/two"]);
    context.kubectl("get cm -l 'colour,colour!=red' -o name").expect_lines(&["configmap/three"]);
    context.kubectl("get cm --selector='colour notin (red,blue),tier' -o name").expect_lines(&["configmap/two"]);
    context.kubectl("get cm --field-selector metadata.name=one -o name").expect_lines(&["configmap/one"]);
    context
        .kubectl("get cm --field-selector metadata.name!=one -l tier -o name")
        .expect_lines(&["configmap/three", "configmap/two"]);
    context
        .kubectl("get gauges --field-selector spec.mode=precise -o name")
        .expect_lines(&["gauge.clients.kopfd.dev/high"]);
    context
        .kubectl("get gauges -A -l shelf=reading --field-selector metadata.namespace=nowhere")
        .expect_stderr("No resources found");
    context.kubectl_fails("get gauges --field-selector spec.size=1").expect_stderr("field label not supported");
    context.kubectl_fails("get cm -l 'a=b=c'").expect_stderr("found '=', expected");
    context.file("pods.yaml", PODS);
    context.kubectl("create -f pods.yaml").expect_output("pod/placed created");
    context.kubectl("get pods --field-selector spec.nodeName= -o name").expect_lines(&["pod/homeless"]);
    context
        .kubectl("get pods --field-selector spec.nodeName=somewhere,status.phase=Pending -o name")
        .expect_lines(&["pod/placed"]);
    context.kubectl("get pods --field-selector spec.restartPolicy=Never -o name").expect_lines(&["pod/placed"]);
}

const PODS: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: homeless, labels: {app: web}}
spec:
  containers: [{name: main, image: "example.com/web:1", ports: [{containerPort: 80}]}]
---
apiVersion: v1
kind: Pod
metadata: {name: placed, labels: {app: web}}
spec:
  nodeName: somewhere
  restartPolicy: Never
  containers: [{name: main, image: "example.com/web:1"}, {name: aside, image: "example.com/aside:1"}]
"#;

const WORKLOADS: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: "example.com/web:1"}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: store}
spec:
  serviceName: store
  selector: {matchLabels: {app: store}}
  template:
    metadata: {labels: {app: store}}
    spec: {containers: [{name: main, image: "example.com/store:1"}]}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: everywhere}
spec:
  selector: {matchLabels: {app: everywhere}}
  template:
    metadata: {labels: {app: everywhere}}
    spec: {containers: [{name: main, image: "example.com/every:1"}]}
---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: twins}
spec:
  replicas: 2
  selector: {matchLabels: {app: twins}}
  template:
    metadata: {labels: {app: twins}}
    spec: {containers: [{name: main, image: "example.com/twin:1"}]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: once}
spec:
  template:
    spec: {restartPolicy: Never, containers: [{name: main, image: "example.com/once:1"}]}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly}
spec:
  schedule: "0 3 * * *"
  jobTemplate:
    spec:
      template:
        spec: {restartPolicy: Never, containers: [{name: main, image: "example.com/once:1"}]}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  selector: {app: web}
  ports: [{port: 80, targetPort: 8080}]
---
apiVersion: v1
kind: Secret
metadata: {name: key}
stringData: {password: secret}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: door}
spec:
  rules: [{host: web.example.com, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: budget}
spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: disk}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: lead}
spec: {holderIdentity: somebody}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec:
  maxReplicas: 4
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 70}}}]
"#;

fn workloads_are_shown_in_their_tables(context: &CaseContext<'_>) {
    context.file("workloads.yaml", WORKLOADS);
    context.file("pods.yaml", PODS);
    context
        .kubectl("create -f workloads.yaml -f pods.yaml")
        .expect_output("deployment.apps/web created")
        .expect_output("lease.coordination.k8s.io/lead created");
    context
        .kubectl("get all")
        .expect_output("pod/homeless")
        .expect_output("deployment.apps/web")
        .expect_output("cronjob.batch/nightly")
        .expect_output("service/web");
    context.kubectl("get all -o wide").expect_output("example.com/store:1");
    context.kubectl("get deployment web -o wide").expect_output("app=web");
    context.kubectl("get pods").expect_lines(&[
        "NAME READY STATUS RESTARTS AGE",
        "homeless 0/1 Pending 0 AGE",
        "placed 0/2 Pending 0 AGE",
    ]);
    context.kubectl("get pods -o wide --show-kind").expect_output("somewhere");
    context.kubectl("get secret key").expect_output("Opaque");
    context
        .kubectl("get ingress,pdb,pvc,lease,hpa")
        .expect_output("web.example.com")
        .expect_output("somebody")
        .expect_output("Deployment/web");
    context.kubectl("get serviceaccounts").expect_output("default");
    for place in [
        "apps/v1/deployments/web",
        "apps/v1/statefulsets/store",
        "apps/v1/daemonsets/everywhere",
        "apps/v1/replicasets/twins",
        "batch/v1/jobs/once",
        "batch/v1/cronjobs/nightly",
        "services/web",
        "secrets/key",
        "networking.k8s.io/v1/ingresses/door",
        "policy/v1/poddisruptionbudgets/budget",
        "persistentvolumeclaims/disk",
        "autoscaling/v2/horizontalpodautoscalers/web",
        "pods/homeless",
    ] {
        assert!(context.object(place).is_object(), "{place} is there");
    }
}

fn changes_are_watched(context: &CaseContext<'_>) {
    furnish(context);
    let tables = context.start_kubectl("get gauges -w");
    let names = context.start_kubectl("get gauges --watch-only -o name");
    let events = context
        .start_kubectl("get gauges -w --output-watch-events -o jsonpath='{.type} {.object.metadata.name} {.object.spec.size}{\"\\n\"}'");
    let labelled =
        context.start_kubectl("get cm -w -l tier=back -o custom-columns=NAME:.metadata.name,RANK:.data.rank");
    tables.until("low");
    events.until("ADDED low");
    labelled.until("two");
    // The start of a watch is not visible: a change is repeated until it is seen.
    let mut size = 1;
    while [tables.seen("patience"), names.seen("low")].contains(&false) {
        size += 1;
        context.kubectl(&format!("patch gauge low --type=merge -p '{{\"spec\":{{\"size\":{size}}}}}'"));
        context.kubectl("annotate --overwrite gauge low seen=yes");
        if size == 3 {
            context.kubectl(
                "patch gauge high --type=merge --subresource=status -p '{\"status\":{\"phase\":\"patience\"}}'",
            );
        }
        assert!(size < 40, "the watch begins");
    }
    context.kubectl("label --overwrite cm one tier=back");
    labelled.until("one");
    context.kubectl("delete gauge low");
    events.until("DELETED low");
    tables.end();
    names.end();
    events.end();
    labelled.end();
}

fn the_paths_of_the_server_are_read_raw(context: &CaseContext<'_>) {
    furnish(context);
    context.kubectl("get --raw /healthz").expect_lines(&["ok"]);
    context.kubectl("get --raw /readyz").expect_lines(&["ok"]);
    context.kubectl("get --raw /apis/clients.kopfd.dev").expect_output("\"groupVersion\":\"clients.kopfd.dev/v1\"");
    context.kubectl("get --raw /apis/clients.kopfd.dev/v1").expect_output("\"name\":\"gauges/scale\"");
    let path = context.path("configmaps?limit=1");
    context.kubectl(&format!("get --raw {path}")).expect_output("\"remainingItemCount\"");
    context.kubectl_fails("get --raw /nonsense").expect_stderr("NotFound");
    context.kubectl("cluster-info").expect_output("is running at");
    context.kubectl("version -o json").expect_output("serverVersion");
    context.kubectl("config view").expect_output("REDACTED");
    context.kubectl("config current-context");
    proxy(context);
}

/// kubectl's proxy forwards requests.
fn proxy(context: &CaseContext<'_>) {
    use std::io::{Read as _, Write as _};
    let running = context.start_kubectl("proxy --port=0");
    running.until("Starting to serve on");
    let [ours, _] = running.logs();
    let port =
        ours.trim().rsplit(':').next().and_then(|port| port.parse::<u16>().ok()).expect("the proxy tells its port");
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).expect("the proxy listens");
    let path = context.path("configmaps/one");
    write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").expect("the proxy takes a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("the proxy answers");
    assert!(answer.contains("200 OK") && answer.contains("\"text\":\"first\""), "{answer}");
    running.end();
}
