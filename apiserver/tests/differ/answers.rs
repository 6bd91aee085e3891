//! The recorded answers of a real server: one file for each topic, one line for each step.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;

use super::case::directory;
use super::normal::sort_causes;

/// The answers to the steps of cases, by the names of the cases.
pub(crate) type Answers = BTreeMap<String, Vec<Value>>;

/// Returns the answers of a topic.
pub(crate) fn read(topic: &str) -> Answers {
    let path = path(topic);
    let Ok(text) = std::fs::read_to_string(&path) else { return Answers::new() };
    let mut answers: Answers =
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    answers.values_mut().flatten().for_each(sort_causes);
    answers
}

/// Returns the file of a topic.
pub(crate) fn path(topic: &str) -> PathBuf {
    directory().join(format!("answers/{topic}.json"))
}
