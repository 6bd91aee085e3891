//! Reviews, which have most objects twice: as they would become, and as they are.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::value;

/// The path of the old object.
const OLD: [&str; 2] = ["request", "oldObject"];

/// A review whose old object is left as text: most webhooks do not use it.
#[derive(Debug)]
pub struct Review<'a> {
    /// The review without the old object.
    pub value: Value,
    /// The old object as JSON.
    pub old: Option<&'a str>,
}

impl<'a> Review<'a> {
    /// Reads a review, or any other value.
    ///
    /// # Errors
    /// If the text is not JSON.
    pub fn of(text: &'a [u8]) -> serde_json::Result<Self> {
        match Self::of_form(text) {
            Some(review) => Ok(review),
            // Any other value, or an error.
            None => Ok(Self { value: value::parse(text)?, old: None }),
        }
    }

    fn of_form(text: &'a [u8]) -> Option<Self> {
        let mut old = None;
        let mut parser = serde_json::Deserializer::from_str(std::str::from_utf8(text).ok()?);
        let value = Part { path: &OLD, old: &mut old }.deserialize(&mut parser).ok()?;
        parser.end().ok()?;
        Some(Self { value, old })
    }
}

/// Reads a value, except for the member at a path.
struct Part<'p, 'a> {
    path: &'p [&'p str],
    old: &'p mut Option<&'a str>,
}

impl<'a> DeserializeSeed<'a> for Part<'_, 'a> {
    type Value = Value;

    fn deserialize<D: Deserializer<'a>>(self, value: D) -> Result<Value, D::Error> {
        value.deserialize_any(self)
    }
}

impl<'a> Visitor<'a> for Part<'_, 'a> {
    type Value = Value;

    fn expecting(&self, expected: &mut fmt::Formatter<'_>) -> fmt::Result {
        expected.write_str("an object")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            match self.path {
                [last] if key == *last => {
                    let text = map.next_value::<&RawValue>()?.get();
                    *self.old = Some(text).filter(|text| *text != "null");
                }
                [first, rest @ ..] if key == *first && !rest.is_empty() => {
                    let value = map.next_value_seed(Part { path: rest, old: self.old })?;
                    members.insert(key, value);
                }
                _ => drop(members.insert(key, map.next_value()?)),
            }
        }
        Ok(Value::Object(members))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_old_object_is_left_as_text() {
        let read = |text: &'static str| Review::of(text.as_bytes()).map(|review| (review.value, review.old));
        let text = r#"{"kind":"AdmissionReview","request":{"uid":"u","object":{"oldObject":1},"oldObject":{"a": [1]},"dryRun":false},"oldObject":2}"#;
        let rest = json!({"kind": "AdmissionReview", "request": {"uid": "u", "object": {"oldObject": 1}, "dryRun": false}, "oldObject": 2});
        assert_eq!(read(text).unwrap(), (rest, Some(r#"{"a": [1]}"#)));
        assert_eq!(read(r#"{"request":{"oldObject":null}}"#).unwrap(), (json!({"request": {}}), None));
    }

    #[test]
    fn other_values_are_read_as_they_are() {
        for text in ["[]", "1", r#"{"request":[{"oldObject":1}]}"#, r#"{"request":"x"}"#, "{}"] {
            let review = Review::of(text.as_bytes()).unwrap();
            assert_eq!((review.value.to_string(), review.old), (text.to_owned(), None));
        }
        for text in [&b"{"[..], b"{} 1", b"\"\xff\"", br#"{"request":{"oldObject":{]}}}"#] {
            assert!(Review::of(text).is_err(), "{text:?}");
        }
    }
}
