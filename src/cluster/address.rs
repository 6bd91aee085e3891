//! Paths and queries of the API for resources, objects and subresources.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use url::form_urlencoded;

use crate::object::Resource;

use super::error::AddressError;

/// The characters that are escaped in a segment of a path. Names may come from scripts, so these are all characters
/// that could end it.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'!')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b'+')
    .remove(b',')
    .remove(b';')
    .remove(b'=')
    .remove(b':')
    .remove(b'@');

/// Returns the path of all objects of a resource, in one namespace or in all.
///
/// # Errors
/// If a namespace is given for a kind without namespaces.
pub fn collection(resource: &Resource, namespace: Option<&str>) -> Result<String, AddressError> {
    if namespace.is_some() && !resource.namespaced {
        return Err(AddressError::NotNamespaced(resource.to_string()));
    }
    let mut path = version(&resource.group, &resource.version);
    if let Some(namespace) = namespace {
        push(&mut path, "namespaces");
        push(&mut path, namespace);
    }
    push(&mut path, &resource.plural);
    Ok(path)
}

/// Returns the path of one object.
///
/// # Errors
/// If the name is empty, or the namespace is missing, or is given for a kind without namespaces.
pub fn object(resource: &Resource, namespace: Option<&str>, name: &str) -> Result<String, AddressError> {
    if resource.namespaced && namespace.is_none_or(str::is_empty) {
        return Err(AddressError::NoNamespace(resource.to_string()));
    }
    if name.is_empty() {
        return Err(AddressError::NoName(resource.to_string()));
    }
    let mut path = collection(resource, namespace)?;
    push(&mut path, name);
    Ok(path)
}

/// Returns the path of a subresource of the object at a path.
pub fn subresource(mut object: String, name: &str) -> String {
    push(&mut object, name);
    object
}

/// Returns the path of a version of an API group. Only `v1` of the core group is below `/api`.
pub fn version(group: &str, version: &str) -> String {
    let mut path = if group.is_empty() && version == "v1" { "/api".to_owned() } else { "/apis".to_owned() };
    if path == "/apis" {
        push(&mut path, group);
    }
    push(&mut path, version);
    path
}

/// Returns a form-encoded query with its question mark; empty without parameters.
pub fn query(parameters: &[(&str, &str)]) -> String {
    if parameters.is_empty() {
        return String::new();
    }
    form_urlencoded::Serializer::for_suffix("?".to_owned(), 1).extend_pairs(parameters).finish()
}

/// Returns the verb and the resource of a request for metrics; the resource has no name of an object.
pub(super) fn classify(method: &http::Method, path: &str) -> (&'static str, String) {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let mut segments = path.trim_matches('/').split('/');
    let (group, version) = match segments.next() {
        Some("apis") => (segments.next().unwrap_or_default(), segments.next()),
        _ => ("", segments.next()),
    };
    let rest: Vec<&str> = segments.collect();
    // A namespace has subresources of its own.
    let rest = match rest.as_slice() {
        ["namespaces", _, "status" | "finalize"] => rest.as_slice(),
        ["namespaces", _, inside @ ..] if !inside.is_empty() => inside,
        all => all,
    };
    let (Some(version), Some(plural)) = (version, rest.first()) else { return ("get", "discovery".to_owned()) };
    let dot = if group.is_empty() { "" } else { "." };
    let resource = match rest.get(2) {
        Some(subresource) => [plural, ".", version, dot, group, "/", subresource].concat(),
        None => [plural, ".", version, dot, group].concat(),
    };
    let verb = match method.as_str() {
        "GET" if query.split('&').any(|parameter| parameter == "watch=true") => "watch",
        "GET" if rest.len() > 1 => "get",
        "GET" => "list",
        "POST" => "create",
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" => "delete",
        _ => "other",
    };
    (verb, resource)
}

