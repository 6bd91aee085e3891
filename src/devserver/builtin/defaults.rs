//! What the server fills in for built-in kinds.

use std::hash::{DefaultHasher, Hash, Hasher};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::{autoscaling, events};
use crate::devserver::Kind;

/// Fills in the defaults of an object, and what the server set in the old one.
pub(super) fn fill(kind: &Kind, object: &mut Value, old: Option<&Value>) {
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Namespace") => namespace(object, old),
        ("", "Secret") => secret(object),
        ("", "Service") => service(object, old),
        ("", "Pod") => pod(object),
        ("", "Event") => *object = events::to_core(object),
        ("", "ReplicationController") => controller(object),
        ("", "PersistentVolumeClaim") => claim(object),
        ("", "PersistentVolume") if old.is_none() => {
            let created_at = object["metadata"]["creationTimestamp"].clone();
            put_all(&mut object["status"], [("phase", json!("Pending")), ("lastPhaseTransitionTime", created_at)]);
        }
        ("", "Node") => node(object),
        ("", "ResourceQuota") => put(object, "status", json!({})),
        ("coordination.k8s.io", "Lease") => put(object, "spec", json!({})),
        ("", "PodTemplate") => template(&mut object["template"]),
        ("apps", "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet") => workload(&kind.kind, object),
        ("batch", "Job") => job(object, old),
        ("batch", "CronJob") => cron_job(object),
        ("", "LimitRange") => items(&mut object["spec"], "limits").for_each(limit),
        ("networking.k8s.io", "Ingress") => put(&mut object["status"], "loadBalancer", json!({})),
        ("policy", "PodDisruptionBudget") => {
            let counts = ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"];
            put_all(&mut object["status"], counts.map(|count| (count, json!(0))));
        }
        ("autoscaling", "HorizontalPodAutoscaler") => autoscaling::fill(&kind.version, object),
        ("admissionregistration.k8s.io", _) => webhooks(&kind.kind, object),
        _ => {}
    }
}

/// Puts a value where there is none.
pub(super) fn put(object: &mut Value, name: &str, value: Value) {
    let members = members(object);
    if members.get(name).is_none_or(Value::is_null) {
        members.insert(name.into(), value);
    }
}

fn put_all<const N: usize>(object: &mut Value, values: [(&str, Value); N]) {
    for (name, value) in values {
        put(object, name, value);
    }
}

fn members(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = json!({});
    }
    value.as_object_mut().expect("the value was just made an object")
}

fn items<'a>(value: &'a mut Value, name: &str) -> impl Iterator<Item = &'a mut Value> {
    value.get_mut(name).and_then(Value::as_array_mut).into_iter().flatten()
}

/// Only `finalize` changes the finalizers of a namespace's specification, and it does not come here.
fn namespace(object: &mut Value, old: Option<&Value>) {
    let name = object["metadata"]["name"].clone();
    members(&mut object["metadata"]["labels"]).insert("kubernetes.io/metadata.name".into(), name);
    let mut finalizers = object["spec"]["finalizers"].as_array().cloned().unwrap_or_default();
    match old {
        Some(old) => finalizers = old["spec"]["finalizers"].as_array().cloned().unwrap_or_default(),
        None if finalizers.contains(&json!("kubernetes")) => {}
        None => finalizers.push(json!("kubernetes")),
    }
    members(&mut object["spec"]).insert("finalizers".into(), json!(finalizers));
    put(&mut object["status"], "phase", json!("Active"));
}

fn secret(object: &mut Value) {
    put(object, "type", json!("Opaque"));
    let Some(Value::Object(texts)) = members(object).remove("stringData") else { return };
    for (name, text) in texts {
        let encoded = STANDARD.encode(text.as_str().unwrap_or_default());
        members(&mut object["data"]).insert(name, json!(encoded));
    }
}

fn service(object: &mut Value, old: Option<&Value>) {
    let address = cluster_address(&object["metadata"]);
    let spec = &mut object["spec"];
    put_all(spec, [("type", json!("ClusterIP")), ("sessionAffinity", json!("None"))]);
    for port in items(spec, "ports") {
        put(port, "protocol", json!("TCP"));
        let target = port["port"].clone();
        put(port, "targetPort", target);
    }
    if spec["type"] != "ExternalName" {
        if spec["clusterIP"].as_str().is_none_or(str::is_empty) {
            let kept = old.map(|old| old["spec"]["clusterIP"].clone()).filter(|kept| kept.as_str().is_some_and(|kept| !kept.is_empty()));
            members(spec).insert("clusterIP".into(), kept.unwrap_or_else(|| json!(address)));
        }
        let addresses = json!([spec["clusterIP"]]);
        put_all(
            spec,
            [
                ("clusterIPs", addresses),
                ("internalTrafficPolicy", json!("Cluster")),
                ("ipFamilies", json!(["IPv4"])),
                ("ipFamilyPolicy", json!("SingleStack")),
            ],
        );
        if spec["type"] != "ClusterIP" {
            put(spec, "externalTrafficPolicy", json!("Cluster"));
        }
    }
    put(&mut object["status"], "loadBalancer", json!({}));
}

