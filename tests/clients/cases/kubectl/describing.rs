//! `kubectl describe`, `kubectl events`.

use serde_json::json;

use crate::cases::{Case, cases};
use crate::context::CaseContext;

pub(crate) const CASES: &[Case] =
    cases![Both: objects_are_described_with_their_events, kinds_without_objects_are_described];

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

fn objects_are_described_with_their_events(context: &CaseContext<'_>) {
    context.file("objects.yaml", OBJECTS);
    context.kubectl("create -f objects.yaml");
    for server in context.servers().servers() {
        let gauge =
            server.client.get(&context.path("clients.kopfd.dev/v1/gauges/high")).expect("the gauge was created");
        for (name, kind, reason) in [("high.1", "Normal", "Filled"), ("high.2", "Warning", "Leaking")] {
            let event = json!({
                "apiVersion": "v1", "kind": "Event", "metadata": {"name": name}, "type": kind, "reason": reason,
                "message": format!("The gauge is {}.", reason.to_lowercase()), "source": {"component": "tester"},
                "involvedObject": {"apiVersion": "clients.kopfd.dev/v1", "kind": "Gauge", "name": "high",
                    "namespace": context.namespace, "uid": gauge["metadata"]["uid"]},
                "firstTimestamp": gauge["metadata"]["creationTimestamp"], "lastTimestamp": gauge["metadata"]["creationTimestamp"],
                "count": 1,
            });
            server.client.create(&context.path("events"), &event);
        }
    }
    context
        .kubectl("describe gauge high")
        .expect_output("Size:")
        .expect_output("Leaking")
        .expect_output("The gauge is filled.");
    context.kubectl("describe gauge high --show-events=false").expect_absent("Leaking");
    context.kubectl("describe pod worker").expect_output("example.com/web:1").expect_output("/data from data (rw)");
    context.kubectl("describe deployment web").expect_output("RollingUpdateStrategy");
    context.kubectl("describe configmap settings").expect_output("several");
    context.kubectl("describe secret key").expect_output("password:  6 bytes");
    context.kubectl("describe service web").expect_output("Port:");
    context.kubectl("describe quota little").expect_output("little");
    context.kubectl("describe limits small").expect_output("200m");
    context.kubectl("describe role reader").expect_output("configmaps");
    context.kubectl("describe job once").expect_output("Parallelism:");
    context.kubectl("describe serviceaccount default").expect_output("default");
    context.kubectl(&format!("describe namespace {}", context.namespace)).expect_output("little");
    context.kubectl("describe pods,cm -l app=web").expect_output("worker").expect_absent("several");
    context.kubectl_fails("describe pod absent").expect_stderr("not found");

    context.kubectl("events").expect_output("Leaking").expect_output("Gauge/high");
    context.kubectl("events --for gauge/high --types=Warning").expect_output("Leaking").expect_absent("Filled");
    context
        .kubectl("get events --sort-by=.reason -o custom-columns=R:.reason,T:.type")
        .expect_output("Filled")
        .expect_output("Warning");
    context
        .kubectl("get events --field-selector type=Warning,involvedObject.kind=Gauge -o name")
        .expect_lines(&["event/high.2"]);
    context.kubectl("get events.events.k8s.io --field-selector reason=Filled").expect_output("gauge/high");
}

fn kinds_without_objects_are_described(context: &CaseContext<'_>) {
    context.kubectl("describe nodes").expect_lines(&[]);
    context.kubectl("describe pods").expect_stderr("No resources found");
    context
        .kubectl("describe crd gauges.clients.kopfd.dev")
        .expect_output("Accepted Names")
        .expect_output("Established");
    context.kubectl("describe gauges").expect_stderr("No resources found");
}
