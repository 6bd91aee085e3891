//! Runs files of cases, and counts what passes. What a case tests is up to the runner of its file.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use kopfd::kit::tasks::panic_text;
use serde_json::Value;

/// Runs one case of a file. The error contains the expected and the actual value.
pub(crate) type Runner = Box<dyn Fn(&Value) -> Result<(), String>>;

/// A case that must fail: the file, the case, and the reason.
pub(crate) type Allowed = (&'static str, &'static str, &'static str);

/// How the files of a directory are run.
pub(crate) struct Suite<'a> {
    /// Returns the runner of a file by its name.
    pub(crate) runner: &'a dyn Fn(&str) -> Option<Runner>,
    /// The names of files that are read by other runners.
    pub(crate) inputs: &'a [&'a str],
    /// The cases that must fail.
    pub(crate) allowed: &'a [Allowed],
    /// Whether the directory has all of these.
    pub(crate) has_all_allowed: bool,
}

/// The cases of files by their results.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Totals {
    /// They pass.
    pub(crate) passed: usize,
    /// They fail, or are allowed to and pass; and files that cannot be run.
    pub(crate) failed: usize,
    /// They fail, and are allowed to.
    pub(crate) allowed: usize,
}

impl Totals {
    fn count(&self) -> usize {
        self.passed + self.failed + self.allowed
    }

    fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.allowed += other.allowed;
    }
}

/// The results of a run.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Outcome {
    /// Of the files.
    pub(crate) files: Totals,
    /// Of the scenarios that are run a second time, on the embedded server.
    pub(crate) embedded: Totals,
}

impl Outcome {
    /// Tells whether there were cases, and none failed.
    pub(crate) fn is_ok(&self) -> bool {
        self.files.passed > 0 && self.files.failed + self.embedded.failed == 0
    }

    /// Returns the last lines of the report; the first one has the form of the test harness of Rust.
    pub(crate) fn summary(&self) -> String {
        let Totals { passed, failed, allowed } = self.files;
        let (verdict, all_failed) = (if self.is_ok() { "ok" } else { "FAILED" }, failed + self.embedded.failed);
        format!(
            "\ntest result: {verdict}. {passed} passed; {all_failed} failed; {allowed} ignored; 0 measured; 0 filtered out\n\
             conformance: {passed} of {} cases pass",
            self.files.count()
        )
    }
}

impl Suite<'_> {
    /// Runs the files of a directory, and prints their results. A directory that cannot be read, or has no cases,
    /// counts as a failure.
    pub(crate) fn run(&self, directory: &Path, print: &mut dyn FnMut(String)) -> Totals {
        let mut totals = Totals::default();
        let files = files(directory).unwrap_or_else(|error| {
            print(format!("FAILED: {error}"));
            Vec::new()
        });
        let mut absent: Vec<&Allowed> = self.allowed.iter().filter(|_| self.has_all_allowed).collect();
        for file in files {
            let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            if self.inputs.contains(&&*name) {
                continue;
            }
            let Some(runner) = (self.runner)(&name) else {
                print(format!("{name}.json: FAILED: it has no runner in tests/conformance/main.rs"));
                totals.failed += 1;
                continue;
            };
            totals.add(self.run_file(&name, &file, &runner, &mut absent, print));
        }
        for (file, case, _) in absent {
            print(format!(
                "FAILED: {file}.json has no case {case:?}, which is allowed to fail: remove it from the list"
            ));
            totals.failed += 1;
        }
        if totals.count() == 0 {
            let place = directory.display();
            print(format!(
                "FAILED: there are no cases in \"{place}\": KOPFD_VECTORS must name a directory with files of cases"
            ));
            totals.failed += 1;
        }
        totals
    }

    /// Runs one file, and prints its results. `absent` loses the cases that the file has.
    fn run_file(
        &self,
        name: &str,
        file: &Path,
        runner: &Runner,
        absent: &mut Vec<&Allowed>,
        print: &mut dyn FnMut(String),
    ) -> Totals {
        let (mut totals, mut lines) = (Totals::default(), Vec::new());
        let cases = read_cases(file).unwrap_or_else(|error| {
            lines.push(format!("  FAILED: {error}"));
            totals.failed += 1;
            Vec::new()
        });
        for case in &cases {
            let title = case["name"].as_str().map_or_else(|| case["input"].to_string(), str::to_owned);
            absent.retain(|(file, case, _)| *file != name || *case != title);
            let allowed = self.allowed.iter().find(|(file, case, _)| *file == name && *case == title);
            match (run_case(case, runner), allowed) {
                (Ok(()), None) => totals.passed += 1,
                (Ok(()), Some(_)) => {
                    totals.failed += 1;
                    lines.push(format!(
                        "  FAILED: {title}\n    it passes, but is allowed to fail: remove it from the list"
                    ));
                }
                (Err(_), Some((_, _, reason))) => {
                    totals.allowed += 1;
                    lines.push(format!("  differs: {title}\n    because {reason}"));
                }
                (Err(reason), None) => {
                    totals.failed += 1;
                    lines.push(format!("  FAILED: {title}\n    {}", reason.replace('\n', "\n    ")));
                }
            }
        }
        print(format!("{name}.json: {} of {} pass", totals.passed, cases.len()));
        lines.into_iter().for_each(print);
        totals
    }
}

/// Runs the cases of one file, all of which must pass, and prints their results under this name.
pub(crate) fn run_again(name: &str, file: &Path, runner: &Runner, print: &mut dyn FnMut(String)) -> Totals {
    let suite = Suite { runner: &|_| None, inputs: &[], allowed: &[], has_all_allowed: false };
    suite.run_file(name, file, runner, &mut Vec::new(), print)
}

/// Returns the JSON of a file.
///
/// # Errors
/// If the file cannot be read, or is no JSON.
pub(crate) fn read(file: &Path) -> Result<Value, String> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
    serde_json::from_str(&text).map_err(|error| format!("{} is no JSON: {error}", file.display()))
}

fn read_cases(file: &Path) -> Result<Vec<Value>, String> {
    match read(file)? {
        Value::Array(cases) if !cases.is_empty() => Ok(cases),
        _ => Err(format!("{} is no list of cases", file.display())),
    }
}

fn files(directory: &Path) -> Result<Vec<PathBuf>, String> {
    let unreadable = |error: std::io::Error| format!("cannot read the directory \"{}\": {error}", directory.display());
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(unreadable)? {
        files.push(entry.map_err(unreadable)?.path());
    }
    files.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    Ok(files)
}

/// A panic is a failure of the case: its message is shown with the case.
fn run_case(case: &Value, runner: &Runner) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(|| runner(case)))
        .unwrap_or_else(|panic| Err(format!("panicked: {}", panic_text(&*panic))))
}
