//! The defaults of built-in kinds.

mod pods;

use std::hash::{DefaultHasher, Hash, Hasher};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::autoscaling;
use super::members::{items, members, put, put_all};
use crate::kinds::kind::Kind;
use pods::{pod, tcp, template};

/// Fills in the defaults of an object, and the values that the server assigned to the old one.
pub(super) fn fill(kind: &Kind, object: &mut Value, old: Option<&Value>) {
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Namespace") => namespace(object, old),
        ("", "Secret") => secret(object),
        ("", "Service") => service(object, old),
        ("", "Pod") => pod(object),
        ("", "ReplicationController") => controller(object),
        ("", "PersistentVolumeClaim") => claim(object),
        ("", "PersistentVolume") => {
            if old.is_none() {
                let created_at = object["metadata"]["creationTimestamp"].clone();
                put_all(&mut object["status"], [("phase", json!("Pending")), ("lastPhaseTransitionTime", created_at)]);
            }
            let spec = &mut object["spec"];
            put_all(spec, [("persistentVolumeReclaimPolicy", json!("Retain")), ("volumeMode", json!("Filesystem"))]);
            if spec["hostPath"].is_object() {
                put(&mut spec["hostPath"], "type", json!(""));
            }
        }
        ("", "Endpoints") => items(object, "subsets").flat_map(|subset| items(subset, "ports")).for_each(tcp),
        ("", "PodTemplate") => template(&mut object["template"]),
        ("apps", "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet") => {
            workload(&kind.kind, object);
            if kind.kind == "DaemonSet" {
                count_templates(object, old);
            }
        }
        ("batch", "Job") => job(object, old),
        ("batch", "CronJob") => cron_job(object),
        ("discovery.k8s.io", "EndpointSlice") => items(object, "ports").for_each(|port| {
            put(port, "name", json!(""));
            tcp(port);
        }),
        // The feature is disabled: its fields are dropped.
        ("coordination.k8s.io", "Lease") => {
            for name in ["strategy", "preferredHolder"] {
                object["spec"].as_object_mut().map(|spec| spec.remove(name));
            }
        }
        ("", "LimitRange") => {
            items(&mut object["spec"], "limits").filter(|limit| limit["type"] == "Container").for_each(limit);
        }
        ("scheduling.k8s.io", "PriorityClass") => put(object, "preemptionPolicy", json!("PreemptLowerPriority")),
        ("networking.k8s.io", "IngressClass") if object["spec"]["parameters"].is_object() => {
            put(&mut object["spec"]["parameters"], "scope", json!("Cluster"));
        }
        ("", "Node") => node(object, old.is_none()),
        ("networking.k8s.io", "NetworkPolicy") => network_policy(&mut object["spec"]),
        ("storage.k8s.io", "StorageClass") => {
            put_all(object, [("reclaimPolicy", json!("Delete")), ("volumeBindingMode", json!("Immediate"))]);
        }
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => binding(object),
        ("autoscaling", "HorizontalPodAutoscaler") => autoscaling::fill(&kind.version, object),
        ("admissionregistration.k8s.io", _) => webhooks(&kind.kind, object),
        _ => {}
    }
}

/// The allocatable resources of a node default to its capacity, and new nodes are tainted until they are ready.
fn node(object: &mut Value, is_new: bool) {
    let capacity = object["status"]["capacity"].clone();
    if capacity.is_object() {
        put(&mut object["status"], "allocatable", capacity);
    }
    let spec = &mut object["spec"];
    if let Some(range) = spec["podCIDR"].as_str().map(|range| json!([range])) {
        put(spec, "podCIDRs", range);
    }
    let taint = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"});
    if is_new {
        put(spec, "taints", json!([]));
        let taints = spec["taints"].as_array_mut().expect("the type was checked");
        if !taints.iter().any(|known| known["key"] == taint["key"] && known["effect"] == taint["effect"]) {
            taints.push(taint);
        }
    }
}

/// A policy applies to ingress, and to egress if it has egress rules.
fn network_policy(spec: &mut Value) {
    let mut about = vec![json!("Ingress")];
    if spec["egress"].as_array().is_some_and(|rules| !rules.is_empty()) {
        about.push(json!("Egress"));
    }
    put(spec, "policyTypes", json!(about));
    for direction in ["ingress", "egress"] {
        items(spec, direction).flat_map(|rule| items(rule, "ports")).for_each(tcp);
    }
}

/// The default API group of roles, users and groups is that of roles.
fn binding(object: &mut Value) {
    const GROUP: &str = "rbac.authorization.k8s.io";
    if object["roleRef"]["apiGroup"] == "" {
        object["roleRef"]["apiGroup"] = json!(GROUP);
    }
    for subject in items(object, "subjects").filter(|subject| subject["kind"] == "User" || subject["kind"] == "Group") {
        put(subject, "apiGroup", json!(GROUP));
    }
}

