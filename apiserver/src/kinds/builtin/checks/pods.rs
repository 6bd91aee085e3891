//! The checks of pods, of their changes, and of their subresources.

use std::iter;

use serde_json::{Value, json};

use super::containers::image_text;
use super::field::{Field, FieldErrors};
use super::pod_spec::{self, address};
use super::scheduling;

/// Checks a pod.
pub(crate) fn check(pod: &Field<'_, '_>, causes: &mut FieldErrors) {
    let spec = pod.at("spec");
    pod_spec::check(&spec, iter::empty(), causes);
    for list in ["containers", "initContainers"] {
        for container in spec.at(list).items() {
            image_text(&container, causes);
        }
    }
    let has_account = !spec.at("serviceAccountName").is_empty();
    for volume in spec.at("volumes").items().filter(|_| !has_account) {
        for source in volume.at("projected").at("sources").items() {
            if source.at("serviceAccountToken").is_set() {
                causes.push(
                    source
                        .at("serviceAccountToken")
                        .forbidden("must not be specified when serviceAccountName is not set"),
                );
            }
        }
    }
}

/// Checks that a new pod lacks the fields that only existing ones may have.
pub(crate) fn check_new(pod: &Field<'_, '_>, causes: &mut FieldErrors) {
    let spec = pod.at("spec");
    if !spec.at("ephemeralContainers").is_empty() {
        causes.push(spec.at("ephemeralContainers").forbidden("cannot be set on create"));
    }
    if !spec.at("nodeName").is_empty() && !spec.at("schedulingGates").is_empty() {
        causes.push(spec.at("nodeName").forbidden("cannot be set until all schedulingGates have been cleared"));
    }
}

/// Returns the old pod with only the part that a subresource may change; `None` for other subresources.
pub(crate) fn written_part(subresource: &str, old: &Value, new: &Value) -> Option<Value> {
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

/// Only images, tolerations and deadlines of a pod may change.
pub(crate) fn check_change(now: &Field<'_, '_>, before: &Field<'_, '_>, causes: &mut FieldErrors) {
    for name in ["containers", "initContainers"] {
        let list = now.at(name);
        if list.list().len() != before.at(name).list().len() {
            causes.push(list.forbidden("pod updates may not add or remove containers"));
            return;
        }
        for container in list.items() {
            // The real server reports this twice.
            container.at("image").must_be_filled(causes);
            image_text(&container, causes);
        }
    }
    let (deadline, old) = (now.at("activeDeadlineSeconds"), before.at("activeDeadlineSeconds"));
    if deadline.is_set() {
        if old.is_set() && old.number() < deadline.number() {
            causes.push(deadline.invalid("must be less than or equal to previous value"));
            return;
        }
    } else if old.is_set() {
        causes.push(deadline.invalid("must not update from a positive integer to nil value"));
    }
    tolerations_change(&now.at("tolerations"), &before.at("tolerations"), causes);
    gates_change(&now.at("schedulingGates"), &before.at("schedulingGates"), causes);
    if rest(now.value, before.value) != *before.value {
        causes.push(now.forbidden("pod updates may not change fields other than images, tolerations and deadlines"));
    }
}

/// Returns a specification with the old values of changeable fields.
fn rest(now: &Value, before: &Value) -> Value {
    let mut rest = now.clone();
    for list in ["containers", "initContainers"] {
        for (index, container) in rest[list].as_array_mut().into_iter().flatten().enumerate() {
            container["image"] = before[list][index]["image"].clone();
        }
    }
    let is_gated = before["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty());
    let mut free = vec!["activeDeadlineSeconds", "tolerations", "schedulingGates"];
    if is_gated {
        free.push("nodeSelector");
    }
    if before["terminationGracePeriodSeconds"].as_i64().is_some_and(|seconds| seconds < 0)
        && now["terminationGracePeriodSeconds"] == 1
    {
        free.push("terminationGracePeriodSeconds");
    }
    let Some(members) = rest.as_object_mut() else { return rest };
    for name in free {
        match before.get(name) {
            Some(value) => drop(members.insert(name.to_owned(), value.clone())),
            None => drop(members.remove(name)),
        }
    }
    for list in ["containers", "initContainers"] {
        if before.get(list).is_none() && members.get(list).is_some_and(|list| list.as_array().is_none_or(Vec::is_empty))
        {
            members.remove(list);
        }
    }
    rest
}

fn tolerations_change(now: &Field<'_, '_>, before: &Field<'_, '_>, causes: &mut FieldErrors) {
    let unhurried = |toleration: &Value| {
        let mut toleration = toleration.clone();
        toleration.as_object_mut().map(|toleration| toleration.remove("tolerationSeconds"));
        toleration
    };
    let kept: Vec<Value> = now.list().iter().map(unhurried).collect();
    if before.list().iter().all(|old| kept.contains(&unhurried(old))) {
        scheduling::tolerations(now, causes);
    } else {
        causes.push(now.forbidden("existing toleration can not be modified except its tolerationSeconds"));
    }
}

fn gates_change(now: &Field<'_, '_>, before: &Field<'_, '_>, causes: &mut FieldErrors) {
    for gate in now.items() {
        if !before.list().iter().any(|old| old["name"] == *gate.at("name").value) {
            causes.push(gate.at("name").forbidden("only deletion is allowed, but found a new scheduling gate"));
        }
    }
}

/// Ephemeral containers can be added, but neither changed nor removed.
pub(crate) fn check_ephemeral_change(now: &Field<'_, '_>, before: &Field<'_, '_>, causes: &mut FieldErrors) {
    let list = now.at("ephemeralContainers");
    for old in before.at("ephemeralContainers").list() {
        if !list.list().contains(old) {
            let text =
                format!("existing ephemeral containers {} may neither be changed nor removed", json!(old["name"]));
            causes.push(list.forbidden(text));
        }
    }
}

/// Checks the status of a pod.
pub(crate) fn check_status(status: &Field<'_, '_>, before: &Field<'_, '_>, causes: &mut FieldErrors) {
    const OF_THE_SYSTEM: &[&str] = &["PodScheduled", "Ready", "Initialized"];
    for condition in status.at("conditions").items() {
        let kind = condition.at("type");
        if !OF_THE_SYSTEM.contains(&kind.text()) {
            condition.at("Type").with(kind.value).must_be_qualified(causes);
        }
    }
    status.at("observedGeneration").must_not_be_negative(causes);
    let quality = status.at("qosClass");
    if quality.value != before.at("qosClass").value {
        causes.push(quality.invalid("field is immutable"));
    }
    let hosts = status.at("hostIPs");
    if !hosts.is_empty() && hosts.item(0).at("ip").value != status.at("hostIP").value {
        causes.push(hosts.item(0).at("ip").invalid("must be equal to `hostIP`"));
    }
    for list in ["podIPs", "hostIPs"] {
        for one in status.at(list).items() {
            let ip = one.at("ip");
            address(&one.with(ip.value), causes);
        }
    }
}
