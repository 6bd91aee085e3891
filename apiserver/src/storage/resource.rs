//! The location of an object in the store: its resource and its key; and the metadata that the store uses.

use std::sync::Arc;

use serde_json::{Value, json};

/// A resource in the store, independent of the version.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Resource {
    /// The API group.
    pub group: String,
    /// The plural name.
    pub plural: String,
}

/// The key of an object in its resource: its namespace (or empty) and its name, in the order of lists.
pub type Key = (String, String);

/// A stored object.
#[derive(Debug)]
pub struct Stored {
    /// The revision of its last write.
    pub revision: u64,
    /// The object, with this revision in its metadata.
    pub value: Arc<Value>,
}

/// Returns the key of an object.
pub fn key_of(value: &Value) -> Key {
    let text = |name: &str| value["metadata"][name].as_str().unwrap_or_default().to_owned();
    (text("namespace"), text("name"))
}

/// Returns an object's unique id.
pub fn uid_of(value: &Value) -> &str {
    value["metadata"]["uid"].as_str().unwrap_or_default()
}

/// Returns the unique ids of an object's owners.
pub fn owners(value: &Value) -> impl Iterator<Item = &str> {
    value["metadata"]["ownerReferences"].as_array().into_iter().flatten().filter_map(|owner| owner["uid"].as_str())
}

/// Returns the revision in an object's metadata.
pub fn revision_of(value: &Value) -> Option<u64> {
    value["metadata"]["resourceVersion"].as_str()?.parse().ok()
}

/// Writes a revision into an object's metadata.
pub fn set_revision(value: &mut Value, revision: u64) {
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("resourceVersion".into(), json!(revision.to_string()));
    }
}
