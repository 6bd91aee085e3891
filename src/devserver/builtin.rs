//! The built-in kinds.

use serde_json::{Value, json};

use super::failure::Failure;
use super::kind::{Kind, Scale};

/// Group, resource, kind, scope, subresources, categories, short names.
const KINDS: &str = "\
|namespaces|Namespace|C|status||ns
|configmaps|ConfigMap|N|||cm
|secrets|Secret|N|||
|serviceaccounts|ServiceAccount|N|||sa
|services|Service|N|status|all|svc
|pods|Pod|N|status|all|po
|events|Event|N|||ev
|endpoints|Endpoints|N|||ep
|nodes|Node|C|status||no
|persistentvolumeclaims|PersistentVolumeClaim|N|status||pvc
|persistentvolumes|PersistentVolume|C|status||pv
apps|deployments|Deployment|N|status,scale|all|deploy
apps|statefulsets|StatefulSet|N|status,scale|all|sts
apps|daemonsets|DaemonSet|N|status|all|ds
apps|replicasets|ReplicaSet|N|status,scale|all|rs
batch|jobs|Job|N|status|all|
batch|cronjobs|CronJob|N|status|all|cj
coordination.k8s.io|leases|Lease|N|||
events.k8s.io|events|Event|N|||ev
apiextensions.k8s.io|customresourcedefinitions|CustomResourceDefinition|C|status|api-extensions|crd,crds
admissionregistration.k8s.io|mutatingwebhookconfigurations|MutatingWebhookConfiguration|C||api-extensions|
admissionregistration.k8s.io|validatingwebhookconfigurations|ValidatingWebhookConfiguration|C||api-extensions|
rbac.authorization.k8s.io|roles|Role|N|||
rbac.authorization.k8s.io|rolebindings|RoleBinding|N|||
rbac.authorization.k8s.io|clusterroles|ClusterRole|C|||
rbac.authorization.k8s.io|clusterrolebindings|ClusterRoleBinding|C|||
authorization.k8s.io|selfsubjectaccessreviews|SelfSubjectAccessReview|C|review||
authorization.k8s.io|selfsubjectrulesreviews|SelfSubjectRulesReview|C|review||
authorization.k8s.io|subjectaccessreviews|SubjectAccessReview|C|review||
authorization.k8s.io|localsubjectaccessreviews|LocalSubjectAccessReview|N|review||
authentication.k8s.io|tokenreviews|TokenReview|C|review||
authentication.k8s.io|selfsubjectreviews|SelfSubjectReview|C|review||
networking.k8s.io|ingresses|Ingress|N|status||ing
networking.k8s.io|networkpolicies|NetworkPolicy|N|||netpol
policy|poddisruptionbudgets|PodDisruptionBudget|N|status||pdb
autoscaling|horizontalpodautoscalers|HorizontalPodAutoscaler|N|status|all|hpa
discovery.k8s.io|endpointslices|EndpointSlice|N|||
storage.k8s.io|storageclasses|StorageClass|C|||sc";

/// Returns the built-in kinds.
pub fn kinds() -> Vec<Kind> {
    KINDS.lines().filter_map(kind).collect()
}

fn kind(row: &str) -> Option<Kind> {
    let [group, plural, kind, scope, below, categories, short] = row.split('|').collect::<Vec<_>>().try_into().ok()?;
    let list = |text: &str| text.split(',').filter(|one| !one.is_empty()).map(str::to_owned).collect::<Vec<_>>();
    let version = if group == "autoscaling" { "v2" } else { "v1" };
    let below = list(below);
    let verbs = match (below.iter().any(|one| one == "review"), plural) {
        (true, _) => "create",
        (_, "namespaces") => "create,delete,get,list,patch,update,watch",
        _ => "create,delete,deletecollection,get,list,patch,update,watch",
    };
    let has = |name: &str| below.iter().any(|one| one == name);
    Some(Kind {
        group: group.to_owned(),
        version: version.to_owned(),
        storage_version: version.to_owned(),
        plural: plural.to_owned(),
        singular: kind.to_lowercase(),
        kind: kind.to_owned(),
        list_kind: format!("{kind}List"),
        short_names: list(short),
        categories: list(categories),
        verbs: list(verbs),
        namespaced: scope == "N",
        has_status: has("status"),
        scale: has("scale").then(|| Scale {
            spec_replicas: ".spec.replicas".into(),
            status_replicas: ".status.replicas".into(),
            label_selector: Some(".spec.selector".into()),
        }),
        definition: None,
    })
}

/// Fills in the defaults of an object.
pub fn prepare(kind: &Kind, object: &mut Value, old: Option<&Value>) -> Result<Vec<String>, Failure> {
    if kind.kind == "Namespace" && old.is_none() {
        object["spec"]["finalizers"] = json!(["kubernetes"]);
        object["status"]["phase"] = json!("Active");
        let name = object["metadata"]["name"].clone();
        object["metadata"]["labels"]["kubernetes.io/metadata.name"] = name;
    }
    Ok(Vec::new())
}
