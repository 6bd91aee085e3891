//! The meaning of plain scalars, by YAML 1.2.

use std::sync::LazyLock;

use serde_json::{Number, Value};

/// The meaning of a plain scalar.
pub(super) enum Plain {
    Text,
    Null,
    Bool(bool),
    Number(Number),
    NotFinite,
}

/// Returns the meaning of a plain scalar. Possible numbers are left to the parser's own schema, so that all YAML is
/// read in the same way.
pub(super) fn plain(text: &str) -> Plain {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Plain::Null,
        "true" | "True" | "TRUE" => Plain::Bool(true),
        "false" | "False" | "FALSE" => Plain::Bool(false),
        _ if is_simple(text) => text.parse::<i64>().map_or(Plain::Text, |number| Plain::Number(number.into())),
        _ if may_be_number(text) => match serde_saphyr::from_str_with_options::<Value>(text, SCHEMA.with(Clone::clone))
        {
            Ok(Value::Number(number)) => Plain::Number(number),
            Ok(_) => Plain::Text,
            Err(_) => Plain::NotFinite,
        },
        _ => Plain::Text,
    }
}

thread_local! {
    static SCHEMA: serde_saphyr::Options = serde_saphyr::options! {
        strict_booleans: true,
        legacy_octal_numbers: true,
        with_snippet: false,
    };
}

static NUMBER: LazyLock<regex::Regex> = LazyLock::new(|| {
    regex::Regex::new(r"^[-+]?(\.?[0-9][0-9a-fA-FxXoO_.+-]*|\.(inf|Inf|INF|nan|NaN|NAN))$")
        .expect("the pattern is valid")
});

/// A decimal number that all YAML schemas read in the same way: most numbers are simple and need no parser.
fn is_simple(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    (1..=18).contains(&digits.len())
        && digits.bytes().all(|byte| byte.is_ascii_digit())
        && (digits == "0" || !digits.starts_with('0'))
}

fn may_be_number(text: &str) -> bool {
    text.len() <= 64
        && text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.'))
        && NUMBER.is_match(text)
}
