//! The light checks of built-in kinds: what operators get wrong most often.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Value, json};

use crate::devserver::causes::{forbidden, invalid, not_supported, required, too_long};
use crate::devserver::metadata;
use crate::devserver::selector::LabelSelector;
use crate::devserver::{Cause, Kind};

/// All values of a ConfigMap or Secret together may not be longer.
const DATA_BYTES: usize = 1_048_576;

/// Returns the members that objects of a kind have besides what they are and their metadata.
pub(super) fn fields(kind: &str) -> &'static [&'static str] {
    match kind {
        "ConfigMap" => &["data", "binaryData", "immutable"],
        "Secret" => &["data", "stringData", "type", "immutable"],
        "ServiceAccount" => &["secrets", "imagePullSecrets", "automountServiceAccountToken"],
        "Event" => &[
            "involvedObject",
            "regarding",
            "message",
            "note",
            "reason",
            "type",
            "action",
            "related",
            "series",
            "source",
            "deprecatedSource",
            "firstTimestamp",
            "lastTimestamp",
            "eventTime",
            "count",
            "reportingComponent",
            "reportingController",
            "reportingInstance",
            "deprecatedFirstTimestamp",
            "deprecatedLastTimestamp",
            "deprecatedCount",
        ],
        "Endpoints" => &["subsets"],
        "EndpointSlice" => &["addressType", "endpoints", "ports"],
        "PodTemplate" => &["template"],
        "ControllerRevision" => &["data", "revision"],
        "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => &["webhooks"],
        "Role" => &["rules"],
        "ClusterRole" => &["rules", "aggregationRule"],
        "RoleBinding" | "ClusterRoleBinding" => &["subjects", "roleRef"],
        "PriorityClass" => &["value", "globalDefault", "description", "preemptionPolicy"],
        "StorageClass" => &[
            "provisioner",
            "parameters",
            "reclaimPolicy",
            "mountOptions",
            "allowVolumeExpansion",
            "volumeBindingMode",
            "allowedTopologies",
        ],
        "RuntimeClass" => &["handler", "overhead", "scheduling"],
        _ => &["spec", "status"],
    }
}

/// Where objects stand in objects of built-in kinds, if anything stands there.
const OBJECTS: [&str; 18] = [
    "/metadata/labels",
    "/metadata/annotations",
    "/spec",
    "/status",
    "/template",
    "/template/metadata",
    "/template/spec",
    "/spec/strategy",
    "/spec/strategy/rollingUpdate",
    "/spec/template",
    "/spec/template/metadata",
    "/spec/template/metadata/labels",
    "/spec/template/spec",
    "/spec/jobTemplate",
    "/spec/jobTemplate/spec",
    "/spec/jobTemplate/spec/template",
    "/spec/jobTemplate/spec/template/metadata",
    "/spec/jobTemplate/spec/template/spec",
];

/// Where lists of objects stand in them.
const LISTS: [&str; 13] = [
    "/webhooks",
    "/spec/ports",
    "/spec/tolerations",
    "/spec/containers",
    "/spec/initContainers",
    "/template/spec/containers",
    "/template/spec/initContainers",
    "/spec/template/spec/containers",
    "/spec/template/spec/initContainers",
    "/spec/jobTemplate/spec/template/spec/containers",
    "/spec/jobTemplate/spec/template/spec/initContainers",
    "/subjects",
    "/rules",
];

/// Returns where something else stands in the place of an object or of a list of objects.
pub(super) fn misshapen(object: &Value) -> Option<String> {
    let is_object = |value: &Value| value.is_null() || value.is_object();
    let is_list = |value: &Value| value.is_null() || value.as_array().is_some_and(|items| items.iter().all(Value::is_object));
    let inside = |value: &Value, names: &[&str]| names.iter().all(|name| is_list(&value[*name]));
    let client = |webhook: &Value| is_object(&webhook["clientConfig"]) && is_object(&webhook["clientConfig"]["service"]);
    let object_at = OBJECTS.iter().find(|pointer| object.pointer(pointer).is_some_and(|value| !is_object(value)));
    let list_at = LISTS.iter().find(|pointer| {
        let items = object.pointer(pointer);
        let deeper = |item: &Value| inside(item, &["ports"]) && (**pointer != "/webhooks" || (inside(item, &["rules"]) && client(item)));
        items.is_some_and(|value| !is_list(value) || !value.as_array().into_iter().flatten().all(deeper))
    });
    object_at.or(list_at).map(|pointer| pointer.trim_start_matches('/').replace('/', "."))
}

/// Returns the first moment that has not the six digits of a fraction which moments of leases and events have.
pub(super) fn moments(kind: &Kind, object: &Value) -> Option<String> {
    let values: [&Value; 3] = match kind.kind.as_str() {
        "Lease" => [&object["spec"]["renewTime"], &object["spec"]["acquireTime"], &Value::Null],
        "Event" => [&object["eventTime"], &object["series"]["lastObservedTime"], &Value::Null],
        _ => return None,
    };
    values.into_iter().filter_map(Value::as_str).find(|text| !MICRO_TIME.is_match(text)).map(str::to_owned)
}

