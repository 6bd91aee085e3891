//! Writes as watchers see them.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::Value;

use super::{Stored, set_revision};

/// One write: from what, to what.
#[derive(Debug)]
pub struct Change {
    /// The revision that the write has made.
    pub revision: u64,
    /// What was there; none for a creation.
    pub old: Option<Arc<Stored>>,
    /// What is there; none for a removal.
    pub new: Option<Arc<Stored>>,
    pub(super) at: Timestamp,
    pub(super) lines: [OnceLock<Bytes>; 3],
}

/// What a watcher sees of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sight {
    /// The object came into sight.
    Added,
    /// The object has changed.
    Modified,
    /// The object went out of sight.
    Deleted,
}

impl Sight {
    /// Returns the word in watch events.
    pub fn word(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

impl Change {
    /// Returns what a watcher sees that is interested in some objects only, if it sees the change.
    pub fn sight(&self, is_interesting: impl Fn(&Value) -> bool) -> Option<Sight> {
        let was = self.old.as_ref().is_some_and(|old| is_interesting(&old.value));
        let is = self.new.as_ref().is_some_and(|new| is_interesting(&new.value));
        match (was, is) {
            (false, false) => None,
            (false, true) => Some(Sight::Added),
            (true, true) => Some(Sight::Modified),
            (true, false) => Some(Sight::Deleted),
        }
    }

    /// Returns the object of an event: the new state, or for what went out of sight the old state with the new revision.
    pub fn object(&self, sight: Sight) -> Value {
        let stored = if sight == Sight::Deleted { self.old.as_ref() } else { self.new.as_ref() };
        let mut value = stored.map_or(Value::Null, |stored| (*stored.value).clone());
        if sight == Sight::Deleted {
            set_revision(&mut value, self.revision);
        }
        value
    }

    /// Returns the line of an event in the stored form, which is made once for all watchers.
    pub fn line(&self, sight: Sight) -> Bytes {
        self.lines[sight as usize].get_or_init(|| line(sight.word(), &self.object(sight))).clone()
    }
}

/// Returns the line of a watch event.
pub fn line(word: &str, object: &Value) -> Bytes {
    let mut text = format!("{{\"type\":\"{word}\",\"object\":");
    text.push_str(&object.to_string());
    text.push_str("}\n");
    Bytes::from(text)
}
