//! Compares the answers of two servers, and tracks the allowed differences.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::Value;

use super::differences::{DIFFERENCES, Direction};
use super::direction::direction;
use crate::differ::case::Case;

/// The results so far.
#[derive(Default)]
pub(crate) struct Verdicts {
    report: String,
    used: BTreeSet<(&'static str, &'static str)>,
    /// Cases without differences.
    pub(crate) same: usize,
    /// Cases with only allowed differences.
    pub(crate) excused: usize,
}

impl Verdicts {
    /// Records another problem.
    pub(crate) fn complain(&mut self, text: &str) {
        self.report.push_str(text);
        self.report.push('\n');
    }

    /// Returns all problems: differences that are not allowed, and allowed ones that do not occur.
    pub(crate) fn conclude(mut self) -> Result<(), String> {
        for difference in DIFFERENCES {
            for (case, at) in difference.places.iter().filter(|request_path| !self.used.contains(request_path)) {
                let _ = writeln!(self.report, "not needed: {case}: {at}: {}", difference.reason);
            }
        }
        if self.report.is_empty() { Ok(()) } else { Err(self.report) }
    }

    fn excuse(&mut self, case: &Case, path: &str, direction: Direction) -> bool {
        let name = format!("{}: {}", case.topic, case.name);
        let places = DIFFERENCES
            .iter()
            .filter(|difference| difference.direction == direction)
            .flat_map(|difference| difference.places);
        let fitting: Vec<_> = places.filter(|(case, at)| matches(case, &name) && matches(at, path)).copied().collect();
        self.used.extend(&fitting);
        !fitting.is_empty()
    }
}

/// Compares the answers to the steps of a case.
pub(crate) fn compare(verdicts: &mut Verdicts, case: &Case, real: &[Value], ours: &[Value]) {
    let (mut found, mut excused) = (String::new(), 0);
    for (number, step) in case.steps.iter().enumerate() {
        let nothing = Value::Null;
        let direction = direction(&case.steps[..=number], real.get(number).unwrap_or(&nothing), ours);
        let (real, ours) = (real.get(number).unwrap_or(&nothing), ours.get(number).unwrap_or(&nothing));
        for (path, real, ours) in differ(&format!("{}", number + 1), real, ours) {
            if direction != Direction::RefusesValid && verdicts.excuse(case, &path, direction) {
                excused += 1;
                continue;
            }
            let ask = step.ask.as_deref().unwrap_or("look");
            let _ = writeln!(
                found,
                "  {ask}\n    {path} ({direction:?})\n      real: {}\n      ours: {}",
                shown(&real),
                shown(&ours)
            );
        }
    }
    match (found.is_empty(), excused) {
        (true, 0) => verdicts.same += 1,
        (true, _) => verdicts.excused += 1,
        (false, _) => verdicts.complain(&format!("{}: {}\n{found}", case.topic, case.name)),
    }
}

/// Returns the differences between two answers. If the statuses differ, the rest is not comparable.
fn differ(path: &str, real: &Value, ours: &Value) -> Vec<(String, Value, Value)> {
    let mut found = differences(path, real, ours);
    if real["status"] != ours["status"] {
        found.retain(|(at, _, _)| *at == format!("{path}/status"));
        for (_, _, shown) in &mut found {
            *shown = serde_json::json!({"status": ours["status"], "body": ours["body"]});
        }
    }
    found
}

/// Returns the smallest different parts, with their paths.
fn differences(path: &str, real: &Value, ours: &Value) -> Vec<(String, Value, Value)> {
    match (real, ours) {
        (Value::Object(real), Value::Object(ours)) => {
            let mut names: Vec<&String> = real.keys().chain(ours.keys()).collect();
            names.sort();
            names.dedup();
            let nothing = Value::String("(nothing)".to_owned());
            let below = names.into_iter().flat_map(|name| {
                differences(
                    &format!("{path}/{name}"),
                    real.get(name).unwrap_or(&nothing),
                    ours.get(name).unwrap_or(&nothing),
                )
            });
            below.collect()
        }
        (Value::Array(real), Value::Array(ours)) if real.len() == ours.len() => {
            let pairs = real.iter().zip(ours).enumerate();
            pairs.flat_map(|(index, (real, ours))| differences(&format!("{path}/{index}"), real, ours)).collect()
        }
        // 1e3 is 1000.
        (Value::Number(real), Value::Number(ours)) if real.as_f64() == ours.as_f64() => Vec::new(),
        _ if real == ours => Vec::new(),
        _ => vec![(path.to_owned(), real.clone(), ours.clone())],
    }
}

fn shown(value: &Value) -> String {
    let text = value.to_string();
    text.chars().take(700).collect()
}

/// Tells whether a text matches a pattern, in which `*` matches any text.
pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((start, rest)) => text.strip_prefix(start).is_some_and(|text| {
            (0..=text.len()).any(|skip| text.is_char_boundary(skip) && matches(rest, &text[skip..]))
        }),
    }
}
