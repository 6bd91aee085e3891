//! Writes in the form of watch events.

use std::sync::Arc;

use bytes::{BufMut as _, Bytes, BytesMut};
use jiff::Timestamp;
use serde_json::Value;

use super::serialized::SerializedObject;
use crate::storage::resource::{Key, Stored, set_revision};

/// One write: the states before and after.
#[derive(Debug)]
pub struct Change {
    /// The revision of the write.
    pub revision: u64,
    pub(super) key: Key,
    pub(super) old: Option<Arc<SerializedObject>>,
    pub(super) new: Option<Arc<SerializedObject>>,
    pub(super) at: Timestamp,
}

/// The type of a change for a watcher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchEventType {
    /// The object was added to the selection.
    Added,
    /// The object has changed.
    Modified,
    /// The object was removed from the selection.
    Deleted,
}

impl WatchEventType {
    fn of(was: bool, is: bool) -> Option<Self> {
        match (was, is) {
            (false, false) => None,
            (false, true) => Some(Self::Added),
            (true, true) => Some(Self::Modified),
            (true, false) => Some(Self::Deleted),
        }
    }

    /// Returns the name in watch events.
    pub fn name(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

impl Change {
    /// Returns the bytes that it takes: the state before belongs to the previous change.
    pub(super) fn bytes(&self) -> usize {
        self.new.as_ref().map_or(0, |new| new.text().len())
    }

    /// Returns the namespace and the name of the object.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Returns the revisions of the states before and after.
    pub fn revisions(&self) -> impl Iterator<Item = u64> {
        self.old.iter().chain(&self.new).map(|state| state.revision)
    }

    /// Returns the state before; `None` for a creation.
    pub fn before(&self) -> Option<Arc<Stored>> {
        self.old.as_ref().map(|old| old.parsed())
    }

    /// Returns the state after; `None` for a removal.
    pub fn after(&self) -> Option<Arc<Stored>> {
        self.new.as_ref().map(|new| new.parsed())
    }

    /// Returns the event type for a watcher with a selection; `None` if the change does not concern it.
    pub fn event_type(&self, is_interesting: impl Fn(&Value) -> bool) -> Option<WatchEventType> {
        let was = self.before().is_some_and(|old| is_interesting(&old.value));
        let is = self.after().is_some_and(|new| is_interesting(&new.value));
        WatchEventType::of(was, is)
    }

    /// Returns the event type for a watcher without selectors. The object is not parsed.
    pub fn event_type_without_selection(&self) -> Option<WatchEventType> {
        WatchEventType::of(self.old.is_some(), self.new.is_some())
    }

    /// Returns the object of an event: the new state, or for a removal the old state with the new revision.
    pub fn object(&self, event_type: WatchEventType) -> Value {
        let stored = if event_type == WatchEventType::Deleted { self.before() } else { self.after() };
        let mut value = stored.map_or(Value::Null, |stored| (*stored.value).clone());
        if event_type == WatchEventType::Deleted {
            set_revision(&mut value, self.revision);
        }
        value
    }

    /// Writes the line of an event in the stored form.
    pub fn write_line(&self, event_type: WatchEventType, out: &mut BytesMut) {
        match &self.new {
            Some(new) if event_type != WatchEventType::Deleted => {
                out.put_slice(b"{\"type\":\"");
                out.put_slice(event_type.name().as_bytes());
                out.put_slice(b"\",\"object\":");
                out.put_slice(new.text());
                out.put_slice(b"}\n");
            }
            _ => out.put_slice(&line(event_type.name(), &self.object(event_type))),
        }
    }
}

/// Returns the line of a watch event.
pub fn line(word: &str, object: &Value) -> Bytes {
    let mut text = format!("{{\"type\":\"{word}\",\"object\":");
    text.push_str(&object.to_string());
    text.push_str("}\n");
    Bytes::from(text)
}
