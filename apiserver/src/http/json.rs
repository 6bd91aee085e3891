//! JSON from clients: the last of two fields with the same name wins, and duplicates are reported.

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Limit of nesting, because all functions over values recurse.
const MAX_DEPTH: usize = 100;

/// A parsed body.
#[derive(Debug, Clone, PartialEq)]
pub struct Body {
    /// The value.
    pub value: Value,
    /// Warnings about duplicate fields.
    pub remarks: Vec<String>,
}

impl From<Value> for Body {
    fn from(value: Value) -> Self {
        Self { value, remarks: Vec::new() }
    }
}

/// Returns the type of a value, as Go's decoder names it.
pub fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Parses a text.
///
/// # Errors
/// If it is not JSON, or nested too deeply.
pub fn parse(text: &[u8]) -> Result<Body, serde_json::Error> {
    read(text, false)
}

/// Parses a text, and keeps the form of numbers: `3.0` is not `3`.
///
/// # Errors
/// If it is not JSON, or nested too deeply.
pub fn parse_strictly(text: &[u8]) -> Result<Body, serde_json::Error> {
    read(text, true)
}

/// Converts the numbers of a value to the form of [`parse`].
pub fn with_whole_numbers(value: Value) -> Value {
    match value {
        Value::Number(number) => number.as_f64().filter(|_| number.is_f64()).map_or(Value::Number(number), whole),
        Value::Array(items) => items.into_iter().map(with_whole_numbers).collect(),
        Value::Object(members) => members.into_iter().map(|(name, value)| (name, with_whole_numbers(value))).collect(),
        other => other,
    }
}

fn read(text: &[u8], is_as_written: bool) -> Result<Body, serde_json::Error> {
    let mut duplicates = Vec::new();
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let value = Node { path: String::new(), depth: 0, is_as_written, duplicates: &mut duplicates }
        .deserialize(&mut deserializer)?;
    deserializer.end()?;
    let remarks = duplicates.iter().map(|path| format!("duplicate field {path:?}")).collect();
    Ok(Body { value, remarks })
}

/// Converts an integral number to an integer, whatever its form.
fn whole(value: f64) -> Value {
    let number = if value.fract() == 0.0 && value.abs() < 9e18 {
        Some(Number::from(value as i64))
    } else {
        Number::from_f64(value)
    };
    number.map_or(Value::Null, Value::Number)
}

struct Node<'a> {
    path: String,
    depth: usize,
    is_as_written: bool,
    duplicates: &'a mut Vec<String>,
}

impl Node<'_> {
    fn below(&mut self, path: String) -> Node<'_> {
        Node { path, depth: self.depth + 1, is_as_written: self.is_as_written, duplicates: self.duplicates }
    }

    fn check_depth<E: serde::de::Error>(&self) -> Result<(), E> {
        if self.depth < MAX_DEPTH { Ok(()) } else { Err(E::custom("exceeded max depth")) }
    }
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        // Integers are signed with 64 bits; larger ones become floating point.
        let number = i64::try_from(value).map(Number::from).ok().or_else(|| Number::from_f64(value as f64));
        Ok(number.map_or(Value::Null, Value::Number))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(if self.is_as_written { Number::from_f64(value).map_or(Value::Null, Value::Number) } else { whole(value) })
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<Value, A::Error> {
        self.check_depth::<A::Error>()?;
        let mut list = Vec::new();
        while let Some(item) = {
            let path = format!("{}[{}]", self.path, list.len());
            items.next_element_seed(self.below(path))?
        } {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut fields: A) -> Result<Value, A::Error> {
        self.check_depth::<A::Error>()?;
        let mut map = Map::new();
        while let Some(key) = fields.next_key::<String>()? {
            let path = if self.path.is_empty() { key.clone() } else { format!("{}.{key}", self.path) };
            let value = fields.next_value_seed(self.below(path.clone())).map_err(A::Error::custom)?;
            if map.insert(key, value).is_some() {
                self.duplicates.push(path);
            }
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicate_fields_are_reported_and_the_last_one_wins() {
        let body = parse(br#"{"spec": {"a": 1, "list": [{"x": 1, "x": 2}], "a": 3.0}}"#).unwrap();
        assert_eq!(body.remarks, [r#"duplicate field "spec.list[0].x""#, r#"duplicate field "spec.a""#]);
        assert_eq!(body.value["spec"]["a"], serde_json::json!(3));
    }

    #[test]
    fn deep_nesting_is_refused() {
        assert!(parse("[".repeat(200).as_bytes()).is_err());
        assert!(parse(format!("{}1{}", "[".repeat(99), "]".repeat(99)).as_bytes()).is_ok());
        assert!(parse(b"{\"a\":").is_err() && parse(b"{} x").is_err());
    }
}
