//! The events in order, and the log lines.

use jiff::Timestamp;
use kopfd::handling::Message;
use kopfd::kit::Clock;
use parking_lot::Mutex;
use serde_json::{Value, json};

/// The start time of all worlds.
pub(crate) const BEGINNING: &str = "2020-01-01T00:00:00Z";

/// More than any case needs.
const MAX_ENTRIES: usize = 10_000;

/// One entry: the part shown in vectors, and further data.
#[derive(Debug, Clone, Default)]
pub(crate) struct Entry {
    pub(crate) shown: Value,
    /// The object before a patch, to compare the effect of operations; for a call, the object of the handler; for an
    /// event, its object.
    pub(crate) before: Value,
    /// The version of the object in the answer to a request.
    pub(crate) version: Option<u64>,
    /// Whether the called handler does not request another call.
    pub(crate) is_final: bool,
    /// When the called handler was selected first.
    pub(crate) started: Option<Timestamp>,
}

/// The timeline of one world.
#[derive(Debug)]
pub(crate) struct Timeline {
    pub(crate) clock: Clock,
    beginning: Timestamp,
    entries: Mutex<Vec<Entry>>,
    logs: Mutex<Vec<Value>>,
    details: Mutex<Vec<String>>,
}

impl Timeline {
    /// Returns an empty timeline, with a clock that starts at this time.
    pub(crate) fn starting_at(moment: &str) -> Self {
        let beginning = moment.parse().expect("the vectors' moments are well-formed");
        Self {
            clock: Clock::starting_at(beginning),
            beginning,
            entries: Mutex::default(),
            logs: Mutex::default(),
            details: Mutex::default(),
        }
    }

    /// Adds an entry at the current time, and returns its index.
    ///
    /// # Panics
    /// If there are more than any case needs: virtual time does not end a livelock.
    pub(crate) fn add(&self, mut entry: Entry) -> usize {
        let mut entries = self.entries.lock();
        assert!(entries.len() < MAX_ENTRIES, "the operator runs in circles");
        entry.shown["t"] = json!(self.clock.now().duration_since(self.beginning).as_secs_f64());
        entries.push(entry);
        entries.len() - 1
    }

    /// Adds the response to the entry of a request.
    pub(crate) fn answered(&self, place: usize, response: Value) {
        self.entries.lock()[place].shown["response"] = response;
    }

    /// Adds a log line; lines with whole bodies are kept apart, since the vectors do not have them.
    pub(crate) fn tell(&self, message: &Message) {
        let line = message.text.lines().next().unwrap_or_default();
        if line.contains(" is in progress: ") || line.contains(" diff: ") {
            self.details.lock().push(line.to_owned());
        } else {
            self.logs.lock().push(json!([message.level.as_str(), line]));
        }
    }

    /// Returns all entries so far.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        self.entries.lock().clone()
    }

    /// Returns the entries that have a key.
    pub(crate) fn with(&self, key: &str) -> Vec<Entry> {
        self.entries.lock().iter().filter(|entry| entry.shown.get(key).is_some()).cloned().collect()
    }

    /// Returns all lines so far.
    pub(crate) fn logs(&self) -> Vec<Value> {
        self.logs.lock().clone()
    }

    /// Returns all lines with whole bodies or differences in them.
    pub(crate) fn details(&self) -> Vec<String> {
        self.details.lock().clone()
    }
}
