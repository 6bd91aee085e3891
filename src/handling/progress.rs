//! The progress of one handler on one object, and how an attempt changes it.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;

use super::cause::Reason;
use super::outcome::Outcome;

/// A time in a record: an instant, and the UTC offset it was written with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// The instant, in whole microseconds.
    pub at: Timestamp,
    /// Seconds east of UTC.
    pub offset: i32,
}

impl Moment {
    /// Returns the moment in UTC, cut to the microseconds of records.
    pub fn utc(at: Timestamp) -> Self {
        let at = Timestamp::from_microsecond(at.as_microsecond()).unwrap_or(at);
        Self { at, offset: 0 }
    }

    /// Returns the moment after a delay, or the maximum.
    pub fn after(at: Timestamp, delay: Duration) -> Self {
        Self::utc(at.checked_add(delay).unwrap_or(Timestamp::MAX))
    }
}

/// Returns the time from one instant to another; zero if the second one is earlier.
pub fn time_between(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or_default()
}

/// The progress of one handler on one object.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// When the handler was selected first, not necessarily invoked.
    pub started: Moment,
    /// When it finished.
    pub stopped: Option<Moment>,
    /// The earliest time of the next attempt.
    pub delayed: Option<Moment>,
    /// The reason of the cause; records of old versions of kopf have none.
    pub purpose: Option<Reason>,
    /// The number of attempts made.
    pub retries: u64,
    /// Whether it succeeded, or failed with an ignored error.
    pub success: bool,
    /// Whether it failed permanently.
    pub failure: bool,
    /// The text of the last attempt's error.
    pub message: Option<String>,
    /// The ids of all sub-handlers ever registered below it, on all levels, sorted.
    pub subrefs: Vec<String>,
}

impl Record {
    /// Returns the record of a handler that was just selected.
    pub fn fresh(now: Timestamp, purpose: Option<Reason>) -> Self {
        Self {
            started: Moment::utc(now),
            stopped: None,
            delayed: None,
            purpose,
            retries: 0,
            success: false,
            failure: false,
            message: None,
            subrefs: Vec::new(),
        }
    }

    /// Tells whether no attempt will follow.
    pub fn is_finished(&self) -> bool {
        self.success || self.failure
    }

    /// Tells whether the next attempt may be made: the delay ends now or has ended.
    pub fn is_awake(&self, now: Timestamp) -> bool {
        !self.is_finished() && self.delayed.is_none_or(|delayed| delayed.at <= now)
    }

    /// Returns the time since the start.
    pub fn runtime(&self, now: Timestamp) -> Duration {
        time_between(self.started.at, now)
    }

    /// Returns the time until the next attempt.
    pub fn delay(&self, now: Timestamp) -> Duration {
        self.delayed.map_or(Duration::ZERO, |delayed| time_between(now, delayed.at))
    }

    /// Returns the record after one more attempt.
    pub fn after(&self, outcome: &Outcome, now: Timestamp) -> Self {
        let is_failed = outcome.is_final && outcome.error.is_some();
        Self {
            started: self.started,
            stopped: self.stopped.or_else(|| outcome.is_final.then(|| Moment::utc(now))),
            delayed: outcome.delay.filter(|_| !outcome.is_final).map(|delay| Moment::after(now, delay)),
            purpose: self.purpose,
            retries: self.retries + 1,
            success: outcome.is_final && !is_failed,
            failure: is_failed,
            message: outcome.error.clone(),
            subrefs: merged(&self.subrefs, &outcome.subrefs),
        }
    }
}

/// Returns the sorted union of two lists of ids.
pub fn merged(some: &[String], more: &[String]) -> Vec<String> {
    let mut all: Vec<String> = some.iter().chain(more).cloned().collect();
    all.sort();
    all.dedup();
    all
}

/// Access to the stored records of an object.
pub trait Records: Send + Sync {
    /// Returns the stored record of a handler.
    ///
    /// # Errors
    /// If the value under the handler's key is not a record.
    fn record(&self, id: &str) -> Result<Option<Record>, BrokenRecord>;

