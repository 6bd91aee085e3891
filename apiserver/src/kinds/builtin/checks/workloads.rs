//! The checks of deployments, stateful sets, daemon sets, replica sets and replication controllers.

use std::iter;

use serde_json::Value;

use super::field::{Field, FieldErrors};
use super::{labels, pod_spec, storage};
use crate::kinds::selector::LabelSelector;

/// Checks the specification of a workload. Unchanged invalid values of an old one are accepted where the real server
/// does so.
pub(super) fn check(kind: &str, spec: &Field<'_, '_>, old: Option<&Field<'_, '_>>, causes: &mut FieldErrors) {
    for number in ["replicas", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"] {
        // The history limit of a stateful set is not checked.
        if !(kind == "StatefulSet" && number == "revisionHistoryLimit") {
            spec.at(number).must_not_be_negative(causes);
        }
    }
    match kind {
        "Deployment" => deployment(spec, causes),
        "StatefulSet" => stateful_set(spec, old, causes),
        "DaemonSet" => daemon_strategy(&spec.at("updateStrategy"), causes),
        _ => {}
    }
    let template = spec.at("template");
    let is_selectable = selector(kind, &spec.at("selector"), &template, causes);
    // A template that the selector cannot select is not checked, except in daemon sets.
    if !is_selectable && kind != "DaemonSet" {
        return;
    }
    let claims = spec.at("volumeClaimTemplates");
    let claims = claims.list().iter().filter_map(|claim| claim["metadata"]["name"].as_str());
    if kind == "ReplicationController" && !template.is_set() {
        causes.push(template.required(""));
        return;
    }
    pod_spec::template(&template, claims, causes);
    let pod = template.at("spec");
    if pod.at("restartPolicy").text() != "Always" {
        causes.push(pod.at("restartPolicy").not_supported(&["Always"]));
    }
    if pod.at("activeDeadlineSeconds").is_set() {
        causes.push(
            pod.at("activeDeadlineSeconds").forbidden(format!("activeDeadlineSeconds in {kind} is not Supported")),
        );
    }
}

/// Checks the selector of a workload, and the labels that it must select. Returns whether it is valid.
fn selector(kind: &str, selector: &Field<'_, '_>, template: &Field<'_, '_>, causes: &mut FieldErrors) -> bool {
    let metadata = template.at("metadata");
    let own = metadata.at("labels");
    let mismatch = || own.invalid("`selector` does not match template `labels`");
    if kind == "ReplicationController" {
        let is_matched = |(key, value): (&String, &Value)| own.value.get(key) == Some(value);
        if selector.must_be_filled(causes)
            && template.is_set()
            && !selector.value.as_object().into_iter().flatten().all(is_matched)
        {
            causes.push(mismatch());
        }
        return true;
    }
    if !selector.is_set() {
        if kind != "DaemonSet" {
            causes.push(selector.required(""));
        }
        causes.push(mismatch());
        return true;
    }
    labels::selector(selector, causes);
    match labels::meaning(selector) {
        None if kind == "DaemonSet" => false,
        None => {
            causes.push(selector.invalid("invalid label selector"));
            false
        }
        Some(chosen) => {
            if LabelSelector::is_empty(&chosen) {
                causes.push(selector.invalid(format!("empty selector is invalid for {}", kind.to_lowercase())));
            } else if !chosen.matches_labels(labels::of_template(template)) {
                causes.push(mismatch());
            }
            true
        }
    }
}

fn deployment(spec: &Field<'_, '_>, causes: &mut FieldErrors) {
    let deadline = spec.at("progressDeadlineSeconds");
    if deadline.is_set() && deadline.number() <= spec.at("minReadySeconds").number() {
        causes.push(deadline.invalid("must be greater than minReadySeconds"));
    }
    let strategy = spec.at("strategy");
    let rolling = strategy.at("rollingUpdate");
    match strategy.at("type").text() {
        "Recreate" if rolling.is_set() => {
            causes.push(rolling.forbidden("may not be specified when strategy `type` is 'Recreate'"));
        }
        "Recreate" => {}
        "RollingUpdate" => {
            let (missing, more) = (rolling.at("maxUnavailable"), rolling.at("maxSurge"));
            share(&missing, causes);
            share(&more, causes);
            if share_of(&missing) == 0 && share_of(&more) == 0 {
                causes.push(missing.invalid("may not be 0 when `maxSurge` is 0"));
            }
            no_more_than_all(&missing, causes);
        }
        _ => causes.push(strategy.not_supported(&["Recreate", "RollingUpdate"])),
    }
}

fn daemon_strategy(strategy: &Field<'_, '_>, causes: &mut FieldErrors) {
    let rolling = strategy.at("rollingUpdate");
    match strategy.at("type").text() {
        "OnDelete" => {}
        "RollingUpdate" if !rolling.is_set() => causes.push(rolling.required("")),
        "RollingUpdate" => {
            let (missing, more) = (rolling.at("maxUnavailable"), rolling.at("maxSurge"));
            for amount in [&missing, &more] {
                share(amount, causes);
                no_more_than_all(amount, causes);
            }
            match (share_of(&missing), share_of(&more)) {
                (0, 0) => causes.push(missing.required("cannot be 0 when maxSurge is 0")),
                (0, _) | (_, 0) => {}
                _ => causes.push(more.invalid("may not be set when maxUnavailable is non-zero")),
            }
        }
        _ => causes.push(strategy.not_supported(&["RollingUpdate", "OnDelete"])),
    }
}

