//! The texts of all scripts of one operator, read and checked once, so that every script thread compiles the same.

use std::collections::BTreeMap;
use std::path::{Component, Path};
use std::sync::Arc;

use super::check::{self, Problem, Severity};
use super::declaration::Declaration;
use super::scripts;

/// The scripts of one operator, without errors.
#[derive(Debug)]
pub struct Program {
    /// What is called, and for what.
    pub declaration: Declaration,
    /// The texts of all files that are called or imported, by their paths relative to the root.
    pub sources: BTreeMap<String, Arc<str>>,
    /// What can be run, but is hardly meant.
    pub warnings: Vec<Problem>,
}

impl Program {
    /// Reads and checks all files that are declared, and those that they import.
    ///
    /// # Errors
    /// Everything that is wrong with them, warnings included, if there is an error among it.
    pub fn load(declaration: Declaration) -> Result<Self, Vec<Problem>> {
        let (problems, sources) = check::read(&declaration);
        let is_broken = problems.iter().any(|problem| problem.severity == Severity::Error);
        if is_broken { Err(problems) } else { Ok(Self { declaration, sources, warnings: problems }) }
    }
}

/// Returns everything that is wrong with the scripts of a declaration, also what fails when the top level of a file runs.
pub fn check(declaration: &Declaration) -> Vec<Problem> {
    let (mut problems, sources) = check::read(declaration);
    let is_broken = problems.iter().any(|problem| problem.severity == Severity::Error);
    // What is broken would only fail again.
    if !is_broken && !sources.is_empty() {
        let program = Program { declaration: declaration.clone(), sources, warnings: Vec::new() };
        problems.extend(scripts::run_top_levels(program));
        problems.sort();
    }
    problems
}

/// Returns a file's name in messages and imports: its path relative to the root, with slashes.
pub fn name_of(file: &Path) -> String {
    let parts = file.components().filter(|part| !matches!(part, Component::CurDir));
    parts.map(|part| part.as_os_str().to_string_lossy()).collect::<Vec<_>>().join("/")
}
