//! The stored form of schedules: one item of a ConfigMap for each, with the time until which its ticks are done.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::handling::schedule::CronSchedule;

/// The stored state of a schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduleRecord {
    /// The cron expression.
    pub cron: String,
    /// The name of the time zone.
    pub timezone: String,
    /// All ticks up to this time are done.
    pub done_until: Timestamp,
}

impl ScheduleRecord {
    /// Returns the record of a schedule.
    pub fn of(schedule: &CronSchedule, done_until: Timestamp) -> Self {
        let ticks = &schedule.ticks;
        let timezone = ticks.timezone.iana_name().unwrap_or("UTC").to_owned();
        Self { cron: ticks.cron.as_str().to_owned(), timezone, done_until }
    }

    /// Reads a stored item; `None` if it is invalid.
    pub fn read(text: &str) -> Option<Self> {
        let stored: Value = serde_json::from_str(text).ok()?;
        let field = |key: &str| stored.get(key)?.as_str().map(str::to_owned);
        Some(Self { cron: field("cron")?, timezone: field("timezone")?, done_until: field("doneUntil")?.parse().ok()? })
    }

    /// Returns the stored item.
    pub fn write(&self) -> String {
        let Self { cron, timezone, done_until } = self;
        json!({"cron": cron, "timezone": timezone, "doneUntil": done_until.to_string()}).to_string()
    }

    /// Returns the time until which the ticks of a schedule are done; `None` if the record is of other ticks: those of
    /// a changed schedule were not missed before.
    pub fn done_until(&self, schedule: &CronSchedule) -> Option<Timestamp> {
        (*self == Self::of(schedule, self.done_until)).then_some(self.done_until)
    }
}

/// Returns the name of the ConfigMap of an operator.
pub(crate) fn config_map(operator: &str) -> String {
    format!("{operator}.schedules.kopfd.dev")
}

/// Returns the key of a schedule in the ConfigMap. Keys have only letters, digits, `-`, `_` and `.`; other characters
/// of ids, and dots, are written as a dot with their hexadecimal number.
pub(crate) fn key(id: &str) -> String {
    id.chars().fold(String::new(), |key, c| match c {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '_' => key + c.encode_utf8(&mut [0; 4]),
        other => format!("{key}.{:02x}", u32::from(other)),
    })
}

#[cfg(test)]
mod tests {
    use std::str::FromStr as _;

    use croner::Cron;
    use jiff::tz::TimeZone;

    use super::*;
    use crate::handling::timer::Ticks;

    const STORED: &str = r#"{"cron":"0 3 * * *","doneUntil":"2020-01-01T02:00:00Z","timezone":"Europe/Berlin"}"#;

    fn schedule(cron: &str, zone: &str) -> CronSchedule {
        CronSchedule {
            ticks: Ticks { cron: Cron::from_str(cron).unwrap(), timezone: TimeZone::get(zone).unwrap() },
            catches_up: true,
        }
    }

    #[test]
    fn a_stored_record_is_read_as_it_was_written() {
        let done_until: Timestamp = "2020-01-01T02:00:00Z".parse().unwrap();
        let record = ScheduleRecord::of(&schedule("0 3 * * *", "Europe/Berlin"), done_until);
        assert_eq!(record.write(), STORED);
        assert_eq!(ScheduleRecord::read(STORED), Some(record));
        assert_eq!(ScheduleRecord::read("yesterday"), None);
    }

    #[test]
    fn a_record_of_other_ticks_does_not_count() {
        let record = ScheduleRecord::read(STORED).unwrap();
        assert_eq!(record.done_until(&schedule("0 3 * * *", "Europe/Berlin")), Some(record.done_until));
        assert_eq!(record.done_until(&schedule("0 4 * * *", "Europe/Berlin")), None);
        assert_eq!(record.done_until(&schedule("0 3 * * *", "UTC")), None);
    }

    #[test]
    fn different_ids_have_different_keys() {
        assert_eq!(["nightly_report", "a-B.c", "a/b<c>"].map(key), ["nightly_report", "a-B.2ec", "a.2fb.3cc.3e"]);
    }
}
