//! The output of `kopfd check` for errors: one folder of manifests, one snapshot of the whole output for each.
//!
//! Every name in `tests/mistakes` that begins with a number is a case: a file, or a directory of files.

#![expect(clippy::unwrap_used, reason = "a test that fails may panic")]

use std::panic::catch_unwind;
use std::path::Path;
use std::process::Command;

use super::child::output;

fn check(folder: &Path, name: &str) -> String {
    let output = output(Command::new(env!("CARGO_BIN_EXE_kopfd")).args(["check", "--config", name]).current_dir(folder));
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    let code = output.status.code().expect("the command ends by itself");
    format!("{}exit code: {code}\n", String::from_utf8(output.stdout).unwrap())
}

#[test]
fn every_mistake_is_reported_with_its_position_and_a_hint() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mistakes");
    let entries = std::fs::read_dir(&folder).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| name.starts_with(|c: char| c.is_ascii_digit()));
    names.sort();
    assert!(names.len() >= 80, "only {} cases", names.len());
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
