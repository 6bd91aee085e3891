//! Differences between kinds in writes: versions, generations, significant changes.

use serde_json::Value;

use crate::kinds::kind::Kind;
use crate::kinds::registry::ServedKind;

/// Tells whether new objects of a kind keep the status from the client; others begin with that of the server.
pub(super) fn accepts_initial_status(kind: &Kind) -> bool {
    !kind.is_custom() && matches!(kind.kind.as_str(), "Node" | "CustomResourceDefinition")
}

/// Tells whether updates of an object need a resource version.
pub(super) fn needs_version(served: &ServedKind) -> bool {
    const KINDS: &[&str] = &[
        "CustomResourceDefinition",
        "Lease",
        "MutatingWebhookConfiguration",
        "ValidatingWebhookConfiguration",
        "PodDisruptionBudget",
        "RuntimeClass",
    ];
    served.kind.is_custom() || KINDS.contains(&served.kind.kind.as_str())
}

/// Tells whether objects of a built-in kind have a generation.
pub(super) fn has_generation(served: &ServedKind) -> bool {
    const KINDS: &[&str] = &[
        "Deployment",
        "StatefulSet",
        "DaemonSet",
        "ReplicaSet",
        "ReplicationController",
        "Job",
        "CronJob",
        "Ingress",
        "EndpointSlice",
        "NetworkPolicy",
        "PodDisruptionBudget",
        "CustomResourceDefinition",
        "MutatingWebhookConfiguration",
        "ValidatingWebhookConfiguration",
        "Pod",
        "EndpointSlice",
        "PriorityClass",
    ];
    KINDS.contains(&served.kind.kind.as_str())
}

/// Tells whether a change increments the generation.
pub(super) fn generation_grows(served: &ServedKind, subresource: &str, old: &Value, new: &Value) -> bool {
    if subresource == "status" {
        return false;
    }
    if !served.kind.is_custom() {
        // Deployments copy their annotations to their replica sets, so annotations count, too.
        let is_noted =
            served.kind.kind == "Deployment" && old["metadata"]["annotations"] != new["metadata"]["annotations"];
        // An endpoint slice has no specification: its fields and labels count.
        let is_slice = served.kind.kind == "EndpointSlice";
        let is_sliced = is_slice
            && ["/endpoints", "/ports", "/metadata/labels"].iter().any(|at| old.pointer(at) != new.pointer(at));
        return has_generation(served)
            && (old["spec"] != new["spec"] || old["webhooks"] != new["webhooks"] || is_noted || is_sliced);
    }
    let is_counted = |field: &str| field != "metadata" && !(field == "status" && served.kind.has_status);
    let counted = |value: &Value| -> Vec<(String, Value)> {
        let fields = value.as_object().into_iter().flatten();
        fields.filter(|(field, _)| is_counted(field)).map(|(field, value)| (field.clone(), value.clone())).collect()
    };
    counted(old) != counted(new)
}

/// Tells whether a value is empty.
pub(super) fn is_empty(value: &Value) -> bool {
    match value {
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}

/// Tells whether two objects are equal except for the times in `managedFields`.
pub(super) fn is_same(old: &Value, new: &Value) -> bool {
    let fields = |value: &Value| -> Vec<String> {
        value.as_object().map(|map| map.keys().cloned().collect()).unwrap_or_default()
    };
    let is_same_metadata = || {
        let mut names = fields(&old["metadata"]);
        names.extend(fields(&new["metadata"]));
        names.iter().all(|name| match name.as_str() {
            "managedFields" => without_times(&old["metadata"][name]) == without_times(&new["metadata"][name]),
            name => old["metadata"].get(name) == new["metadata"].get(name),
        })
    };
    fields(old) == fields(new)
        && fields(old)
            .iter()
            .all(|field| if field == "metadata" { is_same_metadata() } else { old[field] == new[field] })
}

/// Returns the `managedFields` without their times.
pub(super) fn without_times(owners: &Value) -> Vec<Value> {
    let mut owners = owners.as_array().cloned().unwrap_or_default();
    for owner in owners.iter_mut().filter_map(Value::as_object_mut) {
        owner.remove("time");
    }
    owners
}
