//! Equality as in Python, which kopf uses in diffs, in filters, and to detect changes of the essence.

use serde_json::{Number, Value};

/// Tells whether two values are loosely equal: `true == 1 == 1.0`, integers and floats compare by value.
///
/// Everything else is unequal across types: `"1"` is not `1`, and `null` equals only `null`.
pub fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Null, Value::Null) => true,
        (Value::String(a), Value::String(b)) => a == b,
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| equal(a, b)))
        }
        _ => match (Numeric::of(a), Numeric::of(b)) {
            (Some(a), Some(b)) => a.equals(b),
            _ => false,
        },
    }
}

/// Tells whether a value is falsy in Python, which equals Go's zero values: null, false, 0, and empty values.
pub fn is_falsy(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
    }
}

#[derive(Clone, Copy)]
enum Numeric {
    Integer(i128),
    Float(f64),
}

impl Numeric {
    fn of(value: &Value) -> Option<Self> {
        match value {
            Value::Bool(flag) => Some(Self::Integer(i128::from(*flag))),
            Value::Number(number) => Self::of_number(number),
            _ => None,
        }
    }

    fn of_number(number: &Number) -> Option<Self> {
        if let Some(integer) = number.as_i64() {
            Some(Self::Integer(i128::from(integer)))
        } else if let Some(integer) = number.as_u64() {
            Some(Self::Integer(i128::from(integer)))
        } else {
            number.as_f64().map(Self::Float)
        }
    }

    #[expect(clippy::float_cmp, reason = "Python compares floats exactly, and so must this")]
    fn equals(self, other: Self) -> bool {
        match (self, other) {
            (Self::Integer(a), Self::Integer(b)) => a == b,
            (Self::Float(a), Self::Float(b)) => a == b,
            (Self::Integer(integer), Self::Float(float)) | (Self::Float(float), Self::Integer(integer)) => {
                is_whole(float) && float as i128 == integer
            }
        }
    }
}

/// A float beyond this range cannot equal a 64-bit integer; within it the conversion is exact.
fn is_whole(float: f64) -> bool {
    float.fract() == 0.0 && float.abs() <= 2f64.powi(65)
}

#[cfg(test)]
mod tests {
    use super::equal;
    use serde_json::json;

    #[test]
    fn numbers_and_booleans_compare_by_value() {
        assert!(equal(&json!(true), &json!(1)));
        assert!(equal(&json!(false), &json!(0.0)));
        assert!(equal(&json!([1, {"a": 2.0}]), &json!([true, {"a": 2}])));
        assert!(!equal(&json!(9_007_199_254_740_993_i64), &json!(9_007_199_254_740_992.0)));
    }

    #[test]
    fn other_types_never_mix() {
        assert!(!equal(&json!("1"), &json!(1)));
        assert!(!equal(&json!(null), &json!(0)));
        assert!(!equal(&json!([]), &json!({})));
        assert!(!equal(&json!({"a": null}), &json!({})));
    }
}
