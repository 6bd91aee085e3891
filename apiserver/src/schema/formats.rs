//! The formats of texts and numbers in schemas. Unknown formats accept everything.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use regex::Regex;
use serde_json::Value;

use super::types::Type;
use crate::go;

/// Tells whether a text has a format.
pub(crate) fn fits(format: &str, text: &str) -> bool {
    match format {
        "date" => text.parse::<jiff::civil::Date>().is_ok() && text.len() == 10,
        "date-time" | "datetime" => {
            MOMENT.is_match(text) && text.to_ascii_uppercase().parse::<jiff::Timestamp>().is_ok()
        }
        "byte" => !text.is_empty() && STANDARD.decode(text).is_ok(),
        "ipv4" => is_ipv4(text),
        "ipv6" => text.contains(':') && text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => is_cidr(text),
        "mac" => MAC.is_match(text),
        "uuid" => UUID.is_match(text),
        "uuid3" => is_uuid(text, '3'),
        "uuid4" => is_uuid(text, '4'),
        "uuid5" => is_uuid(text, '5'),
        "email" => is_mailbox(text),
        "uri" => go::Url::parse(text).is_ok(),
        "isbn" => is_isbn10(text) || is_isbn13(text),
        "isbn10" => is_isbn10(text),
        "isbn13" => is_isbn13(text),
        "creditcard" => is_credit_card(text),
        "ssn" => SOCIAL_SECURITY.is_match(text),
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

/// Tells whether a number is in the range of its type and format.
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

static MOMENT: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]+)?([Zz]|[+-][0-9]{2}:[0-9]{2})$")
});
static MAC: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"^([0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}$|^([0-9A-Fa-f]{4}[.]){2}[0-9A-Fa-f]{4}$"));
static UUID: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$"));
static EMAIL: LazyLock<Regex> = LazyLock::new(|| pattern(r"^[^@\s<>(),;:]+@[^@\s<>(),;:]+$"));
static HOST: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?([.][A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*[.]?$")
});
static HEX_COLOR: LazyLock<Regex> = LazyLock::new(|| pattern(r"^#?([0-9A-Fa-f]{3}|[0-9A-Fa-f]{6})$"));
static RGB_COLOR: LazyLock<Regex> = LazyLock::new(|| {
    const PART: &str = r"\s*(0|[1-9][0-9]?|1[0-9]{2}|2[0-4][0-9]|25[0-5])\s*";
    pattern(&format!(r"^rgb\({PART},{PART},{PART}\)$"))
});
static SOCIAL_SECURITY: LazyLock<Regex> = LazyLock::new(|| pattern("^[0-9]{3}[- ][0-9]{2}[- ][0-9]{4}$"));
static CREDIT_CARD: LazyLock<Regex> = LazyLock::new(|| {
    let visa_and_others = "4[0-9]{12}([0-9]{3})?|5[1-5][0-9]{14}|6(011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}";
    pattern(&format!(r"^({visa_and_others}|3(0[0-5]|[68][0-9])[0-9]{{11}}|(2131|1800|35[0-9]{{3}})[0-9]{{11}})$"))
});
static SHORT_NAME: LazyLock<Regex> = LazyLock::new(|| pattern(r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$"));
/// Numbers with units in a sequence, in Go's syntax; days and weeks are accepted, too.
static DURATION: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"^[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)\s*(ns|us|µs|ms|s|m|h|d|w)(([0-9]+([.][0-9]*)?|[.][0-9]+)(ns|us|µs|ms|s|m|h|d|w))*$",
    )
});
static LONG_DURATION: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"^\s*\d+\s*(nanosecond|nano|microsecond|micro|millisecond|milli|second|sec|minute|min|hour|hr|day|week|wk)s?\s*$",
    )
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
    let digits = text.replace('-', "").to_ascii_lowercase();
    let has_variant = version == '3' || digits.chars().nth(16).is_some_and(|digit| "89ab".contains(digit));
    UUID.is_match(text) && digits.chars().nth(12) == Some(version) && has_variant
}

/// The last label of a host with several labels has at least two letters.
fn has_top_level(host: &str) -> bool {
    host.rsplit_once('.').is_none_or(|(_, last)| last.chars().count() >= 2 && last.chars().all(char::is_alphabetic))
}

/// Go reads numbers with leading zeros as decimal.
fn is_ipv4(text: &str) -> bool {
    let is_part =
        |part: &str| part.len() <= 3 && part.bytes().all(|byte| byte.is_ascii_digit()) && part.parse::<u8>().is_ok();
    text.split('.').count() == 4 && text.split('.').all(is_part)
}

/// Tells whether a text is an e-mail address, alone or in angle brackets after a name.
fn is_mailbox(text: &str) -> bool {
    let address = text.strip_suffix('>').and_then(|text| text.split_once('<')).map(|(_, address)| address);
    EMAIL.is_match(address.unwrap_or(text))
}

/// Returns the digits of a number with optional hyphens and spaces; the last one may be an `X` for ten.
fn digits(text: &str) -> Option<Vec<u32>> {
    let plain: Vec<char> = text.chars().filter(|c| !matches!(c, ' ' | '-')).collect();
    let digit =
        |(index, c): (usize, &char)| if *c == 'X' && index + 1 == plain.len() { Some(10) } else { c.to_digit(10) };
    plain.iter().enumerate().map(digit).collect()
}

fn is_isbn10(text: &str) -> bool {
    let weighted = |digits: &[u32]| (1..).zip(digits).map(|(weight, digit)| weight * digit).sum::<u32>();
    digits(text).is_some_and(|digits| digits.len() == 10 && weighted(&digits).is_multiple_of(11))
}

fn is_isbn13(text: &str) -> bool {
    let weighted =
        |digits: &[u32]| [1, 3].iter().cycle().zip(digits).map(|(weight, digit)| weight * digit).sum::<u32>();
    digits(text).is_some_and(|digits| digits.len() == 13 && digits[12] < 10 && weighted(&digits).is_multiple_of(10))
}

fn is_credit_card(text: &str) -> bool {
    let plain: String = text.chars().filter(char::is_ascii_digit).collect();
    // Every second digit from the end is doubled.
    let doubled = |(index, digit): (usize, u32)| if index % 2 == 1 { digit * 2 / 10 + digit * 2 % 10 } else { digit };
    let sum: u32 = plain.chars().rev().filter_map(|c| c.to_digit(10)).enumerate().map(doubled).sum();
    CREDIT_CARD.is_match(&plain) && sum.is_multiple_of(10)
}

/// Tells whether a format is known for a type; others are ignored.
pub(crate) fn is_known(kind: &str, format: &str) -> bool {
    const OF_TEXTS: [&str; 26] = [
        "bsonobjectid",
        "byte",
        "cidr",
        "creditcard",
        "date",
        "datetime",
        "duration",
        "email",
        "hexcolor",
        "hostname",
        "ipv4",
        "ipv6",
        "isbn",
        "isbn10",
        "isbn13",
        "k8slongname",
        "k8sshortname",
        "mac",
        "password",
        "rgbcolor",
        "ssn",
        "uri",
        "uuid",
        "uuid3",
        "uuid4",
        "uuid5",
    ];
    match kind {
        "" | "string" => OF_TEXTS.contains(&format.replace('-', "").as_str()),
        "integer" => matches!(format, "int32" | "int64"),
        "number" => matches!(format, "float" | "double"),
        _ => false,
    }
}

fn is_duration(text: &str) -> bool {
    text == "0" || DURATION.is_match(text) || LONG_DURATION.is_match(text)
}