/// Only `finalize` changes the finalizers in a namespace's specification, without calling this.
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
    session(spec);
    for port in items(spec, "ports") {
        tcp(port);
        if port["targetPort"] == 0 || port["targetPort"] == "" {
            port["targetPort"] = port["port"].clone();
        }
    }
    match old {
        Some(old) if spec["type"] == "ExternalName" && old["spec"]["type"] != "ExternalName" => {
            for name in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
                release(spec, &old["spec"], name);
            }
        }
        None if spec["type"] == "ExternalName"
            && spec["clusterIP"].as_str().is_some_and(|address| !address.is_empty()) =>
        {
            let all = json!([spec["clusterIP"]]);
            put(spec, "clusterIPs", all);
        }
        _ if spec["type"] != "ExternalName" => {
            addresses(spec, old.map(|old| &old["spec"]).filter(|old| old["type"] != "ExternalName"), &address);
        }
        _ => {}
    }
    let is_external = spec["type"] == "NodePort" || spec["type"] == "LoadBalancer";
    let has_addresses =
        spec["type"] == "ClusterIP" && spec["externalIPs"].as_array().is_some_and(|all| !all.is_empty());
    if is_external || has_addresses {
        put(spec, "externalTrafficPolicy", json!("Cluster"));
    }
    if ["ClusterIP", "NodePort", "LoadBalancer"].iter().any(|kind| spec["type"] == *kind) {
        put(spec, "internalTrafficPolicy", json!("Cluster"));
    }
    if spec["type"] == "LoadBalancer" {
        put(spec, "allocateLoadBalancerNodePorts", json!(true));
        for ingress in
            items(&mut object["status"]["loadBalancer"], "ingress").filter(|ingress| ingress["ip"].is_string())
        {
            put(ingress, "ipMode", json!("VIP"));
        }
    }
}

/// A service with session affinity has a timeout; others have no configuration of it.
fn session(spec: &mut Value) {
    const SECONDS: i64 = 10_800;
    if spec["sessionAffinity"] == "None" {
        members(spec).remove("sessionAffinityConfig");
    } else if spec["sessionAffinity"] == "ClientIP"
        && !spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"].is_i64()
    {
        spec["sessionAffinityConfig"] = json!({"clientIP": {"timeoutSeconds": SECONDS}});
    }
}

/// Removes a field that is unchanged from the old service.
fn release(spec: &mut Value, old: &Value, name: &str) {
    if spec[name] == old[name] || spec[name] == "" {
        members(spec).remove(name);
    }
}

/// Assigns the addresses of a service, or keeps the existing ones.
fn addresses(spec: &mut Value, old: Option<&Value>, address: &str) {
    let is_given = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
    let had = old.map(|old| old["clusterIP"].clone()).filter(is_given);
    // A change of one field changes the other, too.
    if let Some(old) = old
        && spec["clusterIP"] != old["clusterIP"]
        && spec["clusterIPs"] == old["clusterIPs"]
    {
        members(spec).remove("clusterIPs");
    }
    if !is_given(&spec["clusterIP"]) && spec["clusterIPs"].as_array().is_none_or(Vec::is_empty) {
        members(spec).insert("clusterIP".into(), had.unwrap_or_else(|| json!(address)));
    }
    if is_given(&spec["clusterIP"]) {
        let all = json!([spec["clusterIP"]]);
        put(spec, "clusterIPs", all);
    }
    // Without a selector the address family of the endpoints is unknown.
    let is_open = spec["clusterIP"] == "None" && spec["selector"].as_object().is_none_or(Map::is_empty);
    let (families, policy) =
        if is_open { (json!(["IPv4", "IPv6"]), "RequireDualStack") } else { (json!(["IPv4"]), "SingleStack") };
    put_all(spec, [("ipFamilies", families), ("ipFamilyPolicy", json!(policy))]);
}

/// A replication controller has one replica by default, and selects by the labels of its template.
fn controller(object: &mut Value) {
    template(&mut object["spec"]["template"]);
    put(&mut object["spec"], "replicas", json!(1));
    let labels = object["spec"]["template"]["metadata"]["labels"].clone();
    if labels.as_object().is_some_and(|labels| !labels.is_empty()) {
        put(&mut object["spec"], "selector", labels.clone());
        put(&mut object["metadata"], "labels", labels);
    }
}

/// There is no network: an address derived from the name is sufficient and reproducible.
fn cluster_address(metadata: &Value) -> String {
    let mut hasher = DefaultHasher::new();
    (metadata["namespace"].as_str(), metadata["name"].as_str()).hash(&mut hasher);
    format!("10.0.0.{}", 2 + hasher.finish() % 253)
}

/// Default requests are the default limits; default limits are the maxima.
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

