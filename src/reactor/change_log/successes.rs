//! Counts the successes of timers and schedules: calls that only repeat the one before are not logged.

use std::collections::HashMap;

use parking_lot::Mutex;

use crate::handling::{Handler, Outcome};
use crate::object::Body;

/// The numbers of successes, by the unique id of the object and the handler. Schedules have no object.
#[derive(Debug, Default)]
pub(super) struct Successes(Mutex<HashMap<(String, String), u64>>);

impl Successes {
    /// Counts an outcome. Returns the number of successes if it is to be logged: each line stands for ten times as many
    /// as the one before.
    pub(super) fn count(&self, body: Option<&Body>, handler: &Handler, outcome: &Outcome) -> Option<u64> {
        if !outcome.is_final || outcome.error.is_some() {
            return None;
        }
        let mut successes = self.0.lock();
        let count = successes.entry(key(body, handler)).or_default();
        *count += 1;
        Some(*count).filter(|count| *count >= 10 && 10_u64.pow(count.ilog10()) == *count)
    }

    /// Forgets a timer of an object, and returns its number of successes.
    pub(super) fn take(&self, body: &Body, handler: &Handler) -> u64 {
        self.0.lock().remove(&key(Some(body), handler)).unwrap_or_default()
    }
}

fn key(body: Option<&Body>, handler: &Handler) -> (String, String) {
    (body.and_then(Body::uid).unwrap_or_default().to_owned(), handler.id.clone())
}
