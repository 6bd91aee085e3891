//! The lines of watches.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::partial_metadata::PartialMetadata;
use crate::text::Text;

/// One line of a watch.
pub struct Line<'a> {
    /// The type of the event.
    pub kind: Text<'a>,
    /// The object as JSON.
    pub object: &'a str,
    /// The metadata of the object.
    pub head: serde_json::Result<PartialMetadata<'a>>,
}

impl<'a> Line<'a> {
    /// Reads a line.
    ///
    /// # Errors
    /// If it is not JSON, or not that of a watch.
    pub fn of(line: &'a str) -> serde_json::Result<Self> {
        // Servers write the type first, and nothing after the object: its text need not be looked for.
        if let Some((kind, object)) = split(line)
            && let Ok(head) = PartialMetadata::of(object)
        {
            return Ok(Self { kind: Text(Cow::Borrowed(kind)), object, head: Ok(head) });
        }
        let Members { kind, object } = serde_json::from_str(line)?;
        let object = object.get();
        Ok(Self { kind, object, head: PartialMetadata::of(object) })
    }
}

/// Returns the type and what seems to be the object of a line, if it looks like those of API servers.
fn split(line: &str) -> Option<(&str, &str)> {
    let (kind, rest) = line.strip_prefix("{\"type\":\"")?.split_once("\",\"object\":")?;
    let is_plain = kind.bytes().all(|byte| byte.is_ascii_uppercase());
    Some((kind, rest.trim_end().strip_suffix('}')?)).filter(|_| is_plain)
}

#[derive(Deserialize)]
struct Members<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the type, the object and its name.
    fn read(line: &str) -> Option<(String, String, String)> {
        let Line { kind, object, head } = Line::of(line).ok()?;
        Some(((*kind).to_owned(), object.to_owned(), head.ok()?.name().to_owned()))
    }

    #[test]
    fn lines_are_read_however_they_are_written() {
        let object = r#"{"metadata":{"name":"a"},"x":"}"}"#;
        let expected = Some(("ADDED".to_owned(), object.to_owned(), "a".to_owned()));
        let rest = r#""type":"ADDED""#;
        for line in [
            format!("{{{rest},\"object\":{object}}}"),
            format!("{{{rest},\"object\":{object}}}\r\n"),
            format!("{{\"object\":{object},{rest}}}"),
            format!("{{ {rest}, \"object\": {object} }}"),
            format!("{{{rest},\"object\":{object},\"later\":{{}}}}"),
        ] {
            assert_eq!(read(&line), expected, "{line}");
        }
    }

    #[test]
    fn other_lines_are_errors() {
        for line in [
            r#"{"type":"ADDED","object":{"metadata":{"name":"a"}}"#,
            r#"{"type":"ADDED","object":{"metadata":{"name":"a"}}}}"#,
            r#"{"type":"ADDED","object":{"metadata":{"name":"a"},}}"#,
            r#"{"type":"ADDED"}"#,
            r#"{"type":"ADDED","object":}"#,
            "{}",
        ] {
            assert!(Line::of(line).is_err(), "{line}");
        }
        // The line is one of a watch, but its object cannot be read.
        assert!(Line::of(r#"{"type":"ADDED","object":{"metadata":{"name":1}}}"#).unwrap().head.is_err());
    }
}