fn claim(object: &mut Value) {
    let spec = &mut object["spec"];
    put(spec, "volumeMode", json!("Filesystem"));
    // Without a group, only claims are sources. Both fields have the same value.
    let is_core = spec["dataSource"]["apiGroup"].as_str().is_none_or(str::is_empty);
    if spec["dataSource"].is_object() && is_core && spec["dataSource"]["kind"] != "PersistentVolumeClaim" {
        members(spec).remove("dataSource");
    }
    for (from, to) in [("dataSource", "dataSourceRef"), ("dataSourceRef", "dataSource")] {
        if spec[from].is_object() && spec[from]["namespace"].as_str().is_none_or(str::is_empty) {
            let source = spec[from].clone();
            put(spec, to, source);
        }
    }
    // Indexing into members creates nulls.
    members(spec).retain(|name, value| !(name.starts_with("dataSource") && value.is_null()));
    put(&mut object["status"], "phase", json!("Pending"));
}

/// Sets rolling updates as the default strategy.
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
            put_all(
                spec,
                [("replicas", json!(1)), ("revisionHistoryLimit", json!(10)), ("progressDeadlineSeconds", json!(600))],
            );
            rolling(spec, "strategy", [("maxUnavailable", json!("25%")), ("maxSurge", json!("25%"))]);
        }
        "StatefulSet" => {
            put_all(
                spec,
                [
                    ("replicas", json!(1)),
                    ("podManagementPolicy", json!("OrderedReady")),
                    ("revisionHistoryLimit", json!(10)),
                ],
            );
            let retention = &mut spec["persistentVolumeClaimRetentionPolicy"];
            put_all(retention, [("whenDeleted", json!("Retain")), ("whenScaled", json!("Retain"))]);
            // Only an explicit rolling update gets default parameters.
            if spec["updateStrategy"]["type"].is_null() {
                rolling(spec, "updateStrategy", [("partition", json!(0))]);
            }
            for template in items(spec, "volumeClaimTemplates") {
                put_all(template, [("apiVersion", json!("v1")), ("kind", json!("PersistentVolumeClaim"))]);
                claim(template);
            }
        }
        "DaemonSet" => {
            put(spec, "revisionHistoryLimit", json!(10));
            rolling(spec, "updateStrategy", [("maxUnavailable", json!(1)), ("maxSurge", json!(0))]);
        }
        _ => put(spec, "replicas", json!(1)),
    }
}

/// Counts the templates of a daemon set, in an annotation that was once a field.
fn count_templates(object: &mut Value, old: Option<&Value>) {
    const COUNT: &str = "deprecated.daemonset.template.generation";
    let noted =
        |object: &Value| object["metadata"]["annotations"][COUNT].as_str().and_then(|count| count.parse::<i64>().ok());
    let before = noted(old.unwrap_or(object)).unwrap_or_default();
    let is_new = old.is_some_and(|old| old["spec"]["template"] != object["spec"]["template"]);
    let count = (before + i64::from(is_new)).max(1);
    members(&mut object["metadata"]["annotations"]).insert(COUNT.to_owned(), json!(count.to_string()));
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
            ("backoffLimit", json!(if spec["backoffLimitPerIndex"].is_null() { 6 } else { i32::MAX })),
            ("completionMode", json!("NonIndexed")),
            ("suspend", json!(false)),
            ("manualSelector", json!(false)),
            (
                "podReplacementPolicy",
                json!(if spec["podFailurePolicy"].is_null() { "TerminatingOrFailed" } else { "Failed" }),
            ),
        ],
    );
    failure_patterns(spec);
}

/// The status of a pod condition in a pattern is true by default.
fn failure_patterns(spec: &mut Value) {
    for rule in spec.get_mut("podFailurePolicy").into_iter().flat_map(|policy| items(policy, "rules")) {
        for condition in
            items(rule, "onPodConditions").filter(|condition| condition["status"].as_str().is_none_or(str::is_empty))
        {
            condition["status"] = json!("True");
        }
    }
}

fn job(object: &mut Value, old: Option<&Value>) {
    let (name, uid) = (object["metadata"]["name"].clone(), object["metadata"]["uid"].clone());
    let spec = &mut object["spec"];
    template(&mut spec["template"]);
    job_spec(spec);
    let has_labels = spec["template"]["metadata"]["labels"].as_object().is_some_and(|labels| !labels.is_empty());
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
    if has_labels {
        label_job(object, old);
    }
}

/// A job without labels gets those of its pod template: given ones before the check, generated ones afterwards.
pub(super) fn label_job(object: &mut Value, old: Option<&Value>) {
    let labels = object["spec"]["template"]["metadata"]["labels"].clone();
    if old.is_none() && labels.is_object() && object["metadata"]["labels"].as_object().is_none_or(Map::is_empty) {
        members(&mut object["metadata"]).insert("labels".into(), labels);
    }
}

fn cron_job(object: &mut Value) {
    let spec = &mut object["spec"];
    template(&mut spec["jobTemplate"]["spec"]["template"]);
    failure_patterns(&mut spec["jobTemplate"]["spec"]);
    put_all(
        spec,
        [
            ("concurrencyPolicy", json!("Allow")),
            ("suspend", json!(false)),
            ("successfulJobsHistoryLimit", json!(3)),
            ("failedJobsHistoryLimit", json!(1)),
        ],
    );
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
