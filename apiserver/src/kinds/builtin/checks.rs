//! The checks of built-in kinds: the rules of `pkg/apis/*/validation` of Kubernetes.

mod access;
mod classes;
mod containers;
mod data_keys;
pub(crate) mod field;
mod governance;
mod jobs;
mod labels;
mod networking;
mod nodes;
mod pod_spec;
pub(super) mod pods;
mod probes;
mod references;
mod resources;
mod scaling;
mod schedule;
mod scheduling;
mod services;
mod storage;
mod volumes;
mod warnings;
pub(crate) mod webhooks;
mod workloads;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use self::data_keys::data_key_mistakes;
use self::field::Field;
use super::autoscaling;
use crate::http::api_error::FieldError;
use crate::kinds::kind::Kind;
use crate::schema::field_error::{forbidden, invalid, required, too_long};
use crate::schema::metadata;

/// Limit of the values of a ConfigMap or Secret together.
const DATA_BYTES: usize = 1_048_576;

/// Checks an object with its defaults. Through `status`, only the status is checked.
pub(super) fn check(kind: &Kind, subresource: &str, object: &Value, old: Option<&Value>, causes: &mut Vec<FieldError>) {
    let field = Field::root(object);
    let before = old.map(Field::root);
    if subresource == "status" {
        let nothing = Value::Null;
        return check_status(kind, &field, &before.unwrap_or_else(|| Field::root(&nothing)), causes);
    }
    let spec = field.at("spec");
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "ConfigMap") => data(object, "[]", causes),
        ("", "Secret") => {
            data(object, "data", causes);
            secret(object, causes);
        }
        ("rbac.authorization.k8s.io", "Role") => access::role(&field, causes),
        ("rbac.authorization.k8s.io", "ClusterRole") => access::cluster_role(&field, causes),
        ("", "Service") => services::check(&field, causes),
        ("", "Pod") => pods::check(&field, causes),
        ("", "PodTemplate") => workloads::check_template(&field.at("template"), causes),
        ("", "PersistentVolumeClaim") => storage::claim_spec(&spec, causes),
        ("", "Event") => core_event(object, causes),
        ("events.k8s.io", "Event") => {
            new_event(object, causes);
        }
        ("apps", name @ ("Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet"))
        | ("", name @ "ReplicationController") => {
            workloads::check(name, &spec, before.map(|_| &spec), causes);
        }
        ("batch", "Job") => jobs::check(&field, causes),
        ("batch", "CronJob") => jobs::check_cron(&field, before.as_ref(), causes),
        ("networking.k8s.io", "Ingress") => networking::ingress(&spec, causes),
        ("networking.k8s.io", "NetworkPolicy") => networking::policy(&spec, causes),
        ("", "Endpoints") => networking::endpoints(&field, causes),
        ("discovery.k8s.io", "EndpointSlice") => networking::slice(&field, causes),
        ("", "Namespace") => namespace(object, causes),
        ("", "LimitRange") => governance::limits(&spec, causes),
        ("", "ResourceQuota") => governance::quota(&spec, causes),
        ("", "PersistentVolume") => governance::volume(&field, causes),
        ("networking.k8s.io", "IngressClass") => classes::ingress_class(&spec, causes),
        ("", "Node") => nodes::check(&field, before.is_some(), causes),
        ("autoscaling", "HorizontalPodAutoscaler") => autoscaler(kind, object, causes),
        ("policy", "PodDisruptionBudget") => scaling::budget(&spec, causes),
        ("coordination.k8s.io", "Lease") => lease(&object["spec"], causes),
        ("rbac.authorization.k8s.io", name @ ("RoleBinding" | "ClusterRoleBinding")) => {
            access::binding(&field, name == "RoleBinding", causes);
        }
        ("admissionregistration.k8s.io", _) => webhooks::check(&field, causes),
        _ => {}
    }
}

fn check_status(kind: &Kind, object: &Field<'_, '_>, old: &Field<'_, '_>, causes: &mut Vec<FieldError>) {
    let (status, before) = (object.at("status"), old.at("status"));
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Pod") => pods::check_status(&status, &before, causes),
        ("", "Service") => services::check_status(object, causes),
        ("apps", name) | ("", name @ "ReplicationController") => {
            workloads::check_status(name, &status, &before, causes);
        }
        ("batch", "Job") => jobs::check_status(object, old, causes),
        ("networking.k8s.io", "Ingress") => {
            let balancer = status.at("loadBalancer");
            services::balancer_ingress(&balancer.at("ingress"), causes);
        }
        ("", "PersistentVolumeClaim") => {
            for (_, amount) in status.at("capacity").entries() {
                resources::amount_of("storage", &amount, causes);
            }
        }
        ("", "Node") => nodes::check(object, true, causes),
        ("", "ResourceQuota") => governance::quota_status(&status, causes),
        ("autoscaling", "HorizontalPodAutoscaler") => scaling::autoscaler_status(&status, causes),
        ("policy", "PodDisruptionBudget") => scaling::budget_status(&status, causes),
        ("", "Namespace") => {
            let is_terminating = object.value["metadata"]["deletionTimestamp"].is_string();
            let wanted = if is_terminating { "Terminating" } else { "Active" };
            if status.at("phase").text() != wanted {
                causes.push(invalid("status.Phase", status.at("phase").value, format!("may only be '{wanted}'")));
            }
        }
        _ => {}
    }
}

