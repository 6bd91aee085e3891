//! The checks of storage classes, priority classes, runtime classes and ingress classes.

use serde_json::{Value, json};

use super::field::{Field, FieldErrors};
use super::{labels, resources, scheduling};
use crate::schema::metadata::NameRule;

/// Checks a new storage class.
pub(super) fn storage_class(class: &Field<'_, '_>, causes: &mut FieldErrors) {
    let provisioner = class.at("provisioner");
    if provisioner.must_be_filled(causes) {
        let lower = Value::from(provisioner.text().to_lowercase());
        provisioner.with(&lower).must_be_qualified(causes);
    }
    let parameters = class.at("parameters");
    for name in parameters.value.as_object().into_iter().flat_map(serde_json::Map::keys) {
        if name.is_empty() {
            causes.push(parameters.invalid("field can not be empty."));
        }
    }
    class.at("reclaimPolicy").must_be_supported(&["Delete", "Retain"], causes);
    class.at("volumeBindingMode").must_be_supported(&["Immediate", "WaitForFirstConsumer"], causes);
}

/// Checks a new priority class.
pub(super) fn priority_class(class: &Field<'_, '_>, causes: &mut FieldErrors) {
    const MAX: i64 = 1_000_000_000;
    let metadata = class.at("metadata");
    if metadata.at("name").text().starts_with("system-") {
        causes.push(
            metadata
                .at("name")
                .forbidden("priority class names with 'system-' prefix are reserved for system use only"),
        );
    } else if class.at("value").number() > MAX {
        causes.push(class.at("value").forbidden(format!("maximum allowed value of a user defined priority is {MAX}")));
    }
    class.at("preemptionPolicy").may_be_one_of(&["PreemptLowerPriority", "Never"], causes);
}

/// Checks that the values of a priority class do not change.
pub(super) fn check_priority_change(now: &Field<'_, '_>, before: &Field<'_, '_>, causes: &mut FieldErrors) {
    if now.at("value").value != before.at("value").value {
        causes.push(now.at("value").forbidden("may not be changed in an update."));
    }
}

/// Checks a new runtime class.
pub(super) fn runtime_class(class: &Field<'_, '_>, causes: &mut FieldErrors) {
    let handler = class.at("handler");
    if handler.must_be_filled(causes) {
        handler.must_be_a_label(causes);
    }
    // The overhead is checked like the limits of a container.
    let limits = json!({"limits": class.value["overhead"]["podFixed"]});
    resources::check(&Field::named(&limits, "overhead"), causes);
    let scheduling = class.at("scheduling");
    labels::labels(&scheduling.at("nodeSelector"), causes);
    let tolerations = scheduling.at("tolerations");
    scheduling::tolerations(&tolerations, causes);
    let key = |toleration: &Value| ["key", "operator", "value", "effect"].map(|name| toleration[name].clone());
    for (index, toleration) in tolerations.items().enumerate() {
        if tolerations.list()[..index].iter().any(|earlier| key(earlier) == key(toleration.value)) {
            causes.push(toleration.duplicate());
        }
    }
}

/// Checks an ingress class.
pub(super) fn ingress_class(spec: &Field<'_, '_>, causes: &mut FieldErrors) {
    const MAX_LENGTH: u64 = 250;
    let controller = spec.at("controller");
    if controller.text().len() as u64 > MAX_LENGTH {
        causes.push(controller.too_long(MAX_LENGTH));
    }
    domain_and_path(&controller, causes);
    let parameters = spec.at("parameters");
    if !parameters.is_set() {
        return;
    }
    if parameters.at("apiGroup").is_set() {
        parameters.at("apiGroup").must_be_a_subdomain(causes);
    }
    for name in ["kind", "name"] {
        if parameters.at(name).must_be_filled(causes) {
            parameters.at(name).must_be_a_name(NameRule::PathSegment, causes);
        }
    }
    let (scope, namespace) = (parameters.at("scope"), parameters.at("namespace"));
    match scope.text() {
        "Cluster" if namespace.is_set() => {
            causes.push(
                namespace.forbidden("`parameters.scope` is set to 'Cluster'; `parameters.namespace` must be empty"),
            );
        }
        "Namespace" if namespace.must_be_filled(causes) => namespace.must_be_a_label(causes),
        "Cluster" | "Namespace" => {}
        _ => causes.push(scope.not_supported(&["Cluster", "Namespace"])),
    }
}

/// Requires a domain, a slash, and a path.
fn domain_and_path(field: &Field<'_, '_>, causes: &mut FieldErrors) {
    if !field.must_be_filled(causes) {
        return;
    }
    let Some((domain, path)) =
        field.text().split_once('/').filter(|(domain, path)| !domain.is_empty() && !path.is_empty())
    else {
        return causes.push(field.invalid("must be a domain-prefixed path (such as \"acme.io/foo\")"));
    };
    let domain = Value::from(domain);
    field.with(&domain).must_be_a_subdomain(causes);
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/%-._~!$&'()*+,;=:".contains(c);
    if !path.chars().all(is_plain) {
        causes.push(field.with(&Value::from(path)).invalid("Invalid path"));
    }
}