    /// Tells whether the stored text of a record is the one that would be written. Other records are rewritten, changed
    /// or not.
    fn is_exact(&self, _id: &str, _record: &Record) -> bool {
        true
    }
}

/// A stored value on the object is invalid: neither this engine nor kopf has written it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot read {place}: {problem}")]
pub struct BrokenRecord {
    /// The annotation or field.
    pub place: String,
    /// The problem.
    pub problem: String,
}

/// One handler's entry in the state of a cycle.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The handler's id.
    pub id: String,
    /// The current record.
    pub record: Record,
    /// The record as read; `None` if it must be written anyway.
    pub stored: Option<Record>,
    /// Whether the handler takes part in this cycle; the others are only counted and purged.
    pub active: bool,
}

/// The records of one cycle, in the order of insertion.
#[derive(Debug, Clone, Default)]
pub struct State {
    entries: Vec<Entry>,
}

impl State {
    /// Returns the entry of a handler.
    pub fn get(&self, id: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.id == id)
    }

    /// Returns the entry of a handler for changing it.
    pub fn get_mut(&mut self, id: &str) -> Option<&mut Entry> {
        self.entries.iter_mut().find(|entry| entry.id == id)
    }

    /// Loads the stored record of a handler, if there is one, as inactive.
    ///
    /// # Errors
    /// If the stored text is not a record.
    pub fn load(&mut self, id: &str, records: &dyn Records) -> Result<(), BrokenRecord> {
        if self.get(id).is_none()
            && let Some(record) = records.record(id)?
        {
            let stored = records.is_exact(id, &record).then(|| record.clone());
            self.entries.push(Entry { id: id.to_owned(), stored, record, active: false });
        }
        Ok(())
    }

    /// Makes a handler take part, with a fresh record if it has none.
    pub fn activate(&mut self, id: &str, now: Timestamp, purpose: Option<Reason>) {
        match self.get_mut(id) {
            Some(entry) => entry.active = true,
            None => {
                self.entries.push(Entry {
                    id: id.to_owned(),
                    record: Record::fresh(now, purpose),
                    stored: None,
                    active: true,
                });
            }
        }
    }

    /// Returns all entries.
    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }

    /// Returns the records that differ from the stored ones.
    pub fn changed(&self) -> Vec<(String, Record)> {
        let is_changed = |entry: &&Entry| entry.stored.as_ref() != Some(&entry.record);
        self.entries.iter().filter(is_changed).map(|entry| (entry.id.clone(), entry.record.clone())).collect()
    }

    /// Tells whether every handler that takes part has finished.
    pub fn is_done(&self) -> bool {
        self.active().all(Record::is_finished)
    }

    /// Returns the times until the next attempts of all unfinished handlers.
    pub fn delays(&self, now: Timestamp) -> Vec<Duration> {
        self.active().filter(|record| !record.is_finished()).map(|record| record.delay(now)).collect()
    }

    fn active(&self) -> impl Iterator<Item = &Record> {
        self.entries.iter().filter(|entry| entry.active).map(|entry| &entry.record)
    }

    /// Counts the records of a purpose (or of none): succeeded, failed, and unfinished.
    pub fn counts(&self, is_counted: impl Fn(Option<Reason>) -> bool) -> Counts {
        let mut counts = Counts::default();
        for entry in self.entries.iter().filter(|entry| is_counted(entry.record.purpose)) {
            match (entry.record.success, entry.record.failure) {
                (true, _) => counts.succeeded += 1,
                (_, true) => counts.failed += 1,
                _ => counts.left += 1,
            }
        }
        counts
    }

    /// Returns the ids of all records and of their sub-handlers.
    pub fn all_ids(&self) -> impl Iterator<Item = &str> {
        self.entries
            .iter()
            .flat_map(|entry| std::iter::once(entry.id.as_str()).chain(entry.record.subrefs.iter().map(String::as_str)))
    }
}

/// Counts of records by state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Succeeded.
    pub succeeded: usize,
    /// Failed permanently.
    pub failed: usize,
    /// Not finished.
    pub left: usize,
}

impl fmt::Display for Counts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} succeeded; {} failed", self.succeeded, self.failed)
    }
}
