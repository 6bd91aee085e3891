//! Loading the scripts of an operator: they are read, and checked before anything is run.

use super::declaration::Declaration;
use super::problem::{Problem, Severity};
use super::program::Program;
use super::scripts;

impl Program {
    /// Reads and checks all files that are declared, and those that they import.
    ///
    /// # Errors
    /// Everything that is wrong with them, warnings included, if there is an error among it.
    pub fn load(declaration: Declaration) -> Result<Self, Vec<Problem>> {
        let (problems, sources) = super::check::read(&declaration);
        let is_broken = problems.iter().any(|problem| problem.severity == Severity::Error);
        if is_broken { Err(problems) } else { Ok(Self { declaration, sources, warnings: problems }) }
    }
}

/// Returns everything that is wrong with the scripts of a declaration, also what fails when the top level of a file runs.
pub fn check(declaration: &Declaration) -> Vec<Problem> {
    let (mut problems, sources) = super::check::read(declaration);
    let is_broken = problems.iter().any(|problem| problem.severity == Severity::Error);
    // What is broken would only fail again.
    if !is_broken && !sources.is_empty() {
        let program = Program { declaration: declaration.clone(), sources, warnings: Vec::new() };
        problems.extend(scripts::run_top_levels(program));
        problems.sort();
    }
    problems
}