fn stateful_set(spec: &Field<'_, '_>, old: Option<&Field<'_, '_>>, causes: &mut FieldErrors) {
    let policy = spec.at("podManagementPolicy");
    if !["OrderedReady", "Parallel"].contains(&policy.text()) {
        causes.push(policy.invalid("must be 'OrderedReady' or 'Parallel'"));
    }
    let strategy = spec.at("updateStrategy");
    let rolling = strategy.at("rollingUpdate");
    match strategy.at("type").text() {
        "OnDelete" if rolling.is_set() => {
            causes.push(rolling.invalid("only allowed for updateStrategy 'RollingUpdate'"));
        }
        "OnDelete" => {}
        "RollingUpdate" => {
            rolling.at("partition").must_not_be_negative(causes);
            let missing = rolling.at("maxUnavailable");
            if missing.is_set() {
                share(&missing, causes);
                if share_of(&missing) == 0 {
                    causes.push(missing.invalid("cannot be 0"));
                }
                no_more_than_all(&missing, causes);
            }
        }
        _ => causes.push(strategy.invalid("must be 'RollingUpdate' or 'OnDelete'")),
    }
    let retention = spec.at("persistentVolumeClaimRetentionPolicy");
    for name in ["whenDeleted", "whenScaled"] {
        if retention.is_set() {
            retention.at(name).must_be_supported(&["Retain", "Delete"], causes);
        }
    }
    spec.at("ordinals").at("start").must_not_be_negative(causes);
    if old.is_none() {
        for template in spec.at("volumeClaimTemplates").items() {
            storage::claim_spec(&template.at("spec"), causes);
        }
        if !spec.at("serviceName").is_empty() {
            spec.at("serviceName").must_be_a_label(causes);
        }
    }
}

/// Requires a number or a percentage.
pub(super) fn share(amount: &Field<'_, '_>, causes: &mut FieldErrors) {
    if amount.value.is_string() && percentage(amount).is_none() {
        causes.push(amount.invalid("a valid percent string must be a numeric string followed by an ending '%'"));
    }
    amount.must_not_be_negative(causes);
}

fn share_of(amount: &Field<'_, '_>) -> i64 {
    percentage(amount).or_else(|| amount.text().parse().ok()).unwrap_or_else(|| amount.number())
}

fn percentage(amount: &Field<'_, '_>) -> Option<i64> {
    let digits = amount.text().strip_suffix('%')?;
    if digits.chars().all(|c| c.is_ascii_digit()) { digits.parse().ok() } else { None }
}

/// Requires no more than 100 %.
pub(super) fn no_more_than_all(amount: &Field<'_, '_>, causes: &mut FieldErrors) {
    if percentage(amount).is_some_and(|share| share > 100) {
        causes.push(amount.invalid("must not be greater than 100%"));
    }
}

/// Fields of a stateful set that are not in this list are immutable.
pub(super) fn check_set_change(now: &Field<'_, '_>, before: &Field<'_, '_>, causes: &mut FieldErrors) {
    const FREE: [&str; 7] = [
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    ];
    let members = |spec: &Field<'_, '_>| -> Vec<(String, Value)> {
        let members = spec.value.as_object().into_iter().flatten().filter(|(name, _)| !FREE.contains(&name.as_str()));
        members.map(|(name, value)| (name.clone(), value.clone())).collect()
    };
    if members(now) != members(before) {
        causes.push(
            now.forbidden(format!(
                "updates to statefulset spec for fields other than {} are forbidden",
                FREE.join(", ")
            )),
        );
    }
}

/// Checks the counts in the status of a workload.
pub(super) fn check_status(kind: &str, status: &Field<'_, '_>, before: &Field<'_, '_>, causes: &mut FieldErrors) {
    let numbers = status.value.as_object().into_iter().flatten().filter(|(_, value)| value.is_number());
    for (name, _) in numbers {
        status.at(name).must_not_be_negative(causes);
    }
    let (now, then) = (status.at("collisionCount"), before.at("collisionCount"));
    if then.is_set() && now.number() < then.number() {
        causes.push(now.invalid("cannot be decremented"));
    }
    let parts: &[&str] = match kind {
        "Deployment" => &["updatedReplicas", "readyReplicas", "availableReplicas"],
        "StatefulSet" => &["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"],
        "ReplicaSet" | "ReplicationController" => &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"],
        _ => return,
    };
    for part in parts {
        if status.at(part).number() > status.at("replicas").number() {
            causes.push(status.at(part).invalid("cannot be greater than status.replicas"));
        }
    }
    let available = status.at("availableReplicas");
    if available.number() > status.at("readyReplicas").number() {
        causes.push(available.invalid("cannot be greater than readyReplicas"));
    }
}

/// Checks a `PodTemplate` object.
pub(super) fn check_template(template: &Field<'_, '_>, causes: &mut FieldErrors) {
    pod_spec::template(template, iter::empty(), causes);
}
