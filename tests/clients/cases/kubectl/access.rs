//! `kubectl auth`.

use crate::cases::{Case, cases};
use crate::stage::Stage;

pub(crate) const CASES: &[Case] = cases![Both: rights_are_asked_for_and_given];

const RULES: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: gauging, namespace: HERE}
rules: [{apiGroups: [clients.kopfd.dev], resources: [gauges], verbs: [get, list, watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: gauging, namespace: HERE}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: gauging}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: bob}]
";

fn rights_are_asked_for_and_given(stage: &Stage<'_>) {
    stage.kubectl("auth can-i create configmaps").prints_lines(&["yes"]);
    stage.kubectl("auth can-i '*' '*'").prints_lines(&["yes"]);
    stage.kubectl("auth can-i get /healthz").prints_lines(&["yes"]);
    stage.kubectl("auth can-i patch gauges.clients.kopfd.dev --subresource=status").prints_lines(&["yes"]);
    stage.kubectl("auth can-i --list").prints("*.*");
    stage.kubectl("auth whoami").prints("Username");
    stage.kubectl("auth whoami -o jsonpath={.status.userInfo.groups}").prints("system:masters");
    stage.kubectl_fails("auth can-i create configmaps --as=bob").prints("no");
    stage
        .kubectl_fails("get gauges --as=bob")
        .complains("(Forbidden): gauges.clients.kopfd.dev is forbidden: User \"bob\" cannot list resource");
    stage.file("rules.yaml", &RULES.replace("HERE", &stage.namespace));
    stage.kubectl("auth reconcile -f rules.yaml --dry-run=client").prints("gauging reconciled (dry run)");
    stage.kubectl("auth reconcile -f rules.yaml").prints("rolebinding.rbac.authorization.k8s.io/gauging reconciled");
    // The real authorizer uses a cache of the rules, which is slightly behind.
    std::thread::sleep(std::time::Duration::from_millis(500));
    stage.kubectl("auth can-i list gauges --as=bob").prints_lines(&["yes"]);
    stage.kubectl_fails("auth can-i delete gauges --as=bob").prints("no");
    stage.kubectl("get gauges --as=bob").complains("No resources found");
    stage.kubectl("get role,rolebinding").prints("gauging");
}
