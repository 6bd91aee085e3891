//! The conditions of `k8s::wait`, as those of `kubectl wait`.

use std::fmt;

use serde_json::Value;

/// One expectation of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Condition {
    /// It exists.
    Created,
    /// It does not exist.
    Deleted,
    /// A condition in its status has this value; letters in any case.
    Status {
        /// The type of the condition.
        name: String,
        /// The value.
        value: String,
    },
    /// A JSONPath finds any value, or one with this text.
    Path {
        /// The path.
        path: String,
        /// The text of the value; `None` for any value.
        value: Option<String>,
    },
}

impl Condition {
    /// Reads the forms of kubectl: `Ready`, `Ready=False`, `condition=Ready`, `jsonpath={.status.phase}=Running`,
    /// `create`, `delete`; and a JSONPath that begins with `$`.
    ///
    /// # Errors
    /// If the text has none of these forms.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if let Some(path) = text.strip_prefix("jsonpath=") {
            return Self::path(path.trim_matches(['\'', '"']));
        }
        if text.starts_with(['$', '{']) {
            return Self::path(text);
        }
        let named = text.strip_prefix("condition=");
        match (named, text) {
            (None, "create") => return Ok(Self::Created),
            (None, "delete") => return Ok(Self::Deleted),
            _ => {}
        }
        let (name, value) = named.unwrap_or(text).split_once('=').unwrap_or((named.unwrap_or(text), "True"));
        let is_word =
            |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "-._/".contains(c));
        if is_word(name) && is_word(value) && name.starts_with(|first: char| first.is_ascii_alphabetic()) {
            return Ok(Self::Status { name: name.to_owned(), value: value.to_owned() });
        }
        Err(format!(
            "{text:?} is no condition: write such as `Ready`, `Ready=False`, `create`, `delete`, `$.status.phase` or `$.status.phase=Running`"
        ))
    }

    /// Splits a JSONPath from the value after it. Within brackets and quotes, `=` belongs to the path.
    fn path(text: &str) -> Result<Self, String> {
        let (mut depth, mut quote) = (0_usize, None);
        let split = text.char_indices().find(|(_, c)| {
            match (quote, *c) {
                (Some(open), c) if c == open => quote = None,
                (None, '\'' | '"') => quote = Some(*c),
                (None, '[' | '{' | '(') => depth += 1,
                (None, ']' | '}' | ')') => depth = depth.saturating_sub(1),
                (None, '=') => return depth == 0,
                (Some(_) | None, _) => {}
            }
            false
        });
        let (path, value) = match split {
            Some((at, _)) => (&text[..at], Some(text[at..].trim_start_matches('=').trim())),
            None => (text, None),
        };
        let path = path.trim();
        if path.is_empty() || value.is_some_and(str::is_empty) {
            return Err(format!("{text:?} has no path, or no value after `=`"));
        }
        Ok(Self::Path { path: path.to_owned(), value: value.map(|value| value.trim_matches(['\'', '"']).to_owned()) })
    }

    /// Tells whether an object fulfils a condition that needs no JSONPath; `None` stands for no object. A JSONPath is
    /// evaluated by `nodes`.
    ///
    /// # Errors
    /// Those of `nodes`.
    pub(super) fn is_fulfilled<E>(
        &self,
        object: Option<&Value>,
        nodes: impl FnOnce(&str, &Value) -> Result<Vec<Value>, E>,
    ) -> Result<bool, E> {
        match (self, object) {
            (Self::Created, object) => Ok(object.is_some()),
            (Self::Deleted, object) => Ok(object.is_none()),
            (_, None) => Ok(false),
            (Self::Status { name, value }, Some(object)) => Ok(has_condition(object, name, value)),
            (Self::Path { path, value }, Some(object)) => {
                let found = nodes(path, object)?;
                Ok(match value {
                    None => found.iter().any(|found| !found.is_null()),
                    Some(value) => found.iter().any(|found| text_of(found) == *value),
                })
            }
        }
    }
}

