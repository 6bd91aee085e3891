//! Excerpts of answers: only the requested fields of an object are built.

use std::fmt;

use serde::Deserialize as _;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::de::Read;
use serde_json::{Map, Value};

/// Returns the fields of an object that one of two mappings has, too; their values do not matter, except for further
/// mappings.
///
/// # Errors
/// If the text is not JSON.
pub fn excerpt(text: &[u8], wanted: [&Map<String, Value>; 2]) -> serde_json::Result<Value> {
    let picker = Picker { wanted: wanted.map(Some) };
    match std::str::from_utf8(text) {
        // Checked as a whole, its parts need not be checked.
        Ok(text) => pick(serde_json::Deserializer::from_str(text), picker),
        // This parser reports the position of the error.
        Err(_) => pick(serde_json::Deserializer::from_slice(text), picker),
    }
}

fn pick<'t, T: Read<'t>>(mut text: serde_json::Deserializer<T>, picker: Picker<'_>) -> serde_json::Result<Value> {
    let picked = picker.deserialize(&mut text)?;
    text.end()?;
    Ok(picked)
}

/// Builds the wanted fields that a mapping has. A value that is not a mapping is built as a whole.
struct Picker<'w> {
    wanted: [Option<&'w Map<String, Value>>; 2],
}

impl<'de> DeserializeSeed<'de> for Picker<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<Value, D::Error> {
        value.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Picker<'_> {
    type Value = Value;

    fn expecting(&self, expected: &mut fmt::Formatter<'_>) -> fmt::Result {
        expected.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut picked = Map::new();
        while let Some(found) = map.next_key_seed(Wanted(self.wanted))? {
            let Some((key, wanted)) = found else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            let is_wanted_whole = wanted.iter().flatten().any(|wanted| !wanted.is_object());
            let value = if is_wanted_whole {
                map.next_value()?
            } else {
                map.next_value_seed(Picker { wanted: wanted.map(|value| value?.as_object()) })?
            };
            picked.insert(key.clone(), value);
        }
        Ok(Value::Object(picked))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Value, A::Error> {
        Value::deserialize(SeqAccessDeserializer::new(items))
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Value, E> {
        Ok(flag.into())
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
}

/// Finds the values of a key in two mappings, and the key in one of them: that of the text need not be kept.
struct Wanted<'w>([Option<&'w Map<String, Value>>; 2]);

type Found<'w> = (&'w String, [Option<&'w Value>; 2]);

impl<'de, 'w> DeserializeSeed<'de> for Wanted<'w> {
    type Value = Option<Found<'w>>;

    fn deserialize<D: Deserializer<'de>>(self, key: D) -> Result<Self::Value, D::Error> {
        key.deserialize_str(self)
    }
}

impl<'w> Visitor<'_> for Wanted<'w> {
    type Value = Option<Found<'w>>;

    fn expecting(&self, expected: &mut fmt::Formatter<'_>) -> fmt::Result {
        expected.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        let found = self.0.map(|map| map?.get_key_value(key));
        let name = found.iter().flatten().next().map(|(name, _)| *name);
        Ok(name.map(|name| (name, found.map(|entry| Some(entry?.1)))))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const OBJECT: &str =
        r#"{"kind":"Pod","metadata":{"name":"p","labels":{"a":"1","b":"2"},"managedFields":[{"k":1}]},"spec":[1,2]}"#;

    fn picked(text: &str, wanted: &Value) -> Value {
        excerpt(text.as_bytes(), [wanted.as_object().unwrap(), &Map::new()]).unwrap()
    }

    #[test]
    fn only_selected_fields_are_parsed() {
        let wanted = json!({"metadata": {"labels": {"b": null, "c": null}, "uid": null}, "status": {}});
        assert_eq!(picked(OBJECT, &wanted), json!({"metadata": {"labels": {"b": "2"}}}));
        assert_eq!(picked(r#"{"a\n":1,"b":2}"#, &json!({"b": 0, "a\n": 0})), json!({"a\n": 1, "b": 2}));
    }

    #[test]
    fn fields_of_both_mappings_are_parsed() {
        let both_of = |one: &Value, other: &Value| {
            excerpt(OBJECT.as_bytes(), [one.as_object().unwrap(), other.as_object().unwrap()]).unwrap()
        };
        let (labels, name) =
            (json!({"metadata": {"labels": {"a": null}}}), json!({"metadata": {"name": null, "labels": {"b": null}}}));
        let both = json!({"metadata": {"name": "p", "labels": {"a": "1", "b": "2"}}});
        assert_eq!([both_of(&labels, &name), both_of(&name, &labels)], [both.clone(), both]);
        let whole = serde_json::from_str::<Value>(OBJECT).unwrap()["metadata"].clone();
        assert_eq!(both_of(&labels, &json!({"metadata": 1})), json!({"metadata": whole}));
    }

    #[test]
    fn fields_of_another_shape_are_parsed_as_a_whole() {
        assert_eq!(picked(OBJECT, &json!({"spec": {"a": 1}, "kind": {}})), json!({"spec": [1, 2], "kind": "Pod"}));
        let other = r#"{"a":true,"b":-1,"c":18446744073709551615,"d":1.5,"e":"x\n","f":null,"g":[{"h":1}]}"#;
        let wanted = json!({"a": {}, "b": {}, "c": {}, "d": {}, "e": {}, "f": {}, "g": {}});
        assert_eq!(picked(other, &wanted), serde_json::from_str::<Value>(other).unwrap());
    }

    #[test]
    fn parts_that_are_not_wanted_may_be_nested_as_deeply_as_they_like() {
        let deep =
            format!(r#"{{"metadata":{{"name":"p"}},"spec":{}1{}}}"#, r#"{"a":"#.repeat(1_000), "}".repeat(1_000));
        assert_eq!(picked(&deep, &json!({"metadata": {"name": null}})), json!({"metadata": {"name": "p"}}));
    }

    #[test]
    fn invalid_json_is_an_error() {
        for text in [&b"{"[..], b"\xff", b"{} {}", b"", br#"{"a":}"#] {
            assert!(excerpt(text, [&Map::new(), &Map::new()]).is_err(), "{text:?}");
        }
    }
}
