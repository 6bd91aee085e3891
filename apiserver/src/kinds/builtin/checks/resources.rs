//! The checks of resource requests and limits.

use super::field::{Field, FieldErrors};
use crate::schema::metadata::qualified_mistakes;
use kopfd_base::quantity::Quantity;

const STANDARD: &[&str] = &[
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "storage",
    "requests.storage",
    "services.nodeports",
    "services.loadbalancers",
];

/// Checks the limits and requests of a container.
pub(super) fn check(resources: &Field<'_, '_>, causes: &mut FieldErrors) {
    let (limits, requests) = (resources.at("limits"), resources.at("requests"));
    for (name, amount) in limits.entries().chain(requests.entries()) {
        container_resource(name, &amount, causes);
        amount_of(name, &amount, causes);
    }
    for (name, amount) in requests.entries() {
        let limit = limits.at(name);
        let is_overcommitted = is_native(name) && !is_huge(name);
        match (number(&amount), limit.is_set().then(|| number(&limit))) {
            (Some(asked), Some(Some(most))) if asked > most || (asked < most && !is_overcommitted) => {
                causes.push(
                    requests
                        .with(amount.value)
                        .invalid(format!("must be less than or equal to {name} limit of {}", limit.text())),
                );
            }
            (_, None) if !is_overcommitted => {
                causes.push(limits.required("Limit must be set for non overcommitable resources"));
            }
            _ => {}
        }
    }
    let has =
        |is_such: &dyn Fn(&str) -> bool| limits.entries().chain(requests.entries()).any(|(name, _)| is_such(name));
    if has(&is_huge) && !has(&|name| matches!(name, "cpu" | "memory")) {
        causes.push(resources.forbidden("HugePages require cpu or memory"));
    }
}

/// Checks an amount: it is not negative, and an integer for indivisible resources.
pub(super) fn amount_of(name: &str, amount: &Field<'_, '_>, causes: &mut FieldErrors) {
    let Some(number) = number(amount) else { return };
    if number < 0.0 {
        causes.push(amount.invalid("must be greater than or equal to 0"));
    }
    let is_counted =
        is_extended(name) || ["pods", "services", "resourcequotas", "secrets", "configmaps"].contains(&name);
    if is_counted && number.fract() != 0.0 {
        causes.push(amount.invalid("must be an integer"));
    }
}

/// Checks the name of a resource.
pub(super) fn resource_name(name: &str, field: &Field<'_, '_>, causes: &mut FieldErrors) -> bool {
    let mistakes = qualified_mistakes(name);
    let is_right = mistakes.is_empty();
    causes.extend(mistakes.into_iter().map(|why| field.invalid(why)));
    if is_right && !name.contains('/') && !STANDARD.contains(&name) && !is_huge(name) {
        causes.push(field.invalid("must be a standard resource type or fully qualified"));
        return false;
    }
    is_right
}

/// Checks the name of a resource of containers.
pub(super) fn container_resource(name: &str, field: &Field<'_, '_>, causes: &mut FieldErrors) {
    resource_name(name, field, causes);
    if !name.contains('/') {
        if !matches!(name, "cpu" | "memory" | "ephemeral-storage") && !is_huge(name) {
            causes.push(field.invalid("must be a standard resource for containers"));
        }
    } else if !is_native(name) && !is_extended(name) {
        causes.push(field.invalid("doesn't follow extended resource name standard"));
    }
}

fn is_huge(name: &str) -> bool {
    name.starts_with("hugepages-")
}

fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

fn is_extended(name: &str) -> bool {
    !is_native(name) && !name.starts_with("requests.") && qualified_mistakes(&format!("requests.{name}")).is_empty()
}

/// Returns the number of an amount.
pub(super) fn number(amount: &Field<'_, '_>) -> Option<f64> {
    Quantity::parse(amount.text()).ok().map(Quantity::as_f64)
}
