//! The Job that frees the objects of an operator that is gone: by the finalizers and the kinds, without the manifest
//! and the scripts.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::package::{Package, label};
use super::workload;
use crate::handling::rights::{EVERY, Purpose};

/// The namespace of the Job: that of the operator may be gone, and one that is being deleted takes no pods.
const NAMESPACE: &str = "default";

const GROUP: &str = "rbac.authorization.k8s.io";

/// Returns the account of the Job, its role and binding, and the Job; nothing if the operator has no finalizers.
pub(super) fn documents(package: &Package) -> Vec<Value> {
    let kinds = kinds(package);
    if kinds.is_empty() {
        return Vec::new();
    }
    let name = label(&package.name, "-janitor");
    let metadata = json!({"name": name});
    let home = json!({"name": name, "namespace": NAMESPACE});
    // In a namespace that is being deleted, roles may be gone before the objects.
    let rules: Vec<Value> = kinds
        .iter()
        .map(|(group, plural)| json!({"apiGroups": [group], "resources": [plural], "verbs": ["get", "list", "patch"]}))
        .collect();
    vec![
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": home}),
        json!({"apiVersion": format!("{GROUP}/v1"), "kind": "ClusterRole", "metadata": metadata, "rules": rules}),
        json!({
            "apiVersion": format!("{GROUP}/v1"),
            "kind": "ClusterRoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}],
        }),
        json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": home,
            "spec": {
                "backoffLimit": 10,
                "ttlSecondsAfterFinished": 3600,
                "template": {
                    "spec": {
                        "restartPolicy": "OnFailure",
                        "serviceAccountName": name,
                        "securityContext": workload::pod_security(),
                        "containers": [{
                            "name": "janitor",
                            "image": package.image,
                            "args": arguments(package, &kinds),
                            "resources": workload::resources(),
                            "securityContext": workload::container_security(),
                        }],
                    },
                },
            },
        }),
    ]
}

fn arguments(package: &Package, kinds: &BTreeSet<(String, String)>) -> Vec<String> {
    let kind = |(group, plural): &(String, String)| {
        if group.is_empty() || group == EVERY { plural.clone() } else { format!("{plural}.{group}") }
    };
    let finalizers = package.finalizers.iter().map(|finalizer| format!("--finalizer={finalizer}"));
    let kinds = kinds.iter().map(|one| format!("--kind={}", kind(one)));
    ["uninstall".to_owned(), "--janitor".to_owned()].into_iter().chain(finalizers).chain(kinds).collect()
}

/// Returns the groups and plural names of the kinds whose objects the operator changes.
fn kinds(package: &Package) -> BTreeSet<(String, String)> {
    let is_handled = |purpose: Purpose| purpose == Purpose::Handling;
    let of = package
        .rights
        .iter()
        .filter(|(right, purpose)| is_handled(**purpose) && right.verb == "patch" && !right.resource.contains('/'));
    of.map(|(right, _)| (right.group.clone(), right.resource.clone())).collect()
}