static MICRO_TIME: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}[.]\d{6}(Z|[+-]\d{2}:\d{2})$").expect("the pattern is valid"));

/// Checks an object with its defaults.
pub(super) fn check(kind: &Kind, object: &Value, causes: &mut Vec<Cause>) {
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "ConfigMap") => data(object, "[]", causes),
        ("", "Secret") => {
            data(object, "data", causes);
            secret(object, causes);
        }
        ("rbac.authorization.k8s.io", "Role" | "ClusterRole") => role(object, causes),
        ("", "Service") => service(&object["spec"], causes),
        ("", "Pod") => containers(&object["spec"], "spec", causes),
        ("", "Event") => core_event(object, causes),
        ("events.k8s.io", "Event") => {
            if object["eventTime"].is_null() {
                core_event(object, causes);
            }
            new_event(object, causes);
        }
        ("apps", "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet") => workload(&object["spec"], causes),
        ("batch", "Job") => job(&object["spec"], "spec", causes),
        ("batch", "CronJob") => cron_job(&object["spec"], causes),
        ("coordination.k8s.io", "Lease") => lease(&object["spec"], causes),
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => binding(object, causes),
        ("admissionregistration.k8s.io", _) => webhooks(object, causes),
        _ => {}
    }
}

/// What may not change once it is there: pointers into the objects of a kind.
fn immutable(group: &str, kind: &str) -> &'static [&'static str] {
    match (group, kind) {
        ("apps", "Deployment" | "DaemonSet" | "ReplicaSet") => &["/spec/selector"],
        ("apps", "StatefulSet") => &["/spec/selector", "/spec/serviceName", "/spec/podManagementPolicy", "/spec/volumeClaimTemplates"],
        ("batch", "Job") => &["/spec/selector", "/spec/template", "/spec/completionMode"],
        ("", "Secret") => &["/type"],
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => &["/roleRef"],
        ("", "PersistentVolumeClaim") => &["/spec/accessModes", "/spec/storageClassName", "/spec/volumeMode", "/spec/selector"],
        _ => &[],
    }
}