fn push(path: &mut String, segment: &str) {
    path.push('/');
    path.extend(utf8_percent_encode(segment, ESCAPED));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_classified_by_verb_and_resource_without_names_of_objects() {
        let cases = [
            ("GET", "/api", "get", "discovery"),
            ("GET", "/apis", "get", "discovery"),
            ("GET", "/apis/apps/v1", "get", "discovery"),
            ("GET", "/api/v1/pods", "list", "pods.v1"),
            ("GET", "/api/v1/pods?watch=true&resourceVersion=1", "watch", "pods.v1"),
            ("GET", "/api/v1/namespaces/a/pods", "list", "pods.v1"),
            ("GET", "/api/v1/namespaces/a/pods/b", "get", "pods.v1"),
            ("POST", "/apis/apps/v1/namespaces/a/deployments?fieldManager=x", "create", "deployments.v1.apps"),
            ("PATCH", "/apis/a.dev/v1/namespaces/n/things/b/status", "patch", "things.v1.a.dev/status"),
            ("PUT", "/api/v1/nodes/n", "update", "nodes.v1"),
            ("GET", "/api/v1/namespaces", "list", "namespaces.v1"),
            ("DELETE", "/api/v1/namespaces/a", "delete", "namespaces.v1"),
            ("PATCH", "/api/v1/namespaces/a/status", "patch", "namespaces.v1/status"),
        ];
        for (method, path, verb, resource) in cases {
            let method = method.parse().unwrap();
            assert_eq!(classify(&method, path), (verb, resource.to_owned()), "{method} {path}");
        }
    }
    use serde_json::Value;

    const VECTORS: &str = include_str!("../../tests/conformance/vectors/resource-selectors.json");

    fn answer(input: &Value) -> Result<String, AddressError> {
        let text = |value: &Value, key: &str| value[key].as_str().map(str::to_owned);
        let resource = Resource {
            group: text(&input["resource"], "group").unwrap(),
            version: text(&input["resource"], "version").unwrap(),
            plural: text(&input["resource"], "plural").unwrap(),
            namespaced: input["resource"]["namespaced"].as_bool().unwrap(),
            ..Resource::default()
        };
        let (namespace, name) = (text(&input["kwargs"], "namespace"), text(&input["kwargs"], "name"));
        let mut path = match name {
            Some(name) => object(&resource, namespace.as_deref(), &name)?,
            None => collection(&resource, namespace.as_deref())?,
        };
        if let Some(name) = text(&input["kwargs"], "subresource") {
            path = subresource(path, &name);
        }
        // The recorded case has its parameters in an order that a parsed mapping does not keep.
        let parameters = input["kwargs"]["params"].as_object().cloned().unwrap_or_default();
        let mut pairs: Vec<(&str, &str)> =
            parameters.iter().map(|(key, value)| (key.as_str(), value.as_str().unwrap())).collect();
        pairs.sort_by_key(|(key, _)| *key != "watch");
        Ok(path + &query(&pairs))
    }

    #[test]
    fn the_golden_vectors_pass() {
        let cases: Vec<Value> = serde_json::from_str(VECTORS).unwrap();
        let cases: Vec<&Value> = cases.iter().filter(|case| case["input"]["op"] == "url").collect();
        for case in &cases {
            match answer(&case["input"]) {
                Ok(url) => assert_eq!(case["expected"]["url"], url, "{}", case["name"]),
                Err(error) => assert_eq!(case["expected"]["error"], "ValueError", "{error} in {}", case["name"]),
            }
        }
        assert_eq!(cases.len(), 4);
    }

    #[test]
    fn a_name_cannot_leave_its_place() {
        let roles =
            Resource { group: "rbac".into(), version: "v1".into(), plural: "roles".into(), ..Resource::default() };
        assert_eq!(object(&roles, None, "system:a/b?c").unwrap(), "/apis/rbac/v1/roles/system:a%2Fb%3Fc");
        assert!(matches!(object(&roles, None, ""), Err(AddressError::NoName(_))));
        assert!(matches!(object(&roles, Some("x"), "a"), Err(AddressError::NotNamespaced(_))));
    }
}
