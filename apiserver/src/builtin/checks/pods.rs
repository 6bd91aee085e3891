//! What may change in pods, as a whole and through their subresources.

use serde_json::{Value, json};

use crate::Cause;
use crate::causes::{duplicate, forbidden, required};

/// Returns a pod of which only that part is changed that a subresource is about; none for other subresources.
pub fn written_part(subresource: &str, old: &Value, new: &Value) -> Option<Value> {
    let mut kept = old.clone();
    match subresource {
        "ephemeralcontainers" => match new["spec"].get("ephemeralContainers") {
            Some(containers) => kept["spec"]["ephemeralContainers"] = containers.clone(),
            None => drop(kept["spec"].as_object_mut().map(|spec| spec.remove("ephemeralContainers"))),
        },
        "resize" => {
            for list in ["containers", "initContainers"] {
                let wanted = new["spec"][list].as_array().cloned().unwrap_or_default();
                for container in kept["spec"][list].as_array_mut().into_iter().flatten() {
                    let wanted = wanted.iter().find(|wanted| wanted["name"] == container["name"]);
                    if let Some(resources) = wanted.and_then(|wanted| wanted.get("resources")) {
                        container["resources"] = resources.clone();
                    }
                }
            }
        }
        _ => return None,
    }
    Some(kept)
}

/// Of a pod, only images, tolerations and deadlines may change.
pub fn change(now: &Value, before: &Value, causes: &mut Vec<Cause>) {
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

/// Containers for debugging come, and neither change nor go.
pub fn ephemeral_change(now: &Value, before: &Value, causes: &mut Vec<Cause>) {
    let containers = |spec: &Value, list: &str| spec[list].as_array().cloned().unwrap_or_default();
    let all = containers(now, "ephemeralContainers");
    let others: Vec<Value> = ["containers", "initContainers"].iter().flat_map(|list| containers(now, list)).collect();
    for (index, container) in all.iter().enumerate() {
        let field = |name: &str| format!("spec.ephemeralContainers[{index}].{name}");
        for name in ["name", "image"] {
            if container[name].as_str().is_none_or(str::is_empty) {
                causes.push(required(field(name), ""));
            }
        }
        if others.iter().chain(&all[..index]).any(|other| other["name"] == container["name"]) {
            causes.push(duplicate(field("name"), &container["name"]));
        }
    }
    for old in containers(before, "ephemeralContainers") {
        if !all.contains(&old) {
            let text = format!("existing ephemeral containers {} may neither be changed nor removed", json!(old["name"]));
            causes.push(forbidden("spec.ephemeralContainers", text));
        }
    }
}