/// Checks what may not change.
pub(super) fn check_change(kind: &Kind, object: &Value, old: &Value, causes: &mut Vec<Cause>) {
    for pointer in immutable(&kind.group, &kind.kind) {
        let (now, before) = (object.pointer(pointer), old.pointer(pointer));
        if now != before && before.is_some() {
            let field = pointer.trim_start_matches('/').replace('/', ".");
            causes.push(invalid(field, now.unwrap_or(&Value::Null), "field is immutable"));
        }
    }
    if kind.kind == "Pod" && kind.group.is_empty() {
        pod_change(&object["spec"], &old["spec"], causes);
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

/// Of a pod, only images, tolerations and deadlines may change.
fn pod_change(now: &Value, before: &Value, causes: &mut Vec<Cause>) {
    for field in ["containers", "initContainers"] {
        let count = |spec: &Value| spec[field].as_array().map_or(0, Vec::len);
        if count(now) != count(before) {
            causes.push(forbidden(format!("spec.{field}"), "pod updates may not add or remove containers"));
            return;
        }
    }
    let rest = |spec: &Value| {
        let mut spec = spec.clone();
        for field in ["containers", "initContainers"] {
            for container in spec[field].as_array_mut().into_iter().flatten() {
                container.as_object_mut().map(|container| container.remove("image"));
            }
        }
        for field in ["activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds"] {
            spec.as_object_mut().map(|spec| spec.remove(field));
        }
        spec
    };
    if rest(now) != rest(before) {
        causes.push(forbidden("spec", "pod updates may not change fields other than images, tolerations and deadlines"));
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

fn service(spec: &Value, causes: &mut Vec<Cause>) {
    let kinds = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    if !kinds.iter().any(|kind| spec["type"] == *kind) {
        causes.push(not_supported("spec.type", &spec["type"], kinds));
    }
    let ports = spec["ports"].as_array().map_or(&[][..], Vec::as_slice);
    if ports.is_empty() && spec["type"] != "ExternalName" && spec["clusterIP"] != "None" {
        causes.push(required("spec.ports", ""));
    }
    for (index, port) in ports.iter().enumerate() {
        if !port["port"].as_i64().is_some_and(|number| (1..=65_535).contains(&number)) {
            let field = format!("spec.ports[{index}].port");
            causes.push(invalid(field, &port["port"], "must be between 1 and 65535, inclusive"));
        }
        if ports.len() > 1 && port["name"].as_str().is_none_or(str::is_empty) {
            causes.push(required(format!("spec.ports[{index}].name"), ""));
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
    }
    let policies = ["Always", "Never", "OnFailure"];
    if !spec["restartPolicy"].is_null() && !policies.iter().any(|policy| spec["restartPolicy"] == *policy) {
        causes.push(not_supported(format!("{at}.restartPolicy"), &spec["restartPolicy"], policies));
    }
}

fn workload(spec: &Value, causes: &mut Vec<Cause>) {
    let selector = &spec["selector"];
    if selector.is_null() {
        causes.push(required("spec.selector", ""));
    }
    let labels = &spec["template"]["metadata"]["labels"];
    match LabelSelector::of_object(selector) {
        Some(chosen) if chosen.is_empty() && !selector.is_null() => {
            causes.push(invalid("spec.selector", selector, "empty selector is invalid for deployment"));
        }
        Some(chosen) if !chosen.matches_labels(labels.as_object()) => {
            causes.push(invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`"));
        }
        _ => {}
    }
    if spec["replicas"].as_i64().is_some_and(|replicas| replicas < 0) {
        causes.push(invalid("spec.replicas", &spec["replicas"], "must be greater than or equal to 0"));
    }
    containers(&spec["template"]["spec"], "spec.template.spec", causes);
    if spec["template"]["spec"].is_object() && spec["template"]["spec"]["restartPolicy"] != "Always" {
        causes.push(not_supported("spec.template.spec.restartPolicy", &spec["template"]["spec"]["restartPolicy"], ["Always"]));
    }
}

fn job(spec: &Value, at: &str, causes: &mut Vec<Cause>) {
    let pod = &spec["template"]["spec"];
    containers(pod, &format!("{at}.template.spec"), causes);
    if pod["restartPolicy"] != "Never" && pod["restartPolicy"] != "OnFailure" {
        let field = format!("{at}.template.spec.restartPolicy");
        let message = format!("Required value: valid values: \"OnFailure\", \"Never\", not {}", pod["restartPolicy"]);
        causes.push(Cause::new("FieldValueRequired", field, message));
    }
}

fn cron_job(spec: &Value, causes: &mut Vec<Cause>) {
    if spec["schedule"].as_str().is_none_or(str::is_empty) {
        causes.push(required("spec.schedule", ""));
    }
    let policies = ["Allow", "Forbid", "Replace"];
    if !policies.iter().any(|policy| spec["concurrencyPolicy"] == *policy) {
        causes.push(not_supported("spec.concurrencyPolicy", &spec["concurrencyPolicy"], policies));
    }
    job(&spec["jobTemplate"]["spec"], "spec.jobTemplate.spec", causes);
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
}

/// Events of objects without a namespace live in `default`.
fn core_event(object: &Value, causes: &mut Vec<Cause>) {
    let own = object["metadata"]["namespace"].as_str().unwrap_or_default();
    let about = object["involvedObject"]["namespace"].as_str().unwrap_or_default();
    if about != own && !(about.is_empty() && own == "default") {
        causes.push(invalid("involvedObject.namespace", &json!(about), "does not match event.namespace"));
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

fn webhooks(object: &Value, causes: &mut Vec<Cause>) {
    for (index, webhook) in object["webhooks"].as_array().into_iter().flatten().enumerate() {
        let field = |name: &str| format!("webhooks[{index}].{name}");
        let name = webhook["name"].as_str().unwrap_or_default();
        if name.split('.').count() < 3 || metadata::name_mistake(metadata::NameRule::Subdomain, name, false).is_some() {
            causes.push(invalid(field("name"), &json!(name), "should be a domain with at least three segments separated by dots"));
        }
        match webhook["sideEffects"].as_str() {
            Some("None" | "NoneOnDryRun") => {}
            None => causes.push(required(field("sideEffects"), "must specify one of None, NoneOnDryRun")),
            Some(other) => causes.push(not_supported(field("sideEffects"), &json!(other), ["None", "NoneOnDryRun"])),
        }
        let versions: Vec<&str> = webhook["admissionReviewVersions"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        if versions.is_empty() {
            causes.push(required(field("admissionReviewVersions"), "must specify one of v1, v1beta1"));
        } else if !versions.iter().any(|version| ["v1", "v1beta1"].contains(version)) {
            causes.push(invalid(field("admissionReviewVersions"), &json!(versions), "must include at least one of v1, v1beta1"));
        }
        let client = &webhook["clientConfig"];
        match (client["url"].as_str(), client["service"].is_object()) {
            (Some(_), true) | (None, false) => causes.push(required(field("clientConfig"), "exactly one of url or service is required")),
            (Some(url), false) if !url.starts_with("https://") => {
                causes.push(invalid(field("clientConfig.url"), &json!(url), "'https' is the only allowed URL scheme"));
            }
            _ => {}
        }
        if webhook["timeoutSeconds"].as_i64().is_some_and(|seconds| !(1..=30).contains(&seconds)) {
            let text = "the timeout value must be between 1 and 30 seconds";
            causes.push(invalid(field("timeoutSeconds"), &webhook["timeoutSeconds"], text));
        }
        for (name, options) in [("failurePolicy", ["Fail", "Ignore"]), ("matchPolicy", ["Equivalent", "Exact"])] {
            if !options.iter().any(|option| webhook[name] == *option) {
                causes.push(not_supported(field(name), &webhook[name], options));
            }
        }
    }
}
