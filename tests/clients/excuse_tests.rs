//! Tests of allowed differences in the outputs of clients. They need no server, and so run with `cargo test`.

#![expect(clippy::unwrap_used, reason = "a test that fails may panic")]

use serde_json::{Value, json};

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
        let value = json!({"serverVersion": {"gitVersion": version, "major": major}, "items": [{"hash": hash, "name": "a"}]});
        format!("exit 0\n{}\n\n-- errors\n", serde_json::to_string_pretty(&value).unwrap())
    };
    assert!(fields.covers(&output("v1.36.3", "1", 1), &output("v1.36.0", "1", 2)));
    assert!(!fields.covers(&output("v1.36.3", "1", 1), &output("v1.36.3", "2", 1)));
    assert!(!fields.covers("exit 0\n{\n}", "exit 1\n{\n}"), "the way in which it ended is compared");
    let object = json!({"spec": {"a": 1, "b": 2}});
    assert_eq!(excuse(json!({"fields": ["/spec/a"]})).without_fields(&object), json!({"spec": {"b": 2}}));
}

#[test]
fn lines_can_be_kept_in_the_comparison() {
    let texts = excuse(json!({"lines": ["^ "], "compared": ["^ \\S+ <"]}));
    assert!(texts.covers("FIELDS:\n spec <Object>\n What it is.", "FIELDS:\n spec <Object>\n Something longer\n about it."));
    assert!(!texts.covers("FIELDS:\n spec <Object>\n What it is.", "FIELDS:\n spec <string>\n What it is."));
}

#[test]
fn a_whole_output_cannot_be_excused() {
    let mistake = |value: Value| serde_json::from_value::<Excuse>(value).unwrap().mistake();
    for pattern in [".*", "^", ".+", r"\w+", "^.*$", "[^x]*"] {
        assert!(mistake(json!({"lines": [pattern]})).is_some(), "{pattern}");
    }
    assert!(mistake(json!({"missing": [".*"]})).is_some());
    assert!(mistake(json!({"fields": ["/"]})).is_some() && mistake(json!({"fields": ["spec"]})).is_some());
    assert!(mistake(json!({"lines": ["("]})).is_some());
    assert!(mistake(json!({})).is_some());
}

#[test]
fn every_difference_of_the_clients_names_its_place() {
    let differences: Vec<Value> = serde_saphyr::from_str(include_str!("differences.yaml")).unwrap();
    for mut difference in differences {
        let members = difference.as_object_mut().unwrap();
        let [case, ..] = ["case", "command", "reason"].map(|name| members.remove(name).unwrap());
        let excuse: Excuse = serde_json::from_value(difference).unwrap();
        assert_eq!(excuse.mistake(), None, "{case}");
    }
}
