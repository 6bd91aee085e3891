//! Checks across several operators of one process: state, peering and webhooks that they must not share.

use std::collections::BTreeSet;

use crate::object::selector::Criterion;
use crate::object::{Resource, Selector};
use crate::persistence::Clash;

use super::diagnostic::{Diagnostic, Severity};
use super::known_kinds;
use super::operator::Operator;

/// Returns the conflicts between operators.
pub(crate) fn check(operators: &[Operator]) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let known = known_kinds::of(operators);
    for (index, second) in operators.iter().enumerate() {
        for first in &operators[..index] {
            found.extend(check_pair(first, second, &known));
        }
    }
    found
}

fn check_pair(first: &Operator, second: &Operator, known: &[Resource]) -> Vec<Diagnostic> {
    let diagnostic = |message: String, hint: &str| Diagnostic {
        place: second.place.clone(),
        length: second.name.len(),
        path: Some("metadata.name".to_owned()),
        snippet: second.snippet.clone(),
        ..Diagnostic::of_file(Severity::Error, &second.file, message, Some(hint.to_owned()))
    };
    if first.name == second.name {
        let message = format!(
            "the operator `{}` is declared twice, also in {}:{}",
            second.name,
            first.file.display(),
            first.place.line
        );
        return vec![diagnostic(message, "give them different names in `metadata.name`")];
    }
    let mut found = Vec::new();
    let names = format!("`{}` and `{}`", first.name, second.name);
    let (ours, theirs) = (&first.settings.persistence.storages, &second.settings.persistence.storages);
    let clashes = ours.clashes(theirs);
    if let Some(kind) = shared_kind(first, second, known).filter(|_| !clashes.is_empty()) {
        let message = format!(
            "the operators {names} would overwrite each other's records on {kind}: equal are {}",
            keys(&clashes)
        );
        found.push(diagnostic(
            message,
            "give one of them another finalizer, and other prefixes or names of the storages",
        ));
    }
    let (ours, theirs) = (&first.settings.peering, &second.settings.peering);
    let is_one_peer = !ours.standalone && !theirs.standalone && ours.name == theirs.name;
    if is_one_peer && (ours.priority, ours.lifetime) != (theirs.priority, theirs.lifetime) {
        let message =
            format!("the operators {names} are one peer in `{}`, with different priorities or lifetimes", ours.name);
        found
            .push(diagnostic(message, "make `settings.peering.priority` and `lifetime` equal, or the names different"));
    }
    if first.settings.admission.server.is_some() && first.settings.admission.server == second.settings.admission.server
    {
        let ids = webhook_ids(first);
        for id in webhook_ids(second).intersection(&ids) {
            let message = format!("the operators {names} share a server and both have a webhook `{id}`");
            found.push(diagnostic(
                message,
                "give one of them an `id` of its own, or another `settings.admission.server`",
            ));
        }
    }
    if first.settings.hooks.server == second.settings.hooks.server {
        let routes = hook_routes(first);
        for (method, path) in hook_routes(second).intersection(&routes) {
            let message = format!("the operators {names} share a listener and both have a hook for `{method} {path}`");
            found.push(diagnostic(message, "give one of them a `path` of its own, or another `settings.hooks.server`"));
        }
    }
    let (ours, theirs) = (&first.settings.admission.managed, &second.settings.admission.managed);
    if let Some(managed) = ours.as_ref().filter(|_| ours == theirs) {
        let message = format!("the operators {names} would overwrite each other's webhook configuration `{managed}`");
        found.push(diagnostic(message, "give one of them another name in `settings.admission.managed`"));
    }
    found
}

/// Returns the methods and paths of hooks.
fn hook_routes(operator: &Operator) -> BTreeSet<(&str, &str)> {
    operator
        .hooks
        .iter()
        .flat_map(|hook| hook.methods.iter().map(|method| (method.as_str(), hook.path.as_str())))
        .collect()
}

/// Returns the ids in the addresses of webhooks.
fn webhook_ids(operator: &Operator) -> BTreeSet<&str> {
    let reviewed = operator.webhooks.iter().map(|webhook| &webhook.handler);
    reviewed.chain(&operator.conversions).map(|handler| handler.id.as_str()).collect()
}

/// Returns the keys of the settings that must differ.
pub(crate) fn keys(clashes: &[Clash]) -> String {
    let key = |clash: &Clash| match clash {
        Clash::Finalizer => "`settings.persistence.finalizer`",
        Clash::Progress => "`settings.persistence.progressStorage`",
        Clash::Diffbase => "`settings.persistence.diffbaseStorage`",
    };
    clashes.iter().map(key).collect::<Vec<_>>().join(", ")
}

/// Returns a kind on whose objects both store state, as far as this is known without a cluster.
fn shared_kind(first: &Operator, second: &Operator, known: &[Resource]) -> Option<String> {
    first
        .persisting_selectors()
        .find(|ours| second.persisting_selectors().any(|theirs| overlap(ours, theirs, known)))
        .map(|selector| format!("`{selector}`"))
}

fn overlap(ours: &Selector, theirs: &Selector, known: &[Resource]) -> bool {
    let (our_kinds, their_kinds) = (known_kinds::matching(ours, known), known_kinds::matching(theirs, known));
    if !our_kinds.is_disjoint(&their_kinds) {
        return true;
    }
    // Unknown kinds are compared by their text. Other conflicts are detected when the kinds of the cluster are
    // discovered.
    let may_be_equal = ours.group.is_none() || theirs.group.is_none() || ours.group == theirs.group;
    let everything = |selector: &Selector| matches!(selector.name, Criterion::Everything);
    let is_one_of_both_unknown = our_kinds.is_empty() || their_kinds.is_empty();
    may_be_equal
        && is_one_of_both_unknown
        && (everything(ours) || everything(theirs) || without_version(ours) == without_version(theirs))
}

/// All versions of a kind are the same objects.
fn without_version(selector: &Selector) -> String {
    Selector { version: None, ..selector.clone() }.to_string()
}
