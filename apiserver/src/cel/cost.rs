//! Costs of expressions, in the units of Kubernetes: actual costs of evaluations, and estimated maximum costs.

mod calls;
mod estimator;

pub(super) use estimator::estimate;

use super::value::Value;

/// The cost of a list literal.
pub(super) const LIST: u64 = 10;
/// The cost of a map literal.
pub(super) const MAP: u64 = 30;
/// The cost of traversing a text, for each character.
const TEXT: f64 = 0.1;
/// The cost of a regular expression, for each character of it and each unit of the text.
const PATTERN: f64 = 0.25;
/// The cost of an authorization check.
const AUTHORIZATION: u64 = 350_000;
/// The cost of parsing a selector, for each character: half a requirement, and a list and an object for each.
const REQUIREMENT: f64 = 0.5;
const REQUIREMENT_PARTS: f64 = 50.0;

/// The minimum and maximum of a size or a cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Estimate {
    /// The minimum.
    pub(crate) min: u64,
    /// The maximum.
    pub(crate) max: u64,
}

/// A size.
pub(crate) type Size = Estimate;

/// The possible sizes of values.
pub(crate) trait Sizes {
    /// Returns the size of the value at a path, which begins with a variable; `@items`, `@values` and `@keys` are
    /// wildcards.
    fn size(&self, path: &[&str]) -> Option<Size>;
}

/// All sizes are unknown.
impl Sizes for () {
    fn size(&self, _: &[&str]) -> Option<Size> {
        None
    }
}

impl Estimate {
    const UNKNOWN: Self = Self { min: 0, max: u64::MAX };

    const fn exactly(number: u64) -> Self {
        Self { min: number, max: number }
    }

    fn plus(self, other: Self) -> Self {
        Self { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    fn times(self, other: Self) -> Self {
        Self { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    fn by(self, factor: f64) -> Self {
        Self { min: by(self.min, factor), max: by(self.max, factor) }
    }

    fn or(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }
}

/// Returns a number of units, rounded up.
fn by(number: u64, factor: f64) -> u64 {
    // The conversion stops at the largest number, as the estimates of Kubernetes do.
    (number as f64 * factor).ceil() as u64
}

/// Returns the part of a call's cost that depends on its arguments.
pub(super) fn before_call(function: &str, arguments: &[Value]) -> u64 {
    let size = |index: usize| arguments.get(index).map_or(0, Value::size);
    let is_text = |index: usize| matches!(arguments.get(index), Some(Value::String(_) | Value::Bytes(_)));
    match function {
        "check" => AUTHORIZATION,
        "fieldSelector" | "labelSelector" => LIST + by(size(1), TEXT) + by(by(size(1), REQUIREMENT), REQUIREMENT_PARTS),
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => arguments.first().map_or(0, traversal),
        "url" | "lowerAscii" | "upperAscii" | "substring" | "trim" | "cidr" | "isIP" | "isCIDR" | "quantity"
        | "isQuantity" | "semver" | "isSemver" | "startsWith" | "endsWith" | "strings.quote" | "format" => {
            by(size(0), TEXT)
        }
        "ip" if is_text(0) => by(size(0), TEXT),
        "bytes" if matches!(arguments.first(), Some(Value::String(_))) => by(size(0), TEXT),
        "string" if matches!(arguments.first(), Some(Value::Bytes(_))) => by(size(0), TEXT),
        "replace" | "split" | "ip.isCanonical" => by(size(0), 2.0 * TEXT),
        "find" | "findAll" | "matches" => by(size(0) + 1, TEXT) * by(size(1), PATTERN),
        "contains" => by(size(0), TEXT) * by(size(1), TEXT),
        "containsIP" => by(2 * size(0), TEXT) + parsed(arguments),
        "containsCIDR" => by(2 * size(0), TEXT) + by(size(0), TEXT) + 1 + parsed(arguments),
        "validate" => match arguments.first() {
            Some(Value::Format(format)) => by(size(1) + 1, TEXT) * by(format.length, PATTERN),
            _ => 1,
        },
        "@in" if matches!(arguments.get(1), Some(Value::List(_))) => size(1),
        "_<_" | "_<=_" | "_>_" | "_>=_" if is_text(0) => by(size(0).min(size(1)), TEXT),
        "_==_" | "_!=_" => by(size(0).min(size(1)), TEXT),
        "_+_" if is_text(0) => by(size(0) + size(1), TEXT),
        "flatten" => {
            let depth = if let Some(Value::Int(depth)) = arguments.get(1) {
                u64::try_from(*depth).unwrap_or_default()
            } else {
                1
            };
            size(0).saturating_mul(depth).saturating_add(LIST + 1)
        }
        "distinct" | "sort" => compared(arguments.first()),
        "@sortByAssociatedKeys" => compared(arguments.get(1)),
        "sets.contains" | "sets.intersects" => 1 + size(0).saturating_mul(size(1)),
        "sets.equivalent" => 1 + size(0).saturating_mul(size(1)).saturating_mul(2),
        // Their cost depends on the result.
        "join" | "slice" | "lists.range" | "reverse" => 0,
        _ => 1,
    }
}

/// Returns the part of a call's cost that depends on its result.
pub(super) fn after_call(function: &str, result: &Value) -> u64 {
    match function {
        "join" => by(result.size(), 2.0 * TEXT),
        "slice" | "lists.range" | "reverse" => result.size() + LIST + 1,
        _ => 0,
    }
}

/// The second argument must be parsed first, if it is a text.
fn parsed(arguments: &[Value]) -> u64 {
    match arguments.get(1) {
        Some(Value::String(text)) => by(text.chars().count() as u64, TEXT),
        _ => 0,
    }
}

fn compared(list: Option<&Value>) -> u64 {
    let Some(Value::List(list)) = list else { return 1 };
    let factor = if matches!(list.items.first(), Some(Value::String(_) | Value::Bytes(_))) { 2.0 + TEXT } else { 2.0 };
    let size = list.items.len() as f64;
    (size * size * factor) as u64 + LIST + 1
}

fn traversal(value: &Value) -> u64 {
    match value {
        Value::String(text) => (text.len() as f64 * TEXT) as u64,
        Value::Bytes(bytes) => (bytes.len() as f64 * TEXT) as u64,
        Value::List(list) => list.items.iter().map(traversal).sum(),
        Value::Map(map) => map.entries.iter().map(|(key, value)| traversal(&key.value()) + traversal(value)).sum(),
        _ => 1,
    }
}
