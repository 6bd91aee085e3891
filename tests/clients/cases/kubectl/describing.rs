//! `kubectl describe`, `kubectl events`.

use serde_json::json;

use crate::cases::{Case, cases};
use crate::stage::Stage;

pub(crate) const CASES: &[Case] = cases![Both: objects_are_described_with_their_events, kinds_without_objects_are_described];

const OBJECTS: &str = r#"
apiVersion: clients.kopfd.dev/v1
kind: Gauge
metadata: {name: high, labels: {a: b}, annotations: {note: long}}
spec: {size: 70, marks: [{name: top, value: 9}]}
---
apiVersion: v1
kind: Pod
metadata: {name: worker, labels: {app: web}}
spec:
  containers:
    - name: main
      image: example.com/web:1
      args: [serve]
      env: [{name: A, value: "1"}, {name: B, valueFrom: {configMapKeyRef: {name: settings, key: b}}}]
      ports: [{containerPort: 80}]
      resources: {limits: {cpu: 100m, memory: 64Mi}}
      livenessProbe: {httpGet: {path: /healthz, port: 80}}
      volumeMounts: [{name: data, mountPath: /data}]
  volumes: [{name: data, emptyDir: {}}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: "example.com/web:1"}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {b: "2", text: "several\nlines\n"}
binaryData: {c: AAE=}
---
apiVersion: v1
kind: Secret
metadata: {name: key}
stringData: {password: secret}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {clusterIP: None, selector: {app: web}, ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: little}
spec: {hard: {secrets: "5"}}
---
apiVersion: v1
kind: LimitRange
metadata: {name: small}
spec: {limits: [{type: Container, default: {cpu: 200m}}]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [get, list]}]
---
apiVersion: batch/v1
kind: Job
metadata: {name: once}
spec:
  template:
    spec: {restartPolicy: Never, containers: [{name: main, image: "example.com/once:1"}]}
"#;

fn objects_are_described_with_their_events(stage: &Stage<'_>) {
    stage.file("objects.yaml", OBJECTS);
    stage.kubectl("create -f objects.yaml");
    for server in stage.world().servers() {
        let gauge = server.client.get(&stage.path("clients.kopfd.dev/v1/gauges/high")).expect("the gauge was created");
        for (name, kind, reason) in [("high.1", "Normal", "Filled"), ("high.2", "Warning", "Leaking")] {
            let event = json!({
                "apiVersion": "v1", "kind": "Event", "metadata": {"name": name}, "type": kind, "reason": reason,
                "message": format!("The gauge is {}.", reason.to_lowercase()), "source": {"component": "tester"},
                "involvedObject": {"apiVersion": "clients.kopfd.dev/v1", "kind": "Gauge", "name": "high",
                    "namespace": stage.namespace, "uid": gauge["metadata"]["uid"]},
                "firstTimestamp": gauge["metadata"]["creationTimestamp"], "lastTimestamp": gauge["metadata"]["creationTimestamp"],
                "count": 1,
            });
            server.client.create(&stage.path("events"), &event);
        }
    }
    stage.kubectl("describe gauge high").prints("Size:").prints("Leaking").prints("The gauge is filled.");
    stage.kubectl("describe gauge high --show-events=false").hides("Leaking");
    stage.kubectl("describe pod worker").prints("example.com/web:1").prints("/data from data (rw)");
    stage.kubectl("describe deployment web").prints("RollingUpdateStrategy");
    stage.kubectl("describe configmap settings").prints("several");
    stage.kubectl("describe secret key").prints("password:  6 bytes");
    stage.kubectl("describe service web").prints("Port:");
    stage.kubectl("describe quota little").prints("little");
    stage.kubectl("describe limits small").prints("200m");
    stage.kubectl("describe role reader").prints("configmaps");
    stage.kubectl("describe job once").prints("Parallelism:");
    stage.kubectl("describe serviceaccount default").prints("default");
    stage.kubectl(&format!("describe namespace {}", stage.namespace)).prints("little");
    stage.kubectl("describe pods,cm -l app=web").prints("worker").hides("several");
    stage.kubectl_fails("describe pod absent").complains("not found");

    stage.kubectl("events").prints("Leaking").prints("Gauge/high");
    stage.kubectl("events --for gauge/high --types=Warning").prints("Leaking").hides("Filled");
    stage.kubectl("get events --sort-by=.reason -o custom-columns=R:.reason,T:.type").prints("Filled").prints("Warning");
    stage.kubectl("get events --field-selector type=Warning,involvedObject.kind=Gauge -o name").prints_lines(&["event/high.2"]);
    stage.kubectl("get events.events.k8s.io --field-selector reason=Filled").prints("gauge/high");
}

fn kinds_without_objects_are_described(stage: &Stage<'_>) {
    stage.kubectl("describe nodes").prints_lines(&[]);
    stage.kubectl("describe pods").complains("No resources found");
    stage.kubectl("describe crd gauges.clients.kopfd.dev").prints("Accepted Names").prints("Established");
    stage.kubectl("describe gauges").complains("No resources found");
}
