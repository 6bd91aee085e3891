//! The checks of autoscalers and of disruption budgets.

use super::field::{Field, FieldErrors};
use super::resources::{self, amount_of, number};
use super::{labels, workloads};
use crate::schema::metadata::NameRule;

/// Maximum stabilization window in seconds.
const MAX_WINDOW: i64 = 3600;
/// Maximum period of a policy in seconds.
const MAX_PERIOD: i64 = 1800;

/// Checks an autoscaler in its storage version.
pub(super) fn autoscaler(spec: &Field<'_, '_>, causes: &mut FieldErrors) {
    let (least, most) = (spec.at("minReplicas"), spec.at("maxReplicas"));
    if least.is_set() && least.number() < 1 {
        causes.push(least.invalid("must be greater than or equal to 1"));
    }
    match most.number() {
        0 => causes.push(most.required("must be set and greater than 0")),
        ..0 => causes.push(most.invalid("must be greater than or equal to 1")),
        _ => {}
    }
    if least.is_set() && most.number() < least.number() {
        causes.push(most.invalid("must be greater than or equal to `minReplicas`"));
    }
    reference(&spec.at("scaleTargetRef"), false, causes);
    metrics(&spec.at("metrics"), least.is_set() && least.number() == 0, causes);
    let behavior = spec.at("behavior");
    for name in ["scaleUp", "scaleDown"] {
        let rules = behavior.at(name);
        if rules.is_set() {
            scaling_rules(&rules, causes);
        }
    }
}

/// Checks the status of an autoscaler.
pub(super) fn autoscaler_status(status: &Field<'_, '_>, causes: &mut FieldErrors) {
    for name in ["currentReplicas", "desiredReplicas"] {
        status.at(name).must_not_be_negative(causes);
    }
}

/// The target must have a group; the object of a metric may be of the core group.
fn reference(target: &Field<'_, '_>, may_be_core: bool, causes: &mut FieldErrors) {
    for name in ["kind", "name"] {
        let field = target.at(name);
        if field.must_be_filled(causes) {
            field.must_be_a_name(NameRule::PathSegment, causes);
        }
    }
    let version = target.at("apiVersion");
    match version.text().split('/').collect::<Vec<_>>()[..] {
        [_] | ["", _] if !may_be_core => causes.push(version.invalid("apiVersion must specify API group")),
        [_] | [_, _] => {}
        _ => causes.push(version.invalid("unexpected GroupVersion string")),
    }
}

fn metrics(list: &Field<'_, '_>, is_down_to_zero: bool, causes: &mut FieldErrors) {
    for metric in list.items() {
        self::metric(&metric, causes);
    }
    let has_outer = list.list().iter().any(|metric| metric["type"] == "Object" || metric["type"] == "External");
    if is_down_to_zero && !has_outer {
        causes.push(
            list.forbidden("must specify at least one Object or External metric to support scaling to zero replicas"),
        );
    }
}

fn metric(metric: &Field<'_, '_>, causes: &mut FieldErrors) {
    const KINDS: &[&str] = &["ContainerResource", "External", "Object", "Pods", "Resource"];
    // In the order of the real server: only the first existing one is checked.
    const MEMBERS: [&str; 5] = ["object", "external", "pods", "resource", "containerResource"];
    let kind = metric.at("type");
    if kind.is_empty() {
        causes.push(kind.required("must specify a metric source type"));
    }
    let is_known = KINDS.contains(&kind.text());
    if !is_known {
        // The real server reports this twice.
        causes.extend([kind.not_supported(KINDS), kind.not_supported(KINDS)]);
    }
    let present: Vec<&str> = MEMBERS.into_iter().filter(|name| metric.at(name).is_set()).collect();
    if let Some(name) = present.first() {
        source(name, &metric.at(name), causes);
    }
    let expected = MEMBERS.into_iter().find(|name| name.eq_ignore_ascii_case(kind.text()));
    if let Some(name) = expected.filter(|name| !present.contains(name)) {
        causes.push(metric.at(name).required("must populate information for the given metric source"));
    }
    if present.len() != 1 {
        for name in present.into_iter().filter(|name| Some(*name) != expected) {
            causes.push(metric.at(name).forbidden("must populate the given metric source only"));
        }
    }
}

