//! The checks of built-in kinds: the rules of `pkg/apis/*/validation` of Kubernetes.

mod containers;
mod field;
mod jobs;
mod labels;
mod networking;
mod pod_spec;
pub(super) mod pods;
mod probes;
mod resources;
mod schedule;
mod scheduling;
mod services;
mod storage;
mod volumes;
mod webhooks;
mod workloads;

use serde_json::{Value, json};

use self::field::Field;
use crate::causes::{forbidden, invalid, not_supported, required, too_long};
use crate::metadata;
use crate::{Cause, Kind};

/// All values of a ConfigMap or Secret together may not be longer.
const DATA_BYTES: usize = 1_048_576;

/// Checks an object with its defaults. Through `status`, only the status is looked at.
pub(super) fn check(kind: &Kind, subresource: &str, object: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
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
        ("rbac.authorization.k8s.io", "Role" | "ClusterRole") => role(object, causes),
        ("", "Service") => services::check(&field, causes),
        ("", "Pod") => pods::check(&field, causes),
        ("", "PodTemplate") => workloads::check_template(&field.at("template"), causes),
        ("", "PersistentVolumeClaim") => storage::claim_spec(&spec, causes),
        ("", "Event") => core_event(object, causes),
        ("events.k8s.io", "Event") => {
            if object["eventTime"].is_null() {
                core_event(object, causes);
            }
            new_event(object, causes);
        }
        ("apps", name @ ("Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet")) | ("", name @ "ReplicationController") => {
            workloads::check(name, &spec, before.map(|_| &spec), causes);
        }
        // What changes in a job is checked without what the server has made of it.
        ("batch", "Job") => jobs::check(&field, old.is_none(), causes),
        ("batch", "CronJob") => jobs::check_cron(&field, before.as_ref(), causes),
        ("networking.k8s.io", "Ingress") => networking::ingress(&object["spec"], causes),
        ("coordination.k8s.io", "Lease") => lease(&object["spec"], causes),
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => binding(object, causes),
        ("admissionregistration.k8s.io", _) => webhooks::check(object, causes),
        _ => {}
    }
}

fn check_status(kind: &Kind, object: &Field<'_, '_>, old: &Field<'_, '_>, causes: &mut Vec<Cause>) {
    let (status, before) = (object.at("status"), old.at("status"));
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Pod") => pods::check_status(&status, &before, causes),
        ("", "Service") => services::check_status(object, causes),
        ("apps", name) | ("", name @ "ReplicationController") => workloads::check_status(name, &status, &before, causes),
        ("batch", "Job") => jobs::check_status(object, old, causes),
        _ => {}
    }
}

/// Returns what is to be said of an object that is not wrong.
pub(super) fn warnings(kind: &Kind, object: &Value, is_new: bool) -> Vec<String> {
    let field = Field::root(object);
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Service") => services::warnings(&field),
        ("batch", "Job") if is_new => jobs::name_warning(object).into_iter().collect(),
        _ => Vec::new(),
    }
}

/// Checks what only objects that are there may have.
pub(super) fn check_new(kind: &Kind, object: &Value, causes: &mut Vec<Cause>) {
    if kind.group.is_empty() && kind.kind == "Pod" {
        pods::check_new(&Field::root(object), causes);
    }
}

/// What may not change once it is there: pointers into the objects of a kind.
fn immutable(group: &str, kind: &str) -> &'static [&'static str] {
    match (group, kind) {
        ("apps", "Deployment" | "DaemonSet" | "ReplicaSet") => &["/spec/selector"],
        ("", "Secret") => &["/type"],
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => &["/roleRef"],
        _ => &[],
    }
}

/// Checks what may not change.
pub(super) fn check_change(kind: &Kind, subresource: &str, object: &Value, old: &Value, causes: &mut Vec<Cause>) {
    if subresource == "status" {
        return;
    }
    for pointer in immutable(&kind.group, &kind.kind) {
        let (now, before) = (object.pointer(pointer), old.pointer(pointer));
        if now != before && before.is_some() {
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

/// Returns what is wrong with a key of a ConfigMap or Secret.
fn data_key_mistakes(key: &str) -> Vec<&'static str> {
    let rules = [
        (key.len() > 253, "must be no more than 253 characters"),
        (
            key.is_empty() || !key.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)),
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
        ),
        (key == ".", "must not be '.'"),
        (key.starts_with(".."), "must not start with '..'"),
    ];
    rules.into_iter().filter(|(is_broken, _)| *is_broken).map(|(_, why)| why).collect()
}

