//! Objects as text, which takes a tenth of the memory of the parsed form.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use serde_json::Value;

use crate::storage::resource::Stored;

/// Limit of text bytes of objects that stay parsed for the next reader; parsed objects take ten times as much.
const MAX_PARSED_BYTES: usize = 256 << 10;

/// An object in the store, as text.
#[derive(Debug)]
pub(super) struct SerializedObject {
    /// The revision of its last write.
    pub revision: u64,
    text: Box<[u8]>,
    parsed_form: Mutex<Weak<Stored>>,
}

impl SerializedObject {
    /// Stores an object as text. It is parsed again only if it is requested after all references to the parsed form
    /// were dropped.
    pub(super) fn new(stored: &Arc<Stored>) -> Self {
        let text = serde_json::to_vec(&*stored.value).expect("objects are JSON");
        // A copy, since a grown buffer keeps its capacity.
        let text = Box::from(text.as_slice());
        Self { revision: stored.revision, text, parsed_form: Mutex::new(Arc::downgrade(stored)) }
    }

    /// Returns the object as JSON text.
    pub(super) fn text(&self) -> &[u8] {
        &self.text
    }

    /// Returns the object.
    pub(super) fn parsed(&self) -> Arc<Stored> {
        let mut parsed_form = self.parsed_form.lock();
        if let Some(stored) = parsed_form.upgrade() {
            return stored;
        }
        let value: Value = serde_json::from_slice(&self.text).expect("it was written from JSON");
        let stored = Arc::new(Stored { revision: self.revision, value: Arc::new(value) });
        *parsed_form = Arc::downgrade(&stored);
        stored
    }
}

/// The last written objects, which stay parsed, since watchers and the next write will request them.
#[derive(Debug, Default)]
pub(super) struct Recent {
    objects: VecDeque<(usize, Arc<Stored>)>,
    bytes: usize,
}

impl Recent {
    /// Keeps an object parsed for a while.
    pub(super) fn keep(&mut self, serialized: &SerializedObject, stored: Arc<Stored>) {
        self.bytes += serialized.text.len();
        self.objects.push_back((serialized.text.len(), stored));
        while self.bytes > MAX_PARSED_BYTES {
            let Some((bytes, _)) = self.objects.pop_front() else { break };
            self.bytes -= bytes;
        }
    }
}
