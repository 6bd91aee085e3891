//! Times in other forms: `time(text, format)`, `time(seconds)`, `time.format(format)`, and the parts of a time.

use jiff::Timestamp;
use jiff::fmt::strtime::{self, BrokenDownTime};
use jiff::tz::TimeZone;
use rhai::{Dynamic, Engine};

use crate::script::functions::options::{placed, text};
use crate::script::functions::support::{Given, Native, Thrown, may_have_bytes, shown, unreadable, wrong};
use crate::script::runtime::bounded;
use crate::script::values::time::Time;

/// Limit of the bytes of a format: widths in it are limited by the library, and a sign becomes at most this many bytes.
const MAX_FORMAT: usize = 256;
const BYTES_PER_SIGN: usize = 256;

/// Registers the functions.
pub(super) fn register(engine: &mut Engine) {
    engine.register_fn("time", |native: Native<'_>, given: Dynamic, format: Dynamic| {
        placed(&native, parse(&given, &format))
    });
    pure!(engine, "format", |native: Native<'_>, time: &mut Time, format: Dynamic| placed(
        &native,
        format_in(&native, *time, &format, None)
    ));
    pure!(engine, "format", |native: Native<'_>, time: &mut Time, format: Dynamic, zone: Dynamic| {
        placed(&native, format_in(&native, *time, &format, Some(&zone)))
    });
    engine.register_get("unix", |time: &mut Time| time.0.duration_since(Timestamp::UNIX_EPOCH).as_secs_f64());
    let parts: [(&str, Part); 8] = [
        ("year", |time| i64::from(time.year())),
        ("month", |time| i64::from(time.month())),
        ("day", |time| i64::from(time.day())),
        ("hour", |time| i64::from(time.hour())),
        ("minute", |time| i64::from(time.minute())),
        ("second", |time| i64::from(time.second())),
        // As in Python, Monday is 0.
        ("weekday", |time| i64::from(time.weekday().to_monday_zero_offset())),
        ("day_of_year", |time| i64::from(time.day_of_year())),
    ];
    for (name, part) in parts {
        engine.register_get(name, move |time: &mut Time| part(time.0.to_zoned(TimeZone::UTC)));
    }
}

/// Returns a part of a time.
type Part = fn(jiff::Zoned) -> i64;

fn pattern(function: &str, format: &Dynamic) -> Result<String, Thrown> {
    let format = text(function, "the format", format)?;
    if format.len() > MAX_FORMAT {
        return Err(wrong(function, format!("a format has at most {MAX_FORMAT} bytes")));
    }
    Ok(format)
}

/// `time(text, format)`: the moment of a text in a format of `strptime`, such as `"%d.%m.%Y"`. Without a zone it is in
/// UTC; without a time it is the beginning of the day.
fn parse(given: &Dynamic, format: &Dynamic) -> Given {
    let (written, format) = (text("time", "the time", given)?, pattern("time", format)?);
    let problem = |error: &dyn std::fmt::Display| {
        unreadable("time", format!("{:?} is no time of the format {format:?}: {error}", bounded::shortened(&written)))
    };
    let mut parts: BrokenDownTime = strtime::parse(&format, &written).map_err(|error| problem(&error))?;
    if parts.offset().is_none() && parts.iana_time_zone().is_none() && parts.timestamp().is_none() {
        parts.set_offset(Some(jiff::tz::Offset::UTC));
    }
    if parts.hour().is_none() {
        parts.set_hour(Some(0)).map_err(|error| problem(&error))?;
    }
    let found = parts.to_timestamp().or_else(|_| parts.to_zoned().map(|zoned| zoned.timestamp()));
    found.map(|moment| Dynamic::from(Time(moment))).map_err(|error| problem(&error))
}

/// `time.format(format, zone)`: the time in a format of `strftime`, in UTC or in a time zone such as `"Europe/Berlin"`.
fn format_in(native: &Native<'_>, time: Time, format: &Dynamic, zone: Option<&Dynamic>) -> Given {
    let format = pattern("format", format)?;
    let zone = match zone {
        None => TimeZone::UTC,
        Some(zone) => {
            let name = text("format", "the time zone", zone)?;
            TimeZone::get(&name).map_err(|_| wrong("format", format!("there is no time zone {}", shown(zone))))?
        }
    };
    may_have_bytes(native, format.len() * BYTES_PER_SIGN)?;
    let formatted = strtime::format(&format, &time.0.to_zoned(zone));
    formatted.map(Into::into).map_err(|error| wrong("format", format!("{format:?} is no format of times: {error}")))
}
