//! The checks of containers: names, ports, variables, mounts, resources and security.
//! The rules are those of `pkg/apis/core/validation` of Kubernetes.

use std::collections::BTreeSet;

use serde_json::Value;

use super::field::{Field, FieldErrors};
use super::probes;
use super::references::{field_reference, resource_reference};
use super::resources;
use super::volumes::Volumes;

/// The context of containers.
pub(super) struct PodContext<'a> {
    /// The specification of the pod.
    pub spec: Field<'a, 'a>,
    /// The valid volumes.
    pub volumes: Volumes<'a>,
}

impl PodContext<'_> {
    fn restarts(&self, policy: &str) -> bool {
        self.spec.value["restartPolicy"] == policy
    }

    fn grace(&self) -> Option<i64> {
        self.spec.value["terminationGracePeriodSeconds"].as_i64()
    }

    fn is_user_of_host(&self) -> bool {
        self.spec.value["hostUsers"] != false
    }
}

/// Checks the containers of a pod.
pub(super) fn containers(list: &Field<'_, '_>, around: &PodContext<'_>, causes: &mut FieldErrors) {
    if !list.must_be_filled(causes) {
        return;
    }
    let mut names = BTreeSet::new();
    for container in list.items() {
        common(&container, around, causes);
        if !names.insert(container.at("name").text()) {
            causes.push(container.at("name").duplicate());
        }
        probes::lifecycle(&container.at("lifecycle"), around.grace(), causes);
        probes::all(&container, around.grace(), causes);
        restart_policy(&container, causes);
    }
    host_ports(list.items(), &mut BTreeSet::new(), causes);
}

/// Checks the init containers.
pub(super) fn init_containers(
    list: &Field<'_, '_>,
    others: &Field<'_, '_>,
    around: &PodContext<'_>,
    causes: &mut FieldErrors,
) {
    let others = others.list().iter().filter_map(|container| container["name"].as_str());
    let mut names: BTreeSet<&str> = others.collect();
    for container in list.items() {
        common(&container, around, causes);
        restart_policy(&container, causes);
        let name = container.at("name");
        if !name.is_empty() && !names.insert(name.text()) {
            causes.push(name.duplicate());
        }
        host_ports(std::iter::once(container), &mut BTreeSet::new(), causes);
        let goes_on = container.at("restartPolicy").text() == "Always";
        if goes_on {
            probes::lifecycle(&container.at("lifecycle"), around.grace(), causes);
            probes::all(&container, around.grace(), causes);
            continue;
        }
        for name in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
            if container.at(name).is_set() {
                causes.push(
                    container.at(name).forbidden("may not be set for init containers without restartPolicy=Always"),
                );
            }
        }
        for policy in container.at("resizePolicy").items() {
            if policy.at("restartPolicy").text() == "RestartContainer" {
                causes.push(
                    policy
                        .at("restartPolicy")
                        .invalid("must not be set to 'RestartContainer' for non-sidecar initContainers"),
                );
            }
        }
    }
}

/// Checks the ephemeral containers.
pub(super) fn ephemeral_containers(list: &Field<'_, '_>, around: &PodContext<'_>, causes: &mut FieldErrors) {
    const ALLOWED: &[&str] = &[
        "name",
        "image",
        "command",
        "args",
        "workingDir",
        "env",
        "envFrom",
        "volumeMounts",
        "volumeDevices",
        "terminationMessagePath",
        "terminationMessagePolicy",
        "imagePullPolicy",
        "securityContext",
        "stdin",
        "stdinOnce",
        "tty",
        "resizePolicy",
        "targetContainerName",
    ];
    let others = ["containers", "initContainers"].map(|list| around.spec.value[list].as_array());
    let others: BTreeSet<&str> =
        others.into_iter().flatten().flatten().filter_map(|container| container["name"].as_str()).collect();
    let mut names = others.clone();
    for container in list.items() {
        common(&container, around, causes);
        image_text(&container, causes);
        if !names.insert(container.at("name").text()) {
            causes.push(container.at("name").duplicate());
        }
        let target = container.at("targetContainerName");
        if !target.is_empty() && !others.contains(target.text()) {
            causes.push(target.not_found());
        }
        let is_forbidden = |(name, value): &(&String, &Value)| {
            !(ALLOWED.contains(&name.as_str())
                || value.is_null()
                || value.as_object().is_some_and(serde_json::Map::is_empty))
        };
        for (name, _) in container.value.as_object().into_iter().flatten().filter(is_forbidden) {
            causes.push(container.at(name).forbidden("cannot be set for an Ephemeral Container"));
        }
        for mount in container.at("volumeMounts").items() {
            for name in ["subPath", "subPathExpr"] {
                if !mount.at(name).is_empty() {
                    causes.push(mount.at(name).forbidden("cannot be set for an Ephemeral Container"));
                }
            }
        }
    }
}

