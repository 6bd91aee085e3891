//! Texts of other people on terminals and in logs: shows characters that would change how the lines around them are
//! displayed.
//!
//! Such are line breaks, the control characters of ASCII (with escape and bell) and of Latin-1 (U+009B begins a
//! sequence as escape and a bracket do), the line separators of Unicode, and the marks that reverse the direction of
//! what follows them.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Begins the further lines of a log message. No other line begins with it, since a tab within a text is shown as `\t`.
pub const CONTINUATION: &str = "\t";

/// Tells whether a character is only shown by its number.
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns a text in one line, with Python's escapes in place of hidden characters: `\n`, `\x1b`, `\u202e`.
pub fn one_line(text: &str) -> Cow<'_, str> {
    shown(text, None)
}

/// Returns a text whose lines after the first one begin with `continuation`; other hidden characters are shown.
pub fn lines<'t>(text: &'t str, continuation: &str) -> Cow<'t, str> {
    // A carriage return that belongs to a line break has no other effect.
    if text.contains("\r\n") {
        return Cow::Owned(shown(&text.replace("\r\n", "\n"), Some(continuation)).into_owned());
    }
    shown(text, Some(continuation))
}

/// Returns a JSON text in which hidden characters are escaped, as JSON itself requires for those of ASCII only. The
/// document is the same.
pub fn json(text: &str) -> Cow<'_, str> {
    // Formatted JSON has line breaks between its parts.
    let is_replaced = |c: char| is_hidden(c) && c != '\n';
    if text.is_ascii() && !text.contains('\u{7f}') || !text.contains(is_replaced) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_replaced(c) {
            // All of them are in the basic plane. Writing into a string cannot fail.
            let _ = write!(escaped, "\\u{:04x}", u32::from(c));
        } else {
            escaped.push(c);
        }
    }
    Cow::Owned(escaped)
}

fn shown<'t>(text: &'t str, continuation: Option<&str>) -> Cow<'t, str> {
    if is_plain(text) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match (c, continuation) {
            ('\n', Some(continuation)) => {
                shown.push('\n');
                shown.push_str(continuation);
            }
            _ => push(&mut shown, c),
        }
    }
    Cow::Owned(shown)
}

/// Appends a character, or its escape.
pub fn push(text: &mut String, c: char) {
    // Writing into a string cannot fail.
    let _ = match c {
        '\n' => write!(text, "\\n"),
        '\r' => write!(text, "\\r"),
        '\t' => write!(text, "\\t"),
        c if !is_hidden(c) => {
            text.push(c);
            Ok(())
        }
        c if u32::from(c) < 0x100 => write!(text, "\\x{:02x}", u32::from(c)),
        c => write!(text, "\\u{:04x}", u32::from(c)),
    };
}

/// Most texts have no hidden characters: they are not copied.
fn is_plain(text: &str) -> bool {
    if text.is_ascii() { !text.bytes().any(|byte| byte.is_ascii_control()) } else { !text.contains(is_hidden) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All hidden characters.
    fn hidden() -> impl Iterator<Item = char> {
        ('\0'..=char::MAX).filter(|c| is_hidden(*c))
    }

    #[test]
    fn every_control_character_and_every_mark_of_direction_is_hidden() {
        let ranges: [(u32, u32); 7] = [
            (0, 0x1f),
            (0x7f, 0x9f),
            (0x61c, 0x61c),
            (0x200e, 0x200f),
            (0x2028, 0x2029),
            (0x202a, 0x202e),
            (0x2066, 0x2069),
        ];
        let expected: std::collections::BTreeSet<u32> = ranges.into_iter().flat_map(|(from, to)| from..=to).collect();
        assert_eq!(hidden().map(u32::from).collect::<std::collections::BTreeSet<_>>(), expected);
    }

    #[test]
    fn nothing_hidden_is_left() {
        for c in hidden() {
            let text = format!("a{c}b");
            assert!(!one_line(&text).contains(is_hidden), "{:?}", one_line(&text));
            assert!(!lines(&text, "").replace('\n', "").contains(is_hidden), "{:?}", lines(&text, ""));
            let document = serde_json::Value::String(text.clone()).to_string();
            assert!(!json(&document).contains(is_hidden), "{:?}", json(&document));
            assert_eq!(serde_json::from_str::<String>(&json(&document)).expect("it is the same document"), text);
        }
    }

    #[test]
    fn escapes_are_those_of_python() {
        assert_eq!(one_line("a\n\r\tb\u{1b}[2J\u{7}\u{9b}1m\u{202e}c"), r"a\n\r\tb\x1b[2J\x07\x9b1m\u202ec");
    }

    #[test]
    fn plain_texts_are_not_copied() {
        for text in ["", "plain", "é 世界 👩‍👩‍👧 │ … ┌", r"C:\new\x1b"] {
            assert!(matches!(one_line(text), Cow::Borrowed(same) if same == text));
            assert!(matches!(lines(text, "\t"), Cow::Borrowed(same) if same == text));
            assert!(matches!(json(text), Cow::Borrowed(same) if same == text));
        }
    }

    #[test]
    fn further_lines_are_marked() {
        assert_eq!(lines("one\ntwo\r\n\nfour\rfive", CONTINUATION), "one\n\ttwo\n\t\n\tfour\\rfive");
    }

    #[test]
    fn no_text_begins_like_a_further_line() {
        for text in ["\tforged", "a\n\tb"] {
            assert!(!lines(text, CONTINUATION).starts_with(CONTINUATION));
            assert_eq!(lines(text, CONTINUATION).matches(CONTINUATION).count(), text.matches('\n').count());
        }
    }

    #[test]
    fn formatted_json_keeps_its_lines() {
        let document = serde_json::json!({"a": "\u{9b}", "b": 1});
        assert_eq!(json(&format!("{document:#}")), "{\n  \"a\": \"\\u009b\",\n  \"b\": 1\n}");
    }
}
