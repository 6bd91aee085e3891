//! Numbers as texts: `format(number, format)` with the formats of Python, and `format_duration(seconds)`.

use rhai::{Dynamic, Engine};

use crate::script::functions::options::{placed, text};
use crate::script::functions::support::{Given, Native, may_have_bytes, shown, wrong};

/// Limit of the width and of the digits in a format.
const MAX_WIDTH: usize = 1_000;

/// Registers the functions.
pub(super) fn register(engine: &mut Engine) {
    engine.register_fn("format", |native: Native<'_>, value: Dynamic, format: Dynamic| {
        placed(&native, formatted(&native, &value, &format))
    });
    engine.register_fn("format_duration", |native: Native<'_>, seconds: Dynamic| {
        placed(&native, format_duration(&seconds))
    });
}

/// A format: `[[fill]align][sign][#][0][width][,|_][.digits][type]`, as in Python.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Format {
    fill: Option<char>,
    align: Option<char>,
    sign: Option<char>,
    has_prefix: bool,
    has_zeros: bool,
    width: usize,
    grouping: Option<char>,
    digits: Option<usize>,
    kind: Option<char>,
}

impl Format {
    fn parse(text: &str) -> Option<Self> {
        let mut format = Self::default();
        let signs: Vec<char> = text.chars().collect();
        let is_align = |c: Option<&char>| c.is_some_and(|c| "<>^=".contains(*c));
        let mut rest = &signs[..];
        if is_align(rest.get(1)) {
            (format.fill, format.align, rest) = (Some(rest[0]), Some(rest[1]), &rest[2..]);
        } else if is_align(rest.first()) {
            (format.align, rest) = (Some(rest[0]), &rest[1..]);
        }
        let mut take = |wanted: &str| {
            let found = rest.first().copied().filter(|c| wanted.contains(*c));
            rest = if found.is_some() { &rest[1..] } else { rest };
            found
        };
        format.sign = take("+- ");
        format.has_prefix = take("#").is_some();
        format.has_zeros = take("0").is_some();
        let number = |take: &mut dyn FnMut(&str) -> Option<char>| {
            let mut number = None;
            while let Some(digit) = take("0123456789").and_then(|c| c.to_digit(10)) {
                number = Some((number.unwrap_or(0_usize) * 10 + digit as usize).min(MAX_WIDTH + 1));
            }
            number
        };
        format.width = number(&mut take).unwrap_or_default();
        format.grouping = take(",_");
        if take(".").is_some() {
            format.digits = Some(number(&mut take)?);
        }
        format.kind = take("bdeEfFgnosxX%");
        let is_small = format.width <= MAX_WIDTH && format.digits.unwrap_or_default() <= MAX_WIDTH;
        (rest.is_empty() && is_small).then_some(format)
    }

    /// Adds the sign, the prefix and the filling to digits.
    fn finish(&self, is_negative: bool, prefix: &str, digits: &str, default_align: char) -> String {
        let sign = match (is_negative, self.sign) {
            (true, _) => "-",
            (false, Some('+')) => "+",
            (false, Some(' ')) => " ",
            _ => "",
        };
        let missing = self.width.saturating_sub(sign.len() + prefix.len() + digits.chars().count());
        let fill = self.fill.unwrap_or(if self.has_zeros { '0' } else { ' ' });
        let align = self.align.unwrap_or(if self.has_zeros { '=' } else { default_align });
        let filling = |count: usize| fill.to_string().repeat(count);
        match align {
            '<' => format!("{sign}{prefix}{digits}{}", filling(missing)),
            '^' => format!("{}{sign}{prefix}{digits}{}", filling(missing / 2), filling(missing - missing / 2)),
            '=' => format!("{sign}{prefix}{}{digits}", filling(missing)),
            _ => format!("{}{sign}{prefix}{digits}", filling(missing)),
        }
    }
}

/// `format(value, format)`: a number, or a text, in a format of Python such as `".2f"`, `",d"`, `"03d"`, `"x"`,
/// `".1%"`, `">10"`.
fn formatted(native: &Native<'_>, value: &Dynamic, format: &Dynamic) -> Given {
    let written = text("format", "the format", format)?;
    let unknown = || {
        wrong(
            "format",
            format!(
                "{:?} is not a format of numbers, as \".2f\" or \",d\"",
                crate::script::runtime::bounded::shortened(&written)
            ),
        )
    };
    let format = Format::parse(&written).ok_or_else(unknown)?;
    if let Ok(text) = value.as_immutable_string_ref() {
        if !matches!(format.kind, None | Some('s')) || format.grouping.is_some() || format.sign.is_some() {
            return Err(wrong("format", format!("{written:?} is a format of numbers, and {} is a text", shown(value))));
        }
        may_have_bytes(native, text.len() + format.width * 4)?;
        let cut: String = text.chars().take(format.digits.unwrap_or(usize::MAX)).collect();
        return Ok(Format { has_zeros: false, ..format }.finish(false, "", &cut, '<').into());
    }
    let formatted = match (value.as_int(), value.as_float(), format.kind) {
        (Ok(integer), _, None | Some('d' | 'n' | 'b' | 'o' | 'x' | 'X')) if format.digits.is_none() => {
            of_integer(integer, &format)
        }
        (Ok(integer), _, Some('e' | 'E' | 'f' | 'F' | 'g' | '%')) => of_float(integer as f64, &format),
        (_, Ok(float), None | Some('e' | 'E' | 'f' | 'F' | 'g' | 'n' | '%')) => of_float(float, &format),
        (Ok(_), ..) | (_, Ok(_), _) => {
            return Err(wrong("format", format!("{written:?} is not a format of {}", shown(value))));
        }
        _ => return Err(wrong("format", format!("{} is neither a number nor a text", shown(value)))),
    };
    Ok(formatted.into())
}

