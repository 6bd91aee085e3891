//! Tests of trees read from texts.

use serde_json::json;

use super::super::source::Source;
use super::*;

fn tree(text: &str) -> Node {
    parse(&Source::new("a.yaml", text)).unwrap().remove(0).root
}

#[test]
fn plain_words_are_strings_but_for_yaml_1_2() {
    assert_eq!(
        tree("[yes, on, n, 0, 7, 012, 0o14, 0x1f, 1.5, 1e3, 1_000, ~, true, 1Gi, 12:30, -3, 'x']").to_value(),
        json!(["yes", "on", "n", 0, 7, 10, 12, 31, 1.5, 1000.0, 1000, null, true, "1Gi", "12:30", -3, "x"])
    );
}

#[test]
fn positions_are_those_of_the_content() {
    let root = tree("run: |\n  let x = 1;\n  return x;\nwhen: 'a > 1'\nkey: value\n");
    let start = |key: &str| {
        let Kind::Text(text) = &root.get(key).unwrap().kind else { panic!() };
        (text.start.line, text.start.column)
    };
    assert_eq!((start("run"), start("when"), start("key")), ((2, 3), (4, 8), (5, 6)));
}

#[test]
fn aliases_repeat_values_but_not_without_end() {
    assert_eq!(tree("a: &x {b: 1}\nc: *x\n").to_value(), json!({"a": {"b": 1}, "c": {"b": 1}}));
    let bomb = format!(
        "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n{}",
        (1..10).fold(String::new(), |text, n| {
            let ten = vec![format!("*a{}", n - 1); 10].join(", ");
            format!("{text}a{n}: &a{n} [{ten}]\n")
        })
    );
    assert!(parse(&Source::new("a.yaml", &bomb)).unwrap_err().message.contains("repeated by aliases"));
    assert!(parse(&Source::new("a.yaml", "a: &x [*x]")).is_err());
}

#[test]
fn all_mistakes_of_a_document_are_gathered() {
    let documents = parse(&Source::new("a.yaml", "a: 1\na: 2\nb: !tag x\n<<: {c: 1}\n")).unwrap();
    let messages: Vec<_> =
        documents[0].mistakes.iter().map(|mistake| (mistake.spot.line, mistake.message.as_str())).collect();
    assert_eq!(
        messages,
        [
            (2, "the key `a` is given twice"),
            (3, "tags are not allowed in a manifest"),
            (4, "merge keys are not allowed")
        ]
    );
}
