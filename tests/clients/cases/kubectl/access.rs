//! `kubectl auth`.

use crate::cases::{Case, cases};
use crate::context::CaseContext;

pub(crate) const CASES: &[Case] = cases![Both: permissions_are_checked_and_granted];

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

fn permissions_are_checked_and_granted(context: &CaseContext<'_>) {
    context.kubectl("auth can-i create configmaps").expect_lines(&["yes"]);
    context.kubectl("auth can-i '*' '*'").expect_lines(&["yes"]);
    context.kubectl("auth can-i get /healthz").expect_lines(&["yes"]);
    context.kubectl("auth can-i patch gauges.clients.kopfd.dev --subresource=status").expect_lines(&["yes"]);
    context.kubectl("auth can-i --list").expect_output("*.*");
    context.kubectl("auth whoami").expect_output("Username");
    context.kubectl("auth whoami -o jsonpath={.status.userInfo.groups}").expect_output("system:masters");
    context.kubectl_fails("auth can-i create configmaps --as=bob").expect_output("no");
    context
        .kubectl_fails("get gauges --as=bob")
        .expect_stderr("(Forbidden): gauges.clients.kopfd.dev is forbidden: User \"bob\" cannot list resource");
    context.file("rules.yaml", &RULES.replace("HERE", &context.namespace));
    context.kubectl("auth reconcile -f rules.yaml --dry-run=client").expect_output("gauging reconciled (dry run)");
    context
        .kubectl("auth reconcile -f rules.yaml")
        .expect_output("rolebinding.rbac.authorization.k8s.io/gauging reconciled");
    // The real authorizer uses a cache of the rules, which is slightly behind.
    std::thread::sleep(std::time::Duration::from_millis(500));
    context.kubectl("auth can-i list gauges --as=bob").expect_lines(&["yes"]);
    context.kubectl_fails("auth can-i delete gauges --as=bob").expect_output("no");
    context.kubectl("get gauges --as=bob").expect_stderr("No resources found");
    context.kubectl("get role,rolebinding").expect_output("gauging");
}
