//! Selectors and resources in the form of the vectors.

use std::sync::Arc;

use kopfd::object::selector::{Criterion, SelectorError};
use kopfd::object::{Resource, Selector};
use serde_json::{Map, Value, json};

/// Creates a criterion from its name.
type Named = fn(String) -> Criterion;

/// Returns the selector of kopf's positional and named arguments.
pub(crate) fn selector(input: &Value) -> Result<Selector, SelectorError> {
    let positions = input["args"].as_array().map_or(&[][..], Vec::as_slice);
    let keyword = |key: &str| input["kwargs"][key].as_str().map(str::to_owned);
    let (mut group, mut version, mut names) = (keyword("group"), keyword("version"), Vec::new());
    match positions {
        [] => {}
        [only] if only.get("$callable").is_some() => names.push(Criterion::Where(callable(only))),
        _ if positions.iter().any(|position| position.get("$callable").is_some()) => {
            return Err(SelectorError::ManyNames);
        }
        _ => {
            let is_everything = positions.last().is_some_and(|last| last.get("$marker").is_some());
            let texts: Vec<&str> = positions.iter().map(|position| position.as_str().unwrap_or("everything")).collect();
            let selector = Selector::positional(&texts)?;
            group = selector.group.or(group);
            version = selector.version.or(version);
            names.push(if is_everything { Criterion::Everything } else { selector.name });
        }
    }
    let named: [(&str, Named); 5] = [
        ("kind", Criterion::Kind),
        ("plural", Criterion::Plural),
        ("singular", Criterion::Singular),
        ("shortcut", Criterion::Shortcut),
        ("category", Criterion::Category),
    ];
    names.extend(named.into_iter().filter_map(|(key, criterion)| keyword(key).map(criterion)));
    Selector::named(group, version, names)
}

fn callable(position: &Value) -> fn(&Resource) -> bool {
    match position["$callable"].as_str().unwrap_or_default() {
        "any" => |_| true,
        "group_is_kopf_dev" => |resource| resource.group == "kopf.dev",
        "plural_is_events" => |resource| resource.plural == "events",
        "preferred_pods" => |resource| resource.plural == "pods" && resource.preferred,
        other => panic!("the predicate {other:?} is unknown"),
    }
}

/// Returns the parts of a selector in the form of the vectors.
pub(crate) fn parts(selector: &Selector) -> Map<String, Value> {
    let (key, name) = match &selector.name {
        Criterion::Any(name) => ("any_name", json!(name)),
        Criterion::Kind(name) => ("kind", json!(name)),
        Criterion::Plural(name) => ("plural", json!(name)),
        Criterion::Singular(name) => ("singular", json!(name)),
        Criterion::Shortcut(name) => ("shortcut", json!(name)),
        Criterion::Category(name) => ("category", json!(name)),
        Criterion::Everything => ("any_name", json!({"$marker": "EVERYTHING"})),
        Criterion::Where(_) => ("callable", json!(true)),
    };
    let optional = [("group", &selector.group), ("version", &selector.version)];
    let mut parts: Map<String, Value> =
        optional.into_iter().filter_map(|(key, part)| Some((key.to_owned(), json!(part.as_ref()?)))).collect();
    parts.insert(key.to_owned(), name);
    parts
}

/// Returns a resource.
pub(crate) fn resource(spec: &Value) -> Arc<Resource> {
    let text = |key: &str| spec[key].as_str().unwrap_or_default().to_owned();
    let texts =
        |key: &str| spec[key].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
    Arc::new(Resource {
        group: text("group"),
        version: text("version"),
        plural: text("plural"),
        kind: text("kind"),
        singular: text("singular"),
        shortcuts: texts("shortcuts"),
        categories: texts("categories"),
        subresources: texts("subresources"),
        namespaced: spec["namespaced"] == true,
        preferred: spec["preferred"] == true,
        verbs: texts("verbs"),
    })
}

/// Returns the identity of a resource in the form of the vectors.
pub(crate) fn identity(resource: &Resource) -> String {
    format!("{}/{}/{}", resource.group, resource.version, resource.plural)
}