/// Runs the checks that apply only to containers of pods, not of templates.
pub(super) fn image_text(container: &Field<'_, '_>, causes: &mut FieldErrors) {
    let image = container.at("image");
    if image.text().trim() != image.text() {
        causes.push(image.invalid("must not have leading or trailing whitespace"));
    }
}

fn common(container: &Field<'_, '_>, around: &PodContext<'_>, causes: &mut FieldErrors) {
    if container.at("name").must_be_filled(causes) {
        container.at("name").must_be_a_label(causes);
    }
    container.at("image").must_be_filled(causes);
    container.at("terminationMessagePolicy").must_be_one_of(&["FallbackToLogsOnError", "File"], causes);
    ports(&container.at("ports"), causes);
    variables(&container.at("env"), causes);
    sources(&container.at("envFrom"), causes);
    around.volumes.check_mounts(container, causes);
    container.at("imagePullPolicy").must_be_one_of(&["Always", "IfNotPresent", "Never"], causes);
    resources::check(&container.at("resources"), causes);
    resize_policy(&container.at("resizePolicy"), around, causes);
    security(&container.at("securityContext"), around.is_user_of_host(), causes);
}

fn ports(list: &Field<'_, '_>, causes: &mut FieldErrors) {
    let mut names = BTreeSet::new();
    for port in list.items() {
        let name = port.at("name");
        if !name.is_empty() {
            let mistakes = super::field::port_name_mistakes(name.text());
            if mistakes.is_empty() && !names.insert(name.text()) {
                causes.push(name.duplicate());
            }
            causes.extend(mistakes.into_iter().map(|why| name.invalid(why)));
        }
        if port.at("containerPort").number() == 0 {
            causes.push(port.at("containerPort").required(""));
        } else {
            port.at("containerPort").must_be_a_port(causes);
        }
        if port.at("hostPort").number() != 0 {
            port.at("hostPort").must_be_a_port(causes);
        }
        port.at("protocol").must_be_one_of(&["SCTP", "TCP", "UDP"], causes);
    }
}

fn host_ports<'p, 'v>(
    containers: impl Iterator<Item = Field<'p, 'v>>,
    taken: &mut BTreeSet<String>,
    causes: &mut FieldErrors,
) {
    for container in containers {
        for port in container.at("ports").items() {
            let number = port.at("hostPort");
            let key = format!("{}/{}/{}", port.at("protocol").text(), port.at("hostIP").text(), number.number());
            if number.number() != 0 && !taken.insert(key) {
                causes.push(number.duplicate());
            }
        }
    }
}

/// A variable may have any printable name without `=`.
fn variable_name(name: &Field<'_, '_>, causes: &mut FieldErrors) {
    if !name.text().chars().all(|c| (' '..='~').contains(&c) && c != '=') {
        causes.push(name.invalid(
            "a valid environment variable name must consist only of printable ASCII characters other than '='",
        ));
    }
}

fn variables(list: &Field<'_, '_>, causes: &mut FieldErrors) {
    for variable in list.items() {
        if variable.at("name").must_be_filled(causes) {
            variable_name(&variable.at("name"), causes);
        }
        let from = variable.at("valueFrom");
        if !from.is_set() {
            continue;
        }
        let kinds = ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"];
        let count = kinds.iter().filter(|kind| from.at(kind).is_set()).count();
        references(&from, causes);
        if count == 0 {
            causes.push(
                from.invalid(
                    "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`",
                ),
            );
        } else if !variable.at("value").is_empty() {
            causes.push(from.invalid("may not be specified when `value` is not empty"));
        } else if count > 1 {
            causes.push(from.invalid("may not have more than one field specified at a time"));
        }
    }
}

fn references(from: &Field<'_, '_>, causes: &mut FieldErrors) {
    const FIELDS: &[&str] = &[
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "spec.nodeName",
        "spec.serviceAccountName",
        "status.hostIP",
        "status.hostIPs",
        "status.podIP",
        "status.podIPs",
    ];
    if from.at("fieldRef").is_set() {
        field_reference(&from.at("fieldRef"), FIELDS, causes);
    }
    if from.at("resourceFieldRef").is_set() {
        resource_reference(&from.at("resourceFieldRef"), false, causes);
    }
    for kind in ["configMapKeyRef", "secretKeyRef"] {
        let reference = from.at(kind);
        if reference.is_set() {
            reference.at("name").must_be_a_subdomain(causes);
            if reference.at("key").must_be_filled(causes) {
                data_key(&reference.at("key"), causes);
            }
        }
    }
}

