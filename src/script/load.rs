//! Loads the scripts of an operator: reads and checks them before anything runs.

use super::declaration::Declaration;
use super::problem::{Problem, Severity};
use super::program::Program;
use super::scripts;

impl Program {
    /// Reads and checks all declared files and their imports.
    ///
    /// # Errors
    /// All problems, including warnings, if there is an error among them.
    pub fn load(declaration: Declaration) -> Result<Self, Vec<Problem>> {
        let (problems, sources) = super::check::read(&declaration);
        let is_broken = problems.iter().any(|problem| problem.severity == Severity::Error);
        if is_broken { Err(problems) } else { Ok(Self { declaration, sources, warnings: problems }) }
    }
}

/// Returns all problems of a declaration's scripts, including failures of top levels.
pub fn check(declaration: &Declaration) -> Vec<Problem> {
    let (mut problems, sources) = super::check::read(declaration);
    let is_broken = problems.iter().any(|problem| problem.severity == Severity::Error);
    // Broken files would only fail again.
    if !is_broken && !sources.is_empty() {
        let program = Program { declaration: declaration.clone(), sources, warnings: Vec::new() };
        problems.extend(scripts::run_top_levels(program));
        problems.sort();
    }
    problems
}
