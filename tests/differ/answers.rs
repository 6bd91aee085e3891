//! The answers of a real server, as files: one for each topic, one line for each step.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;

use super::case::directory;

/// Returns the answers of a topic, by the names of the cases.
pub fn read(topic: &str) -> BTreeMap<String, Vec<Value>> {
    let path = path(topic);
    let Ok(text) = std::fs::read_to_string(&path) else { return BTreeMap::new() };
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the file of a topic.
pub fn path(topic: &str) -> PathBuf {
    directory().join(format!("answers/{topic}.json"))
}
