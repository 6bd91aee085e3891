//! Moments and durations.

use std::sync::LazyLock;

use jiff::civil::Date;
use jiff::tz::{Offset, TimeZone};
use jiff::{Timestamp, Zoned};
use regex::Regex;

use crate::cel::error::{Error, failed, no_such_overload};
use crate::cel::function::{Function, Outcome};
use crate::cel::value::Value;
use crate::go;

const SECOND: i128 = 1_000_000_000;
/// The words for units in texts of the format `duration`; longer forms of the long ones are accepted, too.
const WORDS_OF_UNITS: [(&str, i128); 19] = [
    ("ns", 1),
    ("nano", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("micro", 1_000),
    ("ms", 1_000_000),
    ("milli", 1_000_000),
    ("s", SECOND),
    ("sec", SECOND),
    ("m", 60 * SECOND),
    ("min", 60 * SECOND),
    ("h", 3_600 * SECOND),
    ("hr", 3_600 * SECOND),
    ("hour", 3_600 * SECOND),
    ("d", 86_400 * SECOND),
    ("day", 86_400 * SECOND),
    ("w", 7 * 86_400 * SECOND),
    ("wk", 7 * 86_400 * SECOND),
    ("week", 7 * 86_400 * SECOND),
];
static MOMENT: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}([.,]\d+)?(Z|[+-]\d{2}:\d{2})$").expect("the pattern is valid")
});

pub(super) fn of_name(name: &str) -> Option<Function> {
    Some(match name {
        "getFullYear" => |arguments| part(arguments, |moment| i64::from(moment.year())),
        "getMonth" => |arguments| part(arguments, |moment| i64::from(moment.month()) - 1),
        "getDayOfYear" => |arguments| part(arguments, |moment| i64::from(moment.day_of_year()) - 1),
        "getDayOfMonth" => |arguments| part(arguments, |moment| i64::from(moment.day()) - 1),
        "getDate" => |arguments| part(arguments, |moment| i64::from(moment.day())),
        "getDayOfWeek" => |arguments| part(arguments, |moment| i64::from(moment.weekday().to_sunday_zero_offset())),
        "getHours" => |arguments| part_or_total(arguments, |moment| i64::from(moment.hour()), 3_600 * SECOND),
        "getMinutes" => |arguments| part_or_total(arguments, |moment| i64::from(moment.minute()), 60 * SECOND),
        "getSeconds" => |arguments| part_or_total(arguments, |moment| i64::from(moment.second()), SECOND),
        "getMilliseconds" => |arguments| part_or_total(arguments, |moment| i64::from(moment.millisecond()), 1_000_000),
        _ => return None,
    })
}

fn part(arguments: &[Value], part: fn(&Zoned) -> i64) -> Outcome {
    let (moment, zone) = match arguments {
        [Value::Timestamp(moment)] => (moment, TimeZone::UTC),
        [Value::Timestamp(moment), Value::String(zone)] => (moment, time_zone(zone)?),
        _ => return Err(no_such_overload()),
    };
    Ok(Value::Int(part(&moment.to_zoned(zone))))
}

/// Returns a part of a moment. For a duration, which has no parts, returns its total in the unit.
fn part_or_total(arguments: &[Value], of_moment: fn(&Zoned) -> i64, unit: i128) -> Outcome {
    match arguments {
        [Value::Duration(nanoseconds)] => Ok(Value::Int((i128::from(*nanoseconds) / unit) as i64)),
        _ => part(arguments, of_moment),
    }
}

/// Returns a time zone by its name, or by hours and minutes such as `-08:00`.
fn time_zone(name: &str) -> Result<TimeZone, Error> {
    let unknown = || failed(format!("unknown time zone {name}"));
    let Some((hours, minutes)) = name.split_once(':') else {
        return if name.is_empty() || name == "UTC" {
            Ok(TimeZone::UTC)
        } else {
            TimeZone::get(name).map_err(|_| unknown())
        };
    };
    let number =
        |text: &str| text.parse::<i32>().map_err(|_| failed(format!("strconv.Atoi: parsing {text:?}: invalid syntax")));
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    let minutes = if name.starts_with('-') { hours * 60 - minutes } else { hours * 60 + minutes };
    Ok(TimeZone::fixed(Offset::from_seconds(minutes * 60).map_err(|_| unknown())?))
}

/// Reads a duration as Go does: numbers with units, such as `1h30m`. Returns its nanoseconds.
///
/// # Errors
/// If the text is not a duration, or is out of range.
pub(crate) fn parse_duration(text: &str) -> Result<i64, Error> {
    let nanoseconds = go::duration(text).and_then(|duration| i64::try_from(duration.as_nanos()).ok());
    nanoseconds.ok_or_else(|| failed(format!("time: invalid duration {text:?}")))
}

/// Reads a moment of RFC 3339.
///
/// # Errors
/// If the text is not a moment.
pub(crate) fn parse_timestamp(text: &str) -> Result<Timestamp, Error> {
    let wrong = || failed(format!("cannot parse {text:?} as a moment"));
    if !MOMENT.is_match(text) || text.contains(":60") {
        return Err(wrong());
    }
    text.parse().map_err(|_| wrong())
}

/// Returns the nanoseconds of a text of the format `duration`: as Go writes durations, or numbers with words such as `3
/// days`.
pub(crate) fn duration(text: &str) -> Option<i64> {
    static WORDS: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"([0-9]+)\s*([A-Za-zµ]+)").expect("the pattern is valid"));
    if let Ok(duration) = parse_duration(text) {
        return Some(duration);
    }
    let mut total = None;
    for found in WORDS.captures_iter(text) {
        let number: i128 = found[1].parse().ok()?;
        let unit = found[2].to_lowercase();
        let (_, nanoseconds) =
            WORDS_OF_UNITS.into_iter().find(|(word, _)| unit == *word || word.len() > 2 && unit.starts_with(word))?;
        total = Some(total.unwrap_or(0) + number * nanoseconds);
    }
    total.and_then(|total| i64::try_from(total).ok())
}

/// Returns the moment of a text of the format `date-time`, which is slightly less strict.
pub(crate) fn moment(text: &str) -> Option<Timestamp> {
    parse_timestamp(&text.to_ascii_uppercase().replace(' ', "T")).ok()
}

/// Returns the start of a date of the format `date`.
pub(crate) fn date(text: &str) -> Option<Timestamp> {
    let date: Date = text.parse().ok()?;
    Some(date.to_zoned(TimeZone::UTC).ok()?.timestamp())
}

/// Tells whether a moment is in the years 1 to 9999.
pub(crate) fn in_range(moment: Timestamp) -> bool {
    (-62_135_596_800..=253_402_300_799).contains(&moment.as_second())
}

/// Returns a duration as its seconds, such as `5400s`.
pub(super) fn print_seconds(nanoseconds: i64) -> String {
    format!("{}s", nanoseconds as f64 / 1e9)
}

/// Returns a moment in RFC 3339.
pub(super) fn print_timestamp(moment: Timestamp) -> String {
    moment.to_string()
}
