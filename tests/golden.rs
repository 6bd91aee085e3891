//! Tests of how the golden cases are compared and counted. The cases themselves are run by `tests/conformance/main.rs`.

#![expect(clippy::unwrap_used, reason = "a test that fails may panic")]

use std::path::Path;

use serde_json::{Value, json};

use suite::{Allowed, Outcome, Runner, Suite, Totals};

#[allow(dead_code, reason = "the golden cases use the other comparisons")]
#[path = "conformance/compare.rs"]
mod compare;
#[path = "conformance/suite.rs"]
mod suite;

const ALLOWED: [Allowed; 1] = [("numbers", "odd", "a reason")];

fn is_same(key: &str, expected: &Value, found: &Value) -> bool {
    compare::same("value", &json!({key: expected}), &json!({key: found})).is_ok()
}

#[test]
fn only_times_have_a_tolerance() {
    for time in ["consistency_in", "runtime", "t"] {
        assert!(is_same(time, &json!(1), &json!(1.001)) && is_same(time, &json!(1), &json!(0.999)), "{time}");
        assert!(!is_same(time, &json!(1), &json!(1.003)) && !is_same(time, &json!(1), &json!(0.997)), "{time}");
    }
    assert!(is_same("delays", &json!([5, 1]), &json!([5, 1.001])));
    assert!(!is_same("delays", &json!([5, 1]), &json!([5, 1.003])) && !is_same("delays", &json!([5, 1]), &json!([5])));
    for number in ["n", "delay", "time", "value"] {
        assert!(!is_same(number, &json!(1), &json!(1.001)), "{number}");
        assert!(is_same(number, &json!(1), &json!(1.0)), "{number}");
    }
    assert!(!is_same("t", &json!({"n": 1}), &json!({"n": 1.001})), "the key of the number itself counts");
    assert!(!is_same("t", &json!(1), &json!("1")) && !is_same("t", &json!(1), &json!(null)));
}

