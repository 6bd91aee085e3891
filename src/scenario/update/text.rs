//! Positions in the text of a file, and values written as YAML.

use std::ops::Range;

use serde_json::Value;

use crate::manifest::source::Source;
use crate::manifest::tree::SourceSpan;

/// Writes a scalar.
pub(super) fn scalar(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), text)
}

/// Writes a text without quotes where YAML reads the same text, also within brackets.
pub(super) fn text(value: &str) -> String {
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '/' | '.');
    // `#` within a word does not begin a comment.
    let is_plain =
        value.starts_with(|c: char| c.is_ascii_alphabetic()) && value.chars().all(|c| is_word(c) || c == '#');
    let is_other =
        matches!(value.to_lowercase().as_str(), "true" | "false" | "null" | "yes" | "no" | "on" | "off" | "y" | "n");
    if is_plain && !is_other { value.to_owned() } else { Value::from(value).to_string() }
}

/// Returns the byte offset of a position.
pub(super) fn offset(source: &Source, spot: SourceSpan) -> Option<usize> {
    let line = source.line(spot.line)?;
    let before: usize = line.chars().take(spot.column - 1).map(char::len_utf8).sum();
    // `line` is a slice of the text.
    Some(line.as_ptr() as usize - source.text.as_ptr() as usize + before)
}

/// Returns the byte range of a node within one line.
pub(super) fn range(source: &Source, spot: SourceSpan) -> Option<Range<usize>> {
    let start = offset(source, spot)?;
    let length: usize = source.text[start..].chars().take(spot.length).map(char::len_utf8).sum();
    Some(start..start + length)
}

/// Returns the end of a list in brackets.
pub(super) fn end_of_flow(text: &str, start: usize) -> Option<usize> {
    let mut depth = 0;
    let mut quote = None;
    let mut before = ' ';
    let mut is_comment = false;
    for (at, c) in text[start..].char_indices() {
        match (quote, c) {
            _ if is_comment => is_comment = c != '\n',
            (Some(open), _) if c == open && !(open == '"' && before == '\\') => quote = None,
            (None, '"' | '\'') => quote = Some(c),
            (None, '#') if before.is_whitespace() => is_comment = true,
            (None, '[') => depth += 1,
            (None, ']') => {
                depth -= 1;
                if depth == 0 {
                    return Some(start + at + 1);
                }
            }
            _ => {}
        }
        before = c;
    }
    None
}
