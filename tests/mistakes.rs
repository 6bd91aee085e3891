//! The output of `kopfd check` for errors: one folder of manifests, one snapshot of the whole output for each.
//!
//! Every name in `tests/mistakes` that begins with a number is a case: a file, or a directory of files.

#![expect(clippy::unwrap_used, reason = "a test that fails may panic")]

use std::panic::catch_unwind;
use std::path::Path;
use std::process::Command;

use super::child::output;

fn check(folder: &Path, name: &str) -> String {
    let output =
        output(Command::new(env!("CARGO_BIN_EXE_kopfd")).args(["check", "--config", name]).current_dir(folder));
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    let code = output.status.code().expect("the command ends by itself");
    format!("{}exit code: {code}\n", String::from_utf8(output.stdout).unwrap())
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| name.starts_with(|c: char| c.is_ascii_digit()));
    names.sort();
    assert!(names.len() >= 80, "only {} cases", names.len());
    names
}

#[test]
fn every_mistake_is_reported_with_its_position_and_a_hint() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mistakes");
    let names = names(&folder);
    let failed: Vec<&String> = names
        .iter()
        .filter(|name| {
            let output = check(&folder, name);
            catch_unwind(|| {
                insta::with_settings!({omit_expression => true, prepend_module_to_snapshot => false, snapshot_path => "snapshots/mistakes"}, {
                    insta::assert_snapshot!(name.trim_end_matches(".yaml"), output);
                });
            })
            .is_err()
        })
        .collect();
    assert!(failed.is_empty(), "other outputs than expected: {failed:?}");
}

/// Returns the errors and warnings of an output that lack a hint, or the line of the file.
fn incomplete(output: &str) -> Vec<String> {
    let is_start = |line: &str| ["error: ", "warning: ", "hint: "].iter().any(|severity| line.starts_with(severity));
    let is_snippet = |line: &str| {
        let line = line.trim_start();
        line.starts_with(|c: char| c.is_ascii_digit())
            && line.trim_start_matches(|c: char| c.is_ascii_digit()).starts_with(" | ")
    };
    let mut found: Vec<(&str, bool, bool)> = Vec::new();
    for line in output.lines() {
        if is_start(line) {
            found.push((line, false, false));
        } else if let Some((_, has_hint, has_snippet)) = found.last_mut() {
            *has_hint |= line.trim_start().starts_with("= hint: ");
            *has_snippet |= is_snippet(line);
        }
    }
    found.retain(|(message, has_hint, has_snippet)| !message.starts_with("hint: ") && (!*has_hint || !*has_snippet));
    found.into_iter().map(|(message, ..)| message.to_owned()).collect()
}

#[test]
fn every_error_and_warning_has_a_hint_and_a_line_of_its_file() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mistakes");
    let mut incomplete_ones = Vec::new();
    for name in names(&folder) {
        // This error is about a directory.
        if !name.starts_with("180-") {
            incomplete_ones
                .extend(incomplete(&check(&folder, &name)).into_iter().map(|message| format!("{name}: {message}")));
        }
    }
    assert!(incomplete_ones.is_empty(), "without a hint or a line: {incomplete_ones:#?}");
    assert_eq!(
        incomplete("error: a\n --> x:1:1\n  |\n1 | b\n  |\n\nwarning: c\n --> x\n  = hint: d\n"),
        ["error: a", "warning: c"]
    );
}
