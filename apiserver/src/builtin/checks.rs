//! The light checks of built-in kinds: what operators get wrong most often.

mod networking;
pub(super) mod pods;
mod webhooks;

use serde_json::{Value, json};

use crate::causes::{forbidden, invalid, not_found, not_supported, required, too_long};
use crate::metadata;
use crate::selector::LabelSelector;
use crate::{Cause, Kind};

/// All values of a ConfigMap or Secret together may not be longer.
const DATA_BYTES: usize = 1_048_576;

/// Checks an object with its defaults.
pub(super) fn check(kind: &Kind, object: &Value, causes: &mut Vec<Cause>) {
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "ConfigMap") => data(object, "[]", causes),
        ("", "Secret") => {
            data(object, "data", causes);
            secret(object, causes);
        }
        ("rbac.authorization.k8s.io", "Role" | "ClusterRole") => role(object, causes),
        ("", "Service") => networking::service(&object["spec"], causes),
        ("", "Pod") => {
            containers(&object["spec"], "spec", causes);
            mounts(&object["spec"], "spec", causes);
        }
        ("", "Event") => core_event(object, causes),
        ("events.k8s.io", "Event") => {
            if object["eventTime"].is_null() {
                core_event(object, causes);
            }
            new_event(object, causes);
        }
        ("apps", name @ ("Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet")) => workload(name, &object["spec"], causes),
        ("batch", "Job") => job(&object["spec"], "spec", causes),
        ("batch", "CronJob") => cron_job(&object["spec"], causes),
        ("networking.k8s.io", "Ingress") => networking::ingress(&object["spec"], causes),
        ("coordination.k8s.io", "Lease") => lease(&object["spec"], causes),
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => binding(object, causes),
        ("admissionregistration.k8s.io", _) => webhooks::check(object, causes),
        _ => {}
    }
}

/// Checks what only objects that are there may have.
pub(super) fn check_new(kind: &Kind, object: &Value, causes: &mut Vec<Cause>) {
    let is_pod = kind.group.is_empty() && kind.kind == "Pod";
    if is_pod && object["spec"]["ephemeralContainers"].as_array().is_some_and(|containers| !containers.is_empty()) {
        causes.push(forbidden("spec.ephemeralContainers", "cannot be set on create"));
    }
}

/// What may not change once it is there: pointers into the objects of a kind.
fn immutable(group: &str, kind: &str) -> &'static [&'static str] {
    match (group, kind) {
        ("apps", "Deployment" | "DaemonSet" | "ReplicaSet") => &["/spec/selector"],
        ("batch", "Job") => &["/spec/selector", "/spec/template", "/spec/completionMode"],
        ("", "Secret") => &["/type"],
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => &["/roleRef"],
        ("", "PersistentVolumeClaim") => &["/spec/accessModes", "/spec/storageClassName", "/spec/volumeMode", "/spec/selector"],
        _ => &[],
    }
}

