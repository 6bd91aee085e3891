//! Objects at rest: as text, which takes a tenth of the memory of the parsed form.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use serde_json::Value;

use crate::storage::resource::Stored;

/// The bytes of text of the objects that stay parsed for the next reader; parsed they take ten times as much.
const AWAKE: usize = 256 << 10;

/// An object as it rests in the store.
#[derive(Debug)]
pub struct Resting {
    /// The revision of its last write.
    pub revision: u64,
    text: Box<[u8]>,
    awake: Mutex<Weak<Stored>>,
}

impl Resting {
    /// Puts an object to rest. It wakes only when it is asked for again after everybody has let go of it.
    pub fn new(stored: &Arc<Stored>) -> Self {
        let text = serde_json::to_vec(&*stored.value).expect("objects are JSON");
        // A copy, since a buffer that has grown keeps the room that it grew to.
        let text = Box::from(text.as_slice());
        Self { revision: stored.revision, text, awake: Mutex::new(Arc::downgrade(stored)) }
    }

    /// Returns the object as JSON text.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// Returns the object.
    pub fn wake(&self) -> Arc<Stored> {
        let mut awake = self.awake.lock();
        if let Some(stored) = awake.upgrade() {
            return stored;
        }
        let value: Value = serde_json::from_slice(&self.text).expect("it was written from JSON");
        let stored = Arc::new(Stored { revision: self.revision, value: Arc::new(value) });
        *awake = Arc::downgrade(&stored);
        stored
    }
}

/// The objects that were written last: they are kept awake, since watchers and the next write are about to ask for them.
#[derive(Debug, Default)]
pub struct Recent {
    objects: VecDeque<(usize, Arc<Stored>)>,
    bytes: usize,
}

impl Recent {
    /// Keeps an object awake for a while.
    pub fn keep(&mut self, resting: &Resting, stored: Arc<Stored>) {
        self.bytes += resting.text.len();
        self.objects.push_back((resting.text.len(), stored));
        while self.bytes > AWAKE {
            let Some((bytes, _)) = self.objects.pop_front() else { break };
            self.bytes -= bytes;
        }
    }
}
