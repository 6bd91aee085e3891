//! The checks of nodes.

use super::field::{Field, FieldErrors};
use super::resources::amount_of;
use super::services;
use crate::schema::metadata::label_value_mistake;

/// Checks a node. On updates, the real server runs the checks of new nodes twice.
pub(super) fn check(node: &Field<'_, '_>, is_update: bool, causes: &mut FieldErrors) {
    let metadata = node.at("metadata");
    // The real server reports taints with a path in the metadata.
    let taints = metadata.at("taints");
    let taints = taints.with(node.at("spec").at("taints").value);
    for _ in 0..=usize::from(is_update) {
        self::taints(&taints, causes);
        amounts(node, causes);
    }
    for range in node.at("spec").at("podCIDRs").items() {
        services::network(&range, causes);
    }
}

fn taints(taints: &Field<'_, '_>, causes: &mut FieldErrors) {
    let key = |taint: &serde_json::Value| [taint["key"].clone(), taint["effect"].clone()];
    for (index, taint) in taints.items().enumerate() {
        taint.at("key").must_be_qualified(causes);
        causes.extend(label_value_mistake(taint.at("value").text()).map(|why| taint.at("value").invalid(why)));
        taint.at("effect").must_be_one_of(&["NoSchedule", "PreferNoSchedule", "NoExecute"], causes);
        if taints.list()[..index].iter().any(|earlier| key(earlier) == key(taint.value)) {
            causes.push(taint.duplicate());
        }
    }
}

fn amounts(node: &Field<'_, '_>, causes: &mut FieldErrors) {
    let status = node.at("status");
    for list in ["capacity", "allocatable"] {
        for (name, amount) in status.at(list).entries() {
            amount_of(name, &amount, causes);
        }
    }
}

/// Checks the fields of a node that can be set only once.
pub(super) fn check_change(now: &Field<'_, '_>, before: &Field<'_, '_>, causes: &mut FieldErrors) {
    for (name, what) in [("podCIDRs", "podCIDR"), ("providerID", "providerID")] {
        let (field, old) = (now.at(name), before.at(name));
        if !old.is_empty() && field.value != old.value {
            causes.push(field.forbidden(format!("node updates may not change {what} except from \"\" to valid")));
        }
    }
}
