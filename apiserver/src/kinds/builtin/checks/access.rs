//! The checks of roles and of their bindings.

use super::field::{Field, FieldErrors};
use super::labels;
use crate::schema::metadata::NameRule;

const GROUP: &str = "rbac.authorization.k8s.io";

/// Checks a role of a namespace.
pub(super) fn role(role: &Field<'_, '_>, causes: &mut FieldErrors) {
    rules(&role.at("rules"), true, causes);
}

/// Checks a role of the cluster.
pub(super) fn cluster_role(role: &Field<'_, '_>, causes: &mut FieldErrors) {
    rules(&role.at("rules"), false, causes);
    let aggregation = role.at("aggregationRule");
    if !aggregation.is_set() {
        return;
    }
    let selectors = aggregation.at("clusterRoleSelectors");
    if selectors.is_empty() {
        causes.push(selectors.required("at least one clusterRoleSelector required if aggregationRule is non-nil"));
    }
    for selector in selectors.items() {
        labels::selector(&selector, causes);
        if labels::meaning(&selector).is_none() {
            causes.push(selector.invalid("invalid label selector."));
        }
    }
}

fn rules(rules: &Field<'_, '_>, is_namespaced: bool, causes: &mut FieldErrors) {
    for rule in rules.items() {
        let (verbs, urls) = (rule.at("verbs"), rule.at("nonResourceURLs"));
        if verbs.is_empty() {
            causes.push(verbs.required("verbs must contain at least one value"));
        }
        if urls.is_empty() {
            for (name, text) in [("apiGroups", "api group"), ("resources", "resource")] {
                if rule.at(name).is_empty() {
                    causes.push(rule.at(name).required(&format!("resource rules must supply at least one {text}")));
                }
            }
            continue;
        }
        if is_namespaced {
            causes.push(urls.invalid("namespaced rules cannot apply to non-resource URLs"));
        }
        if ["apiGroups", "resources", "resourceNames"].iter().any(|name| !rule.at(name).is_empty()) {
            causes.push(urls.invalid("rules cannot apply to both regular resources and non-resource URLs"));
        }
    }
}

/// Checks a binding: in a namespace, to a Role of the namespace or a ClusterRole; in the cluster, only to a
/// ClusterRole.
pub(super) fn binding(binding: &Field<'_, '_>, is_namespaced: bool, causes: &mut FieldErrors) {
    let role = binding.at("roleRef");
    role.at("apiGroup").must_be_supported(&[GROUP], causes);
    let kinds: &[&str] = if is_namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    role.at("kind").must_be_supported(kinds, causes);
    let name = role.at("name");
    if name.must_be_filled(causes) {
        name.must_be_a_name(NameRule::PathSegment, causes);
    }
    for one in binding.at("subjects").items() {
        subject(&one, is_namespaced, causes);
    }
}

fn subject(subject: &Field<'_, '_>, is_namespaced: bool, causes: &mut FieldErrors) {
    let (name, group) = (subject.at("name"), subject.at("apiGroup"));
    let is_named = name.must_be_filled(causes);
    match subject.at("kind").text() {
        "ServiceAccount" => {
            if is_named {
                name.must_be_a_subdomain(causes);
            }
            group.must_be_supported(&[""], causes);
            if !is_namespaced {
                subject.at("namespace").must_be_filled(causes);
            }
        }
        "User" | "Group" => group.must_be_supported(&[GROUP], causes),
        _ => causes.push(subject.at("kind").not_supported(&["ServiceAccount", "User", "Group"])),
    }
}
