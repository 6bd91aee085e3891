//! The checks of scheduling: node selectors, tolerations, affinities, and topology spread constraints.

use super::field::{Field, FieldErrors};
use super::labels;
use crate::schema::metadata::{NameRule, label_value_mistake};

/// Checks the scheduling fields of a pod specification.
pub(super) fn check(spec: &Field<'_, '_>, causes: &mut FieldErrors) {
    labels::labels(&spec.at("nodeSelector"), causes);
    tolerations(&spec.at("tolerations"), causes);
    let affinity = spec.at("affinity");
    node_affinity(&affinity.at("nodeAffinity"), causes);
    for name in ["podAffinity", "podAntiAffinity"] {
        pod_affinity(&affinity.at(name), causes);
    }
    spread(&spec.at("topologySpreadConstraints"), causes);
}

/// Checks tolerations.
pub(super) fn tolerations(list: &Field<'_, '_>, causes: &mut FieldErrors) {
    for toleration in list.items() {
        let (key, operator) = (toleration.at("key"), toleration.at("operator"));
        let (value, effect) = (toleration.at("value"), toleration.at("effect"));
        if key.is_empty() {
            if operator.text() != "Exists" {
                causes.push(operator.invalid("operator must be Exists when `key` is empty"));
            }
        } else {
            key.must_be_qualified(causes);
        }
        if toleration.at("tolerationSeconds").is_set() && effect.text() != "NoExecute" {
            causes.push(effect.invalid("effect must be 'NoExecute' when `tolerationSeconds` is set"));
        }
        match operator.text() {
            "" | "Equal" => {
                causes.extend(label_value_mistake(value.text()).map(|why| operator.with(value.value).invalid(why)));
            }
            "Exists" if value.is_empty() => {}
            "Exists" => causes.push(operator.invalid("value must be empty when `operator` is 'Exists'")),
            _ => causes.push(operator.not_supported(&["Equal", "Exists"])),
        }
        if !effect.is_empty() {
            effect.must_be_supported(&["NoSchedule", "PreferNoSchedule", "NoExecute"], causes);
        }
    }
}

fn node_affinity(affinity: &Field<'_, '_>, causes: &mut FieldErrors) {
    let needed = affinity.at("requiredDuringSchedulingIgnoredDuringExecution");
    if needed.is_set() {
        node_selector(&needed, causes);
    }
    for term in affinity.at("preferredDuringSchedulingIgnoredDuringExecution").items() {
        weight(&term.at("weight"), causes);
        node_term(&term.at("preference"), false, causes);
    }
}

/// Checks a node selector.
pub(super) fn node_selector(selector: &Field<'_, '_>, causes: &mut FieldErrors) {
    let terms = selector.at("nodeSelectorTerms");
    if terms.must_be_filled(causes) {
        for term in terms.items() {
            node_term(&term, true, causes);
        }
    }
}

fn node_term(term: &Field<'_, '_>, are_values_checked: bool, causes: &mut FieldErrors) {
    for expression in term.at("matchExpressions").items() {
        let values = expression.at("values");
        match expression.at("operator").text() {
            "In" | "NotIn" if values.is_empty() => {
                causes.push(values.required("must be specified when `operator` is 'In' or 'NotIn'"));
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                causes.push(values.forbidden("may not be specified when `operator` is 'Exists' or 'DoesNotExist'"));
            }
            "Gt" | "Lt" if values.list().len() != 1 => {
                causes.push(values.required("must be specified single value when `operator` is 'Lt' or 'Gt'"));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
            _ => causes.push(expression.at("operator").invalid("not a valid selector operator")),
        }
        expression.at("key").must_be_qualified(causes);
        for value in values.items().filter(|_| are_values_checked) {
            causes.extend(label_value_mistake(value.text()).map(|why| value.invalid(why)));
        }
    }
    for field in term.at("matchFields").items() {
        let values = field.at("values");
        if !matches!(field.at("operator").text(), "In" | "NotIn") {
            causes.push(field.at("operator").invalid("not a valid selector operator"));
        } else if values.list().len() != 1 {
            causes.push(
                values.required("must be only one value when `operator` is 'In' or 'NotIn' for node field selector"),
            );
        }
        if field.at("key").text() == "metadata.name" {
            for value in values.items() {
                value.must_be_a_subdomain(causes);
            }
        } else {
            causes.push(field.at("key").invalid("not a valid field selector key"));
        }
    }
}

fn weight(weight: &Field<'_, '_>, causes: &mut FieldErrors) {
    if !(1..=100).contains(&weight.number()) {
        causes.push(weight.invalid("must be in the range 1-100"));
    }
}

fn pod_affinity(affinity: &Field<'_, '_>, causes: &mut FieldErrors) {
    for term in affinity.at("requiredDuringSchedulingIgnoredDuringExecution").items() {
        pod_term(&term, causes);
    }
    for term in affinity.at("preferredDuringSchedulingIgnoredDuringExecution").items() {
        weight(&term.at("weight"), causes);
        pod_term(&term.at("podAffinityTerm"), causes);
    }
}

fn pod_term(term: &Field<'_, '_>, causes: &mut FieldErrors) {
    for name in ["labelSelector", "namespaceSelector"] {
        labels::selector(&term.at(name), causes);
    }
    for namespace in term.at("namespaces").list() {
        term.at("namespace").with(namespace).must_be_a_name(NameRule::Label, causes);
    }
    let key = term.at("topologyKey");
    key.must_be_filled(causes);
    key.must_be_qualified(causes);
}

fn spread(list: &Field<'_, '_>, causes: &mut FieldErrors) {
    for (index, constraint) in list.items().enumerate() {
        let (key, action) = (constraint.at("topologyKey"), constraint.at("whenUnsatisfiable"));
        if constraint.at("maxSkew").number() <= 0 {
            causes.push(constraint.at("maxSkew").invalid("must be greater than zero"));
        }
        key.must_be_filled(causes);
        action.must_be_supported(&["DoNotSchedule", "ScheduleAnyway"], causes);
        let is_same = |other: &serde_json::Value| {
            other["topologyKey"] == *key.value && other["whenUnsatisfiable"] == *action.value
        };
        if list.list()[index + 1..].iter().any(is_same) {
            causes.push(constraint.at("{topologyKey, whenUnsatisfiable}").duplicate());
        }
        let least = constraint.at("minDomains");
        if least.is_set() && least.number() <= 0 {
            causes.push(least.invalid("must be greater than zero"));
        }
        if least.is_set() && action.text() != "DoNotSchedule" {
            causes.push(least.invalid("can only use minDomains if whenUnsatisfiable=DoNotSchedule"));
        }
        for name in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            constraint.at(name).may_be_one_of(&["Honor", "Ignore"], causes);
        }
        labels::selector(&constraint.at("labelSelector"), causes);
    }
}
