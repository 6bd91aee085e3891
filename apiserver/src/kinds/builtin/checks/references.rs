//! The checks of references in pods: to a field of the pod itself, and to a resource of a container.

use super::field::{Field, FieldErrors};
use crate::schema::metadata::qualified_mistakes;

/// Checks a reference to a field of the pod itself.
pub(super) fn field_reference(reference: &Field<'_, '_>, fields: &[&str], causes: &mut FieldErrors) {
    const KNOWN: &[&str] = &[
        "metadata.annotations",
        "metadata.labels",
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.serviceAccountName",
        "spec.schedulerName",
        "status.phase",
        "status.hostIP",
        "status.hostIPs",
        "status.podIP",
        "status.podIPs",
        "spec.host",
    ];
    let path = reference.at("fieldPath");
    if !reference.at("apiVersion").must_be_filled(causes) || !path.must_be_filled(causes) {
        return;
    }
    let subscripted = path.text().strip_suffix("']").and_then(|text| text.split_once("['"));
    let is_known = match subscripted {
        Some((name, _)) => matches!(name, "metadata.annotations" | "metadata.labels"),
        None => KNOWN.contains(&path.text()),
    };
    if !is_known {
        causes.push(path.invalid("error converting fieldPath: field label not supported"));
        return;
    }
    match subscripted {
        Some((name, key)) => {
            let key = if name == "metadata.annotations" { key.to_lowercase() } else { key.to_owned() };
            causes.extend(qualified_mistakes(&key).into_iter().map(|why| reference.invalid(why)));
        }
        None if !fields.contains(&path.text()) => causes.push(path.not_supported(fields)),
        None => {}
    }
}

/// Checks a reference to a resource of a container.
pub(super) fn resource_reference(reference: &Field<'_, '_>, is_in_volume: bool, causes: &mut FieldErrors) {
    const RESOURCES: &[&str] = &[
        "limits.cpu",
        "limits.ephemeral-storage",
        "limits.memory",
        "requests.cpu",
        "requests.ephemeral-storage",
        "requests.memory",
    ];
    let resource = reference.at("resource");
    if is_in_volume && reference.at("containerName").is_empty() {
        causes.push(reference.at("containerName").required(""));
    } else if resource.must_be_filled(causes) {
        let is_huge =
            ["requests.hugepages-", "limits.hugepages-"].iter().any(|prefix| resource.text().starts_with(prefix));
        if !is_huge {
            resource.must_be_supported(RESOURCES, causes);
        }
    }
    let divisor = reference.at("divisor").text();
    let is_cpu = matches!(resource.text(), "limits.cpu" | "requests.cpu");
    let allowed: &[&str] = if is_cpu {
        &["1m", "1"]
    } else {
        &["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"]
    };
    if !(matches!(divisor, "" | "0") || allowed.contains(&divisor)) {
        causes.push(reference.at("divisor").invalid("the divisor is not supported with the resource"));
    }
}
