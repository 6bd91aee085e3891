//! Changes of an object: a merge patch and functions over the whole body.

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::path::{self, NotAMapping};

/// Stands for the unknown paths of the fields that a function changes.
const BY_FUNCTION: &str = "(by a function over the whole object)";

/// Changes of one object, collected in one cycle.
#[derive(Debug, Clone, Default)]
pub struct Patch {
    /// The merge patch: null deletes, mappings merge, other values replace.
    pub merge: Map<String, Value>,
    /// Functions over a full copy of the body, in order. They are sent as a JSON patch against one exact version.
    pub transforms: Vec<Transform>,
}

impl Patch {
    /// Tells whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.merge.is_empty() && self.transforms.is_empty()
    }

    /// Returns the paths of the fields of a body that the merge patch changes. Functions of scripts have no paths.
    pub fn changed_fields(&self, body: &Value) -> Vec<String> {
        let mut fields = Vec::new();
        let is_changed = |old: Option<&Value>, new: &Value| {
            if new.is_null() { old.is_some_and(|old| !old.is_null()) } else { old != Some(new) }
        };
        collect_fields("", &self.merge, Some(body), &is_changed, &mut fields);
        if self.transforms.iter().any(|one| matches!(one, Transform::Function(_))) {
            fields.push(BY_FUNCTION.to_owned());
        }
        fields
    }

    /// Sets a field of the merge patch.
    ///
    /// # Errors
    /// If a parent of the field is not a mapping.
    pub fn set(&mut self, keys: &[&str], value: Value) -> Result<(), NotAMapping> {
        path::ensure(&mut self.merge, &owned(keys), value)
    }

    /// Removes a field from the merge patch, and its parents that become empty.
    pub fn drop_field(&mut self, keys: &[&str]) {
        path::remove(&mut self.merge, &owned(keys));
    }

    /// Writes a handler's result to `status.<id>`: maps are merged key by key, other values replace.
    pub fn deliver(&mut self, id: &str, result: Value) {
        let status = self.merge.entry("status").or_insert_with(|| Value::Object(Map::new()));
        if !status.is_object() {
            *status = Value::Object(Map::new());
        }
        let Value::Object(status) = status else { return };
        match (status.get_mut(id), result) {
            (Some(Value::Object(present)), Value::Object(result)) => present.extend(result),
            (_, result) => {
                status.insert(id.to_owned(), result);
            }
        }
    }
}

/// Returns the paths of the fields of a merge patch.
pub(crate) fn fields(merge: &Map<String, Value>) -> Vec<String> {
    let mut fields = Vec::new();
    collect_fields("", merge, None, &|_, _| true, &mut fields);
    fields
}

fn collect_fields(
    parent: &str,
    merge: &Map<String, Value>,
    body: Option<&Value>,
    is_wanted: &impl Fn(Option<&Value>, &Value) -> bool,
    fields: &mut Vec<String>,
) {
    for (key, value) in merge {
        let old = body.and_then(|body| body.get(key));
        let path = match (parent, key.contains(['.', '/'])) {
            ("", _) => key.clone(),
            // Keys of annotations and labels.
            (_, true) => format!("{parent}[{key}]"),
            (_, false) => format!("{parent}.{key}"),
        };
        match value {
            Value::Object(inner) if !inner.is_empty() => collect_fields(&path, inner, old, is_wanted, fields),
            value if is_wanted(old, value) => fields.push(path),
            _ => {}
        }
    }
}

fn owned(keys: &[&str]) -> Vec<String> {
    keys.iter().map(|key| (*key).to_owned()).collect()
}

/// A function over the whole body.
#[derive(Debug, Clone)]
pub enum Transform {
    /// Appends a finalizer if it is missing.
    AddFinalizer(String),
    /// Removes all occurrences of a finalizer.
    RemoveFinalizer(String),
    /// Sets a condition of the status.
    SetCondition(Arc<Condition>),
    /// Runs code of a script.
    Function(Arc<dyn BodyFunction>),
}

/// A condition of the status, in Kubernetes' form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// Its type.
    pub name: String,
    /// Whether it holds.
    pub is_true: bool,
    /// The reason: one word in CamelCase.
    pub reason: String,
    /// The message.
    pub message: String,
    /// The present time, for the time of the last transition.
    pub now: String,
}

/// Code that changes a body; it may run again on a newer one.
pub trait BodyFunction: fmt::Debug + Send + Sync {
    /// Starts to change a body. The reply is dropped if the code cannot run.
    fn start(&self, body: Value, reply: Reply);
}

/// Receives the changed body, or the text of the error.
pub type Reply = Box<dyn FnOnce(Result<Value, String>) + Send>;

impl Transform {
    /// Begins to change a body.
    pub fn start(&self, mut body: Value, reply: Reply) {
        match self {
            Self::AddFinalizer(finalizer) => add_finalizer(&mut body, finalizer),
            Self::RemoveFinalizer(finalizer) => remove_finalizer(&mut body, finalizer),
            Self::SetCondition(condition) => set_condition(&mut body, condition),
            Self::Function(function) => return function.start(body, reply),
        }
        reply(Ok(body));
    }
}

