//! Checks of services and ingresses.

use serde_json::Value;

use crate::Cause;
use crate::causes::{duplicate, invalid, not_supported, required};

/// Checks what a service offers, and at which ports.
pub fn service(spec: &Value, causes: &mut Vec<Cause>) {
    let kinds = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    if !kinds.iter().any(|kind| spec["type"] == *kind) {
        causes.push(not_supported("spec.type", &spec["type"], kinds));
    }
    let ports = spec["ports"].as_array().map_or(&[][..], Vec::as_slice);
    if ports.is_empty() && spec["type"] != "ExternalName" && spec["clusterIP"] != "None" {
        causes.push(required("spec.ports", ""));
    }
    if spec["type"] == "ExternalName" && spec["externalName"].as_str().is_none_or(str::is_empty) {
        causes.push(required("spec.externalName", ""));
    }
    let affinities = ["ClientIP", "None"];
    if !affinities.iter().any(|affinity| spec["sessionAffinity"] == *affinity) {
        causes.push(not_supported("spec.sessionAffinity", &spec["sessionAffinity"], affinities));
    }
    for (index, port) in ports.iter().enumerate() {
        let field = |name: &str| format!("spec.ports[{index}].{name}");
        let is_port = |value: &Value| value.as_i64().is_some_and(|number| (1..=65_535).contains(&number));
        match port["name"].as_str().unwrap_or_default() {
            "" if ports.len() > 1 => causes.push(required(field("name"), "")),
            "" => {}
            name if ports[..index].iter().any(|other| other["name"] == name) => causes.push(duplicate(field("name"), &port["name"])),
            _ => {}
        }
        if !is_port(&port["port"]) {
            causes.push(invalid(field("port"), &port["port"], "must be between 1 and 65535, inclusive"));
        }
        let protocols = ["SCTP", "TCP", "UDP"];
        if !protocols.iter().any(|protocol| port["protocol"] == *protocol) {
            causes.push(not_supported(field("protocol"), &port["protocol"], protocols));
        }
        if port["targetPort"].is_number() && !is_port(&port["targetPort"]) {
            causes.push(invalid(field("targetPort"), &port["targetPort"], "must be between 1 and 65535, inclusive"));
        }
    }
}

/// Checks that an ingress leads somewhere.
pub fn ingress(spec: &Value, causes: &mut Vec<Cause>) {
    let rules = spec["rules"].as_array().map_or(&[][..], Vec::as_slice);
    if rules.is_empty() && !spec["defaultBackend"].is_object() {
        causes.push(invalid("spec", &Value::Null, "either `defaultBackend` or `rules` must be specified"));
    }
    for (index, rule) in rules.iter().enumerate() {
        for (path, value) in rule["http"]["paths"].as_array().into_iter().flatten().enumerate() {
            if value["pathType"].is_null() {
                causes.push(required(format!("spec.rules[{index}].http.paths[{path}].pathType"), "pathType must be specified"));
            }
        }
    }
}
