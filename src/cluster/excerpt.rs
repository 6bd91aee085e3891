//! Excerpts of answers: only the requested fields of an object are built.

use std::collections::HashMap;

use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// Returns the fields of an object that `wanted` has, too; the values of `wanted` do not matter.
///
/// # Errors
/// If the text is not JSON.
pub(super) fn read(text: &[u8], wanted: &Value) -> serde_json::Result<Value> {
    pick(serde_json::from_slice(text)?, wanted)
}

fn pick(raw: &RawValue, wanted: &Value) -> serde_json::Result<Value> {
    let Value::Object(wanted) = wanted else { return serde_json::from_str(raw.get()) };
    // A value that is not a mapping, or has keys with escapes, is taken as a whole.
    let Ok(parts) = serde_json::from_str::<HashMap<&str, &RawValue>>(raw.get()) else { return serde_json::from_str(raw.get()) };
    let found = wanted.iter().filter_map(|(key, wanted)| Some((key, parts.get(key.as_str())?, wanted)));
    let picked: serde_json::Result<Map<String, Value>> = found.map(|(key, part, wanted)| Ok((key.clone(), pick(part, wanted)?))).collect();
    Ok(Value::Object(picked?))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const OBJECT: &str = r#"{"kind":"Pod","metadata":{"name":"p","labels":{"a":"1","b":"2"},"managedFields":[{"k":1}]},"spec":[1,2]}"#;

    #[test]
    fn only_selected_fields_are_parsed() {
        let wanted = json!({"metadata": {"labels": {"b": null, "c": null}, "uid": null}, "status": {}});
        assert_eq!(read(OBJECT.as_bytes(), &wanted).unwrap(), json!({"metadata": {"labels": {"b": "2"}}}));
    }

    #[test]
    fn fields_of_another_shape_are_parsed_as_a_whole() {
        assert_eq!(read(OBJECT.as_bytes(), &json!({"spec": {"a": 1}, "kind": {}})).unwrap(), json!({"spec": [1, 2], "kind": "Pod"}));
        assert_eq!(read(br#"{"a\n":1,"b":2}"#, &json!({"b": 0})).unwrap(), json!({"a\n": 1, "b": 2}));
    }

    #[test]
    fn parts_that_are_not_wanted_may_be_nested_as_deeply_as_they_like() {
        let deep = format!(r#"{{"metadata":{{"name":"p"}},"spec":{}1{}}}"#, r#"{"a":"#.repeat(1_000), "}".repeat(1_000));
        assert_eq!(read(deep.as_bytes(), &json!({"metadata": {"name": null}})).unwrap(), json!({"metadata": {"name": "p"}}));
    }

    #[test]
    fn invalid_json_is_an_error() {
        assert!(read(b"{", &json!({})).is_err());
        assert!(read(b"\xff", &json!({})).is_err());
    }
}