/// Returns a condition of an object.
pub(crate) fn condition<'a>(body: &'a Value, name: &str) -> Option<&'a Value> {
    body.pointer("/status/conditions")?
        .as_array()?
        .iter()
        .find(|one| one.get("type").and_then(Value::as_str) == Some(name))
}

/// Replaces a condition, or appends it. The time of its last transition stays if it has held before, or not, as now.
fn set_condition(body: &mut Value, condition: &Condition) {
    let status = if condition.is_true { "True" } else { "False" };
    let before = self::condition(body, &condition.name);
    let is_same = before.and_then(|before| before.get("status")?.as_str()) == Some(status);
    let since = before.and_then(|before| before.get("lastTransitionTime")?.as_str()).filter(|_| is_same);
    let since = since.unwrap_or(&condition.now).to_owned();
    let new = json!({
        "type": condition.name, "status": status, "reason": condition.reason, "message": condition.message, "lastTransitionTime": since,
    });
    let Some(body) = body.as_object_mut() else { return };
    let Value::Object(status) = body.entry("status").or_insert_with(|| json!({})) else { return };
    let Value::Array(conditions) = status.entry("conditions").or_insert_with(|| json!([])) else { return };
    match conditions.iter_mut().find(|one| one.get("type").and_then(Value::as_str) == Some(&condition.name)) {
        Some(found) => *found = new,
        None => conditions.push(new),
    }
}

fn add_finalizer(body: &mut Value, finalizer: &str) {
    let Some(body) = body.as_object_mut() else { return };
    let Value::Object(metadata) = body.entry("metadata").or_insert_with(|| Value::Object(Map::new())) else { return };
    let Value::Array(finalizers) = metadata.entry("finalizers").or_insert_with(|| Value::Array(Vec::new())) else {
        return;
    };
    if !finalizers.iter().any(|value| value == finalizer) {
        finalizers.push(Value::String(finalizer.to_owned()));
    }
}

fn remove_finalizer(body: &mut Value, finalizer: &str) {
    let Some(body) = body.as_object_mut() else { return };
    let Some(Value::Object(metadata)) = body.get_mut("metadata") else { return };
    let Some(Value::Array(finalizers)) = metadata.get_mut("finalizers") else { return };
    finalizers.retain(|value| value != finalizer);
    if finalizers.is_empty() {
        metadata.remove("finalizers");
        if metadata.is_empty() {
            body.remove("metadata");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(value: Value) -> Map<String, Value> {
        let Value::Object(map) = value else { panic!("{value} is no mapping") };
        map
    }

    #[test]
    fn the_changed_fields_are_those_with_other_values() {
        let body = json!({"metadata": {"annotations": {"a.b/c": "1"}}, "spec": {"n": 1, "list": [1], "gone": 2}, "status": {"x": {"y": 1}}});
        let merge = json!({
            "metadata": {"annotations": {"a.b/c": "1", "a.b/d": "1"}},
            "spec": {"n": 2, "list": [1], "gone": null, "absent": null},
            "status": {"x": {"y": 1, "z": {}}},
        });
        let patch = Patch { merge: map(merge), ..Patch::default() };
        assert_eq!(patch.changed_fields(&body), ["metadata.annotations[a.b/d]", "spec.gone", "spec.n", "status.x.z"]);
        assert_eq!(fields(&map(json!({"spec": {"n": null}, "data": {"a.b": "x"}}))), ["data[a.b]", "spec.n"]);
    }

    #[test]
    fn a_condition_is_set_beside_the_others_and_keeps_the_time_of_its_last_transition() {
        let set = |body: &mut Value, is_true, now: &str| {
            let (name, reason, message) = ("Looping".to_owned(), "SelfTriggered".to_owned(), "m".to_owned());
            set_condition(body, &Condition { name, is_true, reason, message, now: now.to_owned() });
        };
        let mut body = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        set(&mut body, true, "t1");
        set(&mut body, true, "t2");
        assert_eq!(body["status"]["conditions"][0], json!({"type": "Ready", "status": "True"}));
        let expected = json!({"type": "Looping", "status": "True", "reason": "SelfTriggered", "message": "m", "lastTransitionTime": "t1"});
        assert_eq!(condition(&body, "Looping"), Some(&expected));
        set(&mut body, false, "t3");
        let found = condition(&body, "Looping").unwrap();
        assert_eq!((&found["status"], &found["lastTransitionTime"]), (&json!("False"), &json!("t3")));
        let mut without = json!({"spec": {}});
        set(&mut without, true, "t1");
        assert_eq!(condition(&without, "Looping").unwrap()["status"], "True");
        for mut odd in [json!({"status": "x"}), json!({"status": {"conditions": {}}})] {
            let before = odd.clone();
            set(&mut odd, true, "t1");
            assert_eq!(odd, before, "a status of another form stays as it is");
        }
    }
}
