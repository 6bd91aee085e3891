//! The keys of an index: plain values without maps, which compare loosely, as Python's keys do.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use serde_json::{Number, Value};

/// Whole floats up to this magnitude are exact 128-bit integers.
const MAX_WHOLE: f64 = 1e30;

/// A key. `true`, `1` and `1.0` are one key; a key is printed as it was written.
#[derive(Debug, Clone)]
pub enum Key {
    /// The key of values without a key.
    Null,
    /// A boolean.
    Bool(bool),
    /// A number.
    Number(Number),
    /// A text.
    Text(Arc<str>),
    /// A composite key.
    List(Arc<[Key]>),
}

/// A value that cannot be a key: a map.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a map cannot be a key of an index")]
pub struct NoKey;

impl Key {
    /// Returns the key of a value.
    ///
    /// # Errors
    /// If it is a map, or a list with a map.
    pub fn of(value: &Value) -> Result<Self, NoKey> {
        Ok(match value {
            Value::Null => Self::Null,
            Value::Bool(flag) => Self::Bool(*flag),
            Value::Number(number) => Self::Number(number.clone()),
            Value::String(text) => Self::from(text.as_str()),
            Value::Array(items) => Self::List(items.iter().map(Self::of).collect::<Result<_, _>>()?),
            Value::Object(_) => return Err(NoKey),
        })
    }

    /// Returns the key as a value.
    pub fn to_value(&self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Bool(flag) => Value::Bool(*flag),
            Self::Number(number) => Value::Number(number.clone()),
            Self::Text(text) => Value::from(&**text),
            Self::List(items) => items.iter().map(Self::to_value).collect(),
        }
    }

    /// Returns the position among keys of different types.
    fn rank(&self) -> u8 {
        match self {
            Self::Null => 0,
            Self::Bool(_) | Self::Number(_) => 1,
            Self::Text(_) => 2,
            Self::List(_) => 3,
        }
    }

    fn numeric(&self) -> Numeric {
        match self {
            Self::Bool(flag) => Numeric::Integer(i128::from(*flag)),
            Self::Number(number) => Numeric::of(number),
            _ => Numeric::Integer(0),
        }
    }
}

impl From<&str> for Key {
    fn from(text: &str) -> Self {
        Self::Text(Arc::from(text))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Text(one), Self::Text(other)) => one.cmp(other),
            (Self::List(one), Self::List(other)) => one.cmp(other),
            _ => self.rank().cmp(&other.rank()).then_with(|| self.numeric().cmp(other.numeric())),
        }
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Key {}

impl fmt::Display for Key {
    /// Writes a text as it is, and any other key as JSON.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => formatter.write_str(text),
            other => other.to_value().fmt(formatter),
        }
    }
}

#[derive(Clone, Copy)]
enum Numeric {
    Integer(i128),
    /// A number with a fraction, or beyond the range of integers. JSON has no other floats.
    Float(f64),
}

impl Numeric {
    fn of(number: &Number) -> Self {
        let integer = number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
        let float = number.as_f64().unwrap_or_default();
        match integer {
            Some(integer) => Self::Integer(integer),
            None if float.fract() == 0.0 && float.abs() < MAX_WHOLE => Self::Integer(float as i128),
            None => Self::Float(float),
        }
    }

    fn cmp(self, other: Self) -> Ordering {
        match (self, other) {
            (Self::Integer(one), Self::Integer(other)) => one.cmp(&other),
            (Self::Float(one), Self::Float(other)) => one.total_cmp(&other),
            (Self::Integer(one), Self::Float(other)) => compare(one, other),
            (Self::Float(one), Self::Integer(other)) => compare(other, one).reverse(),
        }
    }
}

/// Compares an integer with a float that is no integer.
fn compare(integer: i128, float: f64) -> Ordering {
    // Beyond the range the conversion saturates, which keeps the order.
    if integer <= float.floor() as i128 { Ordering::Less } else { Ordering::Greater }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn key(value: &Value) -> Key {
        Key::of(value).unwrap()
    }

    #[test]
    fn keys_are_equal_as_in_python() {
        for (one, other) in [
            (json!(true), json!(1)),
            (json!(1), json!(1.0)),
            (json!(0), json!(-0.0)),
            (json!(["a", 1]), json!(["a", true])),
            (json!(u64::MAX), json!(u64::MAX)),
            (json!(9_007_199_254_740_992_i64), json!(9_007_199_254_740_992.0)),
        ] {
            assert_eq!(key(&one), key(&other), "{one} {other}");
        }
        for (one, other) in [
            (json!("1"), json!(1)),
            (json!(null), json!(false)),
            (json!(null), json!("")),
            (json!(["a"]), json!("a")),
            (json!([]), json!(null)),
            (json!(9_007_199_254_740_993_i64), json!(9_007_199_254_740_992.0)),
        ] {
            assert_ne!(key(&one), key(&other), "{one} {other}");
        }
    }

    #[test]
    fn keys_of_all_types_have_one_order() {
        let sorted = [
            json!(null),
            json!(-1e40),
            json!(-2),
            json!(-1.5),
            json!(false),
            json!(0.5),
            json!(1),
            json!(1.5),
            json!(u64::MAX),
            json!(1e40),
        ];
        let texts = [json!(""), json!("B"), json!("a"), json!([]), json!([1]), json!([1, "a"]), json!(["a"])];
        let keys: Vec<Key> = sorted.iter().chain(&texts).map(key).collect();
        for (index, one) in keys.iter().enumerate() {
            for (position, other) in keys.iter().enumerate() {
                assert_eq!(one.cmp(other), index.cmp(&position), "{one} {other}");
            }
        }
    }

    #[test]
    fn maps_are_no_keys_and_others_keep_their_form() {
        assert_eq!(Key::of(&json!({"a": 1})).map(|_| ()), Err(NoKey));
        assert_eq!(Key::of(&json!(["a", {}])).map(|_| ()), Err(NoKey));
        for value in [json!(null), json!(true), json!(1.0), json!("x"), json!(["a", [1, null]])] {
            assert_eq!(key(&value).to_value(), value);
        }
        assert_eq!(
            [json!("x"), json!(1), json!(["x", 1]), json!(null)].map(|value| key(&value).to_string()),
            ["x", "1", "[\"x\",1]", "null"]
        );
    }
}
