//! Selectors of objects: by labels, and by the fields that a kind allows.

use serde_json::Value;

use crate::http::api_error::ApiError;
use crate::kinds::kind::Kind;
use crate::schema::metadata;

pub use kopfd_base::label_selector::LabelSelector;

/// A selector by fields, such as `metadata.name=a,status.phase!=Running`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldSelector {
    requirements: Vec<Requirement>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    path: String,
    value: String,
    is_equal: bool,
}

/// The selectable fields of built-in kinds, besides the name and the namespace.
const BUILTIN: [(&str, &str, &[&str]); 10] = [
    (
        "",
        "pods",
        &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName",
        ],
    ),
    (
        "",
        "events",
        &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
    ),
    (
        "events.k8s.io",
        "events",
        &[
            "regarding.kind",
            "regarding.namespace",
            "regarding.name",
            "regarding.uid",
            "regarding.apiVersion",
            "regarding.resourceVersion",
            "regarding.fieldPath",
            "reason",
            "reportingController",
            "source",
            "type",
        ],
    ),
    ("", "secrets", &["type"]),
    ("", "namespaces", &["status.phase"]),
    ("", "nodes", &["spec.unschedulable"]),
    ("", "services", &["spec.clusterIP", "spec.type"]),
    ("", "replicationcontrollers", &["status.replicas"]),
    ("batch", "jobs", &["status.successful"]),
    ("apiextensions.k8s.io", "customresourcedefinitions", &[]),
];

impl FieldSelector {
    /// Returns the selector of a text for the objects of a kind.
    ///
    /// # Errors
    /// If the text is invalid, or the field is not selectable.
    pub fn parse(text: &str, kind: &Kind) -> Result<Self, ApiError> {
        let mut requirements = Vec::new();
        for term in split_terms(text) {
            if term.is_empty() {
                continue;
            }
            let (path, is_equal, value) = split_term(term).ok_or_else(|| {
                ApiError::bad_request(format!("invalid selector: '{text}'; can't understand '{term}'"))
            })?;
            let value = unescape(value).map_err(ApiError::bad_request)?;
            check_path(path, kind)?;
            requirements.push(Requirement { path: path.to_owned(), value, is_equal });
        }
        Ok(Self { requirements })
    }

    /// Tells whether everything is selected.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Returns the required value of a field, such as the only selected name.
    pub fn required(&self, path: &str) -> Option<&str> {
        self.requirements
            .iter()
            .find(|requirement| requirement.is_equal && requirement.path == path)
            .map(|found| found.value.as_str())
    }

    /// Tells whether an object, in the version of the request, is selected.
    pub fn matches(&self, object: &Value) -> bool {
        self.requirements
            .iter()
            .all(|requirement| (value_at(object, &requirement.path) == requirement.value) == requirement.is_equal)
    }
}

/// Returns the only name that a field selector allows, if it is a valid one.
pub fn selected_name(text: &str) -> Option<String> {
    let mut terms = split_terms(text);
    terms.sort_unstable();
    let terms: Option<Vec<_>> = terms.into_iter().filter(|term| !term.is_empty()).map(split_term).collect();
    let (_, _, value) = terms?.into_iter().find(|(path, is_equal, _)| *is_equal && *path == "metadata.name")?;
    let name = unescape(value).ok()?;
    metadata::path_mistake(&name, false).is_none().then_some(name)
}

/// Returns the selectable fields of a kind, besides the name and the namespace.
pub fn selectable(kind: &Kind) -> Vec<String> {
    if let Some(definition) = &kind.definition {
        let fields = crate::kinds::definition::version(definition, &kind.version)
            .and_then(|version| version["selectableFields"].as_array());
        let paths = fields.into_iter().flatten().filter_map(|field| field["jsonPath"].as_str());
        return paths.map(|path| path.trim_start_matches('.').to_owned()).collect();
    }
    let found = BUILTIN.iter().find(|(group, plural, _)| *group == kind.group && *plural == kind.plural);
    found.map_or_else(Vec::new, |(_, _, paths)| paths.iter().map(|path| (*path).to_owned()).collect())
}