/// Checks a key of a ConfigMap or Secret.
pub(super) fn data_key(key: &Field<'_, '_>, causes: &mut FieldErrors) {
    causes.extend(super::data_keys::data_key_mistakes(key.text()).into_iter().map(|why| key.invalid(why)));
}

fn sources(list: &Field<'_, '_>, causes: &mut FieldErrors) {
    for source in list.items() {
        variable_name(&source.at("prefix"), causes);
        let mut count = 0;
        for kind in ["configMapRef", "secretRef"] {
            let reference = source.at(kind);
            if reference.is_set() {
                count += 1;
                if reference.at("name").must_be_filled(causes) {
                    reference.at("name").must_be_a_subdomain(causes);
                }
            }
        }
        if count != 1 {
            causes.push(list.invalid("must specify one of: `configMapRef` or `secretRef`"));
        }
    }
}

fn resize_policy(list: &Field<'_, '_>, around: &PodContext<'_>, causes: &mut FieldErrors) {
    let mut resources = BTreeSet::new();
    for policy in list.items() {
        let (resource, restart) = (policy.at("resourceName"), policy.at("restartPolicy"));
        if !resources.insert(resource.text()) {
            causes.push(policy.duplicate());
        }
        // The error is reported for the list, not for the policy in it.
        list.with(resource.value).must_be_one_of(&["cpu", "memory"], causes);
        list.with(restart.value).must_be_one_of(&["NotRequired", "RestartContainer"], causes);
        if around.restarts("Never") && restart.text() != "NotRequired" {
            causes.push(list.invalid("must be 'NotRequired' when pod `restartPolicy` is 'Never'"));
        }
    }
}

fn restart_policy(container: &Field<'_, '_>, causes: &mut FieldErrors) {
    let (policy, rules) = (container.at("restartPolicy"), container.at("restartPolicyRules"));
    policy.may_be_one_of(&["Always", "Never", "OnFailure"], causes);
    if !policy.is_set() && !rules.is_empty() {
        causes.push(policy.required("must specify restartPolicy when restart rules are used"));
    }
    for rule in rules.items() {
        rule.at("action").must_be_supported(&["Restart", "RestartAllContainers"], causes);
        if rule.at("exitCodes").is_set() {
            rule.at("exitCodes").at("operator").must_be_supported(&["In", "NotIn"], causes);
        } else {
            causes.push(rule.at("exitCodes").required("must be specified"));
        }
    }
}

/// Checks the id of a user or a group.
pub(super) fn user_id(id: &Field<'_, '_>, causes: &mut FieldErrors) {
    if !(0..=i64::from(i32::MAX)).contains(&id.number()) {
        causes.push(id.invalid("must be between 0 and 2147483647, inclusive"));
    }
}

/// Checks a seccomp profile.
pub(super) fn seccomp(profile: &Field<'_, '_>, causes: &mut FieldErrors) {
    if !profile.is_set() {
        return;
    }
    profile.at("type").must_be_one_of(&["Localhost", "RuntimeDefault", "Unconfined"], causes);
    let file = profile.at("localhostProfile");
    match (profile.at("type").text(), file.is_set()) {
        ("Localhost", false) => causes.push(file.required("must be set when seccomp type is Localhost")),
        ("Localhost", true) => super::volumes::descending_path(&file, &file, causes),
        (_, true) => causes.push(file.invalid("can only be set when seccomp type is Localhost")),
        _ => {}
    }
}

fn security(context: &Field<'_, '_>, is_user_of_host: bool, causes: &mut FieldErrors) {
    for name in ["runAsUser", "runAsGroup"] {
        user_id(&context.at(name), causes);
    }
    let mount = context.at("procMount");
    mount.may_be_one_of(&["Default", "Unmasked"], causes);
    if is_user_of_host && mount.text() == "Unmasked" {
        causes.push(mount.invalid("`hostUsers` must be false to use `Unmasked`"));
    }
    seccomp(&context.at("seccompProfile"), causes);
    if context.at("allowPrivilegeEscalation").value == &Value::Bool(false) {
        if context.at("privileged").is_true() {
            causes.push(context.invalid("cannot set `allowPrivilegeEscalation` to false and `privileged` to true"));
        }
        let capabilities = context.at("capabilities");
        if capabilities.at("add").list().iter().any(|one| one == "CAP_SYS_ADMIN") {
            causes.push(
                context.invalid("cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"),
            );
        }
    }
}
