//! What has happened, in order, and what was told.

use jiff::Timestamp;
use kopfd::handling::Message;
use kopfd::kit::Clock;
use parking_lot::Mutex;
use serde_json::{Value, json};

/// The moment at which all worlds begin.
pub const BEGINNING: &str = "2020-01-01T00:00:00Z";

/// More than any story needs.
const MOST_ENTRIES: usize = 10_000;

/// One entry: what the vectors show, and what they do not.
#[derive(Debug, Clone, Default)]
pub struct Entry {
    pub shown: Value,
    /// The object before a patch, for message whether operations do the same; as it is when a handler is called; or as an event shows it.
    pub before: Value,
    /// The version of the object in the answer to a request.
    pub version: Option<u64>,
    /// Whether the called handler does not ask to be called again.
    pub is_final: bool,
    /// When the called handler was selected first.
    pub started: Option<Timestamp>,
}

/// The timeline of one world.
#[derive(Debug)]
pub struct Timeline {
    pub clock: Clock,
    beginning: Timestamp,
    entries: Mutex<Vec<Entry>>,
    logs: Mutex<Vec<Value>>,
    details: Mutex<Vec<String>>,
}

impl Timeline {
    /// Returns an empty timeline, with a clock that shows this moment.
    pub fn starting_at(moment: &str) -> Self {
        let beginning = moment.parse().expect("the vectors' moments are well-formed");
        Self {
            clock: Clock::starting_at(beginning),
            beginning,
            entries: Mutex::default(),
            logs: Mutex::default(),
            details: Mutex::default(),
        }
    }

    /// Adds an entry at the present moment, and returns its place.
    ///
    /// # Panics
    /// If there are more than any story needs: virtual time does not end what runs in circles.
    pub fn add(&self, mut entry: Entry) -> usize {
        let mut entries = self.entries.lock();
        assert!(entries.len() < MOST_ENTRIES, "the operator runs in circles");
        entry.shown["t"] = json!(self.clock.now().duration_since(self.beginning).as_secs_f64());
        entries.push(entry);
        entries.len() - 1
    }

    /// Adds the response to the entry of a request.
    pub fn answered(&self, place: usize, response: Value) {
        self.entries.lock()[place].shown["response"] = response;
    }

    /// Adds what was told. The vectors do not show lines with whole bodies in them.
    pub fn tell(&self, message: &Message) {
        let line = message.text.lines().next().unwrap_or_default();
        if line.contains(" is in progress: ") || line.contains(" diff: ") {
            self.details.lock().push(line.to_owned());
        } else {
            self.logs.lock().push(json!([message.level.as_str(), line]));
        }
    }

    /// Returns all entries so far.
    pub fn entries(&self) -> Vec<Entry> {
        self.entries.lock().clone()
    }

    /// Returns the entries that have a key.
    pub fn with(&self, key: &str) -> Vec<Entry> {
        self.entries.lock().iter().filter(|entry| entry.shown.get(key).is_some()).cloned().collect()
    }

    /// Returns all lines so far.
    pub fn logs(&self) -> Vec<Value> {
        self.logs.lock().clone()
    }

    /// Returns all lines with whole bodies or differences in them.
    pub fn details(&self) -> Vec<String> {
        self.details.lock().clone()
    }
}
