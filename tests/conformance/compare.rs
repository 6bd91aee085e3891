//! Compares actual values with the expected ones of the vectors.

use serde_json::{Map, Value};

/// Tolerance in seconds: timers have a resolution of a millisecond.
const TOLERANCE: f64 = 0.002;

/// Keys with seconds of the clock. All other numbers must be equal.
const TIMES: [&str; 4] = ["consistency_in", "delays", "runtime", "t"];

/// The longest text of a value in a failure.
const SHOWN: usize = 700;

/// Checks that two values are equal: order of keys, types of numbers, and the layout of JSON in texts do not matter.
pub(crate) fn same(what: &str, expected: &Value, found: &Value) -> Result<(), String> {
    if is_same(what, expected, found) {
        Ok(())
    } else {
        Err(format!("{what}: expected {}\n  found {}", shown(expected), shown(found)))
    }
}

fn shown(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() > SHOWN { text.chars().take(SHOWN).chain("…".chars()).collect() } else { text }
}

/// Tells whether two values are equal under a key, which decides about the tolerance.
fn is_same(key: &str, expected: &Value, found: &Value) -> bool {
    match (expected, found) {
        (Value::Number(expected), Value::Number(found)) => match (expected.as_f64(), found.as_f64()) {
            (Some(expected), Some(found)) if TIMES.contains(&key) => (expected - found).abs() < TOLERANCE,
            (Some(expected), Some(found)) => expected.total_cmp(&found).is_eq(),
            _ => expected == found,
        },
        (Value::Object(expected), Value::Object(found)) => is_same_map(expected, found),
        (Value::Array(expected), Value::Array(found)) => {
            expected.len() == found.len()
                && expected.iter().zip(found).all(|(expected, found)| is_same(key, expected, found))
        }
        (Value::String(expected), Value::String(found)) => expected == found || is_same_json(expected, found),
        _ => expected == found,
    }
}

fn is_same_map(expected: &Map<String, Value>, found: &Map<String, Value>) -> bool {
    let is_found =
        |(key, expected): (&String, &Value)| found.get(key).is_some_and(|found| is_same(key, expected, found));
    expected.len() == found.len() && expected.iter().all(is_found)
}

/// Compares texts with JSON, as in annotations: the essence ends with a new line, records do not.
fn is_same_json(expected: &str, found: &str) -> bool {
    let parsed =
        |text: &str| serde_json::from_str::<Value>(text).ok().filter(|value| value.is_object() || value.is_array());
    expected.ends_with('\n') == found.ends_with('\n')
        && matches!((parsed(expected), parsed(found)), (Some(expected), Some(found)) if is_same("", &expected, &found))
}

/// Checks that two differences have the same items, in any order.
pub(crate) fn same_diff(what: &str, expected: &Value, found: &Value) -> Result<(), String> {
    same(what, &sorted(expected), &sorted(found))
}

/// Returns the items of a difference in the order of the vectors.
pub(crate) fn sorted(diff: &Value) -> Value {
    let mut items = diff.as_array().cloned().unwrap_or_default();
    items.sort_by_key(|item| (item[1].to_string(), item[0].to_string()));
    Value::Array(items)
}

/// Checks that two patches have the same effect: operations may differ, except the leading test.
pub(crate) fn same_payload(what: &str, expected: &Value, found: &Value, before: &Value) -> Result<(), String> {
    match (expected.as_array(), found.as_array()) {
        (Some(expected_operations), Some(found_operations)) => {
            let is_same_test = expected_operations.first() == found_operations.first();
            let after = |operations: &[Value]| after(operations.get(1..).unwrap_or_default(), before);
            if is_same_test && after(expected_operations) == after(found_operations) {
                return Ok(());
            }
            Err(format!("{what}: expected {}\n  found {}", shown(expected), shown(found)))
        }
        _ => same(what, expected, found),
    }
}

fn after(operations: &[Value], before: &Value) -> Option<Value> {
    let mut object = before.clone();
    let operations: json_patch::Patch = serde_json::from_value(operations.into()).ok()?;
    json_patch::patch(&mut object, &operations).ok().map(|()| object)
}

/// Checks log messages: the level and the first line, of which only the constant part counts if the rest is specific to
/// Python.
pub(crate) fn same_logs(expected: &Value, found: &[Value]) -> Result<(), String> {
    let constant = |line: &Value| {
        let text = line[1].as_str().unwrap_or_default();
        let cut = VARIABLE.iter().find_map(|start| text.find(start).map(|at| &text[..at + start.len()]));
        (line[0].clone(), cut.unwrap_or(text).to_owned())
    };
    let expected: Vec<_> = expected.as_array().into_iter().flatten().map(constant).collect();
    let found: Vec<_> = found.iter().map(constant).collect();
    for (index, line) in expected.iter().enumerate() {
        if found.get(index) != Some(line) {
            return Err(format!("log line {}: expected {line:?}\n  found {:?}", index + 1, found.get(index)));
        }
    }
    match found.get(expected.len()) {
        Some(extra) => Err(format!("log line {}: expected nothing\n  found {extra:?}", expected.len() + 1)),
        None => Ok(()),
    }
}

/// Texts that are followed by Python's representations of errors and tuples.
const VARIABLE: &[&str] = &["due to an unexpected error:", "finished with inconsistencies:", ": ValueError("];
