//! The kinds that are known without a cluster: the built-in ones, and those of the definitions that manifests name.

use std::collections::BTreeSet;

use super::operator::Operator;
use super::source::Source;
use super::tree::{self, Kind, Node};
use crate::object::{Resource, Selector};

/// The built-in kinds of Kubernetes: group, plural, kind, and short names.
const BUILT_IN: [(&str, &str, &str, &str); 46] = [
    ("", "configmaps", "ConfigMap", "cm"),
    ("", "endpoints", "Endpoints", "ep"),
    ("", "events", "Event", "ev"),
    ("", "limitranges", "LimitRange", "limits"),
    ("", "namespaces", "Namespace", "ns"),
    ("", "nodes", "Node", "no"),
    ("", "persistentvolumeclaims", "PersistentVolumeClaim", "pvc"),
    ("", "persistentvolumes", "PersistentVolume", "pv"),
    ("", "pods", "Pod", "po"),
    ("", "podtemplates", "PodTemplate", ""),
    ("", "replicationcontrollers", "ReplicationController", "rc"),
    ("", "resourcequotas", "ResourceQuota", "quota"),
    ("", "secrets", "Secret", ""),
    ("", "serviceaccounts", "ServiceAccount", "sa"),
    ("", "services", "Service", "svc"),
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", ""),
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", ""),
    ("apiextensions.k8s.io", "customresourcedefinitions", "CustomResourceDefinition", "crd crds"),
    ("apps", "controllerrevisions", "ControllerRevision", ""),
    ("apps", "daemonsets", "DaemonSet", "ds"),
    ("apps", "deployments", "Deployment", "deploy"),
    ("apps", "replicasets", "ReplicaSet", "rs"),
    ("apps", "statefulsets", "StatefulSet", "sts"),
    ("authentication.k8s.io", "selfsubjectreviews", "SelfSubjectReview", ""),
    ("authentication.k8s.io", "tokenreviews", "TokenReview", ""),
    ("authorization.k8s.io", "localsubjectaccessreviews", "LocalSubjectAccessReview", ""),
    ("authorization.k8s.io", "selfsubjectaccessreviews", "SelfSubjectAccessReview", ""),
    ("authorization.k8s.io", "selfsubjectrulesreviews", "SelfSubjectRulesReview", ""),
    ("authorization.k8s.io", "subjectaccessreviews", "SubjectAccessReview", ""),
    ("autoscaling", "horizontalpodautoscalers", "HorizontalPodAutoscaler", "hpa"),
    ("batch", "cronjobs", "CronJob", "cj"),
    ("batch", "jobs", "Job", ""),
    ("coordination.k8s.io", "leases", "Lease", ""),
    ("discovery.k8s.io", "endpointslices", "EndpointSlice", ""),
    ("events.k8s.io", "events", "Event", "ev"),
    ("networking.k8s.io", "ingressclasses", "IngressClass", ""),
    ("networking.k8s.io", "ingresses", "Ingress", "ing"),
    ("networking.k8s.io", "networkpolicies", "NetworkPolicy", "netpol"),
    ("node.k8s.io", "runtimeclasses", "RuntimeClass", ""),
    ("policy", "poddisruptionbudgets", "PodDisruptionBudget", "pdb"),
    ("rbac.authorization.k8s.io", "clusterrolebindings", "ClusterRoleBinding", ""),
    ("rbac.authorization.k8s.io", "clusterroles", "ClusterRole", ""),
    ("rbac.authorization.k8s.io", "rolebindings", "RoleBinding", ""),
    ("rbac.authorization.k8s.io", "roles", "Role", ""),
    ("scheduling.k8s.io", "priorityclasses", "PriorityClass", "pc"),
    ("storage.k8s.io", "storageclasses", "StorageClass", "sc"),
];

/// Returns the kinds that are built in, and those that the definitions of the operators define.
///
/// Versions do not matter here: all of them mean the same objects.
pub fn of(operators: &[Operator]) -> Vec<Resource> {
    let built_in = BUILT_IN.iter().map(|(group, plural, kind, short)| Resource {
        group: (*group).to_owned(),
        plural: (*plural).to_owned(),
        kind: (*kind).to_owned(),
        singular: kind.to_lowercase(),
        shortcuts: short.split_whitespace().map(str::to_owned).collect(),
        preferred: true,
        ..Resource::default()
    });
    let files: BTreeSet<_> = operators.iter().flat_map(|operator| &operator.crds).collect();
    built_in.chain(files.into_iter().flat_map(|file| defined(file))).collect()
}

/// Returns the names of the kinds that a selector means, as far as they are known.
pub fn meant<'a>(selector: &Selector, known: &'a [Resource]) -> BTreeSet<(&'a str, &'a str)> {
    let of_any_version = Selector { version: None, ..selector.clone() };
    of_any_version.select(known).into_iter().map(|resource| (resource.group.as_str(), resource.plural.as_str())).collect()
}

fn defined(file: &std::path::Path) -> Vec<Resource> {
    // What is wrong with the file is told where the manifest names it.
    let Ok(source) = Source::read(file) else { return Vec::new() };
    let documents = tree::parse(&source).unwrap_or_default();
    documents.iter().filter_map(|document| resource(&document.root)).collect()
}

fn resource(definition: &Node) -> Option<Resource> {
    let text = |node: Option<&Node>| node.and_then(Node::text).map(str::to_owned);
    let spec = definition.get("spec")?;
    let names = spec.get("names")?;
    let all = |key: &str| match names.get(key).map(|node| &node.kind) {
        Some(Kind::List(items)) => items.iter().filter_map(|item| text(Some(item))).collect(),
        _ => Vec::new(),
    };
    let kind = text(names.get("kind")).unwrap_or_default();
    Some(Resource {
        group: text(spec.get("group"))?,
        plural: text(names.get("plural"))?,
        singular: text(names.get("singular")).unwrap_or_else(|| kind.to_lowercase()),
        kind,
        shortcuts: all("shortNames"),
        categories: all("categories"),
        preferred: true,
        ..Resource::default()
    })
}
