//! Warnings about valid pods and pod templates.

use std::collections::BTreeMap;

use super::field::Field;
use super::resources::number;

/// Returns the warnings about a pod or a pod template at a path.
pub(super) fn of_pods(holder: &Field<'_, '_>) -> Vec<String> {
    let spec = holder.at("spec");
    let mut warnings = Vec::new();
    for constraint in spec.at("topologySpreadConstraints").items() {
        if !constraint.at("labelSelector").is_set() {
            warnings.push(format!(
                "{}: a null labelSelector results in matching no pod",
                constraint.at("labelSelector").path()
            ));
        }
    }
    repeated(&spec.at("hostAliases"), "ip", &mut warnings);
    repeated(&spec.at("imagePullSecrets"), "name", &mut warnings);
    for secret in spec.at("imagePullSecrets").items() {
        if secret.at("name").is_empty() {
            warnings.push(format!("{}: invalid empty name \"\"", secret.at("name").path()));
        }
    }
    let lists = ["initContainers", "containers", "ephemeralContainers"].map(|list| spec.at(list));
    for container in lists.iter().flat_map(Field::items) {
        fractions(&container, &mut warnings);
        hidden_variables(&container.at("env"), &mut warnings);
    }
    ports(&lists, &mut warnings);
    warnings
}

/// Returns the warning about a name that becomes part of the names of pods.
pub(super) fn of_name(name: &str, use_of_it: &str) -> Option<String> {
    let mut mistakes = Vec::new();
    if name.len() > 63 {
        mistakes.push("must be no more than 63 bytes");
    }
    if name.contains('.') {
        mistakes.push("must not contain dots");
    }
    let text = format!(
        "metadata.name: this is used in {use_of_it}, which can result in surprising behavior; a DNS label is recommended"
    );
    (!mistakes.is_empty()).then(|| format!("{text}: [{}]", mistakes.join(" ")))
}

fn repeated(list: &Field<'_, '_>, name: &str, warnings: &mut Vec<String>) {
    let mut seen = Vec::new();
    for item in list.items() {
        let text = item.at(name).text();
        if seen.contains(&text) {
            warnings.push(format!("{}: duplicate {name} {text:?}", item.at(name).path()));
        }
        seen.push(text);
    }
}

fn fractions(container: &Field<'_, '_>, warnings: &mut Vec<String>) {
    let resources = container.at("resources");
    for resource in ["memory", "ephemeral-storage"] {
        for list in ["limits", "requests"] {
            let list = resources.at(list);
            let amount = list.at(resource);
            if number(&amount).is_some_and(|number| number.fract() != 0.0) {
                let place = format!("{}[{resource}]", list.path());
                warnings
                    .push(format!("{place}: fractional byte value {:?} is invalid, must be an integer", amount.text()));
            }
        }
    }
}

fn hidden_variables(list: &Field<'_, '_>, warnings: &mut Vec<String>) {
    let mut seen = Vec::new();
    for variable in list.items() {
        let (name, value) = (variable.at("name").text(), variable.at("value").text());
        let reference = format!("$({name})");
        let is_built_on = !variable.at("valueFrom").is_set() && value != reference && value.contains(&reference);
        if seen.contains(&name) && !is_built_on {
            let text = format!("hides previous definition of {name:?}, which may be dropped when using apply");
            warnings.push(format!("{}: {text}", variable.path()));
        }
        seen.push(name);
    }
}

/// A port of a container: its path, and the port and the address of the host.
type Opening<'a> = (String, i64, &'a str);

fn ports(lists: &[Field<'_, '_>], warnings: &mut Vec<String>) {
    let mut numbers: BTreeMap<(i64, &str), Vec<Opening<'_>>> = BTreeMap::new();
    let mut names: BTreeMap<&str, String> = BTreeMap::new();
    let mut of_names = Vec::new();
    for container in lists.iter().flat_map(Field::items) {
        for port in container.at("ports").items() {
            let (outside, ip) = (port.at("hostPort").number(), port.at("hostIP").text());
            let others = numbers.entry((port.at("containerPort").number(), port.at("protocol").text())).or_default();
            for (other, other_outside, other_ip) in others.iter() {
                let how = if outside == *other_outside && ip == *other_ip {
                    "duplicate"
                } else if outside == 0 || *other_outside == 0 {
                    "overlapping"
                } else if outside == *other_outside && ip.is_empty() != other_ip.is_empty() {
                    "dangerously ambiguous"
                } else {
                    continue;
                };
                warnings.push(format!("{}: {how} port definition with {other}", port.path()));
            }
            others.push((port.path(), outside, ip));
            let name = port.at("name").text();
            if let Some(other) = names.get(name).filter(|_| !name.is_empty()) {
                let text = format!("services and probes that select ports by name will use {other}");
                of_names.push(format!("{}: duplicate port name {name:?} with {other}, {text}", port.path()));
            } else {
                names.insert(name, port.path());
            }
        }
    }
    warnings.append(&mut of_names);
}