fn of_integer(integer: i64, format: &Format) -> String {
    let number = integer.unsigned_abs();
    let (prefix, digits, group) = match format.kind {
        Some('b') => ("0b", format!("{number:b}"), 4),
        Some('o') => ("0o", format!("{number:o}"), 4),
        Some('x') => ("0x", format!("{number:x}"), 4),
        Some('X') => ("0X", format!("{number:X}"), 4),
        _ => ("", number.to_string(), 3),
    };
    let prefix = if format.has_prefix { prefix } else { "" };
    format.finish(integer < 0, prefix, &grouped(&digits, format.grouping, group), '>')
}

fn of_float(float: f64, format: &Format) -> String {
    let number = float.abs();
    let digits = format.digits.unwrap_or(6);
    let text = match format.kind {
        Some('e' | 'E') => with_exponent(number, digits),
        Some('%') => format!("{:.digits$}%", number * 100.0),
        Some('f' | 'F') => format!("{number:.digits$}"),
        None if format.digits.is_none() => format!("{number:?}"),
        _ => general(number, digits.max(1)),
    };
    let text = if format.kind == Some('E') { text.to_uppercase() } else { text };
    let (whole, rest) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    format.finish(float.is_sign_negative() && !float.is_nan(), "", &(grouped(whole, format.grouping, 3) + rest), '>')
}

/// Returns a float with an exponent of at least two digits.
fn with_exponent(number: f64, digits: usize) -> String {
    let text = format!("{number:.digits$e}");
    let Some((mantissa, exponent)) = text.split_once('e') else { return text };
    let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |exponent| ('-', exponent));
    format!("{mantissa}e{sign}{exponent:0>2}")
}

/// Returns a float with some significant digits, without zeros at the end.
fn general(number: f64, digits: usize) -> String {
    if !number.is_finite() {
        return number.to_string();
    }
    let rounded = with_exponent(number, digits - 1);
    let exponent: i64 = rounded.split_once('e').and_then(|(_, exponent)| exponent.parse().ok()).unwrap_or_default();
    let without_zeros = |text: &str| {
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text.to_owned() }
    };
    if exponent < -4 || exponent >= digits as i64 {
        let (mantissa, exponent) = rounded.split_once('e').unwrap_or((&rounded, "+00"));
        return format!("{}e{exponent}", without_zeros(mantissa));
    }
    let places = usize::try_from(digits as i64 - 1 - exponent).unwrap_or_default();
    without_zeros(&format!("{number:.places$}"))
}

fn grouped(digits: &str, sign: Option<char>, size: usize) -> String {
    let Some(sign) = sign else { return digits.to_owned() };
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(size) {
            grouped.push(sign);
        }
        grouped.push(digit);
    }
    grouped
}

/// `format_duration(seconds)`: a duration as `duration` reads it, such as `1h30m` or `1.5s`.
fn format_duration(given: &Dynamic) -> Given {
    let duration = crate::script::values::time::duration(given)?;
    let seconds = duration.as_secs();
    let parts = [
        (seconds / 86_400, "d"),
        (seconds / 3_600 % 24, "h"),
        (seconds / 60 % 60, "m"),
        (seconds % 60, "s"),
        (u64::from(duration.subsec_millis()), "ms"),
    ];
    let shown: Vec<String> =
        parts.iter().filter(|(count, _)| *count > 0).map(|(count, unit)| format!("{count}{unit}")).collect();
    Ok(if shown.is_empty() { "0s".into() } else { shown.concat().into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_those_of_python() {
        let int = |number: i64, format: &str| of_integer(number, &Format::parse(format).unwrap());
        assert_eq!(int(42, "05d"), "00042");
        assert_eq!(int(-42, "05d"), "-0042");
        assert_eq!(int(1_234_567, ","), "1,234,567");
        assert_eq!(int(255, "#06x"), "0x00ff");
        assert_eq!(int(5, "*^5"), "**5**");
        let float = |number: f64, format: &str| of_float(number, &Format::parse(format).unwrap());
        assert_eq!(float(2.345_67, ".2f"), "2.35");
        assert_eq!(float(0.1234, ".1%"), "12.3%");
        assert_eq!(float(12_345.678, ",.1f"), "12,345.7");
        assert_eq!(float(12_345.678, ".2e"), "1.23e+04");
        assert_eq!(float(0.000_012_3, "g"), "1.23e-05");
        assert_eq!(float(1_234_567.0, "g"), "1.23457e+06");
        assert_eq!(float(100.0, "g"), "100");
        assert_eq!(float(-1.5, "+.1f"), "-1.5");
        assert_eq!(Format::parse("5000d"), None);
        assert_eq!(Format::parse(".f"), None);
        assert_eq!(Format::parse("zz"), None);
    }
}
