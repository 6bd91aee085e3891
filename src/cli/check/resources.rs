//! Finds kinds, in manifests and in requests of scripts, that neither the embedded server nor the `crds` of the
//! operator have.

use crate::kit::suggest;
use crate::manifest::{self, Diagnostic, NamedKind, Operator, Severity, known_kinds};
use crate::object::Resource;

/// Returns a warning for each kind that is probably misspelt, and a hint for each that only a real cluster may have.
pub(super) fn check(operators: &[Operator]) -> Vec<Diagnostic> {
    operators.iter().flat_map(check_operator).collect()
}

fn check_operator(operator: &Operator) -> Vec<Diagnostic> {
    let known = known_kinds::of(std::slice::from_ref(operator));
    let find = |named: &NamedKind| {
        let is_unknown = named.selector.is_specific() && !known.iter().any(|resource| named.selector.matches(resource));
        is_unknown.then(|| unknown(named, &known))
    };
    let of_scripts = manifest::requested_kinds(operator);
    // Scripts may use kinds that they have defined themselves, or that `k8s::exists` has found: only a misspelling is
    // reported.
    let of_scripts = of_scripts.iter().filter_map(find).filter(|one| one.severity == Severity::Warning);
    operator.kinds.iter().filter_map(find).chain(of_scripts).collect()
}

fn unknown(named: &NamedKind, known: &[Resource]) -> Diagnostic {
    let message = format!("`{}` is neither built in nor in `crds`", named.text);
    let spellings: Vec<String> = known.iter().flat_map(|resource| spellings(&named.text, resource)).collect();
    let (severity, hint) = match suggest::nearest(&named.text, spellings.iter().map(String::as_str)) {
        Some(meant) => (Severity::Warning, format!("did you mean `{meant}`?")),
        None => (
            Severity::Hint,
            "add its definition to `crds`: without it, `dev` and `test` do not serve the kind".to_owned(),
        ),
    };
    Diagnostic { severity, message, hint: Some(hint), ..named.place.clone() }
}

/// Returns how a resource can be written in the form of a text: `group/version/name`, `group/name`, `name.group`, or
/// `name`.
fn spellings(text: &str, resource: &Resource) -> Vec<String> {
    let Resource { group, version, plural, kind, singular, shortcuts, .. } = resource;
    match (text.matches('/').count(), text.contains('.')) {
        (0, true) => [plural, kind, singular].map(|name| format!("{name}.{group}")).to_vec(),
        (0, false) => [plural, kind, singular].into_iter().chain(shortcuts).cloned().collect(),
        (1, _) if group.is_empty() => [plural, kind].map(|name| format!("{version}/{name}")).to_vec(),
        (1, _) => [plural, kind].map(|name| format!("{group}/{name}")).to_vec(),
        _ => [plural, kind].map(|name| format!("{group}/{version}/{name}")).to_vec(),
    }
}