fn check_path(path: &str, kind: &Kind) -> Result<(), ApiError> {
    let more = selectable(kind);
    let is_known = path == "metadata.name"
        || (path == "metadata.namespace" && (kind.namespaced || !kind.is_custom()))
        || more.iter().any(|one| one == path);
    if is_known {
        Ok(())
    } else if kind.is_custom() || !more.is_empty() {
        Err(ApiError::bad_request(format!("field label not supported: {path}")))
    } else {
        let text = format!("\"{path}\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"");
        Err(ApiError::bad_request(text))
    }
}

/// Splits at the commas that are not escaped.
fn split_terms(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let (mut start, mut is_escaped) = (0, false);
    for (index, c) in text.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            ',' => {
                terms.push(&text[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[start..]);
    terms
}

fn split_term(term: &str) -> Option<(&str, bool, &str)> {
    term.char_indices().find_map(|(index, _)| {
        let rest = &term[index..];
        let (operator, is_equal) =
            [("!=", false), ("==", true), ("=", true)].into_iter().find(|(operator, _)| rest.starts_with(operator))?;
        Some((&term[..index], is_equal, &rest[operator.len()..]))
    })
}

fn unescape(value: &str) -> Result<String, String> {
    let mut text = String::new();
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(escaped @ ('\\' | ',' | '=')) => text.push(escaped),
                Some(other) => return Err(format!("invalid field selector: invalid escape sequence: \\{other}")),
                None => return Err("invalid field selector: invalid escape sequence: \\".to_owned()),
            },
            '=' => return Err(format!("invalid field selector: unescaped character in value: {value}: =")),
            other => text.push(other),
        }
    }
    Ok(text)
}

/// Returns the text of a field, with the defaults that Kubernetes has for absent values.
fn value_at(object: &Value, path: &str) -> String {
    let path = match path {
        "source" if object["source"].is_object() || object["deprecatedSource"].is_object() => {
            let source = if object["source"].is_object() { &object["source"] } else { &object["deprecatedSource"] };
            let component = source["component"].as_str().filter(|component| !component.is_empty());
            let reporter = object["reportingComponent"].as_str().or(object["reportingController"].as_str());
            return component.or(reporter).unwrap_or_default().to_owned();
        }
        "status.successful" => "status.succeeded",
        other => other,
    };
    let found = path.split('.').try_fold(object, |value, name| value.get(name));
    match found {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Bool(truth)) => truth.to_string(),
        Some(Value::Number(number)) => number.to_string(),
        Some(Value::Array(items)) => items.iter().filter_map(|item| item["ip"].as_str()).collect::<Vec<_>>().join(","),
        _ => match path {
            "spec.hostNetwork" | "spec.unschedulable" if !is_custom(object) => "false".to_owned(),
            "status.succeeded" | "status.replicas" if !is_custom(object) => "0".to_owned(),
            _ => String::new(),
        },
    }
}

/// Groups of built-in kinds have no dots, or end with `k8s.io`.
fn is_custom(object: &Value) -> bool {
    let group =
        object["apiVersion"].as_str().and_then(|version| version.split_once('/')).map_or("", |(group, _)| group);
    group.contains('.') && !group.ends_with(".k8s.io")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pods() -> Kind {
        Kind { plural: "pods".into(), kind: "Pod".into(), namespaced: true, ..Kind::default() }
    }

    #[test]
    fn fields_are_compared_as_texts() {
        let pod = json!({"metadata": {"name": "a,b", "namespace": "d"}, "spec": {"nodeName": "n"}, "status": {"phase": "Running"}});
        let matches = |text: &str| FieldSelector::parse(text, &pods()).unwrap().matches(&pod);
        assert!(matches(""));
        assert!(matches("spec.nodeName=n,status.phase==Running,metadata.namespace!=x"));
        assert!(matches(r"metadata.name=a\,b"));
        assert!(!matches("status.phase!=Running"));
        assert!(matches("spec.hostNetwork=false"));
        assert_eq!(FieldSelector::parse("metadata.name=x", &pods()).unwrap().required("metadata.name"), Some("x"));
    }

    #[test]
    fn unknown_fields_and_nonsense_are_bad_requests() {
        let refused = |text: &str, kind: &Kind| FieldSelector::parse(text, kind).unwrap_err().message;
        assert_eq!(refused("spec.size=2", &pods()), "field label not supported: spec.size");
        assert_eq!(refused("foo", &pods()), "invalid selector: 'foo'; can't understand 'foo'");
        let maps = Kind { plural: "configmaps".into(), namespaced: true, ..Kind::default() };
        assert_eq!(
            refused("data=1", &maps),
            "\"data\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
        );
    }

    #[test]
    fn definitions_declare_their_selectable_fields() {
        let definition =
            json!({"spec": {"versions": [{"name": "v1", "selectableFields": [{"jsonPath": ".spec.color"}]}]}});
        let kind =
            Kind { version: "v1".into(), definition: Some(definition.into()), namespaced: true, ..Kind::default() };
        let selector = FieldSelector::parse("spec.color=red", &kind).unwrap();
        assert!(selector.matches(&json!({"spec": {"color": "red"}})));
        assert!(!selector.matches(&json!({})));
        assert!(FieldSelector::parse("spec.size=1", &kind).is_err());
    }
}