/// An autoscaler is checked in its storage version.
fn autoscaler(kind: &Kind, object: &Value, causes: &mut Vec<FieldError>) {
    let mut stored = object.clone();
    if kind.version != kind.storage_version {
        autoscaling::to_new(&mut stored);
    }
    scaling::autoscaler(&Field::root(&stored).at("spec"), causes);
}

/// Finalizers of namespaces have a domain, except that of the server.
fn namespace(object: &Value, causes: &mut Vec<FieldError>) {
    for finalizer in object["spec"]["finalizers"].as_array().into_iter().flatten() {
        let text = finalizer.as_str().unwrap_or_default();
        let mistakes = metadata::qualified_mistakes(text);
        causes.extend(mistakes.into_iter().map(|why| invalid("spec.finalizers", finalizer, why)));
        if !text.contains('/') && text != "kubernetes" {
            causes.push(invalid(
                "spec.finalizers",
                finalizer,
                "name is neither a standard finalizer name nor is it fully qualified",
            ));
        }
    }
}

/// Returns the warnings about a valid object.
pub(super) fn warnings(kind: &Kind, object: &Value, old: Option<&Value>) -> Vec<String> {
    const HOST_NAMES: &str = "Pod names and hostnames";
    let field = Field::root(object);
    let spec = field.at("spec");
    let name = |use_of_it: &str| {
        let name = object["metadata"]["name"].as_str().filter(|_| old.is_none())?;
        warnings::of_name(name, use_of_it)
    };
    // For a template, they are repeated when it changes.
    let template = |holder: &Field<'_, '_>, pointer: &str| {
        let is_new = old.is_none_or(|old| old.pointer(pointer) != object.pointer(pointer));
        if is_new { warnings::of_pods(&holder.at("template")) } else { Vec::new() }
    };
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Service") => services::warnings(&field),
        ("", "Secret") if object["type"] == "kubernetes.io/tls" => {
            let certificate =
                object["data"]["tls.crt"].as_str().and_then(|text| STANDARD.decode(text).ok()).unwrap_or_default();
            let has_block = String::from_utf8_lossy(&certificate).contains("-----BEGIN");
            if has_block {
                Vec::new()
            } else {
                vec!["tls: failed to find any PEM data in certificate input".to_owned()]
            }
        }
        ("", "Pod") => name("the Pod's hostname").into_iter().chain(warnings::of_pods(&field)).collect(),
        ("apps", "Deployment" | "ReplicaSet") | ("", "ReplicationController") | ("batch", "Job") => {
            name(HOST_NAMES).into_iter().chain(template(&spec, "/spec/template")).collect()
        }
        ("networking.k8s.io", "Ingress") | ("discovery.k8s.io", "EndpointSlice") => {
            networking::warnings(object, old.is_none())
        }
        ("apps", "StatefulSet" | "DaemonSet") => template(&spec, "/spec/template"),
        #[cfg(not(feature = "cel"))]
        ("admissionregistration.k8s.io", "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration") => {
            webhooks::warnings(&field)
        }
        ("batch", "CronJob") => {
            let job = spec.at("jobTemplate");
            name(HOST_NAMES).into_iter().chain(template(&job.at("spec"), "/spec/jobTemplate/spec/template")).collect()
        }
        _ => Vec::new(),
    }
}

/// Runs the checks that apply only to new objects.
pub(super) fn check_new(kind: &Kind, object: &Value, causes: &mut Vec<FieldError>) {
    let field = Field::root(object);
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Pod") => pods::check_new(&field, causes),
        ("storage.k8s.io", "StorageClass") => classes::storage_class(&field, causes),
        ("scheduling.k8s.io", "PriorityClass") => classes::priority_class(&field, causes),
        ("node.k8s.io", "RuntimeClass") => classes::runtime_class(&field, causes),
        _ => {}
    }
}

