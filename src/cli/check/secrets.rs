//! Finds handlers by which the values of Secrets get into annotations.

use crate::manifest::{Diagnostic, NamedKind, Operator, Severity, known_kinds};
use crate::object::{Resource, secret};
use crate::persistence::SecretForm;

/// Returns a hint for each kind in a manifest that includes Secrets, if handlers of changes are declared for it, and
/// the settings leave the values of Secrets in the last handled state.
pub(super) fn check(operators: &[Operator]) -> Vec<Diagnostic> {
    let known = known_kinds::of(&[]);
    let Some(secrets) = known.iter().find(|resource| secret::is_resource(resource)) else { return Vec::new() };
    operators.iter().flat_map(|operator| check_operator(operator, secrets)).collect()
}

fn check_operator(operator: &Operator, secrets: &Resource) -> Vec<Diagnostic> {
    if operator.settings.persistence.storages.secrets.form == SecretForm::Digests {
        return Vec::new();
    }
    // The handlers of other events store nothing.
    let changing = operator.handlers.iter().filter(|handler| handler.on.is_changing());
    let stored: Vec<String> = changing.flat_map(|handler| &handler.selectors).map(ToString::to_string).collect();
    let is_stored =
        |named: &&NamedKind| named.selector.matches(secrets) && stored.contains(&named.selector.to_string());
    operator.kinds.iter().filter(is_stored).map(hint).collect()
}

fn hint(named: &NamedKind) -> Diagnostic {
    let message = format!(
        "the last handled state of Secrets, which `{}` includes, has their values in an annotation",
        named.text
    );
    let hint =
        "set `settings.persistence.secrets: digests` to store keyed digests instead, which kopf cannot read".to_owned();
    Diagnostic { severity: Severity::Hint, message, hint: Some(hint), ..named.place.clone() }
}
