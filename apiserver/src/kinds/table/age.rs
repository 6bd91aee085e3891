//! Ages in a readable form.

use jiff::Timestamp;
use serde_json::Value;

/// Returns the time since a moment, in one or two units.
pub(super) fn age(since: &Value, now: Timestamp) -> String {
    match since {
        Value::String(text) => text
            .parse::<Timestamp>()
            .map_or_else(|_| "<invalid>".to_owned(), |since| span(now.as_second() - since.as_second())),
        _ => "<unknown>".to_owned(),
    }
}

/// Formats seconds in one or two units.
pub(super) fn span(seconds: i64) -> String {
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let two = |first: i64, unit: &str, second: i64, lesser: &str| {
        if second == 0 { format!("{first}{unit}") } else { format!("{first}{unit}{second}{lesser}") }
    };
    match (seconds, minutes, hours) {
        (..=-2, ..) => "<invalid>".to_owned(),
        (-1, ..) => "0s".to_owned(),
        (..120, ..) => format!("{seconds}s"),
        (_, ..10, _) => two(minutes, "m", seconds % 60, "s"),
        (_, ..180, _) => format!("{minutes}m"),
        (_, _, ..8) => two(hours, "h", minutes % 60, "m"),
        (_, _, ..48) => format!("{hours}h"),
        (_, _, ..192) => two(hours / 24, "d", hours % 24, "h"),
        (_, _, ..17_520) => format!("{}d", hours / 24),
        (_, _, ..70_080) => two(hours / 24 / 365, "y", hours / 24 % 365, "d"),
        _ => format!("{}y", hours / 24 / 365),
    }
}
