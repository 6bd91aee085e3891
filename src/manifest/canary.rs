//! The trials of new revisions in the settings.

use std::time::Duration;

use serde_json::{Value, json};

use crate::handling::trial::TrialLimits;

use super::reader::{Fields, Item, Reader};
use super::tree::Kind;
use super::values::MAX_DURATION;

/// The largest factor: beyond it, `null` says better what is meant.
const MAX_FACTOR: f64 = 1_000.0;

/// The shortest trial.
const MIN_TIME: Duration = Duration::from_secs(1);

/// How new revisions are tried.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Canary {
    /// The share of the objects, from 1 to 99.
    pub percent: u8,
    /// How long the trial takes.
    pub time: Duration,
    /// How much worse the revision may be.
    pub rollback: TrialLimits,
}

impl Default for Canary {
    fn default() -> Self {
        Self { percent: 5, time: Duration::from_mins(10), rollback: TrialLimits::default() }
    }
}

/// Reads `settings.reload.canary`.
pub(super) fn read(reader: &Reader, item: &Item<'_>) -> Option<Canary> {
    let fields = reader.fields(item, "the canary", &["percent", "for", "rollback"])?;
    let mut canary = Canary::default();
    reader.set(&fields, "percent", &mut canary.percent, percent);
    reader.set(&fields, "for", &mut canary.time, time);
    if let Some(item) = fields.get("rollback")
        && let Some(fields) = reader.fields(&item, "the rollback", &["errors", "writes", "time"])
    {
        limits(reader, &fields, &mut canary.rollback);
    }
    Some(canary)
}

fn limits(reader: &Reader, fields: &Fields<'_>, limits: &mut TrialLimits) {
    reader.set_option(fields, "errors", &mut limits.errors, factor);
    reader.set_option(fields, "writes", &mut limits.writes, factor);
    reader.set_option(fields, "time", &mut limits.time, factor);
}

fn percent(reader: &Reader, item: &Item<'_>) -> Option<u8> {
    let percent = reader.whole(item, 1)?;
    if percent > 99 {
        let hint = "write a number from 1 to 99, or leave out `canary`: then a revision takes effect for all objects at once";
        reader.error_with(item, format!("`percent` must be at most 99, not {percent}"), hint);
        return None;
    }
    u8::try_from(percent).ok()
}

fn time(reader: &Reader, item: &Item<'_>) -> Option<Duration> {
    let time = reader.duration(item)?;
    if time < MIN_TIME {
        reader.error_with(item, "`for` must be at least 1s", "write how long a trial takes, such as `10m`");
        return None;
    }
    Some(time.min(MAX_DURATION))
}

/// Returns a factor of the figure before.
fn factor(reader: &Reader, item: &Item<'_>) -> Option<f64> {
    let hint = "write how many times the figure before is allowed, such as `2`, or `null` to compare nothing";
    let Kind::Number(number) = &item.node.kind else {
        reader.error_with(item, format!("`{}` must be a number", item.name()), hint);
        return None;
    };
    let factor = number.as_f64().filter(|factor| *factor > 1.0 && *factor <= MAX_FACTOR);
    if factor.is_none() {
        reader.error_with(item, format!("`{}` must be above 1 and at most {MAX_FACTOR}, not {number}", item.name()), hint);
    }
    factor
}

/// Returns the tree of the settings.
pub(super) fn to_value(canary: &Canary) -> Value {
    let Canary { percent, time, rollback: TrialLimits { errors, writes, time: duration } } = canary;
    json!({
        "percent": percent,
        "for": time.as_secs_f64(),
        "rollback": { "errors": errors, "writes": writes, "time": duration },
    })
}
