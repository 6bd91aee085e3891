//! `string.format`: texts with clauses such as `%s` and `%.2f`.

use kopfd_base::kit::hexadecimal;

use super::convert;
use crate::cel::error::{Error, failed, no_such_overload};
use crate::cel::function::Outcome;
use crate::cel::types::Type;
use crate::cel::value::{Key, Value};

/// The default number of digits after the point.
const DIGITS: usize = 6;

/// A part of a format.
enum Part<'a> {
    Text(&'a str),
    Clause(Clause),
}

/// The conversion of an argument: the letter, and the digits after the point.
#[derive(Clone, Copy)]
struct Clause {
    letter: char,
    digits: usize,
}

pub(super) fn format(arguments: &[Value]) -> Outcome {
    let [Value::String(format), Value::List(list)] = arguments else { return Err(no_such_overload()) };
    let mut formatted = String::new();
    let mut next = 0;
    for part in parts(format) {
        match part? {
            Part::Text(text) => formatted.push_str(text),
            Part::Clause(clause) => {
                let value = list.items.get(next).ok_or_else(|| failed(format!("index {next} out of range")))?;
                let text = clause.print(value).map_err(|error| failed(format!("error during formatting: {error}")))?;
                formatted.push_str(&text);
                next += 1;
            }
        }
    }
    Ok(Value::text(&formatted))
}

/// Returns the error of a format with these argument types, and the index of the argument.
pub(crate) fn mistake(format: &str, types: &[&Type]) -> Option<(Option<usize>, String)> {
    let mut next = 0;
    for part in parts(format) {
        match part {
            Err(error) => return Some((None, error.to_string())),
            Ok(Part::Text(_)) => {}
            Ok(Part::Clause(clause)) => {
                let Some(found) = types.get(next) else { return Some((None, format!("index {next} out of range"))) };
                if !clause.takes(found) {
                    return Some((
                        Some(next),
                        format!("error during formatting: {}", clause.refusal(type_name(found))),
                    ));
                }
                next += 1;
            }
        }
    }
    let text = format!("too many arguments supplied to string.format (expected {next}, got {})", types.len());
    (types.len() > next).then_some((None, text))
}

fn parts(format: &str) -> impl Iterator<Item = Result<Part<'_>, Error>> {
    let mut rest = format;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let Some(after) = rest.strip_prefix('%') else {
            let (text, next) = rest.split_at(rest.find('%').unwrap_or(rest.len()));
            rest = next;
            return Some(Ok(Part::Text(text)));
        };
        if let Some(next) = after.strip_prefix('%') {
            rest = next;
            return Some(Ok(Part::Text("%")));
        }
        let clause = clause(after);
        rest = clause.as_ref().map_or("", |(_, next)| next);
        Some(clause.map(|(clause, _)| Part::Clause(clause)))
    })
}

fn clause(text: &str) -> Result<(Clause, &str), Error> {
    let wrong = |why: String| failed(format!("could not parse formatting clause: {why}"));
    let (digits, rest) = match text.strip_prefix('.') {
        None => (DIGITS, text),
        Some(after) => {
            let end = after.find(|c: char| !c.is_ascii_digit());
            let end = end.ok_or_else(|| {
                wrong("error while parsing precision: could not find end of precision specifier".to_owned())
            })?;
            let digits = after[..end].parse();
            (
                digits.map_err(|_| {
                    wrong("error while parsing precision: error while converting precision to integer".to_owned())
                })?,
                &after[end..],
            )
        }
    };
    let letter = rest.chars().next().ok_or_else(|| failed("unexpected end of string"))?;
    if !"sdfebxXo".contains(letter) {
        return Err(wrong(format!("unrecognized formatting clause \"{letter}\"")));
    }
    Ok((Clause { letter, digits }, &rest[1..]))
}

impl Clause {
    fn takes(self, found: &Type) -> bool {
        match (self.letter, found) {
            (_, Type::Dyn)
            | ('d' | 'b' | 'x' | 'X' | 'o', Type::Int | Type::Uint)
            | ('f' | 'e', Type::Double | Type::String)
            | ('b', Type::Bool)
            | ('x' | 'X', Type::String | Type::Bytes) => true,
            ('s', found) => !matches!(found, Type::Library(_) | Type::Object(_) | Type::Optional(_)),
            _ => false,
        }
    }

    fn refusal(self, name: &str) -> String {
        let what = match self.letter {
            'd' => "decimal clause can only be used on integers",
            'f' => "fixed-point clause can only be used on doubles",
            'e' => "scientific clause can only be used on doubles",
            'b' => "only integers and bools can be formatted as binary",
            'o' => "octal clause can only be used on integers",
            's' => {
                "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps"
            }
            _ => "only integers, byte buffers, and strings can be formatted as hex",
        };
        format!("{what}, was given {name}")
    }