/// A controller of old wants one pod, and goes by the labels of its pods.
fn controller(object: &mut Value) {
    template(&mut object["spec"]["template"]);
    put(&mut object["spec"], "replicas", json!(1));
    let labels = object["spec"]["template"]["metadata"]["labels"].clone();
    if labels.as_object().is_some_and(|labels| !labels.is_empty()) {
        put(&mut object["spec"], "selector", labels.clone());
        put(&mut object["metadata"], "labels", labels);
    }
    put(&mut object["status"], "replicas", json!(0));
}

/// There is no network: an address that only depends on the name serves as well as any, and repeats.
fn cluster_address(metadata: &Value) -> String {
    let mut hasher = DefaultHasher::new();
    (metadata["namespace"].as_str(), metadata["name"].as_str()).hash(&mut hasher);
    format!("10.0.0.{}", 2 + hasher.finish() % 253)
}

fn pod(object: &mut Value) {
    // These moments are told even if there are none.
    for condition in items(&mut object["status"], "conditions") {
        put_all(condition, [("lastProbeTime", Value::Null), ("lastTransitionTime", Value::Null)]);
    }
    let spec = &mut object["spec"];
    pod_spec(spec);
    put(spec, "enableServiceLinks", json!(true));
    put(spec, "serviceAccountName", json!("default"));
    let account = spec["serviceAccountName"].clone();
    put(spec, "serviceAccount", account);
    let tolerations = ["not-ready", "unreachable"].map(|state| {
        json!({"key": format!("node.kubernetes.io/{state}"), "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300})
    });
    put_all(spec, [("priority", json!(0)), ("preemptionPolicy", json!("PreemptLowerPriority")), ("tolerations", json!(tolerations))]);
    for list in ["containers", "initContainers"] {
        items(spec, list).for_each(request_limits);
    }
    let class = quality(spec);
    put_all(&mut object["status"], [("phase", json!("Pending")), ("qosClass", json!(class))]);
}

fn pod_spec(spec: &mut Value) {
    put_all(
        spec,
        [
            ("restartPolicy", json!("Always")),
            ("terminationGracePeriodSeconds", json!(30)),
            ("dnsPolicy", json!("ClusterFirst")),
            ("securityContext", json!({})),
            ("schedulerName", json!("default-scheduler")),
        ],
    );
    // The old name of the field goes with the new one.
    let account = spec["serviceAccountName"].clone();
    if account.is_string() {
        put(spec, "serviceAccount", account);
    }
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        items(spec, list).for_each(container);
    }
    items(spec, "volumes").for_each(volume);
}

/// The mode of files in volumes: all may read them.
const FILE_MODE: i32 = 0o644;

fn volume(volume: &mut Value) {
    for name in ["configMap", "secret", "downwardAPI", "projected"] {
        if let Some(source) = object_in(volume, name) {
            put(source, "defaultMode", json!(FILE_MODE));
            items(source, "items").for_each(reference);
            for source in items(source, "sources") {
                object_in(source, "downwardAPI").into_iter().flat_map(|source| items(source, "items")).for_each(reference);
                if let Some(token) = object_in(source, "serviceAccountToken") {
                    put(token, "expirationSeconds", json!(3600));
                }
            }
        }
    }
    if let Some(host) = object_in(volume, "hostPath") {
        put(host, "type", json!(""));
    }
    if let Some(template) = object_in(volume, "ephemeral").and_then(|ephemeral| object_in(ephemeral, "volumeClaimTemplate")) {
        put(&mut template["spec"], "volumeMode", json!("Filesystem"));
    }
}

fn object_in<'a>(value: &'a mut Value, name: &str) -> Option<&'a mut Value> {
    value.get_mut(name).filter(|member| member.is_object())
}

/// A reference to a field says which version of the object it means.
fn reference(holder: &mut Value) {
    if let Some(reference) = object_in(holder, "fieldRef") {
        put(reference, "apiVersion", json!("v1"));
    }
}

