//! The defaults of pods and of their templates.

use serde_json::{Value, json};

use crate::kinds::builtin::members::{items, put, put_all};

/// Fills in a pod.
pub(super) fn pod(object: &mut Value) {
    let spec = &mut object["spec"];
    pod_spec(spec);
    put(spec, "enableServiceLinks", json!(true));
    put(spec, "serviceAccountName", json!("default"));
    let account = spec["serviceAccountName"].clone();
    put(spec, "serviceAccount", account);
    tolerate(spec);
    put_all(spec, [("priority", json!(0)), ("preemptionPolicy", json!("PreemptLowerPriority"))]);
    let is_on_host = spec["hostNetwork"] == true;
    for list in ["containers", "initContainers"] {
        items(spec, list).for_each(request_limits);
        // On the host network, the host port equals the container port.
        for port in items(spec, list).filter(|_| is_on_host).flat_map(|container| items(container, "ports")) {
            let inside = port["containerPort"].clone();
            put(port, "hostPort", inside);
        }
    }
    let class = quality(spec);
    put_all(&mut object["status"], [("phase", json!("Pending")), ("qosClass", json!(class))]);
}

/// Adds the tolerations of unreachable and unready nodes, unless the pod has its own.
fn tolerate(spec: &mut Value) {
    for state in ["not-ready", "unreachable"] {
        let key = format!("node.kubernetes.io/{state}");
        let is_about = |toleration: &Value| {
            let (own, effect) =
                (toleration["key"].as_str().unwrap_or_default(), toleration["effect"].as_str().unwrap_or_default());
            (own.is_empty() || own == key) && (effect.is_empty() || effect == "NoExecute")
        };
        if spec["tolerations"].as_array().into_iter().flatten().any(is_about) {
            continue;
        }
        let toleration = json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300});
        match spec["tolerations"].as_array_mut() {
            Some(tolerations) => tolerations.push(toleration),
            None => spec["tolerations"] = json!([toleration]),
        }
    }
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
    if spec["terminationGracePeriodSeconds"].as_i64().is_some_and(|seconds| seconds < 0) {
        spec["terminationGracePeriodSeconds"] = json!(1);
    }
    // The field with the old name has the same value as the new one.
    let account = spec["serviceAccountName"].clone();
    if account.is_string() {
        put(spec, "serviceAccount", account);
    }
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        items(spec, list).for_each(container);
    }
    items(spec, "volumes").for_each(volume);
}

/// The default mode of files in volumes: readable by all.
const FILE_MODE: i32 = 0o644;

fn volume(volume: &mut Value) {
    if volume.as_object().is_some_and(|members| members.keys().all(|name| name == "name")) {
        volume["emptyDir"] = json!({});
    }
    if let Some(image) = object_in(volume, "image") {
        let policy = pull_policy(image["reference"].as_str().unwrap_or_default());
        put(image, "pullPolicy", json!(policy));
    }
    for name in ["configMap", "secret", "downwardAPI", "projected"] {
        if let Some(source) = object_in(volume, name) {
            put(source, "defaultMode", json!(FILE_MODE));
            items(source, "items").for_each(reference);
            for source in items(source, "sources") {
                object_in(source, "downwardAPI")
                    .into_iter()
                    .flat_map(|source| items(source, "items"))
                    .for_each(reference);
                if let Some(token) = object_in(source, "serviceAccountToken") {
                    put(token, "expirationSeconds", json!(3600));
                }
            }
        }
    }
    if let Some(host) = object_in(volume, "hostPath") {
        put(host, "type", json!(""));
    }
    if let Some(template) =
        object_in(volume, "ephemeral").and_then(|ephemeral| object_in(ephemeral, "volumeClaimTemplate"))
    {
        put(&mut template["spec"], "volumeMode", json!("Filesystem"));
    }
}

fn object_in<'a>(value: &'a mut Value, name: &str) -> Option<&'a mut Value> {
    value.get_mut(name).filter(|member| member.is_object())
}

/// A field reference has an `apiVersion`.
fn reference(holder: &mut Value) {
    if let Some(reference) = object_in(holder, "fieldRef") {
        put(reference, "apiVersion", json!("v1"));
    }
}

fn container(container: &mut Value) {
    let policy = pull_policy(container["image"].as_str().unwrap_or_default());
    put_all(
        container,
        [
            ("terminationMessagePath", json!("/dev/termination-log")),
            ("terminationMessagePolicy", json!("File")),
            ("imagePullPolicy", json!(policy)),
        ],
    );
    items(container, "ports").for_each(tcp);
    items(container, "env").filter_map(|variable| object_in(variable, "valueFrom")).for_each(reference);
    for name in ["postStart", "preStop"] {
        object_in(container, "lifecycle")
            .and_then(|lifecycle| object_in(lifecycle, name))
            .into_iter()
            .for_each(http_get);
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(found) = container.get_mut(name).filter(|found| found.is_object()) {
            probe(found);
        }
    }
}

/// Images with a changing tag are always pulled.
fn pull_policy(image: &str) -> &'static str {
    let tag = image.rsplit('/').next().unwrap_or_default();
    let is_moving = !image.contains('@') && (!tag.contains(':') || tag.ends_with(":latest"));
    if is_moving { "Always" } else { "IfNotPresent" }
}

fn probe(probe: &mut Value) {
    put_all(
        probe,
        [
            ("timeoutSeconds", json!(1)),
            ("periodSeconds", json!(10)),
            ("successThreshold", json!(1)),
            ("failureThreshold", json!(3)),
        ],
    );
    http_get(probe);
    if let Some(action) = object_in(probe, "grpc") {
        put(action, "service", json!(""));
    }
}

fn http_get(holder: &mut Value) {
    if let Some(action) = object_in(holder, "httpGet") {
        put_all(action, [("path", json!("/")), ("scheme", json!("HTTP"))]);
    }
}

/// In a pod, but not in a template, requests default to limits.
fn request_limits(container: &mut Value) {
    let limits = container["resources"]["limits"].as_object().cloned().unwrap_or_default();
    for (resource, amount) in limits {
        put(&mut container["resources"]["requests"], &resource, amount);
    }
}

/// Returns the quality-of-service class. Only CPU and memory count.
fn quality(spec: &Value) -> &'static str {
    const COUNTED: [&str; 2] = ["cpu", "memory"];
    let containers: Vec<&Value> =
        ["containers", "initContainers"].iter().filter_map(|list| spec[*list].as_array()).flatten().collect();
    let is_some = |amount: &Value| amount.as_str().is_some_and(|amount| amount != "0");
    let has_any = containers.iter().any(|one| {
        let lists = ["requests", "limits"].map(|list| &one["resources"][list]);
        lists.iter().any(|list| COUNTED.iter().any(|resource| is_some(&list[*resource])))
    });
    let is_full = |one: &&Value| {
        COUNTED.iter().all(|resource| {
            let (limit, request) = (&one["resources"]["limits"][*resource], &one["resources"]["requests"][*resource]);
            is_some(limit) && (request.is_null() || request == limit)
        })
    };
    match (has_any, containers.iter().all(is_full)) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

/// Fills in a pod template.
pub(super) fn template(template: &mut Value) {
    if template.is_object() {
        pod_spec(&mut template["spec"]);
    }
}

/// The default protocol of ports is TCP.
pub(super) fn tcp(port: &mut Value) {
    put(port, "protocol", json!("TCP"));
}