fn source(name: &str, source: &Field<'_, '_>, causes: &mut FieldErrors) {
    match name {
        "object" => reference(&source.at("describedObject"), true, causes),
        "resource" if source.at("name").is_empty() => {
            causes.push(source.at("name").required("must specify a resource name"));
        }
        "containerResource" => container_resource(source, causes),
        _ => {}
    }
    if matches!(name, "object" | "external" | "pods") {
        let metric = source.at("metric");
        let identifier = metric.at("name");
        if identifier.is_empty() {
            causes.push(identifier.required("must specify a metric name"));
        } else {
            identifier.must_be_a_name(NameRule::PathSegment, causes);
        }
    }
    let target = source.at("target");
    metric_target(&target, causes);
    let (value, average, share) = (target.at("value"), target.at("averageValue"), target.at("averageUtilization"));
    match name {
        "object" | "external" if !value.is_set() && !average.is_set() => {
            causes.push(average.required("must set either a target value or averageValue"));
        }
        "external" if value.is_set() && average.is_set() => {
            causes.push(value.forbidden("may not set both a target value for metric and a per-pod target"));
        }
        "pods" if !average.is_set() => causes.push(average.required("must specify a positive target averageValue")),
        "resource" | "containerResource" => match (share.is_set(), average.is_set()) {
            (false, false) => causes.push(share.required("must set either a target raw value or a target utilization")),
            (true, true) => {
                causes.push(average.forbidden("may not set both a target raw value and a target utilization"));
            }
            _ => {}
        },
        _ => {}
    }
}

fn container_resource(source: &Field<'_, '_>, causes: &mut FieldErrors) {
    let (name, container) = (source.at("name"), source.at("container"));
    if name.is_empty() {
        causes.push(name.required("must specify a resource name"));
    } else {
        resources::container_resource(name.text(), &name, causes);
    }
    if container.is_empty() {
        causes.push(container.required("must specify a container"));
    } else {
        container.must_be_a_label(causes);
    }
}

fn metric_target(target: &Field<'_, '_>, causes: &mut FieldErrors) {
    let kind = target.at("type");
    if kind.is_empty() {
        causes.push(kind.required("must specify a metric target type"));
    }
    if !["Utilization", "Value", "AverageValue"].contains(&kind.text()) {
        causes.push(kind.invalid("must be either Utilization, Value, or AverageValue"));
    }
    for name in ["value", "averageValue"] {
        let amount = target.at(name);
        if amount.is_set() && number(&amount).is_some_and(|number| number <= 0.0) {
            causes.push(amount.invalid("must be positive"));
        }
    }
    let share = target.at("averageUtilization");
    if share.is_set() && share.number() < 1 {
        causes.push(share.invalid("must be greater than 0"));
    }
}

fn scaling_rules(rules: &Field<'_, '_>, causes: &mut FieldErrors) {
    let window = rules.at("stabilizationWindowSeconds");
    if window.number() < 0 {
        causes.push(window.invalid("must be greater than or equal to zero"));
    }
    if window.number() > MAX_WINDOW {
        causes.push(window.invalid(format!("must be less than or equal to {MAX_WINDOW}")));
    }
    rules.at("selectPolicy").may_be_one_of(&["Disabled", "Max", "Min"], causes);
    let policies = rules.at("policies");
    if policies.is_empty() {
        causes.push(policies.required("must specify at least one Policy"));
    }
    for policy in policies.items() {
        policy.at("type").must_be_supported(&["Percent", "Pods"], causes);
        for name in ["value", "periodSeconds"] {
            if policy.at(name).number() <= 0 {
                causes.push(policy.at(name).invalid("must be greater than zero"));
            }
        }
        let period = policy.at("periodSeconds");
        if period.number() > MAX_PERIOD {
            causes.push(period.invalid(format!("must be less than or equal to {MAX_PERIOD}")));
        }
    }
    amount_of("tolerance", &rules.at("tolerance"), causes);
}

/// Checks a disruption budget.
pub(super) fn budget(spec: &Field<'_, '_>, causes: &mut FieldErrors) {
    let (least, most) = (spec.at("minAvailable"), spec.at("maxUnavailable"));
    if least.is_set() && most.is_set() {
        causes.push(spec.invalid("minAvailable and maxUnavailable cannot be both set"));
    }
    for amount in [least, most] {
        workloads::share(&amount, causes);
        workloads::no_more_than_all(&amount, causes);
    }
    labels::selector(&spec.at("selector"), causes);
    spec.at("unhealthyPodEvictionPolicy").may_be_one_of(&["AlwaysAllow", "IfHealthyBudget"], causes);
}

/// Checks the status of a disruption budget.
pub(super) fn budget_status(status: &Field<'_, '_>, causes: &mut FieldErrors) {
    for name in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"] {
        status.at(name).must_not_be_negative(causes);
    }
}