fn container(container: &mut Value) {
    let image = container["image"].as_str().unwrap_or_default();
    let tag = image.rsplit('/').next().unwrap_or_default();
    let is_moving = !image.contains('@') && (!tag.contains(':') || tag.ends_with(":latest"));
    put_all(
        container,
        [
            ("terminationMessagePath", json!("/dev/termination-log")),
            ("terminationMessagePolicy", json!("File")),
            ("imagePullPolicy", json!(if is_moving { "Always" } else { "IfNotPresent" })),
            ("resources", json!({})),
        ],
    );
    items(container, "ports").for_each(|port| put(port, "protocol", json!("TCP")));
    items(container, "env").filter_map(|variable| object_in(variable, "valueFrom")).for_each(reference);
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(found) = container.get_mut(name).filter(|found| found.is_object()) {
            probe(found);
        }
    }
}

fn probe(probe: &mut Value) {
    put_all(
        probe,
        [("timeoutSeconds", json!(1)), ("periodSeconds", json!(10)), ("successThreshold", json!(1)), ("failureThreshold", json!(3))],
    );
    if probe["httpGet"].is_object() {
        put_all(&mut probe["httpGet"], [("path", json!("/")), ("scheme", json!("HTTP"))]);
    }
}

/// A pod, unlike a template of pods, asks for what it is limited to.
fn request_limits(container: &mut Value) {
    let limits = container["resources"]["limits"].as_object().cloned().unwrap_or_default();
    for (resource, amount) in limits {
        put(&mut container["resources"]["requests"], &resource, amount);
    }
}

/// What is a limit by default is asked for by default; what is the most is the limit by default.
fn limit(limit: &mut Value) {
    let mut inherit = |from: &str, to: &str| {
        let amounts = limit[from].as_object().cloned().unwrap_or_default();
        for (resource, amount) in amounts {
            put(&mut limit[to], &resource, amount);
        }
    };
    inherit("max", "default");
    inherit("default", "defaultRequest");
    inherit("min", "defaultRequest");
}

/// The class that tells who is evicted first.
fn quality(spec: &Value) -> &'static str {
    let containers: Vec<&Value> = ["containers", "initContainers"].iter().filter_map(|list| spec[*list].as_array()).flatten().collect();
    let has_any = containers
        .iter()
        .any(|one| ["requests", "limits"].iter().any(|part| one["resources"][*part].as_object().is_some_and(|map| !map.is_empty())));
    let is_full = |one: &&Value| {
        ["cpu", "memory"].iter().all(|resource| {
            let (limit, request) = (&one["resources"]["limits"][*resource], &one["resources"]["requests"][*resource]);
            !limit.is_null() && (request.is_null() || request == limit)
        })
    };
    match (has_any, containers.iter().all(is_full)) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

fn template(template: &mut Value) {
    if template.is_object() {
        put(template, "metadata", json!({}));
        pod_spec(&mut template["spec"]);
    }
}

/// These are told even if nothing is known of them.
fn node(object: &mut Value) {
    let status = &mut object["status"];
    for condition in items(status, "conditions") {
        put_all(condition, [("lastHeartbeatTime", Value::Null), ("lastTransitionTime", Value::Null)]);
    }
    put(status, "daemonEndpoints", json!({"kubeletEndpoint": {"Port": 0}}));
    let facts = [
        "architecture",
        "bootID",
        "containerRuntimeVersion",
        "kernelVersion",
        "kubeProxyVersion",
        "kubeletVersion",
        "machineID",
        "operatingSystem",
        "osImage",
        "systemUUID",
    ];
    put_all(&mut status["nodeInfo"], facts.map(|fact| (fact, json!(""))));
}

fn claim(object: &mut Value) {
    put(&mut object["spec"], "volumeMode", json!("Filesystem"));
    put(&mut object["status"], "phase", json!("Pending"));
}

/// Updates roll, unless something else is said.
fn rolling<const N: usize>(spec: &mut Value, name: &str, values: [(&str, Value); N]) {
    if !(spec[name].is_null() || spec[name].is_object()) {
        return;
    }
    put(&mut spec[name], "type", json!("RollingUpdate"));
    if spec[name]["type"] == "RollingUpdate" {
        put_all(&mut spec[name]["rollingUpdate"], values);
    }
}

