//! The wire format of lists and watches, as far as a watcher reads it.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::client::Response;
use super::super::error::Error;
use super::super::partial_metadata::{PartialMetadata, Text};

/// One line of a watch.
pub(super) struct Line<'a> {
    pub(super) kind: Text<'a>,
    pub(super) object: &'a str,
    /// What the object says of itself.
    pub(super) head: serde_json::Result<PartialMetadata<'a>>,
}

impl<'a> Line<'a> {
    /// Reads a line.
    ///
    /// # Errors
    /// If it is not JSON, or not that of a watch.
    pub(super) fn of(line: &'a str) -> serde_json::Result<Self> {
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

/// One page of a list. Servers written in Go send null for an empty list.
#[derive(Deserialize)]
pub(super) struct Page<'a> {
    #[serde(default)]
    pub(super) metadata: PageMetadata,
    #[serde(borrow, default)]
    pub(super) items: Option<Vec<&'a RawValue>>,
}

impl<'a> Page<'a> {
    /// Reads the body of an answer.
    pub(super) fn of(response: &'a Response) -> Result<Self, Error> {
        serde_json::from_slice(&response.body).map_err(payload)
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
pub(super) struct PageMetadata {
    #[serde(default)]
    pub(super) resource_version: Option<String>,
    /// The continue token of the next page; missing or empty on the last one.
    #[serde(default, rename = "continue")]
    pub(super) next: Option<String>,
}

/// Compares versions that are numbers, as on all known API servers.
pub(super) fn is_before(version: &str, other: &str) -> bool {
    match (version.parse::<u64>(), other.parse::<u64>()) {
        (Ok(version), Ok(other)) => version < other,
        _ => false,
    }
}

/// Returns the error of an answer that cannot be read.
pub(super) fn payload(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::Payload(Box::new(error))
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
