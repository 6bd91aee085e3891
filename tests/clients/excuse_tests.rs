//! Tests of allowed differences in the outputs of clients. They need no server, and so run with `cargo test`.

#![expect(clippy::unwrap_used, reason = "a test that fails may panic")]

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::differences::{self, DIFFERENCES, Direction};
use super::excuse::Excuse;

fn excuse(value: Value) -> Excuse {
    let excuse: Excuse = serde_json::from_value(value).unwrap();
    assert_eq!(excuse.mistake(), None);
    excuse
}

#[test]
fn a_difference_elsewhere_in_the_same_output_is_found() {
    let lines = excuse(json!({"lines": ["^Service Account:"]}));
    assert!(lines.covers("Name: a\nService Account: x\nStatus: Running", "Name: a\nStatus: Running"));
    assert!(!lines.covers("Name: a\nService Account: x\nStatus: Running", "Name: a\nStatus: Pending"));
    assert!(!lines.covers("Name: a\nService Account: x", "Name: a\nService Account: x\nStatus: Running"));

    let parts = excuse(json!({"parts": ["minor: \\d+"]}));
    assert!(parts.covers("major: 1, minor: 36", "major: 1, minor: 35"));
    assert!(!parts.covers("major: 2, minor: 36", "major: 1, minor: 36"));

    let missing = excuse(json!({"missing": ["^csinodes "]}));
    assert!(missing.covers("pods po\nsecrets", "csinodes x\npods po\nsecrets"));
    assert!(!missing.covers("pods po", "csinodes x\npods po\nsecrets"), "other lines are not missing");
    assert!(!missing.covers("csinodes x\npods po", "pods po"), "ours has a line too many");

    let fields = excuse(json!({"fields": ["/serverVersion/gitVersion", "/items/*/hash"]}));
    let output = |version: &str, major: &str, hash: u8| {
        let value =
            json!({"serverVersion": {"gitVersion": version, "major": major}, "items": [{"hash": hash, "name": "a"}]});
        format!("exit 0\n{}\n\n-- errors\n", serde_json::to_string_pretty(&value).unwrap())
    };
    assert!(fields.covers(&output("v1.36.3", "1", 1), &output("v1.36.0", "1", 2)));
    assert!(!fields.covers(&output("v1.36.3", "1", 1), &output("v1.36.3", "2", 1)));
    assert!(!fields.covers("exit 0\n{\n}", "exit 1\n{\n}"), "the way in which it ended is compared");
    let object = json!({"spec": {"a": 1, "b": 2}});
    assert_eq!(excuse(json!({"fields": ["/spec/a"]})).without_fields(&object), json!({"spec": {"b": 2}}));
}

#[test]
fn only_the_texts_below_named_lines_may_differ() {
    let texts = excuse(json!({"texts": ["^DESCRIPTION:$", "^ (kind|spec) <"]}));
    let output = "KIND: Pod\n\nDESCRIPTION:\n <empty>\nFIELDS:\n kind <string>\n Short.\n\n mode <string>\n enum: a, b\n How.\n\n\n-- errors\n";
    let real = output.replace(" <empty>\n", " A longer\n text.\n\n").replace(" Short.\n", " A text\n in two lines.\n");
    assert!(texts.covers(output, &real));
    for (part, other) in [
        ("KIND: Pod", "KIND: Pot"),
        (" kind <string>", " kind <integer>"),
        (" kind <string>\n A text\n in two lines.\n\n", ""),
        (" enum: a, b", " enum: a"),
        (" enum: a, b\n", ""),
        (" How.", " Why."),
        ("How.\n\n", "How.\n\n more <string>\n None.\n\n"),
        ("-- errors\n", "-- errors\nNot found.\n"),
    ] {
        let other = real.replacen(part, other, 1);
        assert!(other != real && !texts.covers(output, &other), "{part}: {other}");
    }
}

#[test]
fn a_missing_line_that_both_have_or_none_is_reported() {
    let missing = excuse(json!({"missing": ["^csinodes ", "^bindings "]}));
    assert_eq!(missing.unused("pods po", "bindings x\ncsinodes x\npods po"), None);
    assert_eq!(missing.unused("pods po\nbindings x", "bindings x\ncsinodes x\npods po"), Some("^bindings "));
    assert_eq!(missing.unused("pods po", "bindings x\npods po"), Some("^csinodes "));
}

#[test]
fn a_whole_output_cannot_be_excused() {
    let mistake = |value: Value| serde_json::from_value::<Excuse>(value).unwrap().mistake();
    for pattern in [".*", "^", ".+", r"\w+", "^.*$", "[^x]*"] {
        assert!(mistake(json!({"lines": [pattern]})).is_some(), "{pattern}");
    }
    for pattern in ["^exit ", r"\d$", "^--", "errors"] {
        assert!(
            mistake(json!({"lines": [pattern]})).is_some(),
            "{pattern}: the way in which a command ends is compared"
        );
    }
    assert!(mistake(json!({"missing": [".*"]})).is_some());
    assert!(mistake(json!({"texts": [".*"]})).is_some());
    assert!(mistake(json!({"fields": ["/"]})).is_some() && mistake(json!({"fields": ["spec"]})).is_some());
    assert!(mistake(json!({"lines": ["("]})).is_some());
    assert!(mistake(json!({})).is_some());
}

#[test]
fn every_difference_of_the_clients_has_its_direction() {
    let entry = |rest: &str| {
        differences::parse(&format!("[{{case: a, command: get pods, reason: None., {rest}}}]")).map(|_| ())
    };
    assert_eq!(entry("direction: answers-otherwise, fields: [/a]"), Ok(()));
    assert_eq!(entry("direction: accepts-refused, lines: ['^a ']"), Ok(()));
    assert_eq!(entry("direction: refuses-valid, missing: ['^a ']"), Ok(()));
    for (mistaken, problem) in [
        ("fields: [/a]", "direction"),
        ("direction: other, fields: [/a]", "other"),
        ("direction: refuses-valid, lines: ['^a ']", "`missing`"),
        ("direction: answers-otherwise, missing: ['^a ']", "refuses-valid"),
        ("direction: accepts-refused, missing: ['^a ']", "refuses-valid"),
        ("direction: answers-otherwise, field: [/a]", "field"),
        ("direction: answers-otherwise", "names nothing"),
    ] {
        let message = entry(mistaken).unwrap_err();
        assert!(message.contains(problem), "{mistaken}: {message}");
    }
}

#[test]
fn every_difference_of_the_clients_names_a_command_once() {
    let places: BTreeSet<_> = DIFFERENCES.iter().map(|one| (&one.case, &one.command)).collect();
    assert_eq!(places.len(), DIFFERENCES.len());
}

#[test]
fn resources_that_are_not_served_are_in_the_documentation() {
    let page = include_str!("../../docs/apiserver-differences.md");
    let (_, section) = page.split_once("## Valid requests that it rejects\n").unwrap();
    let lines = section.split("\n## ").next().unwrap().lines().filter(|line| line.starts_with("* "));
    let documented: BTreeSet<String> =
        lines.flat_map(|line| line.split('`').skip(1).step_by(2)).map(str::to_owned).collect();
    let refusals = DIFFERENCES.iter().filter(|one| one.direction == Direction::RefusesValid);
    let patterns = refusals.flat_map(|one| one.excuse.missing());
    let listed: BTreeSet<String> =
        patterns.map(|pattern| pattern.trim_matches(['^', '$', ' ']).replace('\\', "")).collect();
    assert_eq!(documented, listed);
}