/// Checks what may not change.
pub(super) fn check_change(kind: &Kind, subresource: &str, object: &Value, old: &Value, causes: &mut Vec<Cause>) {
    for pointer in immutable(&kind.group, &kind.kind) {
        let (now, before) = (object.pointer(pointer), old.pointer(pointer));
        if now != before && before.is_some() {
            let field = pointer.trim_start_matches('/').replace('/', ".");
            causes.push(invalid(field, now.unwrap_or(&Value::Null), "field is immutable"));
        }
    }
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Pod") if subresource == "ephemeralcontainers" => pods::ephemeral_change(&object["spec"], &old["spec"], causes),
        ("", "Pod") if subresource == "resize" => {}
        ("", "Pod") => pods::change(&object["spec"], &old["spec"], causes),
        ("events.k8s.io", "Event") => event_change(object, old, causes),
        ("apps", "StatefulSet") => set_change(&object["spec"], &old["spec"], causes),
        ("batch", "Job") => job_change(&object["spec"], &old["spec"], causes),
        _ => {}
    }
    if kind.kind == "Service" {
        let (now, before) = (&object["spec"]["clusterIP"], &old["spec"]["clusterIP"]);
        let stays = object["spec"]["type"] != "ExternalName" && old["spec"]["type"] != "ExternalName";
        if stays && before.as_str().is_some_and(|before| !before.is_empty()) && now != before {
            causes.push(invalid("spec.clusterIPs[0]", &json!([now]), "may not change once set"));
        }
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

/// Of a stateful set, what is not on this list stays.
fn set_change(now: &Value, before: &Value, causes: &mut Vec<Cause>) {
    const FREE: [&str; 7] = [
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    ];
    let bound = |spec: &Value| spec.as_object().map(|spec| spec.iter().filter(|(name, _)| !FREE.contains(&name.as_str())).count());
    let is_kept = |(name, value): (&String, &Value)| FREE.contains(&name.as_str()) || before[name.as_str()] == *value;
    if bound(now) != bound(before) || !now.as_object().into_iter().flatten().all(is_kept) {
        causes.push(forbidden("spec", format!("updates to statefulset spec for fields other than {} are forbidden", FREE.join(", "))));
    }
}

/// Only an indexed job that completes and works in parallel by the same number may change that.
fn job_change(now: &Value, before: &Value, causes: &mut Vec<Cause>) {
    let is_elastic = now["completionMode"] == "Indexed" && now["completions"] == now["parallelism"] && !now["completions"].is_null();
    if now["completions"] != before["completions"] && !is_elastic {
        causes.push(invalid("spec.completions", &now["completions"], "field is immutable"));
    }
}

fn data(object: &Value, field: &str, causes: &mut Vec<Cause>) {
    let maps = ["data", "binaryData"].into_iter().filter_map(|name| Some((name, object[name].as_object()?)));
    let mut size = 0;
    for (name, map) in maps {
        for (key, value) in map {
            size += value.as_str().unwrap_or_default().len();
            let is_valid = !key.is_empty()
                && key.len() <= 253
                && key.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
                && key != "."
                && key != "..";
            if !is_valid {
                let text = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'";
                causes.push(invalid(format!("{name}[{key}]"), &json!(key), text));
            }
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

fn containers(spec: &Value, at: &str, causes: &mut Vec<Cause>) {
    let containers = spec["containers"].as_array().map_or(&[][..], Vec::as_slice);
    if containers.is_empty() {
        causes.push(required(format!("{at}.containers"), ""));
    }
    for (index, container) in containers.iter().enumerate() {
        for field in ["name", "image"] {
            if container[field].as_str().is_none_or(str::is_empty) {
                causes.push(required(format!("{at}.containers[{index}].{field}"), ""));
            }
        }
        for (port, value) in container["ports"].as_array().into_iter().flatten().enumerate() {
            if value["containerPort"] == 0 {
                causes.push(required(format!("{at}.containers[{index}].ports[{port}].containerPort"), ""));
            }
        }
    }
    let policies = ["Always", "Never", "OnFailure"];
    if !spec["restartPolicy"].is_null() && !policies.iter().any(|policy| spec["restartPolicy"] == *policy) {
        causes.push(not_supported(format!("{at}.restartPolicy"), &spec["restartPolicy"], policies));
    }
}

/// What is mounted is a volume.
fn mounts(spec: &Value, at: &str, causes: &mut Vec<Cause>) {
    let is_volume = |name: &Value| spec["volumes"].as_array().into_iter().flatten().any(|volume| volume["name"] == *name);
    for (index, container) in spec["containers"].as_array().into_iter().flatten().enumerate() {
        for (mount, value) in container["volumeMounts"].as_array().into_iter().flatten().enumerate() {
            if !is_volume(&value["name"]) {
                causes.push(not_found(format!("{at}.containers[{index}].volumeMounts[{mount}].name"), &value["name"]));
            }
        }
    }
}

fn workload(kind: &str, spec: &Value, causes: &mut Vec<Cause>) {
    selector(spec, causes);
    if spec["replicas"].as_i64().is_some_and(|replicas| replicas < 0) {
        causes.push(invalid("spec.replicas", &spec["replicas"], "must be greater than or equal to 0"));
    }
    containers(&spec["template"]["spec"], "spec.template.spec", causes);
    // The pods of stateful sets mount their claims, too.
    if kind != "StatefulSet" {
        mounts(&spec["template"]["spec"], "spec.template.spec", causes);
    }
    if spec["template"]["spec"].is_object() && spec["template"]["spec"]["restartPolicy"] != "Always" {
        causes.push(not_supported("spec.template.spec.restartPolicy", &spec["template"]["spec"]["restartPolicy"], ["Always"]));
    }
    let strategies = ["Recreate", "RollingUpdate"];
    if kind == "Deployment" && !strategies.iter().any(|strategy| spec["strategy"]["type"] == *strategy) {
        causes.push(not_supported("spec.strategy", &spec["strategy"], strategies));
    }
}

/// The selector of a workload, and the labels of its pods that it must select.
fn selector(spec: &Value, causes: &mut Vec<Cause>) {
    let selector = &spec["selector"];
    let labels = &spec["template"]["metadata"]["labels"];
    let mismatch = || invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`");
    if selector.is_null() {
        causes.extend([required("spec.selector", ""), mismatch()]);
        return;
    }
    let operators = ["In", "NotIn", "Exists", "DoesNotExist"];
    let mut expressions = selector["matchExpressions"].as_array().into_iter().flatten().enumerate();
    if let Some((index, odd)) = expressions.find(|(_, one)| !operators.iter().any(|operator| one["operator"] == *operator)) {
        let field = format!("spec.selector.matchExpressions[{index}].operator");
        causes.push(invalid(field, &odd["operator"], "not a valid selector operator"));
        causes.push(invalid("spec.selector", selector, "invalid label selector"));
        return;
    }
    match LabelSelector::of_object(selector) {
        Some(chosen) if chosen.is_empty() => causes.push(invalid("spec.selector", selector, "empty selector is invalid for deployment")),
        Some(chosen) if !chosen.matches_labels(labels.as_object()) => causes.push(mismatch()),
        _ => {}
    }
}

fn job(spec: &Value, at: &str, causes: &mut Vec<Cause>) {
    let pod = &spec["template"]["spec"];
    containers(pod, &format!("{at}.template.spec"), causes);
    mounts(pod, &format!("{at}.template.spec"), causes);
    if pod["restartPolicy"] != "Never" && pod["restartPolicy"] != "OnFailure" {
        let field = format!("{at}.template.spec.restartPolicy");
        let message = format!("Required value: valid values: \"OnFailure\", \"Never\", not {}", pod["restartPolicy"]);
        causes.push(Cause::new("FieldValueRequired", field, message));
    }
}

fn cron_job(spec: &Value, causes: &mut Vec<Cause>) {
    match spec["schedule"].as_str().unwrap_or_default() {
        "" => causes.push(required("spec.schedule", "")),
        schedule if !looks_like_a_schedule(schedule) => {
            causes.push(invalid("spec.schedule", &spec["schedule"], "expected exactly 5 fields"));
        }
        _ => {}
    }
    let policies = ["Allow", "Forbid", "Replace"];
    if !policies.iter().any(|policy| spec["concurrencyPolicy"] == *policy) {
        causes.push(not_supported("spec.concurrencyPolicy", &spec["concurrencyPolicy"], policies));
    }
    job(&spec["jobTemplate"]["spec"], "spec.jobTemplate.spec", causes);
}

/// Five fields, or a word such as `@daily`. What the fields say is not looked at: nobody here runs by it.
fn looks_like_a_schedule(text: &str) -> bool {
    let is_field = |field: &str| field.chars().all(|c| c.is_ascii_alphanumeric() || "*/,-?".contains(c));
    text.starts_with('@') || (text.split_whitespace().count() == 5 && text.split_whitespace().all(is_field))
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
