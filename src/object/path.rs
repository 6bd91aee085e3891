//! Field paths: the dotted paths of kopf, and JSONPath queries that start with a plain prefix.

use std::borrow::Cow;
use std::fmt;

use jsonpath_rust::parser::model::JpQuery;
use jsonpath_rust::parser::parse_json_path;
use jsonpath_rust::query::js_path_process;
use serde_json::{Map, Value};

/// The path of a field.
#[derive(Clone)]
pub struct FieldPath {
    keys: Vec<String>,
    query: Option<Query>,
}

#[derive(Clone)]
struct Query {
    text: String,
    compiled: JpQuery,
}

/// An invalid path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// The text is not a JSONPath.
    #[error("not a JSONPath: {0}")]
    Syntax(String),
    /// A query must begin with a plain name, or with two below `metadata` and `status`.
    #[error("a JSONPath must begin with {0}")]
    Prefix(&'static str),
}

impl FieldPath {
    /// Returns the path of a dotted text, which is split at every dot, without escapes.
    pub fn dotted(text: &str) -> Self {
        Self::of_keys(text.split('.').map(str::to_owned).collect())
    }

    /// Returns the path with these keys. Only this form can address keys that contain dots.
    pub fn of_keys(keys: Vec<String>) -> Self {
        Self { keys, query: None }
    }

    /// Returns the path of a JSONPath query (RFC 9535).
    ///
    /// # Errors
    /// If the text is not a JSONPath, or does not begin with a plain name.
    pub fn json_path(text: &str) -> Result<Self, PathError> {
        let compiled = parse_json_path(text).map_err(|error| PathError::Syntax(error.to_string()))?;
        let keys = plain_prefix(text);
        match keys.first().map(String::as_str) {
            None => return Err(PathError::Prefix("a plain name, such as `$.spec`")),
            Some("metadata" | "status") if keys.len() < 2 => {
                return Err(PathError::Prefix(
                    "two plain names below `metadata` and `status`, such as `$.status.conditions`",
                ));
            }
            Some(_) => {}
        }
        Ok(Self { keys, query: Some(Query { text: text.to_owned(), compiled }) })
    }

    /// Returns the keys of a plain path, or the plain prefix of a query: the field that the essence must contain.
    pub fn prefix(&self) -> &[String] {
        &self.keys
    }

    /// Tells whether the path is a query, which yields an array of nodes.
    pub fn is_query(&self) -> bool {
        self.query.is_some()
    }

    /// Returns the suffix of a handler's id.
    pub fn suffix(&self) -> String {
        match &self.query {
            None => self.keys.join("."),
            Some(query) => dots_for_the_rest(&query.text),
        }
    }

    /// Returns the value at this path, including null; for a query, the array of the nodes if there are any.
    pub fn resolve<'a>(&self, value: &'a Value) -> Option<Cow<'a, Value>> {
        let Some(query) = &self.query else {
            return resolve(value, &self.keys).map(Cow::Borrowed);
        };
        let nodes = js_path_process(&query.compiled, value).unwrap_or_default();
        let nodes: Vec<Value> = nodes.into_iter().map(|node| node.val().clone()).collect();
        (!nodes.is_empty()).then_some(Cow::Owned(Value::Array(nodes)))
    }
}

impl PartialEq for FieldPath {
    fn eq(&self, other: &Self) -> bool {
        self.keys == other.keys
            && self.query.as_ref().map(|query| &query.text) == other.query.as_ref().map(|query| &query.text)
    }
}

impl Eq for FieldPath {}

impl fmt::Debug for FieldPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.query.as_ref().map_or_else(|| self.keys.join("."), |query| query.text.clone()))
    }
}

/// Returns the nodes of a JSONPath query (RFC 9535), in the order of the value.
///
/// # Errors
/// If the text is not a JSONPath.
pub(crate) fn query<'a>(text: &str, value: &'a Value) -> Result<Vec<&'a Value>, PathError> {
    let wrong = |error: &dyn fmt::Display| PathError::Syntax(error.to_string());
    let compiled = parse_json_path(text).map_err(|error| wrong(&error))?;
    let nodes = js_path_process(&compiled, value).map_err(|error| wrong(&error))?;
    Ok(nodes.into_iter().map(jsonpath_rust::query::QueryRef::val).collect())
}

