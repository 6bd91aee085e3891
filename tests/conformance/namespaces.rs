//! Patterns of namespaces, and which namespaces are served.

use std::collections::BTreeSet;

use kopfd::object::Body;
use kopfd::object::namespace::{self, Pattern};
use serde_json::{Value, json};

use super::compare::same;
use super::world::declare;

/// Runs one case.
pub(crate) fn run(case: &Value) -> Result<(), String> {
    let input = &case["input"];
    let patterns = patterns(&input["patterns"]);
    let found = match input["op"].as_str().unwrap_or_default() {
        "match" => json!({"match": pattern(&input["pattern"]).matches(input["name"].as_str().unwrap_or_default())}),
        "match_any" => {
            let names = input["names"].as_array().into_iter().flatten().filter_map(Value::as_str);
            json!({"matched": names.filter(|name| namespace::any_matches(&patterns, name)).collect::<Vec<_>>()})
        }
        "exact" => json!({"namespaces": namespace::exact(&patterns)}),
        "revise" => revised(&patterns, input),
        other => panic!("the operation {other:?} is unknown"),
    };
    same("outcome", &case["expected"], &found)
}

fn patterns(specs: &Value) -> Vec<Pattern> {
    specs.as_array().into_iter().flatten().map(pattern).collect()
}

fn pattern(spec: &Value) -> Pattern {
    match spec["$regex"].as_str() {
        Some(regex) => Pattern::of_regex(regex).expect("the vectors' expressions are well-formed"),
        None => Pattern::of_globs(spec.as_str().unwrap_or_default()),
    }
}

fn revised(patterns: &[Pattern], input: &Value) -> Value {
    let initial = input["initial"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let mut served: BTreeSet<String> = initial.map(str::to_owned).collect();
    let mut after_each = Vec::new();
    for event in input["events"].as_array().into_iter().flatten() {
        namespace::revise(
            &mut served,
            patterns,
            declare::event_kind(&event["type"]),
            &Body::from(event["object"].clone()),
        );
        after_each.push(served.clone());
    }
    json!({"served_after_each_event": after_each})
}
