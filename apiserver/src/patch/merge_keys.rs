//! Merge strategies of lists and maps in built-in kinds, as data: their merge keys for strategic patches, and their
//! ownership.
//!
//! A shape is a struct of the API, such as a container. Fields that are not in the table are plain: lists are replaced
//! as a whole, and maps are merged.

/// One field with a merge strategy.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Field {
    /// The shape with the field; for the top of an object, the kind.
    pub shape: &'static str,
    /// The field's name.
    pub name: &'static str,
    /// The shape of the value, or of the list's items; empty for plain data.
    pub holds: &'static str,
    /// Its strategy in strategic patches: a merge key, [`SET`], [`REPLACE`], or empty for the default.
    pub merge: &'static str,
    /// Its ownership: the keys of the list with their defaults, such as `port protocol=TCP`, [`SET`], [`ATOMIC`], or
    /// empty for the default.
    pub owned: &'static str,
}

/// A list of strings without order.
pub(crate) const SET: &str = "(set)";
/// A map that patches replace as a whole.
pub(crate) const REPLACE: &str = "(replace)";
/// A map or a list that is owned as a whole.
pub(crate) const ATOMIC: &str = "(atomic)";

const fn field(
    shape: &'static str,
    name: &'static str,
    holds: &'static str,
    merge: &'static str,
    owned: &'static str,
) -> Field {
    Field { shape, name, holds, merge, owned }
}

/// Returns a field whose value only contains other fields.
const fn way(shape: &'static str, name: &'static str, holds: &'static str) -> Field {
    field(shape, name, holds, "", "")
}

/// Returns a list of maps with the same key for patches and ownership.
const fn keyed(shape: &'static str, name: &'static str, holds: &'static str, key: &'static str) -> Field {
    field(shape, name, holds, key, key)
}

/// Returns a map or list that is owned as a whole.
const fn atomic(shape: &'static str, name: &'static str) -> Field {
    field(shape, name, "", "", ATOMIC)
}