fn data(object: &Value, field: &str, causes: &mut Vec<Cause>) {
    let maps = ["data", "binaryData"].into_iter().filter_map(|name| Some((name, object[name].as_object()?)));
    let mut size = 0;
    for (name, map) in maps {
        for (key, value) in map {
            size += value.as_str().unwrap_or_default().len();
            causes.extend(data_key_mistakes(key).into_iter().map(|why| invalid(format!("{name}[{key}]"), &json!(key), why)));
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
fn secret(object: &Value, causes: &mut Vec<Cause>) {
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
    let account = "kubernetes.io/service-account.name";
    if object["type"] == "kubernetes.io/service-account-token" && object["metadata"]["annotations"].get(account).is_none() {
        causes.push(required(format!("metadata.annotations[{account}]"), ""));
    }
}

fn role(object: &Value, causes: &mut Vec<Cause>) {
    for (index, rule) in object["rules"].as_array().into_iter().flatten().enumerate() {
        if rule["verbs"].as_array().is_none_or(Vec::is_empty) {
            causes.push(required(format!("rules[{index}].verbs"), "verbs must contain at least one value"));
        }
    }
}

fn lease(spec: &Value, causes: &mut Vec<Cause>) {
    for (field, least) in [("leaseDurationSeconds", 1), ("leaseTransitions", 0)] {
        if spec[field].as_i64().is_some_and(|number| number < least) {
            let text = if least == 1 { "must be greater than 0" } else { "must be greater than or equal to 0" };
            causes.push(invalid(format!("spec.{field}"), &spec[field], text));
        }
    }
}

fn binding(object: &Value, causes: &mut Vec<Cause>) {
    let role = &object["roleRef"];
    if role["name"].as_str().is_none_or(str::is_empty) {
        causes.push(required("roleRef.name", ""));
    }
    let kinds = ["ClusterRole", "Role"];
    if !kinds.iter().any(|kind| role["kind"] == *kind) {
        causes.push(not_supported("roleRef.kind", &role["kind"], kinds));
    }
    for (index, subject) in object["subjects"].as_array().into_iter().flatten().enumerate() {
        let is_missing = |field: &str| subject[field].as_str().is_none_or(str::is_empty);
        if is_missing("name") {
            causes.push(required(format!("subjects[{index}].name"), ""));
        }
        if object["kind"] == "ClusterRoleBinding" && subject["kind"] == "ServiceAccount" && is_missing("namespace") {
            causes.push(required(format!("subjects[{index}].namespace"), ""));
        }
    }
}

/// Events of objects without a namespace live in `default`.
fn core_event(object: &Value, causes: &mut Vec<Cause>) {
    let own = object["metadata"]["namespace"].as_str().unwrap_or_default();
    let about = object["involvedObject"]["namespace"].as_str().unwrap_or_default();
    if about != own && !(about.is_empty() && own == "default") {
        causes.push(invalid("involvedObject.namespace", &json!(about), "does not match event.namespace"));
    }
}

/// Of an event of the new group, only the series goes on. Its fields go by their names in the core.
fn event_change(object: &Value, old: &Value, causes: &mut Vec<Cause>) {
    const KEPT: &[(&str, &str)] = &[
        ("regarding", "involvedObject"),
        ("reason", "reason"),
        // The reason is told twice, as the real server does.
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
    for (field, told) in KEPT.iter().filter(|(field, _)| object[*field] != old[*field]) {
        causes.push(invalid(told, &object[*field], "field is immutable"));
    }
}

fn new_event(object: &Value, causes: &mut Vec<Cause>) {
    if object["eventTime"].is_null() {
        causes.push(required("eventTime", ""));
        return;
    }
    for (field, name) in [
        ("reportingController", "reportingController"),
        ("reportingInstance", "reportingInstance"),
        ("action", "action"),
        ("reason", "reason"),
    ] {
        if object[field].as_str().is_none_or(str::is_empty) {
            causes.push(required(name, ""));
        }
    }
    // The name of nobody is told three times, as the real server does.
    let reporter = object["reportingController"].as_str().unwrap_or_default();
    if let Some(why) = metadata::qualified_mistake(reporter) {
        causes.push(invalid("reportingController", &json!(reporter), &why));
        if reporter.is_empty() {
            causes.push(invalid("reportingController", &json!(reporter), why));
        }
    }
    if object["type"] != "Normal" && object["type"] != "Warning" {
        causes.push(invalid("type", &object["type"], "has invalid value"));
    }
    if object["note"].as_str().is_some_and(|note| note.len() > 1024) {
        causes.push(invalid("message", &json!(""), "can have at most 1024 characters"));
    }
}
