//! Where an object is stored: its resource, and its key inside of it; and the metadata that the store reads and writes.

use std::sync::Arc;

use serde_json::{Value, json};

/// A resource as the store knows it, whatever the version.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Resource {
    /// The API group.
    pub group: String,
    /// The plural name.
    pub plural: String,
}

/// Where an object is inside of its resource: its namespace (empty for none) and its name, in the order of lists.
pub type Key = (String, String);

/// An object as it is stored.
#[derive(Debug)]
pub struct Stored {
    /// The revision of its last write.
    pub revision: u64,
    /// The object, with this revision in its metadata.
    pub value: Arc<Value>,
}

/// Returns where an object is inside of its resource.
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