const FIELDS: &[Field] = &[
    way("*", "metadata", "ObjectMeta"),
    keyed("ObjectMeta", "ownerReferences", "Atomic", "uid"),
    field("ObjectMeta", "finalizers", "", SET, SET),
    // Workloads.
    way("Pod", "spec", "PodSpec"),
    way("Pod", "status", "PodStatus"),
    way("PodTemplate", "template", "PodTemplateSpec"),
    way("ReplicationController", "spec", "WorkloadSpec"),
    way("ReplicationController", "status", "Status"),
    way("Ingress", "spec", "IngressSpec"),
    way("IngressSpec", "defaultBackend", "IngressBackend"),
    way("IngressBackend", "service", "IngressServiceBackend"),
    atomic("IngressServiceBackend", "port"),
    way("Deployment", "spec", "WorkloadSpec"),
    way("Deployment", "status", "Status"),
    way("StatefulSet", "spec", "WorkloadSpec"),
    way("StatefulSet", "status", "Status"),
    way("DaemonSet", "spec", "WorkloadSpec"),
    way("DaemonSet", "status", "Status"),
    way("ReplicaSet", "spec", "WorkloadSpec"),
    way("ReplicaSet", "status", "Status"),
    way("Job", "spec", "WorkloadSpec"),
    way("Job", "status", "JobStatus"),
    way("CronJob", "spec", "CronJobSpec"),
    way("CronJobSpec", "jobTemplate", "JobTemplateSpec"),
    way("JobTemplateSpec", "metadata", "ObjectMeta"),
    way("JobTemplateSpec", "spec", "WorkloadSpec"),
    way("WorkloadSpec", "template", "PodTemplateSpec"),
    atomic("WorkloadSpec", "selector"),
    way("PodTemplateSpec", "metadata", "ObjectMeta"),
    way("PodTemplateSpec", "spec", "PodSpec"),
    // Pods.
    keyed("PodSpec", "containers", "Container", "name"),
    keyed("PodSpec", "initContainers", "Container", "name"),
    keyed("PodSpec", "ephemeralContainers", "Container", "name"),
    keyed("PodSpec", "imagePullSecrets", "Atomic", "name"),
    keyed("PodSpec", "schedulingGates", "", "name"),
    keyed("PodSpec", "volumes", "", "name"),
    keyed("PodSpec", "resourceClaims", "", "name"),
    keyed("PodSpec", "hostAliases", "", "ip"),
    field("PodSpec", "topologySpreadConstraints", "TopologySpread", "topologyKey", "topologyKey whenUnsatisfiable"),
    atomic("TopologySpread", "labelSelector"),
    atomic("PodSpec", "nodeSelector"),
    way("PodSpec", "affinity", "Affinity"),
    way("Affinity", "nodeAffinity", "NodeAffinity"),
    atomic("NodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"),
    keyed("Container", "env", "EnvVar", "name"),
    way("EnvVar", "valueFrom", "EnvVarSource"),
    atomic("EnvVarSource", "configMapKeyRef"),
    atomic("EnvVarSource", "secretKeyRef"),
    atomic("EnvVarSource", "fieldRef"),
    atomic("EnvVarSource", "resourceFieldRef"),
    atomic("EnvVarSource", "fileKeyRef"),
    field("Container", "ports", "", "containerPort", "containerPort protocol=TCP"),
    keyed("Container", "volumeMounts", "", "mountPath"),
    keyed("Container", "volumeDevices", "", "devicePath"),
    way("Container", "resources", "Resources"),
    field("Resources", "claims", "", "", "name"),
    keyed("PodStatus", "conditions", "", "type"),
    keyed("PodStatus", "podIPs", "", "ip"),
    field("PodStatus", "hostIPs", "", "ip", ATOMIC),
    keyed("Status", "conditions", "", "type"),
    field("JobStatus", "conditions", "", "type", ATOMIC),
    // The rest of the core.
    way("Service", "spec", "ServiceSpec"),
    way("Service", "status", "Status"),
    field("ServiceSpec", "ports", "", "port", "port protocol=TCP"),
    atomic("ServiceSpec", "selector"),
    keyed("ServiceAccount", "secrets", "Atomic", "name"),
    way("Namespace", "status", "Status"),
    way("Node", "status", "NodeStatus"),
    keyed("NodeStatus", "conditions", "", "type"),
    keyed("NodeStatus", "addresses", "", "type"),
    way("PersistentVolumeClaim", "spec", "ClaimSpec"),
    way("PersistentVolumeClaim", "status", "Status"),
    atomic("ClaimSpec", "selector"),
    atomic("ClaimSpec", "dataSource"),
    atomic("Event", "involvedObject"),
    atomic("Event", "regarding"),
    atomic("Event", "related"),
    // Other groups.
    atomic("RoleBinding", "roleRef"),
    atomic("ClusterRoleBinding", "roleRef"),
    way("NetworkPolicy", "spec", "NetworkPolicySpec"),
    atomic("NetworkPolicySpec", "podSelector"),
    way("PodDisruptionBudget", "spec", "BudgetSpec"),
    way("PodDisruptionBudget", "status", "Status"),
    field("BudgetSpec", "selector", "", REPLACE, ATOMIC),
    way("HorizontalPodAutoscaler", "status", "Status"),
    way("CustomResourceDefinition", "status", "DefinitionStatus"),
    field("DefinitionStatus", "conditions", "", "", "type"),
    keyed("MutatingWebhookConfiguration", "webhooks", "Webhook", "name"),
    keyed("ValidatingWebhookConfiguration", "webhooks", "Webhook", "name"),
    keyed("Webhook", "matchConditions", "", "name"),
    atomic("Webhook", "namespaceSelector"),
    atomic("Webhook", "objectSelector"),
];

/// Returns the merge strategy of a field, if it is not plain.
pub(crate) fn find(shape: &str, name: &str) -> Option<&'static Field> {
    FIELDS.iter().find(|field| (field.shape == shape || field.shape == "*" && is_kind(shape)) && field.name == name)
}

/// Tells whether the shape is a whole object: only objects have the fields of all kinds.
fn is_kind(shape: &str) -> bool {
    !shape.is_empty() && !FIELDS.iter().any(|field| field.holds == shape)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_is_held_by_a_field_or_is_a_kind() {
        for field in FIELDS.iter().filter(|field| !field.holds.is_empty() && field.holds != "Atomic") {
            assert!(FIELDS.iter().any(|other| other.shape == field.holds), "{} has no fields", field.holds);
        }
    }

    #[test]
    fn all_kinds_have_metadata_but_their_parts_have_not() {
        assert_eq!(find("ConfigMap", "metadata").unwrap().holds, "ObjectMeta");
        assert_eq!(find("PodTemplateSpec", "metadata").unwrap().holds, "ObjectMeta");
        assert!(find("Container", "metadata").is_none());
        assert!(find("", "metadata").is_none());
    }
}
