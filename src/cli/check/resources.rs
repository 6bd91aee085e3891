//! Finds kinds that neither the embedded server nor the `crds` of the operator have.

use serde_json::Value;

use crate::apiserver::kinds::builtin;
use crate::kit::suggest;
use crate::manifest::{Diagnostic, NamedKind, Operator, Severity};
use crate::object::{Resource, yaml};

/// Returns a warning for each kind that is probably misspelt, and a hint for each that only a real cluster may have.
pub fn check(operators: &[Operator]) -> Vec<Diagnostic> {
    let built_in: Vec<Resource> = builtin::kinds().into_iter().map(built_in_resource).collect();
    operators.iter().flat_map(|operator| check_operator(operator, &built_in)).collect()
}

fn check_operator(operator: &Operator, built_in: &[Resource]) -> Vec<Diagnostic> {
    let definitions = operator.crds.iter().filter_map(|file| std::fs::read_to_string(file).ok());
    let definitions = definitions.flat_map(|text| yaml::parse(&text).unwrap_or_default());
    let known: Vec<Resource> = definitions.flat_map(|definition| defined(&definition)).chain(built_in.iter().cloned()).collect();
    let specific = operator.kinds.iter().filter(|named| named.selector.is_specific());
    specific.filter(|named| !known.iter().any(|resource| named.selector.matches(resource))).map(|named| unknown(named, &known)).collect()
}

fn unknown(named: &NamedKind, known: &[Resource]) -> Diagnostic {
    let message = format!("`{}` is neither built in nor in `crds`", named.text);
    let spellings: Vec<String> = known.iter().flat_map(|resource| spellings(&named.text, resource)).collect();
    let (severity, hint) = match suggest::nearest(&named.text, spellings.iter().map(String::as_str)) {
        Some(meant) => (Severity::Warning, format!("did you mean `{meant}`?")),
        None => (Severity::Hint, "add its definition to `crds`: without it, `dev` and `test` do not serve the kind".to_owned()),
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

fn built_in_resource(kind: crate::apiserver::kinds::kind::Kind) -> Resource {
    Resource {
        group: kind.group,
        version: kind.version,
        plural: kind.plural,
        kind: kind.kind,
        singular: kind.singular,
        shortcuts: kind.short_names,
        preferred: true,
        ..Resource::default()
    }
}

/// Returns a resource for each version of a definition.
fn defined(definition: &Value) -> Vec<Resource> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (spec, names) = (&definition["spec"], &definition["spec"]["names"]);
    let versions = spec["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let resource = |version: &Value| Resource {
        group: text(&spec["group"]),
        version: text(&version["name"]),
        plural: text(&names["plural"]),
        kind: text(&names["kind"]),
        singular: names["singular"].as_str().map_or_else(|| text(&names["kind"]).to_lowercase(), str::to_owned),
        shortcuts: names["shortNames"].as_array().into_iter().flatten().map(text).collect(),
        preferred: true,
        ..Resource::default()
    };
    versions.iter().map(resource).collect()
}