    fn print(self, value: &Value) -> Result<String, Error> {
        let Self { letter, digits } = self;
        Ok(match (letter, value) {
            ('s', value) => print(value).map_err(|()| failed(self.refusal(value.type_name())))?,
            ('d', Value::Int(number)) => number.to_string(),
            ('d', Value::Uint(number)) => number.to_string(),
            ('f' | 'e', value) => {
                let number = number(value).ok_or_else(|| failed(self.refusal(value.type_name())))?;
                match (number.is_finite(), letter) {
                    (false, _) => special(number).to_owned(),
                    (true, 'f') => format!("{number:.digits$}"),
                    (true, _) => scientific(number, digits),
                }
            }
            ('b', Value::Bool(value)) => u8::from(*value).to_string(),
            ('b', Value::Int(number)) => signed(*number, |number| format!("{number:b}")),
            ('b', Value::Uint(number)) => format!("{number:b}"),
            ('o', Value::Int(number)) => signed(*number, |number| format!("{number:o}")),
            ('o', Value::Uint(number)) => format!("{number:o}"),
            ('x', Value::Int(number)) => signed(*number, |number| format!("{number:x}")),
            ('X', Value::Int(number)) => signed(*number, |number| format!("{number:X}")),
            ('x', Value::Uint(number)) => format!("{number:x}"),
            ('X', Value::Uint(number)) => format!("{number:X}"),
            ('x', Value::String(text)) => hexadecimal(text.as_bytes()),
            ('x', Value::Bytes(bytes)) => hexadecimal(bytes),
            ('X', Value::String(text)) => hexadecimal(text.as_bytes()).to_uppercase(),
            ('X', Value::Bytes(bytes)) => hexadecimal(bytes).to_uppercase(),
            (_, value) => return Err(failed(self.refusal(value.type_name()))),
        })
    }
}

fn signed(number: i64, print: fn(u64) -> String) -> String {
    format!("{}{}", if number < 0 { "-" } else { "" }, print(number.unsigned_abs()))
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Double(number) => Some(*number),
        Value::String(text) => match &**text {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
}

fn special(number: f64) -> &'static str {
    match number {
        _ if number.is_nan() => "NaN",
        _ if number > 0.0 => "∞",
        _ => "-∞",
    }
}

/// Prints powers of ten as `× 10`.
fn scientific(number: f64, digits: usize) -> String {
    let text = format!("{number:.digits$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    format!("{mantissa}\u{202f}×\u{202f}10{}", raised(exponent))
}

fn raised(exponent: i32) -> String {
    let digits = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    let text = format!("{:02}", exponent.abs());
    let raised: String = text.bytes().map(|digit| digits[usize::from(digit - b'0')]).collect();
    if exponent < 0 { format!("⁻{raised}") } else { raised }
}

fn print(value: &Value) -> Result<String, ()> {
    Ok(match value {
        Value::Null => "null".to_owned(),
        Value::List(list) => {
            let items = list.items.iter().map(print_inside).collect::<Result<Vec<String>, ()>>()?;
            format!("[{}]", items.join(", "))
        }
        Value::Map(map) => {
            let entry =
                |(key, value): (&Key, &Value)| Ok(format!("{}:{}", print_inside(&key.value())?, print_inside(value)?));
            let mut entries = map.entries.iter().map(entry).collect::<Result<Vec<String>, ()>>()?;
            entries.sort();
            format!("{{{}}}", entries.join(", "))
        }
        other => convert::print(other).map_err(|_| ())?,
    })
}

/// Inside of lists and maps, values are printed as literals.
fn print_inside(value: &Value) -> Result<String, ()> {
    let text = print(value)?;
    Ok(match value {
        Value::String(_) => quote(&text),
        Value::Bytes(_) => format!("b{}", quote(&text)),
        Value::Double(number) if number.is_finite() => format!("{number:.DIGITS$}"),
        Value::Double(number) => format!(
            "\"{}\"",
            if number.is_nan() {
                "NaN"
            } else if *number > 0.0 {
                "+Inf"
            } else {
                "-Inf"
            }
        ),
        Value::Duration(_) => format!("duration(\"{text}\")"),
        Value::Timestamp(_) => format!("timestamp(\"{text}\")"),
        _ => text,
    })
}

fn type_name(found: &Type) -> &str {
    match found {
        Type::List(_) => "list",
        Type::Map(_) => "map",
        Type::Type(_) => "type",
        Type::Null => "null_type",
        Type::Bool => "bool",
        Type::Int => "int",
        Type::Uint => "uint",
        Type::Double => "double",
        Type::String => "string",
        Type::Bytes => "bytes",
        Type::Duration => "google.protobuf.Duration",
        Type::Timestamp => "google.protobuf.Timestamp",
        Type::Optional(_) => "optional_type",
        Type::Library(name) => name,
        Type::Object(object) => &object.name,
        _ => "dyn",
    }
}

/// Returns a text in quotes, as a literal.
pub(super) fn quote(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{b}' => quoted.push_str("\\v"),
            '\\' => quoted.push_str("\\\\"),
            '"' => quoted.push_str("\\\""),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