#[test]
fn json_in_texts_is_compared_by_the_same_rules() {
    let is_same_text = |expected: &str, found: &str| is_same("text", &json!(expected), &json!(found));
    assert!(is_same_text(r#"{"a": 1, "b": [2]}"#, r#"{"b":[2],"a":1.0}"#));
    assert!(is_same_text(r#"{"a": {"t": 1}}"#, r#"{"a": {"t": 1.001}}"#));
    assert!(!is_same_text(r#"{"a": {"t": 1}}"#, r#"{"a": {"t": 1.003}}"#));
    assert!(!is_same_text(r#"{"a": {"n": 1}}"#, r#"{"a": {"n": 1.001}}"#));
    assert!(!is_same("t", &json!("[1]"), &json!("[1.001]")), "numbers without a key in a text are no times");
    assert!(!is_same("t", &json!("1"), &json!("1.001")), "a number is no JSON in a text");
    assert!(!is_same_text("{\"a\": 1}\n", "{\"a\": 1}"), "the new line at the end counts");
}

/// A runner whose cases have a number that must be even.
fn even(name: &str) -> Option<Runner> {
    let run = |case: &Value| match case["input"].as_i64() {
        Some(number) if number % 2 == 0 => Ok(()),
        Some(number) => Err(format!("{number} is odd")),
        None => panic!("no number"),
    };
    (name == "numbers").then(|| Box::new(run) as Runner)
}

/// Runs a directory, and returns the totals and what is printed.
fn run(directory: &Path, has_all_allowed: bool) -> (Totals, String) {
    let suite = Suite { runner: &even, inputs: &["input"], allowed: &ALLOWED, has_all_allowed };
    let mut lines = Vec::new();
    let totals = suite.run(directory, &mut |line| lines.push(line));
    (totals, lines.join("\n"))
}

/// Runs these files, and returns the totals and what is printed.
fn run_files(files: &[(&str, Value)], has_all_allowed: bool) -> (Totals, String) {
    let folder = tempfile::tempdir().unwrap();
    for (name, cases) in files {
        std::fs::write(folder.path().join(name), cases.to_string()).unwrap();
    }
    run(folder.path(), has_all_allowed)
}

fn is_ok(files: Totals) -> bool {
    Outcome { files, ..Outcome::default() }.is_ok()
}

#[test]
fn cases_pass_fail_or_are_allowed_to_fail() {
    let cases = json!([{"name": "even", "input": 2}, {"name": "odd", "input": 1}]);
    let (totals, printed) =
        run_files(&[("numbers.json", cases), ("input.json", json!({})), ("notes.txt", json!(1))], true);
    assert_eq!(totals, Totals { passed: 1, failed: 0, allowed: 1 });
    assert_eq!(printed, "numbers.json: 1 of 2 pass\n  differs: odd\n    because a reason");
    assert!(is_ok(totals));

    let (totals, printed) =
        run_files(&[("numbers.json", json!([{"input": 2}, {"input": 3}, {"name": "none"}]))], false);
    assert_eq!(totals, Totals { passed: 1, failed: 2, allowed: 0 });
    assert!(
        printed.contains("  FAILED: 3\n    3 is odd") && printed.contains("  FAILED: none\n    panicked: no number"),
        "{printed}"
    );
    assert!(!is_ok(totals));
}

#[test]
fn a_directory_without_cases_is_a_failure() {
    let folder = tempfile::tempdir().unwrap();
    for directory in [Path::new(""), folder.path(), &folder.path().join("absent")] {
        let (totals, printed) = run(directory, false);
        assert!(totals.failed > 0 && !is_ok(totals), "{totals:?}");
        let expected =
            format!("there are no cases in \"{}\": KOPFD_VECTORS must name a directory", directory.display());
        assert!(printed.contains(&expected), "{printed}");
    }
    assert!(!Outcome::default().is_ok());
}

#[test]
fn files_that_cannot_be_run_are_failures() {
    let even = ("numbers.json", json!([{"input": 2}]));
    let (totals, printed) = run_files(&[even.clone(), ("others.json", json!([{"input": 2}]))], false);
    assert_eq!(totals, Totals { passed: 1, failed: 1, allowed: 0 });
    assert!(printed.contains("others.json: FAILED: it has no runner"), "{printed}");
    assert!(!is_ok(totals));
    for cases in [json!([]), json!({"name": "even", "input": 2})] {
        let (totals, printed) = run_files(&[("numbers.json", cases)], false);
        assert!(printed.contains("numbers.json is no list of cases") && !is_ok(totals), "{printed}");
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("numbers.json"), "[").unwrap();
    let (totals, printed) = run(folder.path(), false);
    assert!(printed.contains("numbers.json is no JSON") && !is_ok(totals), "{printed}");
}

#[test]
fn an_allowed_case_that_passes_or_is_absent_is_a_failure() {
    let (totals, printed) =
        run_files(&[("numbers.json", json!([{"name": "even", "input": 2}, {"name": "odd", "input": 4}]))], true);
    assert_eq!(totals, Totals { passed: 1, failed: 1, allowed: 0 });
    assert!(printed.contains("  FAILED: odd\n    it passes, but is allowed to fail"), "{printed}");

    let even = [("numbers.json", json!([{"name": "even", "input": 2}]))];
    let (totals, printed) = run_files(&even, true);
    assert_eq!(totals, Totals { passed: 1, failed: 1, allowed: 0 });
    assert!(printed.contains("FAILED: numbers.json has no case \"odd\", which is allowed to fail"), "{printed}");
    assert!(is_ok(run_files(&even, false).0), "other directories have other cases");
}

#[test]
fn the_result_is_ok_only_if_the_embedded_server_passes_too() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("numbers.json");
    std::fs::write(&file, json!([{"name": "even", "input": 2}, {"name": "odd", "input": 1}]).to_string()).unwrap();
    let mut lines = Vec::new();
    let embedded = suite::run_again("numbers again", &file, &even("numbers").unwrap(), &mut |line| lines.push(line));
    assert_eq!(embedded, Totals { passed: 1, failed: 1, allowed: 0 }, "nothing is allowed to fail");
    assert_eq!(lines, ["numbers again.json: 1 of 2 pass", "  FAILED: odd\n    1 is odd"]);

    let files = Totals { passed: 3, failed: 0, allowed: 2 };
    let failed = Outcome { files, embedded };
    assert!(!failed.is_ok());
    assert!(failed.summary().contains("test result: FAILED. 3 passed; 1 failed; 2 ignored;"), "{}", failed.summary());
    let passed = Outcome { files, embedded: Totals { passed: 2, failed: 0, allowed: 0 } };
    assert!(passed.is_ok());
    let summary =
        "\ntest result: ok. 3 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out\nconformance: 3 of 5 cases pass";
    assert_eq!(passed.summary(), summary);
}
