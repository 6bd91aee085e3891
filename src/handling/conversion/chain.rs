//! The conversion of one object through versions.
//!
//! ```text
//! the object ──call──► the wanted version: done
//!                 └──► another version: call again with this object
//! ```
//!
//! So a function may know neighbouring versions only. Each object that it returns is checked: of the metadata, only
//! labels and annotations may differ.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::object::Body;

/// The most calls for one object. Definitions have fewer versions.
const MAX_CALLS: usize = 32;

/// The parts of the metadata that a conversion may change.
const CHANGEABLE: [&str; 2] = ["labels", "annotations"];

/// One object on its way to the wanted version.
#[derive(Debug, Clone)]
pub(crate) struct Chain {
    wanted: Arc<str>,
    original: Body,
    current: Body,
    /// The versions so far, with that of `current` as the last one.
    passed: Vec<String>,
}

/// The reason why an object cannot be converted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ChainError {
    /// The review has a value that is no object of the kind.
    #[error("the review has an object without {0}")]
    Malformed(&'static str),
    /// The object and the wanted version have different groups.
    #[error("an object of {from} cannot become one of another group")]
    OtherGroup {
        /// The version of the object.
        from: String,
    },
    /// The function has returned a value that is no object.
    #[error("the function has returned {0} instead of the object")]
    NoObject(&'static str),
    /// The returned object has no version.
    #[error("the function has returned an object without an `apiVersion`")]
    NoVersion,
    /// The returned object belongs to another group.
    #[error("the function has returned an object of {returned}, which is another group")]
    LeftGroup {
        /// The returned version.
        returned: String,
    },
    /// The object has the same version after the call as before.
    #[error("the function has returned the object in {returned} again")]
    Unchanged {
        /// The version.
        returned: String,
    },
    /// The object had this version before.
    #[error("the function leads in a circle: {}", path.join(", "))]
    Circle {
        /// The versions, with the repeated one as the last.
        path: Vec<String>,
    },
    /// The wanted version is not reached.
    #[error("the function has been called {MAX_CALLS} times")]
    TooLong,
    /// The kind is another one.
    #[error("the function has changed the kind from `{from}` to {to}")]
    OtherKind {
        /// The kind of the original object.
        from: String,
        /// The returned kind, as JSON.
        to: String,
    },
    /// A part of the metadata is another one.
    #[error("the function has changed `metadata.{0}`, but of the metadata only labels and annotations may change")]
    Metadata(String),
    /// Labels or annotations are not valid.
    #[error("the function has returned `metadata.{0}` that is no map of texts")]
    NoTexts(&'static str),
}

impl Chain {
    /// Begins the conversion of an object.
    ///
    /// # Errors
    /// If it is no object that can have the wanted version.
    pub(crate) fn begin(object: Value, wanted: Arc<str>) -> Result<Self, ChainError> {
        for (field, is_there) in
            [("apiVersion", object["apiVersion"].is_string()), ("metadata", object["metadata"].is_object())]
        {
            if !is_there {
                return Err(ChainError::Malformed(field));
            }
        }
        let from = version_of(&object).to_owned();
        if group_of(&from) != group_of(&wanted) {
            return Err(ChainError::OtherGroup { from });
        }
        let body = Body::from(object);
        Ok(Self { wanted, original: body.clone(), current: body, passed: vec![from] })
    }

    /// Returns the wanted version.
    pub(crate) fn wanted(&self) -> &Arc<str> {
        &self.wanted
    }

    /// Returns the original object.
    pub(crate) fn original(&self) -> &Body {
        &self.original
    }

    /// Returns the object that the function is called with next; `None` if it has the wanted version.
    pub(crate) fn next(&self) -> Option<&Body> {
        self.passed.last().is_some_and(|version| **version != *self.wanted).then_some(&self.current)
    }

    /// Takes over the result of the function for the object.
    ///
    /// # Errors
    /// If it is no acceptable object, or does not lead to the wanted version.
    pub(crate) fn take(&mut self, returned: Option<Value>) -> Result<(), ChainError> {
        let returned = match returned {
            Some(Value::Object(map)) => Value::Object(map),
            other => return Err(ChainError::NoObject(noun(other.as_ref()))),
        };
        let version = returned["apiVersion"].as_str().ok_or(ChainError::NoVersion)?.to_owned();
        self.check_version(&version)?;
        let kind = &self.original["kind"];
        if returned["kind"] != *kind {
            let from = kind.as_str().unwrap_or_default().to_owned();
            return Err(ChainError::OtherKind { from, to: returned["kind"].to_string() });
        }
        check_metadata(&self.original["metadata"], &returned["metadata"])?;
        self.passed.push(version);
        self.current = Body::from(returned);
        Ok(())
    }

    /// Returns the converted object, which has the metadata of the original one but for labels and annotations.
    pub(crate) fn finish(self) -> Value {
        let mut object = (*self.current).clone();
        let (mut metadata, returned) = (self.original["metadata"].clone(), &self.current["metadata"]);
        if let Some(metadata) = metadata.as_object_mut() {
            for key in CHANGEABLE {
                match returned.get(key).filter(|value| !value.is_null()) {
                    Some(value) => metadata.insert(key.to_owned(), value.clone()),
                    None => metadata.remove(key),
                };
            }
        }
        object["metadata"] = metadata;
        object
    }

    fn check_version(&self, version: &str) -> Result<(), ChainError> {
        let returned = version.to_owned();
        if group_of(version) != group_of(&self.wanted) {
            return Err(ChainError::LeftGroup { returned });
        }
        if self.passed.last().is_some_and(|last| last == version) {
            return Err(ChainError::Unchanged { returned });
        }
        if self.passed.iter().any(|passed| passed == version) {
            return Err(ChainError::Circle { path: self.passed.iter().cloned().chain([returned]).collect() });
        }
        if self.passed.len() > MAX_CALLS { Err(ChainError::TooLong) } else { Ok(()) }
    }
}

fn version_of(object: &Value) -> &str {
    object["apiVersion"].as_str().unwrap_or_default()
}

/// Returns the group of an `apiVersion`; that of the core is empty.
fn group_of(version: &str) -> &str {
    version.rsplit_once('/').map_or("", |(group, _)| group)
}

fn noun(returned: Option<&Value>) -> &'static str {
    match returned {
        None | Some(Value::Null) => "nothing",
        Some(Value::Bool(_)) => "a boolean",
        Some(Value::Number(_)) => "a number",
        Some(Value::String(_)) => "a text",
        Some(Value::Array(_)) => "an array",
        Some(Value::Object(_)) => "a map",
    }
}

/// Absent and null are the same: API servers do not distinguish them in metadata.
fn check_metadata(original: &Value, returned: &Value) -> Result<(), ChainError> {
    let nothing = Map::new();
    let (original, returned) = (original.as_object().unwrap_or(&nothing), returned.as_object().unwrap_or(&nothing));
    let value = |map: &'_ Map<String, Value>, key: &str| map.get(key).cloned().unwrap_or_default();
    let keys = original.keys().chain(returned.keys()).filter(|key| !CHANGEABLE.contains(&key.as_str()));
    if let Some(changed) = keys.into_iter().find(|key| value(original, key) != value(returned, key)) {
        return Err(ChainError::Metadata(changed.clone()));
    }
    for key in CHANGEABLE {
        let is_valid = match returned.get(key) {
            None | Some(Value::Null) => true,
            Some(Value::Object(map)) => map.values().all(Value::is_string),
            Some(_) => false,
        };
        if !is_valid {
            return Err(ChainError::NoTexts(key));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(version: &str) -> Value {
        json!({"apiVersion": version, "kind": "Thing", "metadata": {"name": "a", "uid": "1", "labels": {"x": "y"}}, "spec": {"version": version}})
    }

    fn chain(wanted: &str) -> Chain {
        Chain::begin(object("a.io/v1"), wanted.into()).unwrap()
    }

    /// Returns the error after the function has returned these objects one after another.
    fn failure(returned: impl IntoIterator<Item = Value>) -> String {
        let mut chain = chain("a.io/v3");
        returned.into_iter().find_map(|returned| chain.take(Some(returned)).err()).unwrap().to_string()
    }

    #[test]
    fn the_function_is_called_again_until_it_returns_the_wanted_version() {
        let mut chain = chain("a.io/v3");
        assert_eq!(chain.next().unwrap()["spec"]["version"], "a.io/v1");
        chain.take(Some(object("a.io/v2"))).unwrap();
        assert_eq!(chain.next().unwrap()["spec"]["version"], "a.io/v2");
        chain.take(Some(object("a.io/v3"))).unwrap();
        assert!(chain.next().is_none());
        assert_eq!(chain.finish(), object("a.io/v3"));
    }

    #[test]
    fn an_object_in_the_wanted_version_needs_no_call() {
        let chain = chain("a.io/v1");
        assert!(chain.next().is_none());
        assert_eq!(chain.finish(), object("a.io/v1"));
    }

    #[test]
    fn a_way_that_does_not_reach_the_version_is_an_error() {
        assert_eq!(failure([object("a.io/v1")]), "the function has returned the object in a.io/v1 again");
        let circle = failure([object("a.io/v2"), object("a.io/v1")]);
        assert_eq!(circle, "the function leads in a circle: a.io/v1, a.io/v2, a.io/v1");
        assert_eq!(
            failure([object("b.io/v3")]),
            "the function has returned an object of b.io/v3, which is another group"
        );
        assert_eq!(
            failure((10..100).map(|number| object(&format!("a.io/v{number}")))),
            "the function has been called 32 times"
        );
    }

    #[test]
    fn of_the_metadata_only_labels_and_annotations_may_change() {
        let with = |pointer: &str, value: Value| {
            let mut changed = object("a.io/v3");
            changed["metadata"][pointer] = value;
            changed
        };
        let mut chain = chain("a.io/v3");
        let mut relabelled = with("labels", Value::Null);
        relabelled["metadata"]["annotations"] = json!({"b": "c"});
        relabelled["metadata"]["generateName"] = Value::Null;
        chain.take(Some(relabelled)).unwrap();
        assert_eq!(chain.finish()["metadata"], json!({"name": "a", "uid": "1", "annotations": {"b": "c"}}));
        for (key, value) in [("name", json!("b")), ("uid", Value::Null), ("finalizers", json!(["f"]))] {
            assert!(
                failure([with(key, value)]).starts_with(&format!("the function has changed `metadata.{key}`, but"))
            );
        }
        for value in [json!([]), json!({"a": 1}), json!("text")] {
            assert_eq!(
                failure([with("annotations", value)]),
                "the function has returned `metadata.annotations` that is no map of texts"
            );
        }
        let mut bare = object("a.io/v3");
        bare.as_object_mut().unwrap().remove("metadata");
        assert!(failure([bare]).starts_with("the function has changed `metadata.name`"));
    }

    #[test]
    fn what_is_returned_must_be_the_object() {
        for (returned, noun) in [(None, "nothing"), (Some(json!("x")), "a text"), (Some(json!([])), "an array")] {
            let error = chain("a.io/v3").take(returned).unwrap_err().to_string();
            assert_eq!(error, format!("the function has returned {noun} instead of the object"));
        }
        assert_eq!(failure([json!({"kind": "Thing"})]), "the function has returned an object without an `apiVersion`");
        let mut other = object("a.io/v3");
        other["kind"] = json!("Other");
        assert_eq!(failure([other]), "the function has changed the kind from `Thing` to \"Other\"");
    }

    #[test]
    fn a_review_of_something_else_cannot_be_converted() {
        let begin = |object: Value| Chain::begin(object, "a.io/v2".into()).map(|_| ()).unwrap_err().to_string();
        assert_eq!(begin(json!({"metadata": {}})), "the review has an object without apiVersion");
        assert_eq!(begin(json!({"apiVersion": "a.io/v1"})), "the review has an object without metadata");
        assert_eq!(begin(object("v1")), "an object of v1 cannot become one of another group");
    }
}
