//! `kubectl get` in all its outputs.

use serde_json::json;

use crate::cases::{Case, cases};
use crate::stage::Stage;

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

fn furnish(stage: &Stage<'_>) {
    stage.file("shelf.yaml", SHELF);
    stage.kubectl("create -f shelf.yaml").prints_lines(&[
        "configmap/one created",
        "configmap/two created",
        "configmap/three created",
        "gauge.clients.kopfd.dev/high created",
        "gauge.clients.kopfd.dev/low created",
    ]);
}

fn objects_are_shown_in_every_output(stage: &Stage<'_>) {
    furnish(stage);
    let phase = r#"{"status":{"phase":"Steady"}}"#;
    stage
        .kubectl(&format!("patch gauge high --subresource=status --type=merge -p '{phase}'"))
        .prints("gauge.clients.kopfd.dev/high patched");

    stage.kubectl("get gauges").prints_lines(&["NAME SIZE PHASE AGE", "high 70 Steady AGE", "low 1 AGE"]);
    stage.kubectl("get gauges -o wide").prints_lines(&["NAME SIZE PHASE MODE AGE", "high 70 Steady precise AGE", "low 1 plain AGE"]);
    stage.kubectl("get gg --no-headers").prints_lines(&["high 70 Steady AGE", "low 1 AGE"]);
    stage.kubectl("get gauges.v1.clients.kopfd.dev low").prints_lines(&["NAME SIZE PHASE AGE", "low 1 AGE"]);
    stage.kubectl("get meters -o name").prints_lines(&["gauge.clients.kopfd.dev/high", "gauge.clients.kopfd.dev/low"]);
    let shown: serde_json::Value = serde_json::from_str(&stage.kubectl("get gauge high -o json").stdout).expect("the output is JSON");
    assert_eq!((&shown["spec"]["size"], &shown["status"]["phase"]), (&json!(70), &json!("Steady")));
    stage.kubectl("get gauges -o json").prints(r#""kind": "List""#);
    stage.kubectl("get gauge low -o yaml").prints("  size: 1\n").hides("managedFields");
    stage.kubectl("get gauge low -o yaml --show-managed-fields").prints("manager: kubectl-create");
    stage.kubectl("get gauges -o jsonpath='{range .items[*]}{.metadata.name}={.spec.size};{end}'").prints("high=70;low=1;");
    stage.kubectl("get gauge high -o jsonpath='{.spec.marks[?(@.name==\"top\")].value}'").prints("9");
    stage.kubectl("get cm one two -o go-template='{{range .items}}{{.metadata.name}} {{.data.rank}},{{end}}'").prints("one 3,two 1,");
    stage.kubectl("get gauges -o custom-columns=NAME:.metadata.name,MODE:.spec.mode,NONE:.spec.none").prints_lines(&[
        "NAME MODE NONE",
        "high precise <none>",
        "low plain <none>",
    ]);
    stage.kubectl("get cm --sort-by=.data.rank -o name").prints("configmap/two\nconfigmap/three\nconfigmap/one\n");
    stage
        .kubectl("get cm one two three --sort-by='{.metadata.name}' --no-headers -o custom-columns=:.metadata.name")
        .prints("one\nthree\ntwo\n");
    stage.kubectl("get cm one --show-labels").prints("colour=red,tier=front");
    stage.kubectl("get cm -L tier,colour").prints("back");
    // Other cases have gauges, too, and delete them at the same time.
    let own = format!("-A --field-selector metadata.namespace={}", stage.namespace);
    stage
        .kubectl(&format!("get gg {own} -l 'shelf=reading,shelf notin (other)' --no-headers -o custom-columns=:.metadata.name"))
        .prints("high\nlow\n");
    stage.kubectl("get cm,gauges --chunk-size=1").prints("configmap/three").prints("gauge.clients.kopfd.dev/low");
    stage.kubectl("get -f shelf.yaml").prints("configmap/two").prints("gauge.clients.kopfd.dev/high");
    stage.kubectl("get gauge high --subresource=scale").prints("NAME");
    stage.kubectl("get gauge high --subresource=status -o name").prints_lines(&["gauge.clients.kopfd.dev/high"]);
    stage.kubectl("get gauge absent --ignore-not-found").prints_lines(&[]);
    stage.kubectl_fails("get gauge absent").complains("(NotFound): gauges.clients.kopfd.dev \"absent\" not found");
    stage.kubectl_fails("get nonsense").complains("the server doesn't have a resource type \"nonsense\"");
    stage.kubectl("get gauges --output-watch-events=false --server-print=false").prints("high");
    stage.kubectl("get namespaces default kube-system -o name").prints_lines(&["namespace/default", "namespace/kube-system"]);
    stage.kubectl("get crd gauges.clients.kopfd.dev").prints("gauges.clients.kopfd.dev");
    stage.kubectl("get nodes").complains("No resources found");
    stage.kubectl("get pods").complains("No resources found in");
    stage.object("clients.kopfd.dev/v1/gauges/high");
    stage.object("configmaps/one");
}

fn objects_are_selected_by_labels_and_fields(stage: &Stage<'_>) {
    furnish(stage);
    stage.kubectl("get cm -l tier=back -o name").prints_lines(&["configmap/three", "configmap/two"]);
    stage.kubectl("get cm -l 'tier in (front,back),!colour' -o name").prints_lines(&["configmap/two"]);
    stage.kubectl("get cm -l 'colour,colour!=red' -o name").prints_lines(&["configmap/three"]);
    stage.kubectl("get cm --selector='colour notin (red,blue),tier' -o name").prints_lines(&["configmap/two"]);
    stage.kubectl("get cm --field-selector metadata.name=one -o name").prints_lines(&["configmap/one"]);
    stage.kubectl("get cm --field-selector metadata.name!=one -l tier -o name").prints_lines(&["configmap/three", "configmap/two"]);
    stage.kubectl("get gauges --field-selector spec.mode=precise -o name").prints_lines(&["gauge.clients.kopfd.dev/high"]);
    stage.kubectl("get gauges -A -l shelf=reading --field-selector metadata.namespace=nowhere").complains("No resources found");
    stage.kubectl_fails("get gauges --field-selector spec.size=1").complains("field label not supported");
    stage.kubectl_fails("get cm -l 'a=b=c'").complains("found '=', expected");
    stage.file("pods.yaml", PODS);
    stage.kubectl("create -f pods.yaml").prints("pod/placed created");
    stage.kubectl("get pods --field-selector spec.nodeName= -o name").prints_lines(&["pod/homeless"]);
    stage.kubectl("get pods --field-selector spec.nodeName=somewhere,status.phase=Pending -o name").prints_lines(&["pod/placed"]);
    stage.kubectl("get pods --field-selector spec.restartPolicy=Never -o name").prints_lines(&["pod/placed"]);
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

fn workloads_are_shown_in_their_tables(stage: &Stage<'_>) {
    stage.file("workloads.yaml", WORKLOADS);
    stage.file("pods.yaml", PODS);
    stage
        .kubectl("create -f workloads.yaml -f pods.yaml")
        .prints("deployment.apps/web created")
        .prints("lease.coordination.k8s.io/lead created");
    stage.kubectl("get all").prints("pod/homeless").prints("deployment.apps/web").prints("cronjob.batch/nightly").prints("service/web");
    stage.kubectl("get all -o wide").prints("example.com/store:1");
    stage.kubectl("get deployment web -o wide").prints("app=web");
    stage.kubectl("get pods").prints_lines(&["NAME READY STATUS RESTARTS AGE", "homeless 0/1 Pending 0 AGE", "placed 0/2 Pending 0 AGE"]);
    stage.kubectl("get pods -o wide --show-kind").prints("somewhere");
    stage.kubectl("get secret key").prints("Opaque");
    stage.kubectl("get ingress,pdb,pvc,lease,hpa").prints("web.example.com").prints("somebody").prints("Deployment/web");
    stage.kubectl("get serviceaccounts").prints("default");
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
        assert!(stage.object(place).is_object(), "{place} is there");
    }
}

fn changes_are_watched(stage: &Stage<'_>) {
    furnish(stage);
    let tables = stage.start_kubectl("get gauges -w");
    let names = stage.start_kubectl("get gauges --watch-only -o name");
    let events = stage
        .start_kubectl("get gauges -w --output-watch-events -o jsonpath='{.type} {.object.metadata.name} {.object.spec.size}{\"\\n\"}'");
    let labelled = stage.start_kubectl("get cm -w -l tier=back -o custom-columns=NAME:.metadata.name,RANK:.data.rank");
    tables.until("low");
    events.until("ADDED low");
    labelled.until("two");
    // The start of a watch is not visible: a change is repeated until it is seen.
    let mut size = 1;
    while [tables.seen("patience"), names.seen("low")].contains(&false) {
        size += 1;
        stage.kubectl(&format!("patch gauge low --type=merge -p '{{\"spec\":{{\"size\":{size}}}}}'"));
        stage.kubectl("annotate --overwrite gauge low seen=yes");
        if size == 3 {
            stage.kubectl("patch gauge high --type=merge --subresource=status -p '{\"status\":{\"phase\":\"patience\"}}'");
        }
        assert!(size < 40, "the watch begins");
    }
    stage.kubectl("label --overwrite cm one tier=back");
    labelled.until("one");
    stage.kubectl("delete gauge low");
    events.until("DELETED low");
    tables.end();
    names.end();
    events.end();
    labelled.end();
}

fn the_paths_of_the_server_are_read_raw(stage: &Stage<'_>) {
    furnish(stage);
    stage.kubectl("get --raw /healthz").prints_lines(&["ok"]);
    stage.kubectl("get --raw /readyz").prints_lines(&["ok"]);
    stage.kubectl("get --raw /apis/clients.kopfd.dev").prints("\"groupVersion\":\"clients.kopfd.dev/v1\"");
    stage.kubectl("get --raw /apis/clients.kopfd.dev/v1").prints("\"name\":\"gauges/scale\"");
    let path = stage.path("configmaps?limit=1");
    stage.kubectl(&format!("get --raw {path}")).prints("\"remainingItemCount\"");
    stage.kubectl_fails("get --raw /nonsense").complains("NotFound");
    stage.kubectl("cluster-info").prints("is running at");
    stage.kubectl("version -o json").prints("serverVersion");
    stage.kubectl("config view").prints("REDACTED");
    stage.kubectl("config current-context");
    proxy(stage);
}

/// kubectl's proxy forwards requests.
fn proxy(stage: &Stage<'_>) {
    use std::io::{Read as _, Write as _};
    let running = stage.start_kubectl("proxy --port=0");
    running.until("Starting to serve on");
    let [ours, _] = running.logs();
    let port = ours.trim().rsplit(':').next().and_then(|port| port.parse::<u16>().ok()).expect("the proxy tells its port");
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).expect("the proxy listens");
    let path = stage.path("configmaps/one");
    write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").expect("the proxy takes a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("the proxy answers");
    assert!(answer.contains("200 OK") && answer.contains("\"text\":\"first\""), "{answer}");
    running.end();
}
