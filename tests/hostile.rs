//! Hostile files: a clear error, quickly, and with little memory.

#![expect(clippy::unwrap_used, reason = "a test that fails may panic")]

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use kopfd::manifest::{self, Diagnostic};

const HEAD: &str = "apiVersion: kopfd.dev/v1\nkind: Operator\nmetadata: {name: demo}\nspec:\n";

/// Resets the peak memory of this process to the current memory, and returns it in MiB.
pub(crate) fn reset_peak_memory() -> u64 {
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    peak_memory()
}

/// Returns the peak memory since the reset, in MiB.
pub(crate) fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
}

fn check(folder: &Path, name: &str, content: &[u8]) -> Vec<Diagnostic> {
    let path = folder.join(name);
    std::fs::write(&path, content).unwrap();
    let begun = Instant::now();
    let loaded = manifest::load(&[path]);
    let taken = begun.elapsed();
    // The limit for unoptimised builds on a busy machine; otherwise the slowest takes less than a second.
    assert!(taken < Duration::from_secs(30), "{name} took {taken:?}");
    assert!(loaded.has_errors(), "{name} passed");
    assert!(loaded.diagnostics.len() <= 1_001, "{name} gave {} diagnostics", loaded.diagnostics.len());
    let longest = loaded
        .diagnostics
        .iter()
        .filter_map(|one| one.snippet.as_ref())
        .map(|snippet| snippet.text.len())
        .max()
        .unwrap_or_default();
    assert!(longest < 2_000, "{name} shows a line of {longest} bytes");
    loaded.diagnostics
}

fn message(folder: &Path, name: &str, content: &[u8]) -> String {
    let diagnostics = check(folder, name, content);
    assert_eq!(diagnostics.len(), 1, "{name}: {diagnostics:#?}");
    diagnostics[0].message.clone()
}

fn joined(numbers: std::ops::Range<usize>, line: impl Fn(usize) -> String) -> String {
    numbers.map(line).collect::<Vec<String>>().concat()
}

#[test]
fn hostile_files_are_refused_soon_and_in_little_memory() {
    let _alone = super::alone();
    let before = reset_peak_memory();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let large = format!("{HEAD}  note: {}\n", "x".repeat(10 << 20));
    assert_eq!(message(folder, "large.yaml", large.as_bytes()), "the file is larger than 8 MiB");

    let long_line = format!("{HEAD}  note: {}\n", "x".repeat(7 << 20));
    assert!(message(folder, "long-line.yaml", long_line.as_bytes()).starts_with("unknown field `note`"));

    let flow = format!("{HEAD}  resources: {}", "[".repeat(100_000));
    assert_eq!(message(folder, "flow.yaml", flow.as_bytes()), "nested deeper than 100 levels");
    let maps = format!("{HEAD}  resources: {}", "{a: ".repeat(100_000));
    assert_eq!(message(folder, "maps.yaml", maps.as_bytes()), "nested deeper than 100 levels");
    let dashes = format!("{HEAD}  resources:\n    {}x", "- ".repeat(100_000));
    assert_eq!(message(folder, "dashes.yaml", dashes.as_bytes()), "nested deeper than 100 levels");
    let indented = joined(0..2_000, |depth| format!("{}a:\n", " ".repeat(depth)));
    assert_eq!(message(folder, "indented.yaml", indented.as_bytes()), "nested deeper than 100 levels");

    let mut bomb = format!("{HEAD}  a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let ten = vec![format!("*a{}", level - 1); 10].join(", ");
        writeln!(bomb, "  a{level}: &a{level} [{ten}]").unwrap();
    }
    assert!(message(folder, "bomb.yaml", bomb.as_bytes()).contains("repeated by aliases"));
    let text_bomb = format!("{HEAD}  a: &a {}\n  b: [{}]\n", "x".repeat(1 << 20), "*a, ".repeat(10_000));
    assert!(message(folder, "text-bomb.yaml", text_bomb.as_bytes()).contains("repeated by aliases"));
    let nested_anchors =
        format!("{HEAD}  a: {}{}{}\n", joined(0..90, |n| format!("&a{n} [")), "x, ".repeat(100_000), "]".repeat(90));
    assert!(message(folder, "anchors.yaml", nested_anchors.as_bytes()).contains("repeated by aliases"));

    let unknown = joined(0..200_000, |number| format!("  k{number}: 1\n"));
    check(folder, "unknown.yaml", format!("{HEAD}{unknown}").as_bytes());
    let handlers: String = (0..100_000).map(|_| "        - {}\n").collect();
    check(
        folder,
        "handlers.yaml",
        format!("{HEAD}  resources:\n    - resource: pods\n      handlers:\n{handlers}").as_bytes(),
    );
    let documents = "---\na: 1\n".repeat(150_000);
    check(folder, "documents.yaml", documents.as_bytes());

    check(folder, "latin.yaml", b"apiVersion: kopfd.dev/v1\nkind: Operator\nmetadata: {name: d\xe9mo}\n");
    check(folder, "zeros.yaml", &[0; 4096]);
    check(folder, "noise.yaml", &(0..=255).cycle().take(100_000).collect::<Vec<u8>>());
    check(folder, "utf-16.yaml", &HEAD.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>());

    let grown = peak_memory() - before;
    assert!(grown < 450, "{grown} MiB");
}

#[test]
fn a_directory_instead_of_a_file_is_an_error() {
    let _alone = super::alone();
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("operator.yaml")).unwrap();
    let loaded = manifest::load(&[folder.path().join("operator.yaml")]);
    assert_eq!(loaded.diagnostics[0].message, "no operator found: there are no `*.yaml` or `*.yml` files");
    let loaded = manifest::load(&[folder.path().join("nothing.yaml")]);
    assert_eq!(loaded.diagnostics[0].message, "cannot read the file: it does not exist");
}

#[test]
fn a_regular_expression_that_explodes_is_refused() {
    let _alone = super::alone();
    let text = format!(
        "{HEAD}  resources:\n    - resource: pods\n      handlers:\n        - {{on: create, id: x, run: 'return 1;', labels: {{app: {{matches: '((a{{500}}){{500}}){{500}}'}}}}}}\n"
    );
    let loaded = manifest::read("operator.yaml", &text);
    assert!(loaded.diagnostics[0].message.starts_with("bad regular expression"), "{:#?}", loaded.diagnostics);
}
