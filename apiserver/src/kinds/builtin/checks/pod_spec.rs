//! The checks of the specification of pods and pod templates.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::containers::{self, PodContext};
use super::field::{Field, FieldErrors};
use super::volumes::Volumes;
use super::{labels, scheduling};

/// Checks a specification. `claims` are the volumes that a stateful set adds.
pub(super) fn check<'v>(spec: &Field<'_, 'v>, claims: impl Iterator<Item = &'v str>, causes: &mut FieldErrors) {
    let volumes = spec.at("volumes");
    let volumes = Volumes::check(&volumes, causes).with(claims);
    let around = PodContext { spec: *spec, volumes };
    containers::containers(&spec.at("containers"), &around, causes);
    containers::init_containers(&spec.at("initContainers"), &spec.at("containers"), &around, causes);
    containers::ephemeral_containers(&spec.at("ephemeralContainers"), &around, causes);
    words(spec, causes);
    names(spec, causes);
    security(spec, causes);
    dns(spec, causes);
    scheduling::check(spec, causes);
}

fn words(spec: &Field<'_, '_>, causes: &mut FieldErrors) {
    spec.at("restartPolicy").must_be_one_of(&["Always", "OnFailure", "Never"], causes);
    spec.at("dnsPolicy").must_be_one_of(&["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"], causes);
    spec.at("preemptionPolicy").may_be_one_of(&["PreemptLowerPriority", "Never"], causes);
    let deadline = spec.at("activeDeadlineSeconds");
    if deadline.is_set() && !(1..=i64::from(i32::MAX)).contains(&deadline.number()) {
        causes.push(deadline.invalid("must be between 1 and 2147483647, inclusive"));
    }
    let system = spec.at("os");
    if system.is_set() && !["linux", "windows"].contains(&system.at("name").text()) {
        causes.push(if system.at("name").is_empty() {
            system.at("name").required("")
        } else {
            system.not_supported(&["linux", "windows"])
        });
    }
}

fn names(spec: &Field<'_, '_>, causes: &mut FieldErrors) {
    for name in ["serviceAccountName", "nodeName", "priorityClassName", "runtimeClassName"] {
        if !spec.at(name).is_empty() {
            spec.at(name).must_be_a_subdomain(causes);
        }
    }
    for name in ["hostname", "subdomain"] {
        if !spec.at(name).is_empty() {
            spec.at(name).must_be_a_label(causes);
        }
    }
    for gate in spec.at("readinessGates").items() {
        gate.at("conditionType").must_be_qualified(causes);
    }
    let mut gates = BTreeSet::new();
    for gate in spec.at("schedulingGates").items() {
        let name = gate.at("name");
        gate.with(name.value).must_be_qualified(causes);
        if !gates.insert(name.text()) {
            causes.push(gate.duplicate());
        }
    }
}

fn security(spec: &Field<'_, '_>, causes: &mut FieldErrors) {
    let context = spec.at("securityContext");
    for name in ["fsGroup", "runAsUser", "runAsGroup"] {
        containers::user_id(&context.at(name), causes);
    }
    for group in context.at("supplementalGroups").items() {
        containers::user_id(&group, causes);
    }
    if spec.at("hostPID").is_true() && spec.at("shareProcessNamespace").is_true() {
        let shared = spec.at("shareProcessNamespace");
        causes.push(context.at("shareProcessNamespace").with(shared.value).invalid("hostPID cannot be enabled, too"));
    }
    let mut names = BTreeSet::new();
    for setting in context.at("sysctls").items() {
        let name = setting.at("name");
        if name.must_be_filled(causes) {
            if !is_setting(name.text()) {
                causes.push(
                    name.invalid("must have at most 253 characters, in segments of lower case between dots or slashes"),
                );
            } else if names.contains(name.text()) {
                causes.push(name.duplicate());
            }
        }
        names.insert(name.text());
    }
    context.at("fsGroupChangePolicy").may_be_one_of(&["Always", "OnRootMismatch"], causes);
    containers::seccomp(&context.at("seccompProfile"), causes);
    context.at("supplementalGroupsPolicy").may_be_one_of(&["Merge", "Strict"], causes);
    context.at("seLinuxChangePolicy").may_be_one_of(&["MountOption", "Recursive"], causes);
    if spec.at("hostNetwork").is_true() {
        for container in spec.at("containers").items() {
            host_network(&container, causes);
        }
    }
}

/// On the host network, the host port must equal the container port.
fn host_network(container: &Field<'_, '_>, causes: &mut FieldErrors) {
    for port in container.at("ports").items() {
        let outside = port.at("hostPort");
        if outside.number() != 0 && outside.number() != port.at("containerPort").number() {
            causes.push(outside.invalid("must match `containerPort` when `hostNetwork` is true"));
        }
    }
}

fn is_setting(name: &str) -> bool {
    let is_inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_segment = |segment: &str| {
        segment.starts_with(is_inner)
            && segment.ends_with(is_inner)
            && segment.chars().all(|c| is_inner(c) || c == '-' || c == '_')
    };
    name.len() <= 253 && name.split(['.', '/']).all(is_segment)
}

fn dns(spec: &Field<'_, '_>, causes: &mut FieldErrors) {
    let config = spec.at("dnsConfig");
    let servers = config.at("nameservers");
    if spec.at("dnsPolicy").text() == "None" {
        if !config.is_set() {
            causes.push(config.required("must provide `dnsConfig` when `dnsPolicy` is None"));
            return;
        }
        if servers.is_empty() {
            causes.push(servers.required("must provide at least one DNS nameserver when `dnsPolicy` is None"));
            return;
        }
    }
    if servers.list().len() > 3 {
        causes.push(servers.invalid("must not have more than 3 nameservers"));
    }
    for server in servers.items() {
        address(&server, causes);
    }
    if config.at("searches").list().len() > 32 {
        causes.push(config.at("searches").invalid("must not have more than 32 search paths"));
    }
    for search in config.at("searches").items() {
        let text = search.text().strip_suffix('.').unwrap_or(search.text()).replace('_', "-");
        if search.text() != "." {
            let plain = serde_json::Value::from(text);
            search.with(&plain).must_be_a_subdomain(causes);
        }
    }
    for option in config.at("options").items() {
        if option.at("name").is_empty() {
            causes.push(option.required("must not be empty"));
        }
    }
    for alias in spec.at("hostAliases").items() {
        address(&alias.at("ip"), causes);
        for name in alias.at("hostnames").items() {
            name.must_be_a_subdomain(causes);
        }
    }
}

/// Requires an IP address.
pub(super) fn address(field: &Field<'_, '_>, causes: &mut FieldErrors) {
    if field.text().parse::<IpAddr>().is_err() {
        causes.push(field.invalid("must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"));
    }
}

/// Checks a pod template.
pub(super) fn template<'v>(template: &Field<'_, 'v>, claims: impl Iterator<Item = &'v str>, causes: &mut FieldErrors) {
    let metadata = template.at("metadata");
    labels::labels(&template.at("labels").with(metadata.at("labels").value), causes);
    labels::annotations(&template.at("annotations").with(metadata.at("annotations").value), causes);
    let spec = template.at("spec");
    check(&spec, claims, causes);
    if !spec.at("ephemeralContainers").is_empty() {
        causes.push(spec.at("ephemeralContainers").forbidden("ephemeral containers not allowed in pod template"));
    }
}
