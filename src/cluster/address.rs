//! Paths and queries of the API for resources, objects and subresources.

use std::fmt::Write;

use crate::object::Resource;

use super::error::AddressError;

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
    let mut query = String::new();
    for (key, value) in parameters {
        query.push(if query.is_empty() { '?' } else { '&' });
        encode(&mut query, key, "-._*", Some('+'));
        query.push('=');
        encode(&mut query, value, "-._*", Some('+'));
    }
    query
}

/// Names may come from scripts, so every character that could end the path segment is escaped.
fn push(path: &mut String, segment: &str) {
    path.push('/');
    encode(path, segment, "-._~!$&'()*+,;=:@", None);
}

fn encode(to: &mut String, text: &str, kept: &str, space: Option<char>) {
    for byte in text.bytes() {
        match (byte, space) {
            (b' ', Some(space)) => to.push(space),
            (byte, _) if byte.is_ascii_alphanumeric() || kept.as_bytes().contains(&byte) => to.push(char::from(byte)),
            (byte, _) => write!(to, "%{byte:02X}").expect("a string takes everything"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
        let mut pairs: Vec<(&str, &str)> = parameters.iter().map(|(key, value)| (key.as_str(), value.as_str().unwrap())).collect();
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
        let roles = Resource { group: "rbac".into(), version: "v1".into(), plural: "roles".into(), ..Resource::default() };
        assert_eq!(object(&roles, None, "system:a/b?c").unwrap(), "/apis/rbac/v1/roles/system:a%2Fb%3Fc");
        assert!(matches!(object(&roles, None, ""), Err(AddressError::NoName(_))));
        assert!(matches!(object(&roles, Some("x"), "a"), Err(AddressError::NotNamespaced(_))));
    }
}