/// Returns the immutable fields of a kind, as pointers.
fn immutable(group: &str, kind: &str) -> &'static [&'static str] {
    match (group, kind) {
        ("apps", "Deployment" | "DaemonSet" | "ReplicaSet") => &["/spec/selector"],
        ("", "Secret") => &["/type"],
        ("discovery.k8s.io", "EndpointSlice") => &["/addressType"],
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => &["/roleRef"],
        ("storage.k8s.io", "StorageClass") => &["/parameters", "/provisioner", "/reclaimPolicy", "/volumeBindingMode"],
        ("scheduling.k8s.io", "PriorityClass") => &["/preemptionPolicy"],
        ("node.k8s.io", "RuntimeClass") => &["/handler"],
        ("networking.k8s.io", "IngressClass") => &["/spec/controller"],
        _ => &[],
    }
}

/// Checks immutable fields.
pub(super) fn check_change(kind: &Kind, subresource: &str, object: &Value, old: &Value, causes: &mut Vec<FieldError>) {
    if subresource == "status" {
        return;
    }
    for pointer in immutable(&kind.group, &kind.kind) {
        let (now, before) = (object.pointer(pointer), old.pointer(pointer));
        if now != before {
            let field = pointer.trim_start_matches('/').replace('/', ".");
            causes.push(invalid(field, now.unwrap_or(&Value::Null), "field is immutable"));
        }
    }
    let (now, before) = (Field::root(object), Field::root(old));
    let (spec, old_spec) = (now.at("spec"), before.at("spec"));
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Pod") if subresource == "ephemeralcontainers" => pods::check_ephemeral_change(&spec, &old_spec, causes),
        ("", "Pod") if subresource == "resize" => {}
        ("", "Pod") => pods::check_change(&spec, &old_spec, causes),
        ("", "Service") => services::check_change(&spec, &old_spec, causes),
        ("", "PersistentVolumeClaim") => storage::check_claim_change(&now, &before, causes),
        ("events.k8s.io", "Event") => event_change(object, old, causes),
        ("apps", "StatefulSet") => workloads::check_set_change(&spec, &old_spec, causes),
        ("batch", "Job") => jobs::check_change(&spec, &old_spec, causes),
        ("", "Node") => nodes::check_change(&spec, &old_spec, causes),
        ("", "ResourceQuota") => governance::check_quota_change(&spec, &old_spec, causes),
        ("", "PersistentVolume") => governance::check_volume_change(&spec, &old_spec, causes),
        ("scheduling.k8s.io", "PriorityClass") => classes::check_priority_change(&now, &before, causes),
        _ => {}
    }
    let is_frozen = ["ConfigMap", "Secret"].contains(&kind.kind.as_str()) && old["immutable"] == true;
    if is_frozen {
        for field in ["immutable", "data", "binaryData"] {
            if object[field] != old[field] {
                causes.push(forbidden(field, "field is immutable when `immutable` is set"));
            }
        }
    }
}

fn data(object: &Value, field: &str, causes: &mut Vec<FieldError>) {
    let maps = ["data", "binaryData"].into_iter().filter_map(|name| Some((name, object[name].as_object()?)));
    let mut size = 0;
    for (name, map) in maps {
        for (key, value) in map {
            size += value.as_str().unwrap_or_default().len();
            causes.extend(
                data_key_mistakes(key).into_iter().map(|why| invalid(format!("{name}[{key}]"), &json!(key), why)),
            );
        }
    }
    for key in object["binaryData"].as_object().into_iter().flat_map(|map| map.keys()) {
        if object["data"].get(key).is_some() {
            causes.push(invalid(format!("data[{key}]"), &json!(key), "duplicate of key present in binaryData"));
        }
    }
    if size > DATA_BYTES {
        causes.push(too_long(field, DATA_BYTES as u64));
    }
}

/// Some types of secrets need certain keys.
fn secret(object: &Value, causes: &mut Vec<FieldError>) {
    let has = |key: &str| object["data"].get(key).is_some();
    let needed: &[&str] = match object["type"].as_str() {
        Some("kubernetes.io/tls") => &["tls.crt", "tls.key"],
        Some("kubernetes.io/dockerconfigjson") => &[".dockerconfigjson"],
        Some("kubernetes.io/dockercfg") => &[".dockercfg"],
        Some("kubernetes.io/ssh-auth") => &["ssh-privatekey"],
        Some("kubernetes.io/basic-auth") if !has("username") && !has("password") => &["username", "password"],
        _ => &[],
    };
    causes.extend(needed.iter().filter(|key| !has(key)).map(|key| required(format!("data[{key}]"), "")));
    for (kind, key) in
        [("kubernetes.io/dockerconfigjson", ".dockerconfigjson"), ("kubernetes.io/dockercfg", ".dockercfg")]
    {
        let text = object["data"][key].as_str().and_then(|text| STANDARD.decode(text).ok());
        if object["type"] == kind
            && text.is_some_and(|text| serde_json::from_slice::<serde_json::Map<String, Value>>(&text).is_err())
        {
            causes.push(invalid(format!("data[{key}]"), &json!("<secret contents redacted>"), "is no JSON object"));
        }
    }
    let account = "kubernetes.io/service-account.name";
    if object["type"] == "kubernetes.io/service-account-token"
        && object["metadata"]["annotations"].get(account).is_none()
    {
        causes.push(required(format!("metadata.annotations[{account}]"), ""));
    }
}

