//! `kubectl rollout`, `set`.

use serde_json::json;

use crate::cases::{Case, cases};
use crate::context::CaseContext;

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

fn deployments_are_rolled_out(context: &CaseContext<'_>) {
    context.file("web.yaml", WEB);
    context.kubectl("create -f web.yaml");
    context.kubectl("rollout pause deployment web").expect_output("deployment.apps/web paused");
    assert_eq!(context.object("apps/v1/deployments/web")["spec"]["paused"], true);
    context.kubectl("rollout resume deployment/web").expect_output("deployment.apps/web resumed");
    context.kubectl("rollout restart deployment/web").expect_output("deployment.apps/web restarted");
    let web = context.object("apps/v1/deployments/web");
    assert!(
        web["spec"]["template"]["metadata"]["annotations"]["kubectl.kubernetes.io/restartedAt"].is_string(),
        "{web}"
    );
    let status = context.start_kubectl("rollout status deployment/web --timeout=30s");
    status.until("Waiting for deployment spec update to be observed");
    let done = json!({"status": {
        "observedGeneration": 9, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2, "availableReplicas": 2,
        "conditions": [{"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable", "message": "done"},
            {"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable", "message": "done"}],
    }});
    context
        .kubectl(&format!("patch deployment web --subresource=status --type=merge -p '{done}'"))
        .expect_output("patched");
    assert!(status.finish().contains("deployment \"web\" successfully rolled out"));
    context.kubectl("wait --for=condition=Available deployment/web --timeout=5s").expect_output("condition met");
    context.kubectl("get deployment web").expect_output("2/2");
    context.kubectl("rollout history deployment/web");
    context.kubectl_fails("rollout undo deployment/web").expect_stderr("no rollout history found");
}

fn parts_of_templates_are_set(context: &CaseContext<'_>) {
    context.file("web.yaml", WEB);
    context.kubectl("create -f web.yaml");
    context
        .kubectl("set image deployment/web main=example.com/web:2")
        .expect_output("deployment.apps/web image updated");
    context
        .kubectl("set image deployment/web *=example.com/all:1 --dry-run=server")
        .expect_output("image updated (server dry run)");
    context.kubectl("set env deployment/web A=1 B=2").expect_output("deployment.apps/web env updated");
    context.kubectl("set env deployment/web B- --containers=main").expect_output("env updated");
    context.kubectl("set env deployment/web --list").expect_output("A=1");
    context
        .kubectl("set resources deployment web -c=main --limits=cpu=200m,memory=64Mi")
        .expect_output("resource requirements updated");
    context.kubectl("set serviceaccount deployment web robot").expect_output("serviceaccount updated");
    let spec = context.object("apps/v1/deployments/web")["spec"]["template"]["spec"].clone();
    assert_eq!(spec["containers"][0]["image"], "example.com/web:2");
    assert_eq!(spec["containers"][0]["env"], json!([{"name": "A", "value": "1"}]));
    assert_eq!(
        (&spec["containers"][0]["resources"]["limits"]["cpu"], &spec["serviceAccountName"]),
        (&json!("200m"), &json!("robot"))
    );
    context
        .kubectl_fails("set image deployment/web none=example.com/web:2")
        .expect_stderr("unable to find container named \"none\"");
    context.file(
        "service.yaml",
        "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {selector: {app: old}, ports: [{port: 80}]}\n",
    );
    context.kubectl("create -f service.yaml");
    context.kubectl("set selector service web app=web").expect_output("selector updated");
    assert_eq!(context.object("services/web")["spec"]["selector"], json!({"app": "web"}));
}