/// Returns the value at these keys; lists are never indexed.
pub(crate) fn resolve<'a>(value: &'a Value, keys: &[String]) -> Option<&'a Value> {
    keys.iter().try_fold(value, |value, key| value.as_object()?.get(key))
}

/// Returns the value at these keys of a mapping.
pub(crate) fn resolve_in<'a>(map: &'a Map<String, Value>, keys: &[String]) -> Option<&'a Value> {
    let (first, rest) = keys.split_first()?;
    resolve(map.get(first)?, rest)
}

/// A parent of a field is not a mapping.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key:?} on the way to the field {path:?} is not a mapping")]
pub struct NotAMapping {
    /// The key of the parent.
    pub key: String,
    /// The whole path.
    pub path: String,
}

/// Sets a field, creating the missing parents.
///
/// # Errors
/// If a parent exists but is not a mapping.
pub(crate) fn ensure(target: &mut Map<String, Value>, keys: &[String], value: Value) -> Result<(), NotAMapping> {
    let Some((last, parents)) = keys.split_last() else {
        return Ok(());
    };
    let mut target = target;
    for key in parents {
        target = match target.entry(key.clone()).or_insert_with(|| Value::Object(Map::new())) {
            Value::Object(map) => map,
            _ => return Err(NotAMapping { key: key.clone(), path: keys.join(".") }),
        };
    }
    target.insert(last.clone(), value);
    Ok(())
}

/// Removes a field, and every parent that becomes empty.
pub(crate) fn remove(target: &mut Map<String, Value>, keys: &[String]) {
    let Some((key, rest)) = keys.split_first() else {
        return;
    };
    if rest.is_empty() {
        target.remove(key);
    } else if let Some(Value::Object(child)) = target.get_mut(key) {
        remove(child, rest);
        if child.is_empty() {
            target.remove(key);
        }
    }
}

/// The plain names right after `$`, up to the first selector that is not a name.
fn plain_prefix(text: &str) -> Vec<String> {
    let mut keys = Vec::new();
    let mut rest = text.strip_prefix('$').unwrap_or(text);
    while let Some(after) = rest.strip_prefix('.') {
        let length = after.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(after.len());
        if length == 0 {
            break;
        }
        keys.push(after[..length].to_owned());
        rest = &after[length..];
    }
    keys
}

fn dots_for_the_rest(text: &str) -> String {
    let mut suffix = String::new();
    for c in text.chars() {
        if c.is_alphanumeric() || c == '_' || c == '-' {
            suffix.push(c);
        } else if !suffix.ends_with('.') {
            suffix.push('.');
        }
    }
    suffix.trim_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_query_yields_the_array_of_its_nodes() {
        let path = FieldPath::json_path("$.spec.containers[*].image").unwrap();
        let body = json!({"spec": {"containers": [{"image": "a"}, {"image": "b"}]}});
        assert_eq!(path.resolve(&body).unwrap().into_owned(), json!(["a", "b"]));
        assert_eq!(path.resolve(&json!({"spec": {}})), None);
        assert_eq!(path.suffix(), "spec.containers.image");
        assert_eq!(path.prefix(), ["spec", "containers"]);
    }

    #[test]
    fn a_query_begins_with_plain_names() {
        assert!(matches!(FieldPath::json_path("$..image"), Err(PathError::Prefix(_))));
        assert!(matches!(FieldPath::json_path("$.status[*]"), Err(PathError::Prefix(_))));
        assert!(matches!(FieldPath::json_path("$.spec["), Err(PathError::Syntax(_))));
        assert!(FieldPath::json_path("$.status.conditions[*]").is_ok());
    }

    #[test]
    fn removing_drops_the_emptied_parents() {
        let Value::Object(mut map) = json!({"a": {"b": {"c": 1}}, "d": 2}) else { unreachable!() };
        remove(&mut map, &["a".into(), "b".into(), "c".into()]);
        assert_eq!(Value::Object(map), json!({"d": 2}));
    }

    #[test]
    fn a_scalar_in_the_middle_of_a_path_is_an_error() {
        let Value::Object(mut map) = json!({"a": 1}) else { unreachable!() };
        assert!(ensure(&mut map, &["a".into(), "b".into()], json!(2)).is_err());
    }
}
