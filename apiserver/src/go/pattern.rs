//! Regular expressions, with the syntax and semantics of Go.

use std::iter::Peekable;
use std::str::Chars;

use regex::Regex;

/// Compiles a pattern of Go.
///
/// # Errors
/// If it is invalid.
pub(crate) fn regex(pattern: &str) -> Result<Regex, regex::Error> {
    match foreign(pattern) {
        Some(why) => Err(regex::Error::Syntax(why)),
        None => Regex::new(&translated(pattern)),
    }
}

/// Go's limit of repetitions.
const MAX_REPETITIONS: u32 = 1_000;

/// Returns syntax that only our library accepts: unknown flags, and too many repetitions.
fn foreign(pattern: &str) -> Option<String> {
    let mut rest = pattern.chars().peekable();
    let mut is_in_brackets = false;
    while let Some(c) = rest.next() {
        match c {
            '\\' => drop(rest.next()),
            '[' if !is_in_brackets => {
                is_in_brackets = true;
                // A bracket at the beginning is a literal.
                rest.next_if_eq(&'^');
                rest.next_if_eq(&']');
            }
            ']' => is_in_brackets = false,
            '{' if !is_in_brackets && is_count(&rest) => {
                let count: String = rest.clone().take_while(|c| *c != '}').collect();
                let is_too_much =
                    |number: &str| !number.is_empty() && number.parse::<u32>().is_ok_and(|n| n > MAX_REPETITIONS);
                if count.split(',').any(is_too_much) {
                    return Some(format!("invalid repeat count: `{{{count}}}`"));
                }
            }
            '(' if !is_in_brackets && rest.peek() == Some(&'?') => {
                let flags: String = rest.clone().skip(1).take_while(|c| c.is_ascii_alphabetic() || *c == '-').collect();
                let is_name = flags == "P";
                if !is_name && !flags.chars().all(|flag| "imsU-".contains(flag)) {
                    return Some(format!("invalid or unsupported Perl syntax: `(?{flags}`"));
                }
            }
            _ => {}
        }
    }
    None
}

/// Converts a pattern of Go to our syntax: classes such as `\d` are ASCII only, a brace without a count is a literal,
/// and inside of brackets there are no operators.
fn translated(pattern: &str) -> String {
    let mut translated = String::with_capacity(pattern.len());
    let mut rest = pattern.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\\' => escape(&mut rest, &mut translated, false),
            '[' => brackets(&mut rest, &mut translated),
            '{' if !is_count(&rest) => translated.push_str("\\{"),
            c => translated.push(c),
        }
    }
    translated
}

fn escape(rest: &mut Peekable<Chars<'_>>, translated: &mut String, is_in_brackets: bool) {
    let Some(c) = rest.next() else { return translated.push('\\') };
    match (c, is_in_brackets) {
        ('d', false) => translated.push_str("[0-9]"),
        ('d', true) => translated.push_str("0-9"),
        ('w', false) => translated.push_str("[0-9A-Za-z_]"),
        ('w', true) => translated.push_str("0-9A-Za-z_"),
        ('s', false) => translated.push_str("[\\t\\n\\f\\r ]"),
        ('s', true) => translated.push_str("\\t\\n\\f\\r "),
        ('D', _) => translated.push_str("[^0-9]"),
        ('W', _) => translated.push_str("[^0-9A-Za-z_]"),
        ('S', _) => translated.push_str("[^\\t\\n\\f\\r ]"),
        ('b' | 'B', false) => translated.extend(["(?-u:\\", c.encode_utf8(&mut [0; 4]), ")"]),
        ('Q', false) => {
            let quoted: String = rest.by_ref().collect();
            let (quoted, after) = quoted.split_once("\\E").unwrap_or((&quoted, ""));
            translated.push_str(&regex::escape(quoted));
            translated.push_str(&self::translated(after));
        }
        (c, _) => translated.extend(['\\', c]),
    }
}

fn brackets(rest: &mut Peekable<Chars<'_>>, translated: &mut String) {
    translated.push('[');
    if rest.next_if_eq(&'^').is_some() {
        translated.push('^');
    }
    let mut is_first = true;
    while let Some(c) = rest.next() {
        match c {
            ']' if !is_first => return translated.push(']'),
            '\\' => escape(rest, translated, true),
            '[' if rest.peek() == Some(&':') => {
                let name: String = rest.by_ref().take_while(|c| *c != ']').collect();
                translated.extend(["[", &name, "]"]);
            }
            '[' | ']' | '&' | '~' => translated.extend(['\\', c]),
            c => translated.push(c),
        }
        is_first = false;
    }
}

/// Tells whether a brace opens a count of repetitions.
fn is_count(rest: &Peekable<Chars<'_>>) -> bool {
    let inside: String = rest.clone().take_while(|c| *c != '}').collect();
    let is_closed = rest.clone().any(|c| c == '}');
    let (least, most) = inside.split_once(',').unwrap_or((&inside, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    is_closed && !least.is_empty() && is_number(least) && is_number(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_mean_what_they_mean_in_go() {
        for (pattern, text, found) in [
            (r"^\d+$", "٣", false),
            (r"^[\d.]+$", "1.2", true),
            (r"^\w+$", "ä", false),
            (r"^{a}$", "{a}", true),
            (r"^a{2,3}$", "aaa", true),
            (r"^a{,3}$", "a{,3}", true),
            (r"^[a&&b]+$", "a&b", true),
            (r"^[[]+$", "[[", true),
            (r"^[]a]+$", "a]", true),
            (r"^[[:alpha:]]+$", "ab", true),
            (r"^\Qa.b\E+$", "a.bb", true),
            (r"\bfoo\b", "a foo b", true),
            (r"^[^\s]+$", "a b", false),
            (r"^[\w-]+$", "a-b", true),
        ] {
            assert_eq!(regex(pattern).unwrap().is_match(text), found, "{pattern} {text}");
        }
        assert!(regex("a(b").is_err());
        assert!(regex(r"(?=a)").is_err());
        for (pattern, is_taken) in [
            ("a{1000}", true),
            ("a{1001}", false),
            ("(?x) a", false),
            ("(?i)a", true),
            ("(?P<x>a)", true),
            ("[(?x]", true),
        ] {
            assert_eq!(regex(pattern).is_ok(), is_taken, "{pattern}");
        }
    }
}
