//! The formats of texts and numbers that schemas can ask for. Unknown formats fit everything.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use regex::Regex;
use serde_json::Value;

use super::types::Type;

/// Tells whether a text has a format.
pub(crate) fn fits(format: &str, text: &str) -> bool {
    match format {
        "date" => text.parse::<jiff::civil::Date>().is_ok() && text.len() == 10,
        "date-time" | "datetime" => MOMENT.is_match(text) && text.to_ascii_uppercase().replace(' ', "T").parse::<jiff::Timestamp>().is_ok(),
        "byte" => STANDARD.decode(text).is_ok(),
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.contains(':') && text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => is_cidr(text),
        "mac" => MAC.is_match(text),
        "uuid" => UUID.is_match(text),
        "uuid3" => is_uuid(text, '3'),
        "uuid4" => is_uuid(text, '4'),
        "uuid5" => is_uuid(text, '5'),
        "email" => EMAIL.is_match(text),
        "uri" => is_uri(text),
        "hostname" => text.len() <= 255 && HOST.is_match(text) && has_top_level(text),
        "duration" => is_duration(text),
        "hexcolor" => HEX_COLOR.is_match(text),
        "rgbcolor" => RGB_COLOR.is_match(text),
        "bsonobjectid" => text.len() == 24 && text.chars().all(|c| c.is_ascii_hexdigit()),
        "k8s-short-name" => text.len() <= 63 && SHORT_NAME.is_match(text),
        "k8s-long-name" => text.len() <= 253 && text.split('.').all(|part| SHORT_NAME.is_match(part)),
        _ => true,
    }
}

/// Tells whether a number lies in the range of its type and format.
pub(super) fn holds(kind: Type, format: Option<&str>, value: &Value) -> bool {
    let number = value.as_f64().unwrap_or_default();
    match (kind, format) {
        (Type::Integer, _) if number.fract() != 0.0 => false,
        (Type::Integer, Some("int32")) => (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&number),
        (Type::Integer, Some("uint32")) => (0.0..=f64::from(u32::MAX)).contains(&number),
        (Type::Integer, Some("uint64")) => number >= 0.0,
        (Type::Integer, _) => value.is_i64() || number.abs() < 2_f64.powi(63),
        (Type::Number, Some("float")) => number.abs() <= f64::from(f32::MAX),
        _ => true,
    }
}

static MOMENT: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]+)?([Zz]|[+-][0-9]{2}:[0-9]{2})$"));
static MAC: LazyLock<Regex> = LazyLock::new(|| pattern(r"^([0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}$|^([0-9A-Fa-f]{4}[.]){2}[0-9A-Fa-f]{4}$"));
static UUID: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$"));
static EMAIL: LazyLock<Regex> = LazyLock::new(|| pattern(r"^[^@\s<>(),;:]+@[^@\s<>(),;:]+$"));
static HOST: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?([.][A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*[.]?$"));
static HEX_COLOR: LazyLock<Regex> = LazyLock::new(|| pattern(r"^#?([0-9A-Fa-f]{3}|[0-9A-Fa-f]{6})$"));
static RGB_COLOR: LazyLock<Regex> = LazyLock::new(|| pattern(r"^rgb\(\s*\d{1,3}\s*,\s*\d{1,3}\s*,\s*\d{1,3}\s*\)$"));
static SHORT_NAME: LazyLock<Regex> = LazyLock::new(|| pattern(r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$"));
/// Numbers with units, one after the other, as Go writes them; days and weeks are known too.
static DURATION: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"^[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)\s*(ns|us|µs|ms|s|m|h|d|w)(([0-9]+([.][0-9]*)?|[.][0-9]+)(ns|us|µs|ms|s|m|h|d|w))*$")
});
static LONG_DURATION: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"^\s*\d+\s*(nanosecond|nano|microsecond|micro|millisecond|milli|second|sec|minute|min|hour|hr|day|week|wk)s?\s*$")
});

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the pattern is valid")
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let Ok(bits) = bits.parse::<u8>() else { return false };
    (address.parse::<Ipv4Addr>().is_ok() && bits <= 32) || (address.parse::<Ipv6Addr>().is_ok() && bits <= 128)
}

fn is_uuid(text: &str, version: char) -> bool {
    UUID.is_match(text) && text.replace('-', "").chars().nth(12) == Some(version)
}

/// The last of several labels of a host is a word of at least two letters.
fn has_top_level(host: &str) -> bool {
    host.rsplit_once('.').is_none_or(|(_, last)| last.chars().count() >= 2 && last.chars().all(char::is_alphabetic))
}

/// A request URI: absolute, or a path that begins with a slash.
fn is_uri(text: &str) -> bool {
    if text.is_empty() || text.chars().any(|c| c.is_control() || c == ' ') {
        return false;
    }
    let scheme = text.split_once(':').map_or("", |(scheme, _)| scheme);
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || ['+', '-', '.'].contains(&c));
    text.starts_with('/') || is_scheme
}

fn is_duration(text: &str) -> bool {
    text == "0" || DURATION.is_match(text) || LONG_DURATION.is_match(text)
}