fn workload(kind: &str, object: &mut Value) {
    let spec = &mut object["spec"];
    template(&mut spec["template"]);
    match kind {
        "Deployment" => {
            put_all(spec, [("replicas", json!(1)), ("revisionHistoryLimit", json!(10)), ("progressDeadlineSeconds", json!(600))]);
            rolling(spec, "strategy", [("maxUnavailable", json!("25%")), ("maxSurge", json!("25%"))]);
            put(object, "status", json!({}));
        }
        "StatefulSet" => {
            put_all(
                spec,
                [
                    ("replicas", json!(1)),
                    ("podManagementPolicy", json!("OrderedReady")),
                    ("revisionHistoryLimit", json!(10)),
                    ("persistentVolumeClaimRetentionPolicy", json!({"whenDeleted": "Retain", "whenScaled": "Retain"})),
                    ("serviceName", json!("")),
                ],
            );
            rolling(spec, "updateStrategy", [("partition", json!(0))]);
            for template in items(spec, "volumeClaimTemplates") {
                put_all(template, [("apiVersion", json!("v1")), ("kind", json!("PersistentVolumeClaim"))]);
                claim(template);
            }
            put_all(&mut object["status"], [("replicas", json!(0)), ("availableReplicas", json!(0))]);
        }
        "DaemonSet" => {
            put(spec, "revisionHistoryLimit", json!(10));
            rolling(spec, "updateStrategy", [("maxUnavailable", json!(1)), ("maxSurge", json!(0))]);
            let counts = ["currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"];
            for count in counts {
                put(&mut object["status"], count, json!(0));
            }
        }
        _ => {
            put(spec, "replicas", json!(1));
            put(&mut object["status"], "replicas", json!(0));
        }
    }
}

fn job_spec(spec: &mut Value) {
    let is_plain = spec["completions"].is_null() && spec["parallelism"].is_null();
    if is_plain {
        put(spec, "completions", json!(1));
    }
    put_all(
        spec,
        [
            ("parallelism", json!(1)),
            ("backoffLimit", json!(6)),
            ("completionMode", json!("NonIndexed")),
            ("suspend", json!(false)),
            ("manualSelector", json!(false)),
            ("podReplacementPolicy", json!("TerminatingOrFailed")),
        ],
    );
}

fn job(object: &mut Value, old: Option<&Value>) {
    let (name, uid) = (object["metadata"]["name"].clone(), object["metadata"]["uid"].clone());
    let spec = &mut object["spec"];
    template(&mut spec["template"]);
    job_spec(spec);
    if spec["manualSelector"] != true && uid.is_string() {
        if let Some(old) = old {
            put(spec, "selector", old["spec"]["selector"].clone());
        }
        put(spec, "selector", json!({"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}));
        let labels = &mut spec["template"]["metadata"]["labels"];
        put_all(
            labels,
            [
                ("batch.kubernetes.io/controller-uid", uid.clone()),
                ("batch.kubernetes.io/job-name", name.clone()),
                ("controller-uid", uid),
                ("job-name", name),
            ],
        );
    }
    // A job without labels gets those of its pods.
    let labels = object["spec"]["template"]["metadata"]["labels"].clone();
    if old.is_none() && labels.is_object() && object["metadata"]["labels"].as_object().is_none_or(Map::is_empty) {
        members(&mut object["metadata"]).insert("labels".into(), labels);
    }
    put(object, "status", json!({}));
}

fn cron_job(object: &mut Value) {
    let spec = &mut object["spec"];
    template(&mut spec["jobTemplate"]["spec"]["template"]);
    put(&mut spec["jobTemplate"], "metadata", json!({}));
    put_all(
        spec,
        [
            ("concurrencyPolicy", json!("Allow")),
            ("suspend", json!(false)),
            ("successfulJobsHistoryLimit", json!(3)),
            ("failedJobsHistoryLimit", json!(1)),
        ],
    );
    put(object, "status", json!({}));
}

fn webhooks(kind: &str, object: &mut Value) {
    for webhook in items(object, "webhooks") {
        put_all(
            webhook,
            [
                ("failurePolicy", json!("Fail")),
                ("matchPolicy", json!("Equivalent")),
                ("namespaceSelector", json!({})),
                ("objectSelector", json!({})),
                ("timeoutSeconds", json!(10)),
            ],
        );
        if kind == "MutatingWebhookConfiguration" {
            put(webhook, "reinvocationPolicy", json!("Never"));
        }
        items(webhook, "rules").for_each(|rule| put(rule, "scope", json!("*")));
        if webhook["clientConfig"]["service"].is_object() {
            put(&mut webhook["clientConfig"]["service"], "port", json!(443));
        }
    }
}
