//! `kubectl rollout`, `set`.

use serde_json::json;

use crate::cases::{Case, cases};
use crate::stage::Stage;

pub(crate) const CASES: &[Case] = cases![Both: deployments_are_rolled_out, parts_of_templates_are_set];

const WEB: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: "example.com/web:1"}, {name: aside, image: "example.com/aside:1"}]}
"#;

fn deployments_are_rolled_out(stage: &Stage<'_>) {
    stage.file("web.yaml", WEB);
    stage.kubectl("create -f web.yaml");
    stage.kubectl("rollout pause deployment web").prints("deployment.apps/web paused");
    assert_eq!(stage.object("apps/v1/deployments/web")["spec"]["paused"], true);
    stage.kubectl("rollout resume deployment/web").prints("deployment.apps/web resumed");
    stage.kubectl("rollout restart deployment/web").prints("deployment.apps/web restarted");
    let web = stage.object("apps/v1/deployments/web");
    assert!(web["spec"]["template"]["metadata"]["annotations"]["kubectl.kubernetes.io/restartedAt"].is_string(), "{web}");
    let status = stage.start_kubectl("rollout status deployment/web --timeout=30s");
    status.until("Waiting for deployment spec update to be observed");
    let done = json!({"status": {
        "observedGeneration": 9, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2, "availableReplicas": 2,
        "conditions": [{"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable", "message": "done"},
            {"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable", "message": "done"}],
    }});
    stage.kubectl(&format!("patch deployment web --subresource=status --type=merge -p '{done}'")).prints("patched");
    assert!(status.finish().contains("deployment \"web\" successfully rolled out"));
    stage.kubectl("wait --for=condition=Available deployment/web --timeout=5s").prints("condition met");
    stage.kubectl("get deployment web").prints("2/2");
    stage.kubectl("rollout history deployment/web");
    stage.kubectl_fails("rollout undo deployment/web").complains("no rollout history found");
}

fn parts_of_templates_are_set(stage: &Stage<'_>) {
    stage.file("web.yaml", WEB);
    stage.kubectl("create -f web.yaml");
    stage.kubectl("set image deployment/web main=example.com/web:2").prints("deployment.apps/web image updated");
    stage.kubectl("set image deployment/web *=example.com/all:1 --dry-run=server").prints("image updated (server dry run)");
    stage.kubectl("set env deployment/web A=1 B=2").prints("deployment.apps/web env updated");
    stage.kubectl("set env deployment/web B- --containers=main").prints("env updated");
    stage.kubectl("set env deployment/web --list").prints("A=1");
    stage.kubectl("set resources deployment web -c=main --limits=cpu=200m,memory=64Mi").prints("resource requirements updated");
    stage.kubectl("set serviceaccount deployment web robot").prints("serviceaccount updated");
    let spec = stage.object("apps/v1/deployments/web")["spec"]["template"]["spec"].clone();
    assert_eq!(spec["containers"][0]["image"], "example.com/web:2");
    assert_eq!(spec["containers"][0]["env"], json!([{"name": "A", "value": "1"}]));
    assert_eq!((&spec["containers"][0]["resources"]["limits"]["cpu"], &spec["serviceAccountName"]), (&json!("200m"), &json!("robot")));
    stage.kubectl_fails("set image deployment/web none=example.com/web:2").complains("unable to find container named \"none\"");
    stage.file("service.yaml", "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {selector: {app: old}, ports: [{port: 80}]}\n");
    stage.kubectl("create -f service.yaml");
    stage.kubectl("set selector service web app=web").prints("selector updated");
    assert_eq!(stage.object("services/web")["spec"]["selector"], json!({"app": "web"}));
}