fn lease(spec: &Value, causes: &mut Vec<FieldError>) {
    for (field, least) in [("leaseDurationSeconds", 1), ("leaseTransitions", 0)] {
        if spec[field].as_i64().is_some_and(|number| number < least) {
            let text = if least == 1 { "must be greater than 0" } else { "must be greater than or equal to 0" };
            causes.push(invalid(format!("spec.{field}"), &spec[field], text));
        }
    }
}

/// Events of objects without a namespace are in `default`. An event with an `eventTime` has a reporter.
fn core_event(object: &Value, causes: &mut Vec<FieldError>) {
    let event = Field::root(object);
    if event.at("eventTime").is_set() {
        for name in ["reportingComponent", "reportingInstance", "action", "reason"] {
            event.at(name).must_be_filled(causes);
        }
        event.at("reportingComponent").must_be_qualified(causes);
    }
    let own = object["metadata"]["namespace"].as_str().unwrap_or_default();
    let about = object["involvedObject"]["namespace"].as_str().unwrap_or_default();
    if about != own && !(about.is_empty() && own == "default") {
        causes.push(invalid("involvedObject.namespace", &json!(about), "does not match event.namespace"));
    }
}

/// In an event of the new group, only the series may change. Errors have the field names of the core group.
fn event_change(object: &Value, old: &Value, causes: &mut Vec<FieldError>) {
    const KEPT: &[(&str, &str)] = &[
        ("regarding", "involvedObject"),
        ("reason", "reason"),
        // The real server checks the reason twice, too.
        ("reason", "reason"),
        ("note", "message"),
        ("type", "type"),
        ("action", "action"),
        ("related", "related"),
        ("eventTime", "eventTime"),
        ("reportingController", "reportingController"),
        ("reportingInstance", "reportingInstance"),
        ("deprecatedSource", "source"),
        ("deprecatedFirstTimestamp", "firstTimestamp"),
        ("deprecatedLastTimestamp", "lastTimestamp"),
        ("deprecatedCount", "count"),
    ];
    for (field, named) in KEPT.iter().filter(|(field, _)| object[*field] != old[*field]) {
        causes.push(invalid(named, &object[*field], "field is immutable"));
    }
}

fn new_event(object: &Value, causes: &mut Vec<FieldError>) {
    const MAX_LENGTH: usize = 128;
    let event = Field::root(object);
    let about = object["regarding"]["namespace"].as_str().unwrap_or_default();
    let own = object["metadata"]["namespace"].as_str().unwrap_or_default();
    let is_timed = event.at("eventTime").is_set();
    if !is_timed {
        causes.push(event.at("eventTime").required(""));
    }
    if (about.is_empty() && own != "default") || (!is_timed && !about.is_empty() && about != own) {
        causes.push(invalid("involvedObject.namespace", &json!(about), "does not match event.namespace"));
    }
    if !is_timed {
        return;
    }
    for name in ["reportingController", "reportingInstance", "action", "reason"] {
        let field = event.at(name);
        field.must_be_filled(causes);
        if name != "reportingController" && field.text().len() > MAX_LENGTH {
            causes.push(field.invalid(format!("can have at most {MAX_LENGTH} characters")));
        }
    }
    event.at("reportingController").must_be_qualified(causes);
    if object["type"] != "Normal" && object["type"] != "Warning" {
        causes.push(invalid("type", &object["type"], "has invalid value"));
    }
    if object["note"].as_str().is_some_and(|note| note.len() > 1024) {
        causes.push(invalid("message", &json!(""), "can have at most 1024 characters"));
    }
    let series = event.at("series");
    if series.is_set() {
        if series.at("count").number() < 2 {
            causes.push(series.at("count").invalid("should be at least 2"));
        }
        if !series.at("lastObservedTime").is_set() {
            causes.push(series.at("lastObservedTime").required(""));
        }
    }
    for (name, named) in [
        ("deprecatedFirstTimestamp", "firstTimestamp"),
        ("deprecatedLastTimestamp", "lastTimestamp"),
        ("deprecatedCount", "count"),
        ("deprecatedSource", "source"),
    ] {
        if !event.at(name).is_empty() && event.at(name).value != &json!(0) {
            causes.push(invalid(named, event.at(name).value, "needs to be unset"));
        }
    }
}