/// As for kubectl, a condition about an older generation of the object does not count.
fn has_condition(object: &Value, name: &str, value: &str) -> bool {
    let generation = object.pointer("/metadata/generation").and_then(Value::as_i64);
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().any(|condition| {
        let text = |key: &str| condition.get(key).and_then(Value::as_str).unwrap_or_default();
        let observed = condition.get("observedGeneration").or_else(|| object.pointer("/status/observedGeneration"));
        let is_outdated =
            matches!((observed.and_then(Value::as_i64), generation), (Some(observed), Some(generation)) if observed < generation);
        text("type").eq_ignore_ascii_case(name) && text("status").eq_ignore_ascii_case(value) && !is_outdated
    })
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

impl fmt::Display for Condition {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Created => formatter.write_str("create"),
            Self::Deleted => formatter.write_str("delete"),
            Self::Status { name, value } => write!(formatter, "{name}={value}"),
            Self::Path { path, value: None } => formatter.write_str(path),
            Self::Path { path, value: Some(value) } => write!(formatter, "{path}={value}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use serde_json::json;

    use super::*;
    use crate::object::path;

    fn holds(condition: &str, object: &Value) -> bool {
        let nodes = |path: &str, object: &Value| {
            Ok::<_, Infallible>(path::query(path, object).unwrap().into_iter().cloned().collect())
        };
        let Ok(is_fulfilled) =
            Condition::parse(condition).unwrap().is_fulfilled(Some(object).filter(|object| !object.is_null()), nodes);
        is_fulfilled
    }

    #[test]
    fn conditions_have_the_forms_of_kubectl() {
        for (text, expected) in [
            ("Ready", "Ready=True"),
            ("Ready=False", "Ready=False"),
            ("condition=Available", "Available=True"),
            ("condition=create", "create=True"),
            ("create", "create"),
            (" delete ", "delete"),
            ("$.status.phase", "$.status.phase"),
            ("$.status.phase=Running", "$.status.phase=Running"),
            ("jsonpath='{.status.phase}'=Running", "{.status.phase}=Running"),
            (
                "{.status.conditions[?(@.type==\"Ready\")].status}=True",
                "{.status.conditions[?(@.type==\"Ready\")].status}=True",
            ),
            ("$.status.phase == Running", "$.status.phase=Running"),
        ] {
            let text_of = |text: &str| Condition::parse(text).map(|condition| condition.to_string().replace('\'', ""));
            assert_eq!(text_of(text), Ok(expected.to_owned()), "{text}");
        }
        for text in ["", "=", "Ready=", "1s", "a b", "$.a="] {
            assert!(Condition::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn conditions_about_an_older_generation_do_not_count() {
        let object = |observed: Option<i64>, status: &str| {
            let mut condition = json!({"type": "Ready", "status": status});
            if let Some(observed) = observed {
                condition["observedGeneration"] = json!(observed);
            }
            json!({"metadata": {"generation": 2}, "status": {"conditions": [condition], "phase": "Running", "replicas": 3}})
        };
        assert!(holds("Ready", &object(None, "True")) && holds("ready", &object(Some(2), "true")));
        assert!(!holds("Ready", &object(Some(1), "True")) && !holds("Ready", &object(None, "False")));
        assert!(holds("Ready=False", &object(None, "False")) && !holds("Other", &object(None, "True")));
        let mut whole = object(None, "True");
        whole["status"]["observedGeneration"] = json!(1);
        assert!(!holds("Ready", &whole));
        assert!(
            holds("$.status.phase=Running", &whole)
                && holds("$.status.replicas=3", &whole)
                && holds("$.status.phase", &whole)
        );
        assert!(!holds("$.status.phase=Pending", &whole) && !holds("$.status.other", &whole));
        assert!(holds("create", &whole) && !holds("delete", &whole));
        assert!(!holds("create", &Value::Null) && holds("delete", &Value::Null) && !holds("Ready", &Value::Null));
    }
}
