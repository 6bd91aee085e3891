//! Several operators in one process: what they must not share.

use crate::object::Selector;
use crate::object::selector::Criterion;
use crate::persistence::{DiffbaseStorage, ProgressStorage};

use super::diagnostic::{Diagnostic, Severity};
use super::operator::Operator;

/// Returns what is wrong with operators beside each other.
pub fn check(operators: &[Operator]) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for (index, second) in operators.iter().enumerate() {
        for first in &operators[..index] {
            found.extend(check_pair(first, second));
        }
    }
    found
}

fn check_pair(first: &Operator, second: &Operator) -> Vec<Diagnostic> {
    let tell = |message: String, hint: &str| Diagnostic {
        line: second.place.line,
        column: second.place.column,
        length: second.name.len(),
        path: Some("metadata.name".to_owned()),
        snippet: second.snippet.clone(),
        ..Diagnostic::of_file(Severity::Error, &second.file, message, Some(hint.to_owned()))
    };
    if first.name == second.name {
        let message = format!("the operator `{}` is declared twice, also in {}:{}", second.name, first.file.display(), first.place.line);
        return vec![tell(message, "give them different names in `metadata.name`")];
    }
    let mut found = Vec::new();
    let names = format!("`{}` and `{}`", first.name, second.name);
    if let Some(kind) = shared_kind(first, second) {
        let (ours, theirs) = (&first.settings.persistence.storages, &second.settings.persistence.storages);
        let mut clashes = Vec::new();
        if ours.finalizer == theirs.finalizer {
            clashes.push("`settings.persistence.finalizer`");
        }
        if progress_places(&ours.progress).iter().any(|place| progress_places(&theirs.progress).contains(place)) {
            clashes.push("`settings.persistence.progressStorage`");
        }
        if diffbase_places(&ours.diffbase).iter().any(|place| diffbase_places(&theirs.diffbase).contains(place)) {
            clashes.push("`settings.persistence.diffbaseStorage`");
        }
        if !clashes.is_empty() {
            let message = format!("the operators {names} would overwrite each other's records on {kind}: equal are {}", clashes.join(", "));
            found.push(tell(message, "give one of them another finalizer, and other prefixes or names of the storages"));
        }
    }
    let (ours, theirs) = (&first.settings.peering, &second.settings.peering);
    if ours.name == theirs.name && (ours.priority, ours.lifetime) != (theirs.priority, theirs.lifetime) {
        let message = format!("the operators {names} are one peer in `{}`, with different priorities or lifetimes", ours.name);
        found.push(tell(message, "make `settings.peering.priority` and `lifetime` equal, or the names different"));
    }
    if first.settings.admission.server.is_some() && first.settings.admission.server == second.settings.admission.server {
        let ids: Vec<&str> = first.webhooks.iter().map(|webhook| webhook.id.as_str()).collect();
        for webhook in second.webhooks.iter().filter(|webhook| ids.contains(&webhook.id.as_str())) {
            let message = format!("the operators {names} share a server and both have a webhook `{}`", webhook.id);
            found.push(tell(message, "give one of them an `id` of its own, or another `settings.admission.server`"));
        }
    }
    found
}

/// Returns a kind that both keep something on, as far as the manifests tell.
fn shared_kind(first: &Operator, second: &Operator) -> Option<String> {
    first
        .persisting_selectors()
        .find(|ours| second.persisting_selectors().any(|theirs| overlap(ours, theirs)))
        .map(|selector| format!("`{selector}`"))
}

fn overlap(ours: &Selector, theirs: &Selector) -> bool {
    let may_be_equal = |a: &Option<String>, b: &Option<String>| a.is_none() || b.is_none() || a == b;
    if !may_be_equal(&ours.group, &theirs.group) || !may_be_equal(&ours.version, &theirs.version) {
        return false;
    }
    let everything = |selector: &Selector| matches!(selector.name, Criterion::Everything);
    everything(ours) || everything(theirs) || ours.to_string() == theirs.to_string()
}

fn progress_places(storage: &ProgressStorage) -> Vec<String> {
    match storage {
        ProgressStorage::Status(status) => vec![format!("status {}", status.field.join("/"))],
        // What a smart storage has in the status is only read.
        ProgressStorage::Annotations(annotations) | ProgressStorage::Smart { annotations, .. } => {
            vec![format!("annotations {}", annotations.prefix)]
        }
        ProgressStorage::Multi(storages) => storages.iter().flat_map(progress_places).collect(),
    }
}

fn diffbase_places(storage: &DiffbaseStorage) -> Vec<String> {
    match storage {
        DiffbaseStorage::Annotations(annotations) => vec![format!("annotation {}/{}", annotations.prefix, annotations.key)],
        DiffbaseStorage::Status(status) => vec![format!("status {}", status.field.join("/"))],
        DiffbaseStorage::Multi(storages) => storages.iter().flat_map(diffbase_places).collect(),
    }
}
