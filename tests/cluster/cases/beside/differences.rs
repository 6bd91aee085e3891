//! `differences.yaml`: what may differ between the engines, with the reason.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use regex::Regex;
use serde::Deserialize;

use super::record::Aspect;

/// The name for all cases.
const EVERYWHERE: &str = "all";

/// The allowed differences.
pub(super) struct Differences(Vec<Difference>);

/// An allowed difference.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Difference {
    /// Groups, cases as `group/case`, or `all`.
    cases: Vec<String>,
    /// What differs.
    aspect: Aspect,
    /// Patterns of lines that only kopf has.
    #[serde(default)]
    kopf: Vec<String>,
    /// Patterns of lines that only kopfd has.
    #[serde(default)]
    kopfd: Vec<String>,
    /// Patterns of parts of lines that differ.
    #[serde(default)]
    parts: Vec<String>,
    /// Why this is right.
    reason: String,
    /// Whether it has occurred.
    #[serde(skip)]
    has_occurred: Cell<bool>,
}

impl Differences {
    /// Reads the file, and panics if it is not well-formed.
    pub(super) fn read(directory: &Path) -> Self {
        let file = directory.join("differences.yaml");
        let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        Self(serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display())))
    }

    /// Checks that all entries concern existing cases, have a reason, and do not allow everything.
    pub(super) fn check(&self, titles: &BTreeSet<String>) {
        for difference in &self.0 {
            assert!(!difference.reason.is_empty(), "a difference without a reason: {difference:?}");
            for name in &difference.cases {
                let is_known = name == EVERYWHERE || titles.iter().any(|title| is_in(title, name));
                assert!(is_known, "a difference names the unknown case {name}");
            }
            let patterns = [&difference.kopf, &difference.kopfd, &difference.parts].into_iter().flatten();
            assert!(patterns.clone().count() > 0, "a difference allows nothing: {difference:?}");
            for pattern in patterns {
                assert!(!compiled(pattern).is_match("PATCH: any line 1."), "{pattern:?} allows any line");
            }
        }
    }

    /// Removes the allowed differences from the lines of a side. The messages of a log may then be equal, and remain
    /// once.
    pub(super) fn reduced(&self, title: &str, aspect: Aspect, is_kopf: bool, lines: &[String]) -> Vec<String> {
        let applicable = self.0.iter().filter(|one| one.aspect == aspect && one.concerns(title));
        let mut lines = applicable.fold(lines.to_vec(), |lines, one| {
            let reduced = one.reduced(is_kopf, &lines);
            one.has_occurred.set(one.has_occurred.get() || reduced != lines);
            reduced
        });
        if aspect == Aspect::Log {
            lines.sort();
            lines.dedup();
        }
        lines
    }

    /// Returns the reasons of the differences for one of these cases that have not occurred.
    pub(super) fn missing(&self, titles: &[String]) -> Vec<&str> {
        let is_expected =
            |one: &&Difference| one.cases.iter().any(|name| titles.iter().any(|title| is_in(title, name)));
        self.0.iter().filter(is_expected).filter(|one| !one.has_occurred.get()).map(|one| one.reason.as_str()).collect()
    }
}

impl Difference {
    fn concerns(&self, title: &str) -> bool {
        self.cases.iter().any(|name| name == EVERYWHERE || is_in(title, name))
    }

    fn reduced(&self, is_kopf: bool, lines: &[String]) -> Vec<String> {
        let left_out: Vec<Regex> =
            if is_kopf { &self.kopf } else { &self.kopfd }.iter().map(|text| compiled(text)).collect();
        let parts: Vec<Regex> = self.parts.iter().map(|text| compiled(text)).collect();
        let kept = lines.iter().filter(|line| !left_out.iter().any(|pattern| pattern.is_match(line)));
        kept.map(|line| parts.iter().fold(line.clone(), |line, part| part.replace_all(&line, "").into_owned()))
            .collect()
    }
}

/// Tells whether a case has a name, or belongs to the group of this name.
fn is_in(title: &str, name: &str) -> bool {
    title == name || title.split('/').next() == Some(name)
}

fn compiled(pattern: &str) -> Regex {
    Regex::new(pattern).unwrap_or_else(|error| panic!("{error}"))
}
