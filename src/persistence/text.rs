//! JSON and times in the form of Python, as stored on objects.

use std::fmt::Write as _;

use jiff::Timestamp;
use jiff::fmt::temporal::Pieces;
use jiff::tz::Offset;
use serde_json::{Number, Value};

use crate::handling::Moment;

/// Returns JSON without white space, with all characters except printable ASCII escaped, and floats in the form of
/// Python.
pub fn json(value: &Value) -> String {
    let mut text = String::new();
    write_value(&mut text, value);
    text
}

fn write_value(text: &mut String, value: &Value) {
    match value {
        Value::Null => text.push_str("null"),
        Value::Bool(flag) => text.push_str(if *flag { "true" } else { "false" }),
        Value::Number(number) => write_number(text, number),
        Value::String(string) => write_string(text, string),
        Value::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                write_value(text, item);
            }
            text.push(']');
        }
        Value::Object(map) => write_entries(text, map.iter().map(|(key, value)| (key.as_str(), value))),
    }
}

/// Writes a mapping in the order of its entries.
pub fn write_entries<'a>(text: &mut String, entries: impl Iterator<Item = (&'a str, &'a Value)>) {
    text.push('{');
    for (index, (key, value)) in entries.enumerate() {
        if index > 0 {
            text.push(',');
        }
        write_string(text, key);
        text.push(':');
        write_value(text, value);
    }
    text.push('}');
}

fn write_string(text: &mut String, string: &str) {
    text.push('"');
    let mut rest = string;
    while let Some(at) = rest.bytes().position(is_escaped) {
        let (plain, escaped) = rest.split_at(at);
        text.push_str(plain);
        let mut characters = escaped.chars();
        characters.next().into_iter().for_each(|c| write_escaped(text, c));
        rest = characters.as_str();
    }
    text.push_str(rest);
    text.push('"');
}

fn is_escaped(byte: u8) -> bool {
    matches!(byte, b'"' | b'\\') || !(b' '..=b'~').contains(&byte)
}

fn write_escaped(text: &mut String, c: char) {
    match c {
        '"' => text.push_str("\\\""),
        '\\' => text.push_str("\\\\"),
        '\n' => text.push_str("\\n"),
        '\r' => text.push_str("\\r"),
        '\t' => text.push_str("\\t"),
        '\u{8}' => text.push_str("\\b"),
        '\u{c}' => text.push_str("\\f"),
        _ => {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(text, "\\u{unit:04x}");
            }
        }
    }
}

fn write_number(text: &mut String, number: &Number) {
    match number.as_f64() {
        Some(float) if number.is_f64() => text.push_str(&python_float(float)),
        _ => {
            let _ = write!(text, "{number}");
        }
    }
}

/// Python uses exponents below 1e-4 and from 1e16 on, with a sign and at least two digits.
fn python_float(float: f64) -> String {
    let scientific = format!("{float:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        return if float.fract() == 0.0 { format!("{float:.1}") } else { format!("{float}") };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

/// Returns a moment in ISO 8601 with six digits and an explicit offset.
pub fn moment(moment: Moment) -> String {
    let offset = Offset::from_seconds(moment.offset).unwrap_or(Offset::UTC);
    let time = offset.to_datetime(moment.at);
    let (date, sub) = (time.date(), time.subsec_nanosecond() / 1_000);
    let (sign, east) = if moment.offset < 0 { ('-', -moment.offset) } else { ('+', moment.offset) };
    let (hour, minute, second) = (time.hour(), time.minute(), time.second());
    let mut text = String::with_capacity("2020-12-31T23:59:59.000000+00:00".len());
    let _ =
        write!(text, "{date}T{hour:02}:{minute:02}:{second:02}.{sub:06}{sign}{:02}:{:02}", east / 3600, east / 60 % 60);
    text
}

/// Reads a moment in ISO 8601; an offset, or `Z`, is required.
///
/// # Errors
/// The text of the error.
pub fn parse_moment(text: &str) -> Result<Moment, String> {
    let pieces = Pieces::parse(text).map_err(|error| error.to_string())?;
    let offset = pieces.to_numeric_offset().ok_or("the timestamp has no offset from UTC")?;
    let time = pieces.date().to_datetime(pieces.time().unwrap_or_default());
    let at = offset.to_timestamp(time).map_err(|error| error.to_string())?;
    Ok(Moment { at, offset: offset.seconds() })
}

/// Returns the value of a touch: kopf omits the fraction if it is zero.
pub fn touch(now: Timestamp) -> String {
    let text = moment(Moment::utc(now));
    text.replace(".000000", "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn json_is_written_as_python_does() {
        let value = json!({"a": "é\n\u{1F600}\u{7f}/", "f": [1.0, 1e21, 1e-7, 0.1, 123_456_789.125], "i": 12_345_678_901_234_567_890_u64});
        let expected =
            r#"{"a":"\u00e9\n\ud83d\ude00\u007f/","f":[1.0,1e+21,1e-07,0.1,123456789.125],"i":12345678901234567890}"#;
        assert_eq!(super::json(&value), expected);
    }

    #[test]
    fn control_characters_have_short_escapes_where_python_has_them() {
        assert_eq!(super::json(&json!("\r\t\u{8}\u{c}\u{b}\u{0}")), r#""\r\t\b\f\u000b\u0000""#);
    }

    #[test]
    fn offsets_of_moments_are_kept() {
        let parsed = parse_moment("2020-12-31T23:59:59.123456+02:00").unwrap();
        assert_eq!(moment(parsed), "2020-12-31T23:59:59.123456+02:00");
        for text in
            ["2020-12-31T23:59:59.000001-03:30", "2020-12-31T23:59:59.000000+05:45", "2020-12-31T23:59:59.000000-00:30"]
        {
            assert_eq!(moment(parse_moment(text).unwrap()), text);
        }
        assert_eq!(moment(parse_moment("2020-12-31T23:59:59Z").unwrap()), "2020-12-31T23:59:59.000000+00:00");
        assert!(parse_moment("2020-12-31T23:59:59").is_err());
        assert!(parse_moment("yesterday").is_err());
    }
}
