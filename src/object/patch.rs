//! Changes of an object: a merge patch and functions over the whole body.

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::path::{self, NotAMapping};

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
    /// Runs code of a script.
    Function(Arc<dyn BodyFunction>),
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
            Self::Function(function) => return function.start(body, reply),
        }
        reply(Ok(body));
    }
}

fn add_finalizer(body: &mut Value, finalizer: &str) {
    let Some(body) = body.as_object_mut() else { return };
    let Value::Object(metadata) = body.entry("metadata").or_insert_with(|| Value::Object(Map::new())) else { return };
    let Value::Array(finalizers) = metadata.entry("finalizers").or_insert_with(|| Value::Array(Vec::new())) else { return };
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
