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

/// The settings of trials of new revisions.
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
    let hint = "leave out `canary` for a revision that takes effect for all objects at once";
    u8::try_from(reader.whole_in(item, &(1..=99), hint)?).ok()
}

fn time(reader: &Reader, item: &Item<'_>) -> Option<Duration> {
    reader.duration_in(item, &(MIN_TIME..=MAX_DURATION), "write how long a trial takes, such as `10m`")
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
        reader.error_with(
            item,
            format!("`{}` must be above 1 and at most {MAX_FACTOR}, not {number}", item.name()),
            hint,
        );
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
